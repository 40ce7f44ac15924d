"""PLAIN (RFC 4616): the client sends its name and its password, in one message.

    [authorization identity] NUL name NUL password
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from kraft.security.sasl.mechanism import RefusedError

NO_PASSWORD: Final = bytes(32)


class PlainUsers:
    """Users of one listener. Passwords are kept as digests of equal size, so the time of a comparison says nothing
    about their lengths."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {name: _digest(text) for name, text in passwords.items()}

    def accepts(self, name: str, password: str) -> bool:
        """Return whether it is the user's password, in a time that does not depend on the users."""
        return hmac.compare_digest(self._digests.get(name, NO_PASSWORD), _digest(password))


class PlainServer:
    """One run of PLAIN."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.username = ""
        self.is_complete = False
        self.expires_ms = 0
        self.by_token = False

    def step(self, message: bytes) -> bytes:
        """Accept the only message; its answer is empty."""
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise RefusedError("the message is not UTF-8") from None
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise RefusedError("the message is not an authorization identity, a name and a password")
        authorization, name, password = parts
        self.username = name
        is_right = self._users.accepts(name, password)
        if not is_right:
            raise RefusedError(f"the user {name!r} is unknown, or has another password")
        if authorization not in ("", name):
            raise RefusedError(f"the user {name!r} may not act as {authorization!r}")
        self.is_complete = True
        return b""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
