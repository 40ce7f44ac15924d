"""A broker's lease (KIP-631): until when the controller keeps the broker's session if it hears nothing more of it, in
the broker's own time.

Nothing is decided by it: a broker goes on without one, as Apache Kafka's does (docs/internals/failover.md says why). It
is for people, who can ask a broker when they cannot ask a controller. Without input and output.
"""

from kraft.controller.sessions import NEVER_MS


class Lease:
    """`end_ms` is None while nothing is known: before the first answer, and of controllers that do not tell it, as
    Apache Kafka's do not."""

    def __init__(self) -> None:
        self.end_ms: int | None = None
        self._start_ms = 0
        self._is_over = False

    @property
    def deadline_ms(self) -> int:
        """When `ran_out` has something to tell; NEVER_MS: nothing."""
        return NEVER_MS if self.end_ms is None or self._is_over else self.end_ms

    def left_ms(self, now_ms: int) -> int | None:
        """Negative: it ended so long ago. None: nothing is known."""
        return None if self.end_ms is None else self.end_ms - now_ms

    def granted(self, start_ms: int, end_ms: int, now_ms: int) -> bool:
        """A heartbeat that was sent at `start_ms` is answered; an `end_ms` of -1 tells nothing. Whether there is a
        lease again after one that had ended."""
        if end_ms < 0:
            self.forget()
            return False
        self._start_ms, self.end_ms = start_ms, end_ms
        if end_ms <= now_ms:
            return False        # the answer took too long
        was_over, self._is_over = self._is_over, False
        return was_over

    def ran_out(self, now_ms: int) -> int | None:
        """Once for each that ends: since when no heartbeat was answered, in ms; else None."""
        if now_ms < self.deadline_ms:
            return None
        self._is_over = True
        return now_ms - self._start_ms

    def revoke(self, now_ms: int) -> None:
        """The controller does not know the broker any more, and has said so."""
        if self.end_ms is not None:
            self.end_ms, self._is_over = min(self.end_ms, now_ms), True

    def forget(self) -> None:
        """Nothing is known, and nothing will be told."""
        self.end_ms, self._is_over = None, False
