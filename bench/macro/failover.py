"""How long a producer waits when nodes are killed, and when they are restarted in good order.

    python -m bench.macro.failover [--kills 50] [--restarts 1] [--set NAME=VALUE]

Three nodes of both roles, a topic with three partitions, three replicas and min.insync.replicas 2, and an idempotent
producer with acks=all, all with their defaults; topic and producer are new for each kill and each round. A kill (-9)
hits the node that is the active controller and leads a partition; restarts (SIGTERM, wait, start) go round all nodes. A
gap is the longest time for which one of the partitions acknowledged nothing. At the end everything is read back and
compared with what was acknowledged.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console

from tests.integration.failover import NODES, Failover, Outcome
from tests.integration.quorum import Quorum


@click.command()
@click.option("--kills", default=50, show_default=True)
@click.option("--restarts", default=1, show_default=True, help="Rounds of restarts.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of all nodes.")
def main(kills: int, restarts: int, settings: tuple[str, ...]) -> None:
    """Measure what a producer notices of dying and restarting nodes."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="failover-") as directory:
        quorum = Quorum(Path(directory), NODES, is_broker=True)
        cluster = Failover(quorum, dict(each.split("=", 1) for each in settings))
        try:
            cluster.start()
            run(console, cluster, kills, restarts)
        finally:
            for node in cluster.nodes:
                node.kill()


def run(console: Console, cluster: Failover, kills: int, restarts: int) -> None:
    gaps = []
    for number in range(1, kills + 1):
        gaps.append(cluster.kill())
        console.print(f"kill {number}: {gaps[-1]:.3f} s")
    if gaps:
        console.print(f"{kills} kills: median {statistics.median(gaps):.3f} s, longest {max(gaps):.3f} s")
    for number in range(1, restarts + 1):
        began = time.monotonic()
        gaps = cluster.restart_all()
        console.print(f"rolling restart {number}: gaps {' '.join(f'{gap:.3f}' for gap in gaps)} s, "
                      f"{time.monotonic() - began:.1f} s in all")
    outcomes = cluster.outcomes()
    console.print(str(Outcome(*map(sum, zip(*outcomes, strict=True)))))


if __name__ == "__main__":
    main()
