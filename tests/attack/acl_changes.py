"""Change ACLs all the time beside a producer and a consumer: `python -m tests.attack.acl_changes --entries 100000`.

The entries and their changes are those of the user of producer and consumer, so every change outdates the decisions
that the node has kept for them. Prints the latencies of both before and during the changes. Exits with 1 when an answer
had an error, when changes were slower than the rate, or when a latency exceeded the bounds, which are for an otherwise
idle machine.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from kraft.client import Cluster
from kraft.client.acls import create_acls, delete_acls
from kraft.security.acls import AclFilter, Operation, PatternType, ResourceType
from tests.attack import permissions
from tests.attack.requests import TOPIC
from tests.attack.run import P999_MS_MAX, attacked_node
from tests.attack.traffic import Measured, Traffic
from tests.integration.process import NodeProcess

RATE_MIN: Final = 10_000 / 60
"""Changes in a second."""
PAUSE_SECONDS: Final = 0.05
"""Interval of the checks whether changes are due."""


class Changes(threading.Thread):
    """Create entries and delete them again, at a fixed rate."""

    def __init__(self, address: str, rate: float) -> None:
        super().__init__(name="changes", daemon=True)
        self._address, self._rate = address, rate
        self.ended = threading.Event()
        self.count = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with Cluster(self._address) as cluster:
                began = time.monotonic()
                while not self.ended.is_set():
                    if self.count >= (time.monotonic() - began) * self._rate:
                        self.ended.wait(PAUSE_SECONDS / 10)
                        continue
                    self.change(cluster)
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self.failure = error

    def change(self, cluster: Cluster) -> None:
        """Create an entry, or delete the one before."""
        entry = permissions.acl(ResourceType.TOPIC, PatternType.PREFIXED, f"changing-{self.count // 2}",
                                Operation.WRITE)
        if self.count % 2:
            delete_acls(cluster, [AclFilter(*entry)])
        else:
            create_acls(cluster, [entry])
        self.count += 1


def line(what: str, latencies_ms: list[float]) -> str:
    """Return a row of the table."""
    at = [latencies_ms[min(len(latencies_ms) - 1, int(share * len(latencies_ms)))] for share in (0.5, 0.99, 0.999)]
    return f"{what:24}{len(latencies_ms):>9}" + "".join(f"{each:>9.2f}" for each in (*at, latencies_ms[-1]))


def wrong_in(measured: Measured, rate: float, p999_ms_max: float) -> list[str]:
    """Return which bounds were broken during the changes."""
    found = []
    if measured.errors:
        found.append(f"{len(measured.errors)} answers with errors: {sorted(set(measured.errors))}")
    if rate < RATE_MIN:
        found.append(f"{rate:.0f} changes in a second, fewer than {RATE_MIN:.0f}")
    for what, latencies_ms in (("Produce", measured.produce_ms), ("Fetch", measured.fetch_ms)):
        if (late := latencies_ms[int(0.999 * len(latencies_ms))]) > p999_ms_max:
            found.append(f"p99.9 of {what} {late:.1f} ms is above {p999_ms_max:g}")
    return found


def measure(node: NodeProcess, arguments: argparse.Namespace) -> list[str]:
    """Print the latencies before and during the changes, and return what was wrong."""
    began = time.monotonic()
    permissions.allow(node.address, arguments.entries)
    print(f"{arguments.entries} entries created in {time.monotonic() - began:.1f} s", flush=True)
    traffic = Traffic(node.port, TOPIC)
    traffic.measured()                 # of the warm-up
    time.sleep(arguments.seconds)
    before = traffic.measured()
    changes = Changes(node.address, arguments.rate)
    changes.start()
    time.sleep(2 * arguments.seconds)
    during = traffic.measured()
    changes.ended.set()
    changes.join()
    traffic.end()
    rate = changes.count / (2 * arguments.seconds)
    print(f"{changes.count} changes, {rate * 60:.0f} a minute\n"
          f"{'latencies, ms':24}{'requests':>9}{'p50':>9}{'p99':>9}{'p99.9':>9}{'max':>9}")
    for name, measured in (("before", before), ("during", during)):
        print(line(f"Produce {name}", measured.produce_ms) + "\n" + line(f"Fetch {name}", measured.fetch_ms))
    wrong = wrong_in(during, rate, P999_MS_MAX)
    if before.errors:
        wrong.append(f"errors before the changes: {sorted(set(before.errors))}")
    if changes.failure is not None:
        wrong.append(f"the changes ended: {changes.failure}")
    return [*wrong, *(f"logged {each}" for each in node.alarms())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack.acl_changes", description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000, help="that exist all the time")
    parser.add_argument("--rate", type=float, default=170.0, help="changes in a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="before the changes, and twice as long during them")
    arguments = parser.parse_args()
    with (tempfile.TemporaryDirectory() as directory,
          attacked_node(Path(directory) / "data", {}, permissions.SETTINGS) as (node, _metrics_port)):
        wrong = measure(node, arguments)
        for each in wrong:
            print(f"WRONG: {each}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
