r"""OAUTHBEARER (RFC 7628): the client sends a token of an identity provider.

| message | content |
|---|---|
| client's first | `n,a=NAME,\x01auth=Bearer TOKEN\x01KEY=VALUE\x01\x01`; `a=NAME` and extensions may be missing |
| server's answer | empty; after a token that is not accepted `{"status":"invalid_token"}` |
| client's second | `\x01`, only after that; then the server ends the exchange |
"""

import json
import re
from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from kraft.security.sasl.mechanism import RefusedError, Work

INVALID: Final = "invalid_token"
INSUFFICIENT: Final = "insufficient_scope"
CONFIRMATION: Final = b"\1"
_NAME: Final = r"(?:[^=,\x00\x80-\U0010ffff]|=2C|=3D)+"
_KEY: Final = "[A-Za-z]+"
_VALUE: Final = r"[\x21-\x7e \t\r\n]+"
_FIRST = re.compile(rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_AUTH = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.A-Za-z0-9]+=*)")
_EXTENSION_KEY = re.compile(_KEY)
_EXTENSION_VALUE = re.compile(_VALUE)


class Claims(NamedTuple):
    """Content of a valid token: the client's name, and the wall-clock time at which the token expires."""

    name: str
    expires_ms: int


class TokenRefusedError(RefusedError):
    """The token is not accepted. `status` is what RFC 6750 calls the reason, `scope` a scope that it lacks."""

    def __init__(self, why: str, status: str = INVALID, scope: str = "") -> None:
        super().__init__(why)
        self.status = status
        self.scope = scope


class First(NamedTuple):
    """Client's first message."""

    token: str
    authorization: str
    extensions: dict[str, str]


Then = Callable[["Claims | TokenRefusedError"], bytes]
Check = Callable[[str, Then], Work]
"""Returns the work of checking a token, whose result goes to `Then`."""


class OAuthServer:
    """One run on the server's side. Extensions are checked for their form and have no effect, as with Kafka's own
    classes."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._failure = ""
        self._authorization = ""
        self.username = ""
        self.is_complete = False
        self.expires_ms = 0
        self.by_token = False

    def step(self, message: bytes) -> Work:
        """Check the token of the first message, or end the exchange after one that was not accepted."""
        if self._failure:
            raise RefusedError(self._failure)
        first = parse_first(message)
        self._authorization = first.authorization
        return self._check(first.token, self._checked)

    def _checked(self, found: Claims | TokenRefusedError) -> bytes:
        if isinstance(found, TokenRefusedError):
            self._failure = str(found)
            fields = {"status": found.status} | ({"scope": found.scope} if found.scope else {})
            return json.dumps(fields).encode()
        if self._authorization not in ("", found.name):
            raise RefusedError(f"the user {found.name!r} may not act as {self._authorization!r}")
        self.username, self.expires_ms, self.is_complete = found.name, found.expires_ms, True
        return b""


def parse_first(message: bytes) -> First:
    """Parse a client's first message. Raise `RefusedError`, which shows no token, for another form."""
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        raise RefusedError("the message is not UTF-8") from None
    if found is None:
        raise RefusedError("the client's first message has another form")
    pairs: dict[str, str] = {}
    for part in found["pairs"].split("\1")[:-1]:
        key, _, value = part.partition("=")
        if key in pairs:
            raise RefusedError(f"the client's first message has {key[:20]!r} twice")
        pairs[key] = value
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None:
        raise RefusedError("the client's first message has no bearer token")
    authorization = (found["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return First(auth["token"], authorization, pairs)


class OAuthError(Exception):
    """The server does not accept the token, or an extension cannot be sent."""


def oauth_client(token: str, extensions: Sequence[tuple[str, str]] = ()) -> Generator[bytes, bytes, None]:
    """Run OAUTHBEARER on the client's side: yield each message, and get its answer."""
    check_extensions(extensions)
    pairs = "".join(f"{key}={value}\1" for key, value in (("auth", f"Bearer {token}"), *extensions))
    answer = yield f"n,,\1{pairs}\1".encode()
    if answer:
        yield CONFIRMATION             # the server is to end the exchange with its error now
        raise OAuthError(f"the token is not accepted: {answer.decode(errors='replace')[:200]}")


def check_extensions(extensions: Sequence[tuple[str, str]]) -> None:
    """Raise `OAuthError` for an extension that no message can have."""
    for key, value in extensions:
        if _EXTENSION_KEY.fullmatch(key) is None or _EXTENSION_VALUE.fullmatch(value) is None or key == "auth":
            raise OAuthError(f"extension {key!r}: a name has letters only and is not auth, a value is printable ASCII")
