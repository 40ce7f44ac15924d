"""Named loads, and whether a cluster bears them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.load.measure import Measurement
from kraft.load.search import REACHED
from kraft.load.workload import Workload

SLOWEST_MS_MAX: Final = 500.0


class NamedLoad(NamedTuple):
    """Producers with acks=all at a fixed rate, and the limit of their p99."""

    connections: int
    rate: float
    batch_bytes: int
    p99_ms_max: float

    def workload(self, topic: str) -> Workload:
        return Workload("produce", self.connections, in_flight=64, rate=self.rate, record_bytes=256,
                        batch_bytes=self.batch_bytes, acks=-1, topic=topic)

    @property
    def megabytes_per_second(self) -> float:
        return self.rate * self.batch_bytes / 1e6


LOADS: Final[Mapping[str, NamedLoad]] = {
    "small": NamedLoad(8, 200, 4 << 10, 50.0),
    "medium": NamedLoad(16, 1_000, 16 << 10, 50.0),
    "large": NamedLoad(32, 4_000, 16 << 10, 50.0),
    "xlarge": NamedLoad(64, 12_000, 16 << 10, 50.0),
}
"""About 1, 16, 65 and 200 MB/s."""


class Verdict(NamedTuple):
    """One criterion of a check."""

    passed: bool
    text: str


def verdicts(load: NamedLoad, run: Measurement) -> list[Verdict]:
    """Judge a run of the load: refusals, rate, p99 and slowest request. A run too short for a p99 fails that."""
    due = load.rate * run.seconds
    p99_ms = run.latency_us.get("99", float("inf")) / 1000
    slowest_ms = run.latency_us.get("max", float("inf")) / 1000
    share = run.requests / due if due else 0.0
    return [
        Verdict(run.errors == 0, f"{run.errors:,} of {run.requests:,} requests were refused"
                                 f"{f' ({run.first_error})' if run.first_error else ''}"),
        Verdict(share >= REACHED, f"{share:.1%} of {load.rate:,.0f} requests/s, "
                                           f"{REACHED:.0%} are needed"),
        Verdict(p99_ms <= load.p99_ms_max, f"p99 {p99_ms:,.1f} ms, {load.p99_ms_max:g} ms are allowed"),
        Verdict(slowest_ms <= SLOWEST_MS_MAX, f"slowest {slowest_ms:,.1f} ms, {SLOWEST_MS_MAX:g} ms are allowed"),
    ]
