"""Lease of a broker (KIP-631): the time until which the controller keeps the broker's session without further
heartbeats, by the broker's clock.

No decision depends on it: a broker continues without one, as in Apache Kafka (docs/internals/failover.md gives the
reasons). Operators can query a broker for it when they cannot query a controller. Without input and output.
"""

from kraft.deadlines import NEVER_MS


class Lease:
    """Lease of one broker. `end_ms` is None while it is unknown: before the first answer, and with controllers that do
    not announce it, such as Apache Kafka's."""

    def __init__(self) -> None:
        self.end_ms: int | None = None
        self._start_ms = 0
        self._is_over = False

    @property
    def deadline_ms(self) -> int:
        """Time when `ran_out` has something to report; NEVER_MS: nothing."""
        return NEVER_MS if self.end_ms is None or self._is_over else self.end_ms

    def left_ms(self, now_ms: int) -> int | None:
        """Return the time left; negative: the time since its end. None: unknown."""
        return None if self.end_ms is None else self.end_ms - now_ms

    def granted(self, start_ms: int, end_ms: int, now_ms: int) -> bool:
        """Note the answer to a heartbeat that was sent at `start_ms`; an `end_ms` of -1 announces nothing. Return
        whether the broker has a lease again after one that had ended."""
        if end_ms < 0:
            self.forget()
            return False
        self._start_ms, self.end_ms = start_ms, end_ms
        if end_ms <= now_ms:
            return False        # the answer took too long
        was_over, self._is_over = self._is_over, False
        return was_over

    def ran_out(self, now_ms: int) -> int | None:
        """Return, once per lease that ends, for how many ms no heartbeat was answered; else None."""
        if now_ms < self.deadline_ms:
            return None
        self._is_over = True
        return now_ms - self._start_ms

    def revoke(self, now_ms: int) -> None:
        """End the lease: the controller reported that it does not know the broker any more."""
        if self.end_ms is not None:
            self.end_ms, self._is_over = min(self.end_ms, now_ms), True

    def forget(self) -> None:
        """Forget the lease; nothing more is reported."""
        self.end_ms, self._is_over = None, False
