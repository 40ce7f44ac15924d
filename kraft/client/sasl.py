"""The client side of SASL: PLAIN (RFC 4616), and SCRAM with SHA-256 or SHA-512 (RFC 5802)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

from kraft.security.sasl.client import sasl_client
from kraft.security.sasl.scram import ScramError
from kraft_native.base.errors import KraftError


class SaslError(KraftError):
    """The server does not know the user or the password, or cannot prove its identity."""


def authenticate(mechanism: str, username: str, password: str, exchange: Callable[[bytes], bytes],
                 nonce: str = "") -> None:
    """Run the mechanism; `exchange` sends a message and returns the answer. Raises `SaslError` when the server cannot
    be trusted, and what `exchange` raises."""
    run = sasl_client(mechanism, username, password, nonce or secrets.token_hex(16))
    message = next(run)
    try:
        with suppress(StopIteration):
            while True:
                message = run.send(exchange(message))
    except ScramError as error:
        raise SaslError(str(error)) from error
