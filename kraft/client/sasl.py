"""The client side of SASL: a run of a mechanism, over whatever carries its messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kraft.client.security import Security
from kraft.security.sasl.client import MechanismErrors, SaslLogin, sasl_client
from kraft_native.base.errors import KraftError


class SaslError(KraftError):
    """The server does not know the user or the password, or cannot prove its identity."""


def login_of(security: Security) -> SaslLogin:
    """Return the identity with which a client logs in. A token is fetched where it needs one, and used by all
    connections of this process until most of its life is over. Raises `SaslError`."""
    if security.token is None:
        return SaslLogin(security.mechanism, security.username, security.password, by_token=security.by_token)
    # Imported here: other clients start without the libraries of tokens.
    from kraft.oauth.http import ProviderError
    from kraft.oauth.token_source import source_of
    try:
        token = source_of(security.token).token()
    except ProviderError as error:
        raise SaslError(str(error)) from error
    return SaslLogin(security.mechanism, security.username, token=token, extensions=security.token.extensions)


def token_for_library(security: Security) -> tuple[str, float]:
    """Return a token of OAUTHBEARER and the second since 1970 at which it expires, as librdkafka's callback needs them.
    Raises `SaslError`."""
    from kraft.oauth.tokens import expiry_ms
    token = login_of(security).token
    return token, expiry_ms(token) / 1000


def library_settings(security: Security) -> dict[str, Any]:
    """Return the security of librdkafka's connections. The library gets the tokens that it cannot fetch itself. Raises
    what `Security.library_settings` raises."""
    if security.token is None or security.token.assertion is None:
        return dict(security.library_settings())
    return {**replace(security, token=None, username="").library_settings(),
            "oauth_cb": lambda _config: token_for_library(security)}


def authenticate(login: SaslLogin, exchange: Callable[[bytes], bytes], nonce: str = "") -> None:
    """Run the mechanism; `exchange` sends a message and returns the answer. Raises `SaslError` when the server cannot
    be trusted, and what `exchange` raises."""
    run = sasl_client(login, nonce or secrets.token_hex(16))
    try:
        message = next(run)
        with suppress(StopIteration):
            while True:
                message = run.send(exchange(message))
    except MechanismErrors as error:
        raise SaslError(str(error)) from error
