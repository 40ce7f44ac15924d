"""The client side of SASL: PLAIN (RFC 4616), and SCRAM with SHA-256 or SHA-512 (RFC 5802)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from kraft_native.base.errors import KraftError

# A server that demands more would keep a processor busy for seconds.
ITERATIONS_MAX: Final = 1 << 22
ITERATIONS_MIN: Final = 4_096


class SaslError(KraftError):
    """The server does not know the user or the password, or cannot prove its identity."""


def authenticate(mechanism: str, username: str, password: str, exchange: Callable[[bytes], bytes],
                 nonce: str = "") -> None:
    """Run the mechanism; `exchange` sends a message and returns the answer. Raises `SaslError` when the server cannot
    be trusted, and what `exchange` raises."""
    if mechanism == "PLAIN":
        exchange(f"\0{username}\0{password}".encode())
        return
    digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    nonce = nonce or secrets.token_hex(16)
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    server_first = exchange(f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(server_first)
    try:
        salt, iterations = base64.b64decode(fields["s"], validate=True), int(fields["i"])
        whole_nonce = fields["r"]
    except (KeyError, ValueError) as error:
        raise SaslError(f"{mechanism}: the server's first message cannot be read") from error
    if not whole_nonce.startswith(nonce) or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise SaslError(f"{mechanism}: the server's nonce is not for this client, or {iterations:,} iterations are not "
                        f"{ITERATIONS_MIN:,} to {ITERATIONS_MAX:,}")
    final = f"c=biws,r={whole_nonce}"
    signed = f"{first},{server_first},{final}".encode()
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = _fields(exchange(f"{final},p={base64.b64encode(proof).decode()}".encode()).decode(errors="replace"))
    if "e" in answer:
        raise SaslError(f"{mechanism}: {answer['e']}")
    wanted = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(answer.get("v", ""), base64.b64encode(wanted).decode()):
        raise SaslError(f"{mechanism}: the server does not know the password either")


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
