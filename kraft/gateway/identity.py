"""Identity of a request: nobody, the holder of a token of the gateway, or a user of the cluster."""

import base64
import binascii
import hashlib
import hmac
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.gateway.errors import RequestError
from kraft.gateway.settings import Settings

TOKEN_CHARACTERS_MIN: Final = 16
EXPIRY_MAX_S: Final = 253_402_300_799.0
"""End of the calendar's years."""
TOKEN_SECONDS_DEFAULT: Final = 300.0
"""Time until a token without a readable expiry is presented again."""
CHALLENGES: Final = {"basic": 'Basic realm="kraft", charset="UTF-8"', "bearer": "Bearer"}


@dataclass(frozen=True, slots=True)
class Identity:
    """User and password, or a token, for SASL. All are empty for the configured client."""

    user: str = ""
    password: str = ""
    token: str = ""
    expiry_s: float = 0.0
    """Second since 1970 at which the token expires."""

    def __repr__(self) -> str:
        return f"Identity(user={self.user!r})"

    @property
    def key(self) -> bytes:
        """Digest by which connections of the same identity are found."""
        return hashlib.sha256(json.dumps((self.user, self.password, self.token)).encode()).digest()


SHARED: Final = Identity()


class Guard:
    """Decides about the header `Authorization` of requests. Raises `InvalidConfigError` for an unusable file of tokens,
    which is read again for each request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tokens = Path(settings.tokens_file) if settings.tokens_file else None
        if self._tokens is not None:
            self._read_tokens(self._tokens)
        if settings.login == "user" and not settings.security.mechanism:
            raise InvalidConfigError("--login user: the client config has no sasl.mechanism, and passes on no login")

    def identify(self, authorization: str) -> Identity:
        """Return the identity. Raises `RequestError` with the status 401 when the request needs another one."""
        scheme, _, rest = authorization.partition(" ")
        scheme, rest = scheme.lower(), rest.strip()
        if self._settings.login == "user":
            return self._user(scheme, rest)
        if self._tokens is not None and not (scheme == "bearer" and self._accepts(rest)):
            raise RequestError(401, "SASL_AUTHENTICATION_FAILED", "Authorization: a bearer token of this gateway is "
                                                                  "needed")
        return SHARED

    @property
    def challenge(self) -> str:
        """Value of `WWW-Authenticate`."""
        by_user = self._settings.login == "user" and self._settings.security.mechanism != "OAUTHBEARER"
        return CHALLENGES["basic" if by_user else "bearer"]

    def _user(self, scheme: str, rest: str) -> Identity:
        if self._settings.security.mechanism == "OAUTHBEARER":
            if scheme != "bearer" or not rest:
                raise RequestError(401, "SASL_AUTHENTICATION_FAILED", "Authorization: a bearer token is needed")
            return Identity(token=rest, expiry_s=_expiry_s(rest))
        try:
            user, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            user = colon = password = ""
        if scheme != "basic" or not colon or not user or "\0" in f"{user}{password}":   # the library would cut there
            raise RequestError(401, "SASL_AUTHENTICATION_FAILED", "Authorization: a user and a password (Basic) of "
                                                                  "the cluster are needed")
        return Identity(user, password)

    def _accepts(self, token: str) -> bool:
        """Return whether it is one of the tokens. The time does not depend on them."""
        assert self._tokens is not None
        try:
            tokens = self._read_tokens(self._tokens)
        except InvalidConfigError:
            return False
        found = [hmac.compare_digest(each, token.encode()) for each in tokens]
        return any(found)

    @staticmethod
    def _read_tokens(path: Path) -> list[bytes]:
        try:
            lines = path.read_bytes().split()
        except OSError as error:
            raise InvalidConfigError(f"--tokens-file: {path}: {error.strerror}") from error
        if not lines or min(map(len, lines)) < TOKEN_CHARACTERS_MIN:
            raise InvalidConfigError(f"--tokens-file: {path} has no token, or one of fewer than "
                                     f"{TOKEN_CHARACTERS_MIN} characters")
        return lines


def _expiry_s(token: str) -> float:
    """Return when a token says that it expires. The cluster checks it; here it decides only when to present it again.
    """
    try:
        middle = token.split(".")[1]
        found = float(json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))["exp"])
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError):
        found = math.nan
    return found if 0 <= found <= EXPIRY_MAX_S else time.time() + TOKEN_SECONDS_DEFAULT
