"""Public keys of an identity provider (RFC 7517), as they verify tokens."""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from kraft_native.base.errors import KraftError

KEYS_MAX: Final = 1_000
# By type and curve. Keys that the provider shares with others (HMAC) prove nothing about the side that has signed.
ALGORITHMS: Final = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",), ("EC", "P-384"): ("ES384",), ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
PARAMETERS: Final = ("kty", "crv", "n", "e", "x", "y")
"""Public ones: whatever else a key has is not read."""
RSA_BITS_MIN: Final = 2_048


class KeysError(KraftError):
    """The text has no key that can verify a token."""


class Key(NamedTuple):
    """Key for some algorithms; `value` is the library's."""

    kid: str
    algorithms: tuple[str, ...]
    value: Any


class KeySet:
    """Keys by their id; immutable."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the keys."""
        return tuple(each.kid for each in self._keys)

    def fitting(self, kid: str | None, algorithm: str) -> list[Key]:
        """Return the keys that may have signed a token with that header. One without a key's id fits them all."""
        return [each for each in self._keys if kid in (None, each.kid) and algorithm in each.algorithms]


def parse_keys(text: bytes) -> KeySet:
    """Parse a JWK set. Keys for other purposes, and those that cannot be read, are left out; raise `KeysError` when
    nothing remains."""
    try:
        found = json.loads(text)
        entries = found["keys"]
        usable = isinstance(entries, list) and len(entries) <= KEYS_MAX
    except (ValueError, TypeError, KeyError, RecursionError):
        usable = False
    if not usable:
        raise KeysError(f"no JWK set: an object with a list of at most {KEYS_MAX:,} keys")
    keys = [key for each in entries if isinstance(each, dict) and (key := _key(each)) is not None]
    if not keys:
        raise KeysError(f"none of {len(entries)} keys verifies signatures by {_names()}")
    return KeySet(keys)


def _key(entry: dict[str, Any]) -> Key | None:
    kid, algorithm = entry.get("kid", ""), entry.get("alg")
    algorithms = ALGORITHMS.get((str(entry.get("kty")), str(entry.get("crv", ""))), ())
    if algorithm is not None:
        algorithms = (algorithm,) if algorithm in algorithms else ()
    operations = entry.get("key_ops", ["verify"])
    is_for_this = entry.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
    if not algorithms or not is_for_this or not isinstance(kid, str):
        return None
    try:
        value = PyJWK({name: entry[name] for name in PARAMETERS if name in entry}, algorithms[0]).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if entry["kty"] == "RSA" and value.key_size < RSA_BITS_MIN:
        return None
    return Key(kid, algorithms, value)


def _names() -> str:
    return ", ".join(name for names in ALGORITHMS.values() for name in names)
