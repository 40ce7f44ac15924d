"""Choice of what becomes an event of the audit.

    auditor = Auditor(kinds, node, write)
    auditor.logged_in(origin, "PLAIN", now_ms)
    auditor.tick(now_ms)                          # every few seconds

No input or output: `write` gets each event. Single-threaded.
"""

from collections.abc import Callable, Iterable, Mapping

from kraft.security.audit import event as events
from kraft.security.audit.event import Event, Node, Offsets, Origin
from kraft.security.audit.kinds import CHANGES, DATA, DENIALS, FAILED_LOGINS, LOGINS
from kraft.security.audit.repetitions import Repetitions
from kraft.security.audit.resources import Requested


class Auditor:
    """Audit of one node. `kinds` are some of `kraft.security.audit.kinds`. Each field `audits_...` is True when its
    kind is one of them."""

    def __init__(self, kinds: Iterable[str], node: Node, write: Callable[[Event], None]) -> None:
        chosen = tuple(kinds)
        self.audits_failed_logins = FAILED_LOGINS in chosen
        self.audits_logins = LOGINS in chosen
        self.audits_denials = DENIALS in chosen
        self.audits_changes = CHANGES in chosen
        self.audits_data = DATA in chosen
        self.written = 0
        """Events since the start."""
        self._node = node
        self._write = write
        self._repetitions = Repetitions()
        self._number = 0

    def logged_in(self, origin: Origin, mechanism: str, now_ms: int) -> None:
        """Note a login that succeeded."""
        if self.audits_logins:
            self._put(events.login(self._node, self._next(), now_ms, origin, mechanism, None))

    def login_failed(self, origin: Origin, mechanism: str, why: str, now_ms: int) -> None:
        """Note a login that failed. `origin.principal` is the one that the client claimed to be."""
        if self.audits_failed_logins:
            self._put_bounded((origin.host, origin.listener, mechanism),
                              lambda: events.login(self._node, self._next(), now_ms, origin, mechanism, why), now_ms)

    def answered(self, origin: Origin, request: Requested, errors: Mapping[int, int], offsets: Offsets,
                 now_ms: int) -> None:
        """Note an administrative request that was answered."""
        if self.audits_changes:
            self._put(events.change(self._node, self._next(), now_ms, origin, request, errors, offsets))

    def denied(self, origin: Origin, request: Requested, operation: str, error: int, now_ms: int) -> None:
        """Note an access that the authorizer denied, to the one resource of `request`."""
        if self.audits_denials:
            key = origin.host, origin.principal, request.api_key, operation, request.resources
            self._put_bounded(key, lambda: events.denial(self._node, self._next(), now_ms, origin, request, operation,
                                                         error), now_ms)

    def accessed(self, origin: Origin, request: Requested, now_ms: int) -> None:
        """Note a Produce or a Fetch that was sampled."""
        if self.audits_data:
            self._put(events.access(self._node, self._next(), now_ms, origin, request))

    def loss(self, where: str, count: int, now_ms: int) -> Event:
        """Return the event that `count` events could not be written to `where`."""
        return events.loss(self._node, self._next(), now_ms, where, count)

    def tick(self, now_ms: int, *, is_end: bool = False) -> None:
        """Report what was counted in a period that is over. `is_end`: the node stops."""
        for each in self._repetitions.due(now_ms, is_end=is_end):
            self._put(events.repeated(self._node, self._next(), *each))

    def _put_bounded(self, key: tuple[object, ...], make: Callable[[], Event], now_ms: int) -> None:
        self.tick(now_ms)
        if (event := self._repetitions.admitted(key, make, now_ms)) is not None:
            self._put(event)

    def _put(self, event: Event) -> None:
        self.written += 1
        self._write(event)

    def _next(self) -> int:
        self._number += 1
        return self._number
