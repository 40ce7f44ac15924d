"""Results of one load: count, rate and latencies."""

from __future__ import annotations


class Latencies:
    """Times in nanoseconds with their frequencies."""

    def __init__(self) -> None:
        self._times: list[tuple[int, int]] = []
        self.count = 0

    def add(self, time_ns: int, count: int = 1) -> None:
        self._times.append((time_ns, count))
        self.count += count

    def percentile_us(self, share: float) -> float:
        """Return the value in microseconds that `share` of the times do not exceed; 0 without times."""
        left = share * self.count
        for time_ns, count in sorted(self._times):
            left -= count
            if left <= 0:
                return time_ns / 1e3
        return 0.0

    def summary(self, elapsed_ns: int) -> dict[str, float]:
        return {"count": self.count, "per_s": self.count / elapsed_ns * 1e9,
                "p50_us": self.percentile_us(0.5), "p99_us": self.percentile_us(0.99)}
