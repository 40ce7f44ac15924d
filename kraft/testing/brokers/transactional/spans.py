"""Times during which a transaction held a last stable offset, from what the leaders show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kraft.testing.transactions.history import OpenSpan


@dataclass(slots=True)
class Spans:
    """Spans of open transactions, by partition of the history. `timeout` is that of the transactions, in seconds.

    `excused`: times during which faults kept the cluster from ending a transaction. The last one is open while its
    end is None.
    """

    timeout: float
    seconds: Callable[[], float]
    found: list[OpenSpan] = field(default_factory=list)
    excused: list[tuple[float, float | None]] = field(default_factory=list)
    _held: dict[int, tuple[int, float]] = field(default_factory=dict)

    def excuse(self) -> None:
        """Begin a time with faults."""
        self.excused.append((self.seconds(), None))

    def settle(self) -> None:
        """End the time with faults: everything has converged."""
        began, end = self.excused[-1]
        if end is None:
            self.excused[-1] = began, self.seconds()

    def note(self, partition: int, stable_offset: int, high_watermark: int) -> None:
        """Note what a leader shows."""
        held = self._held.get(partition)
        if held is not None and held[0] != stable_offset:
            self._end(partition, *held)
            held = None
        if stable_offset < high_watermark and held is None:
            self._held[partition] = stable_offset, self.seconds()
        elif stable_offset >= high_watermark and held is not None:
            self._end(partition, *held)

    def _end(self, partition: int, offset: int, since: float) -> None:
        del self._held[partition]
        self.found.append(self._span(partition, offset, since))

    def _span(self, partition: int, offset: int, since: float) -> OpenSpan:
        until = self.seconds()
        return OpenSpan(partition, offset, since, until, self.timeout, _overlap(self.excused, since, until))

    def all(self) -> list[OpenSpan]:
        """Return all spans; those that still last end now."""
        return [*self.found, *(self._span(partition, *held) for partition, held in self._held.items())]


def _overlap(times: Sequence[tuple[float, float | None]], since: float, until: float) -> float:
    return sum(max(0.0, min(until, until if end is None else end) - max(since, began)) for began, end in times)
