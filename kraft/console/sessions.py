"""Logins of visitors, and tokens against forged requests.

A session exists only in this process: its id is a random text in a cookie that scripts cannot read and that other sites
cannot send. Passwords are in the memory of the session and are used for that visitor's connections only.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kraft.client.security import Security

COOKIE: Final = "kraft-console"
IDLE_SECONDS: Final = 1800.0
SESSIONS_MAX: Final = 200
ID_BYTES: Final = 32


@dataclass(slots=True)
class Session:
    """One visitor. `security` None: not logged in. `name` is the user, empty without a login."""

    session_id: str
    token: str
    security: Security | None = None
    name: str = ""
    seen: float = 0.0
    notices: list[str] = field(default_factory=list)

    def accepts(self, token: str) -> bool:
        """Return whether a form was made for this session."""
        return hmac.compare_digest(self.token.encode(), token.encode())


class Sessions:
    """All sessions. Any thread. The session that was idle longest ends when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_id: dict[str, Session] = {}

    def find(self, session_id: str) -> Session | None:
        """Return the session of a cookie; None for an unknown or expired one."""
        with self._lock:
            found = self._by_id.get(session_id)
            if found is None:
                return None
            if self._clock() - found.seen > IDLE_SECONDS:
                del self._by_id[session_id]
                return None
            found.seen = self._clock()
            return found

    def begin(self, security: Security | None = None, name: str = "") -> Session:
        """Create a session."""
        session = Session(secrets.token_urlsafe(ID_BYTES), secrets.token_urlsafe(ID_BYTES), security, name,
                          self._clock())
        with self._lock:
            while len(self._by_id) >= SESSIONS_MAX:
                # The one without a login ends first, so that visitors without one cannot end the others' sessions.
                oldest = min(self._by_id.values(), key=lambda each: (each.security is not None, each.seen))
                del self._by_id[oldest.session_id]
            self._by_id[session.session_id] = session
        return session

    def end(self, session: Session) -> None:
        """Forget a session with its password."""
        with self._lock:
            self._by_id.pop(session.session_id, None)
