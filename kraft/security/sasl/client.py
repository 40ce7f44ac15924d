"""Client's side of the SASL mechanisms: PLAIN (RFC 4616), SCRAM with SHA-256 or SHA-512 (RFC 5802), and OAUTHBEARER
(RFC 7628)."""

from collections.abc import Generator
from typing import Final

from kraft.config.oauth_settings import OAUTHBEARER
from kraft.security.sasl.oauthbearer import OAuthError, oauth_client
from kraft.security.sasl.scram import ScramError, scram_client
from kraft.structs import immutable

MechanismErrors: Final = (ScramError, OAuthError)
"""Errors that a run raises for a server that cannot be trusted, or refuses the client."""


@immutable
class SaslLogin:
    """Identity with which a client logs in.

    - `token` is that of OAUTHBEARER, with its `extensions`.
    - `by_token`: user and password are the id and the secret of a delegation token.
    """

    mechanism: str
    username: str = ""
    password: str = ""
    token: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    by_token: bool = False

    def __repr__(self) -> str:
        return f"SaslLogin({self.username!r} by {self.mechanism})"


def sasl_client(login: SaslLogin, nonce: str) -> Generator[bytes, bytes, None]:
    """Run the mechanism: yield each message, and get its answer. Raise one of `MechanismErrors` for a server that
    cannot be trusted. Only SCRAM needs the `nonce`."""
    if login.mechanism == "PLAIN":
        yield f"\0{login.username}\0{login.password}".encode()
    elif login.mechanism == OAUTHBEARER:
        yield from oauth_client(login.token, login.extensions)
    else:
        yield from scram_client(login.mechanism, login.username, login.password, nonce, by_token=login.by_token)
