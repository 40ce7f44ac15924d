"""SCRAM (RFC 5802, RFC 7677): the client proves that it knows a password which the server has never seen.

| message | content |
|---|---|
| client's first | `n,,n=NAME,r=NONCE`; with a delegation token (KIP-48) its id as NAME, and `,tokenauth=true` |
| server's first | `r=NONCE+OWN,s=SALT,i=ITERATIONS` |
| client's final | `c=biws,r=NONCE+OWN,p=PROOF` |
| server's final | `v=SIGNATURE` |

The exchange with an unknown user runs to its end, with a salt that is always the same for a name. So neither the
messages nor their times show which users exist.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from kraft.security.sasl.mechanism import RefusedError, Work
from kraft.structs import immutable

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
IDS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Kafka's ids of the mechanisms."""
ITERATIONS_MIN: Final = 4_096
# A server that demands more would keep a processor busy for seconds.
ITERATIONS_MAX: Final = 1 << 22
SALT_BYTES: Final = 20
DELEGATED: Final = ",tokenauth=true"
"""Kafka's extension of the first message: the name is the id of a delegation token."""
_FIRST = re.compile(r"(?P<gs2>(?P<channel>[nyp](?:=[^,]*)?),(?:a=(?P<authorization>[^,]*))?,)"
                    r"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<more>(?:,[A-Za-z]+=[^,]*)*))")
_FINAL = re.compile(r"(?P<signed>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
                    r"(?:,[A-Za-z]+=[^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)")
_NAME = re.compile(r"(?:[^=,]|=2C|=3D)+")


@immutable
class ScramCredential:
    """Keys that the server keeps in place of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive the salted password: thousands of hashes, so never call it on an event loop."""
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)


def credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what the server keeps of a salted password."""
    digest = HASHES[mechanism]
    return ScramCredential(salt, iterations,
                           hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest(),
                           hmac.digest(salted, b"Server Key", digest))


class TokenCredential(NamedTuple):
    """Delegation token as a credential: its owner's name, and the time at which it expires. `derive` takes thousands of
    hashes."""

    owner: str
    expires_ms: int
    derive: Callable[[], ScramCredential]


class ScramServer:
    """One run on the server's side.

    - `find` returns the credential of a user, None for an unknown one; `find_token` that of a delegation token.
    - `nonce` is the server's part of it, different in each run.
    - `secret` derives the salts of unknown users.
    """

    def __init__(self, mechanism: str, find: Callable[[str], ScramCredential | None], nonce: str,
                 secret: bytes, find_token: Callable[[str], TokenCredential | None] = lambda _id: None) -> None:
        self._digest = HASHES[mechanism]
        self._find = find
        self._find_token = find_token
        self._owner = ""
        self._nonce = nonce
        self._secret = secret
        self._credential: ScramCredential | None = None
        self._is_known = False
        self._gs2 = self._signed = ""
        self.username = ""
        self.is_complete = False
        self.expires_ms = 0
        self.by_token = False

    def step(self, message: bytes) -> bytes | Work:
        """Answer the client's first message, then its final one."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise RefusedError("the message is not UTF-8") from None
        return self._first(text) if self._credential is None else self._final(text, self._credential).encode()

    def _first(self, text: str) -> bytes | Work:
        found = _FIRST.fullmatch(text)
        if found is None or _NAME.fullmatch(found["name"]) is None:
            raise RefusedError("the client's first message has another form")
        if found["channel"].startswith("p"):
            raise RefusedError("the client demands channel binding")
        self.by_token = found["more"] == DELEGATED
        if found["more"] and not self.by_token:
            raise RefusedError("the client demands an extension")
        name = found["name"].replace("=2C", ",").replace("=3D", "=")
        if found["authorization"] not in (None, "", found["name"]):
            raise RefusedError(f"the user {name!r} may not act as another")
        self.username, self._gs2 = name, found["gs2"]
        self._nonce = found["nonce"] + self._nonce
        self._signed = found["bare"]
        unknown = self._unknown(name)
        if self.by_token and (token := self._find_token(name)) is not None:
            self._owner, self.expires_ms = token.owner, token.expires_ms
            return Work(token.derive, lambda known: self._offer(known, unknown))
        return self._offer(None if self.by_token else self._find(name), unknown)

    def _offer(self, known: ScramCredential | None, unknown: ScramCredential) -> bytes:
        self._is_known = known is not None
        self._credential = known or unknown
        answer = f"r={self._nonce},s={_text(self._credential.salt)},i={self._credential.iterations}"
        self._signed += f",{answer}"
        return answer.encode()

    def _final(self, text: str, kept: ScramCredential) -> str:
        found = _FINAL.fullmatch(text)
        if found is None or found["nonce"] != self._nonce or found["binding"] != _text(self._gs2.encode()):
            raise RefusedError(f"the final message of user {self.username!r} does not fit the exchange")
        signed = f"{self._signed},{found['signed']}".encode()
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except ValueError:
            raise RefusedError(f"the proof of user {self.username!r} is not base64") from None
        signature = hmac.digest(kept.stored_key, signed, self._digest)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        is_right = hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), kept.stored_key)
        if not is_right or len(proof) != len(signature) or not self._is_known:
            raise RefusedError(f"the user {self.username!r} has another password, or no {self._digest} credential")
        self.username, self.is_complete = self._owner or self.username, True
        return f"v={_text(hmac.digest(kept.server_key, signed, self._digest))}"

    def _unknown(self, name: str) -> ScramCredential:
        """Return a credential that no password fits. It is derived for known users, too: both take the same time."""
        def derive(purpose: bytes) -> bytes:
            return hmac.digest(self._secret, purpose + name.encode(), self._digest)

        return ScramCredential(derive(b"salt")[:SALT_BYTES], ITERATIONS_MIN, derive(b"stored"), derive(b"server"))


class ScramError(Exception):
    """The server cannot be trusted, or refuses the client."""


class _Demand(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


def scram_client(mechanism: str, username: str, password: str, nonce: str,
                 salted: Callable[[str, str, bytes, int], bytes] = salted_password, *,
                 by_token: bool = False) -> Generator[bytes, bytes, None]:
    """Run SCRAM on the client's side: yield each message, and get its answer. `by_token`: the user is a delegation
    token's id. Raise `ScramError` for a server that cannot be trusted."""
    digest = HASHES[mechanism]
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}{DELEGATED if by_token else ''}"
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    demand = _demand(mechanism, server_first)
    if not demand.nonce.startswith(nonce) or not ITERATIONS_MIN <= demand.iterations <= ITERATIONS_MAX:
        raise ScramError(f"{mechanism}: the server's nonce is not for this client, or {demand.iterations:,} iterations "
                         f"are not {ITERATIONS_MIN:,} to {ITERATIONS_MAX:,}")
    final = f"c=biws,r={demand.nonce}"
    signed = f"{first},{server_first},{final}".encode()
    secret = salted(digest, password, demand.salt, demand.iterations)
    client_key = hmac.digest(secret, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = _fields((yield f"{final},p={_text(proof)}".encode()).decode(errors="replace"))
    if "e" in answer:
        raise ScramError(f"{mechanism}: {answer['e']}")
    wanted = hmac.digest(hmac.digest(secret, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(answer.get("v", "").encode(), _text(wanted).encode()):
        raise ScramError(f"{mechanism}: the server does not know the password either")


def _demand(mechanism: str, server_first: str) -> _Demand:
    fields = _fields(server_first)
    try:
        return _Demand(fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"]))
    except (KeyError, ValueError) as error:
        raise ScramError(f"{mechanism}: the server's first message cannot be read") from error


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split(","))}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
