"""Keys of an identity provider, kept current by a thread of their own.

While the provider cannot be reached the keys that are known stay in use. A token that names an unknown key causes a
refresh at once, but not more often than once in `PAUSE_S`: keys have been exchanged then, or a client invents names.
Nothing that goes wrong ends the thread.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from kraft.config.oauth_settings import Provider
from kraft.oauth.http import fetch
from kraft.oauth.keys import KeySet, parse_keys
from kraft.tls.stores import Stamp, stamp_of
from kraft_native.base.errors import KraftError

log = logging.getLogger(__name__)

PAUSE_S: Final = 2.0
FILE_PERIOD_S: Final = 0.5
"""Period in which a file is checked for changes."""
CLOSE_SECONDS_MAX: Final = 0.5
WARNING_S: Final = 60.0


class RefreshSchedule:
    """Time at which the keys are fetched next. Times are seconds of one clock."""

    def __init__(self, refresh_s: float, retry_s: float, retry_max_s: float) -> None:
        self.due_s = 0.0
        self._refresh_s = refresh_s
        self._retry_s = retry_s
        self._retry_max_s = max(retry_s, retry_max_s)
        self._failures = 0
        self._fetched_s = -PAUSE_S

    def fetched(self, now_s: float) -> None:
        """Note a successful attempt."""
        self._failures, self._fetched_s = 0, now_s
        self.due_s = now_s + self._refresh_s

    def failed(self, now_s: float) -> None:
        """Note a failed attempt: the next ones follow at growing distances."""
        self._fetched_s = now_s
        self.due_s = now_s + min(self._retry_s * 2 ** min(self._failures, 16), self._retry_max_s, self._refresh_s)
        self._failures += 1

    def missed(self, now_s: float) -> None:
        """Note that a key is unknown."""
        self.due_s = min(self.due_s, max(now_s, self._fetched_s + PAUSE_S))


class KeyCache:
    """Keys of one provider. `on_attempt` is called in the cache's thread, after each attempt to fetch them."""

    def __init__(self, provider: Provider, refresh_ms: int, on_attempt: Callable[[], object] = lambda: None, *,
                 get: Callable[[Provider], bytes] = fetch) -> None:
        self.keys = KeySet()
        """The current ones; replaced as a whole."""
        self.attempts = 0
        self._provider = provider
        self._on_attempt = on_attempt
        self._get = get
        self._changed = threading.Condition()
        self._is_closed = False
        self._stamp: Stamp | None = None
        self._warned_s = -WARNING_S
        period_s = refresh_ms / 1000
        self._schedule = RefreshSchedule(min(period_s, FILE_PERIOD_S) if provider.path else period_s,
                                         provider.retry_ms / 1000, provider.retry_max_ms / 1000)
        self._thread = threading.Thread(target=self._run, name="kraft-token-keys", daemon=True)

    def start(self) -> None:
        """Begin to fetch."""
        self._thread.start()

    def close(self) -> None:
        """End the thread. It is not awaited while it waits for the provider."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS_MAX)

    def missed(self) -> None:
        """Refresh soon, because a token names an unknown key. Any thread may call."""
        with self._changed:
            self._schedule.missed(time.monotonic())
            self._changed.notify()

    def refresh(self, now_s: float) -> None:
        """Fetch the keys now; a failure is logged, and changes nothing."""
        try:
            stamp = None if self._provider.path is None else stamp_of(self._provider.path)
            if stamp is None or stamp != self._stamp:      # where it is missing, reading the file reports why
                keys = parse_keys(self._get(self._provider))
                if keys.ids != self.keys.ids:
                    log.info("%s: %d keys of tokens", self._provider.url, len(keys))
                self.keys, self._stamp = keys, stamp
        except Exception as error:  # noqa: BLE001 - the thread must not end, whatever the provider sends
            with self._changed:
                self._schedule.failed(now_s)
            self._warn(error, now_s)
        else:
            with self._changed:
                self._schedule.fetched(now_s)
        self.attempts += 1
        self._on_attempt()

    def _warn(self, error: Exception, now_s: float) -> None:
        if now_s - self._warned_s >= WARNING_S:
            self._warned_s = now_s
            known = f"the {len(self.keys)} known ones stay in use" if len(self.keys) else "no token can be verified"
            log.error("the keys of tokens cannot be fetched, %s: %s", known, error,
                      exc_info=None if isinstance(error, KraftError) else error)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_closed and (left_s := self._schedule.due_s - time.monotonic()) > 0:
                    self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
                if self._is_closed:
                    return
            self.refresh(time.monotonic())
