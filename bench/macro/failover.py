"""Waiting times of a producer when nodes are killed or gracefully restarted, beside Apache Kafka 4.3.1.

    python -m bench.macro.failover [--kills 50] [--peer-kills 5] [--restarts 1] [--set NAME=VALUE] [--ours]

Three nodes of both roles, topics with three replicas and min.insync.replicas 2, and idempotent producers with
acks=all, all with their defaults. Topics and producers are new for each kill and each round.

There are two kinds of kills (-9), equally many and alternating: of the active controller, and of another node. The
victim leads a partition to which one producer sends alone; another producer sends to a partition of each node. Restarts
(SIGTERM, wait, start) visit all nodes. A gap is the longest time for which one of the partitions acknowledged nothing.
At the end everything is read back and compared with the acknowledged records.

Kafka's three nodes run after ours, also alone on the machine, under the same load. A kill of theirs costs half a
minute, so there are fewer. `operations` has the rolling restart of both.

A kill of a producer's only connection has a row of its own, without an aim: the producer's timer of a second decides
that gap (tests.integration.failover.Gap). Such a kill is repeated, so the other rows have the full number.

The nodes' messages are kept beside the table when one of our gaps is above its aim: they show where the time went.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from bench.machine import OUT
from bench.macro.clusters import KafkaCluster, KraftCluster
from bench.macro.figures import Figure, reported
from bench.macro.servers import OUTPUT_FILE
from kraft.client import Cluster
from kraft.client.quorum import QuorumClient
from tests.integration.failover import Failover, Gap, Outcome
from tests.peer.kafka import missing

AnyCluster = KraftCluster | KafkaCluster
GAP_SECONDS_MAX: Final = 0.5
AIMS: Final = (("median", 0.3), ("longest", GAP_SECONDS_MAX))
"""Aims of our gaps."""


class Node:
    """One of three nodes, of either kind."""

    def __init__(self, cluster: AnyCluster, node_id: int) -> None:
        self.node_id = node_id
        self.address = cluster.addresses[node_id - 1]
        self._cluster = cluster

    @property
    def pid(self) -> int:
        return self._cluster.pid_of(self.node_id)

    def start(self) -> None:
        self._cluster.restart_node(self.node_id)
        self._cluster.await_node(self.node_id)

    def stop(self) -> None:
        self._cluster.stop_node(self.node_id)

    def kill(self) -> None:
        self._cluster.kill_node(self.node_id)


class Nodes:
    """All three nodes."""

    def __init__(self, cluster: AnyCluster) -> None:
        self.nodes = {node_id: Node(cluster, node_id) for node_id in cluster.homes}
        self._bootstrap = cluster.bootstrap
        self._homes = cluster.homes

    def keep_output(self, directory: Path) -> None:
        """Copy the messages of all nodes to `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        for node_id, home in self._homes.items():
            shutil.copy(home / OUTPUT_FILE, directory / f"node-{node_id}.log")

    @property
    def leader(self) -> Node:
        with Cluster(self._bootstrap) as client:
            return self.nodes[QuorumClient(client).describe().leader]


@contextmanager
def running(make: Callable[[Path, Mapping[str, str]], AnyCluster], home: Path, settings: Mapping[str, str]
            ) -> Iterator[tuple[Failover, Nodes]]:
    """Start a new cluster with its defaults except `settings`."""
    with tempfile.TemporaryDirectory(dir=home) as directory:
        cluster = make(Path(directory), settings)
        try:
            cluster.start()
            nodes = Nodes(cluster)
            yield Failover(nodes), nodes
        finally:
            cluster.stop()


KINDS: Final = {True: "the leader that is the active controller", False: "a leader that is not the controller"}

Gaps = dict[bool, list[Gap]]
"""Gaps of each kill, by whether it hit the active controller."""


def connected(gaps: list[Gap]) -> list[float]:
    """Return the gaps of producers that had another connection, in seconds."""
    return [gap.seconds for gap in gaps if gap.is_connected]


def kills(console: Console, name: str, cluster: Failover, count: int, keep: Callable[[str], None]) -> Gaps:
    """Execute `count` kills of each kind; kills of producers without another connection are in addition. `keep` is
    called after a gap above the aim, with a name for it."""
    gaps: Gaps = {kind: [] for kind in KINDS}
    for number in range(1, count + 1):
        for kind, victim in KINDS.items():
            while len(connected(gaps[kind])) < number:
                gap = cluster.kill(controller=kind)
                gaps[kind].append(gap)
                console.print(f"{name}, kill {len(gaps[kind])} of {victim}: {gap.seconds:.3f} s"
                              f"{'' if gap.is_connected else ', a producer had no other connection'}")
                if gap.seconds > GAP_SECONDS_MAX:
                    keep(f"failover-{'controller' if kind else 'other'}-{len(gaps[kind])}")
    for kind, victim in KINDS.items():
        if seconds := connected(gaps[kind]):
            console.print(f"{name}, {len(seconds)} kills of {victim}: median {statistics.median(seconds):.3f} s, "
                          f"longest {max(seconds):.3f} s")
    return gaps


def restarts(console: Console, name: str, cluster: Failover, rounds: int) -> None:
    for number in range(1, rounds + 1):
        began = time.monotonic()
        gaps = cluster.restart_all()
        console.print(f"{name}, rolling restart {number}: gaps {' '.join(f'{gap:.3f}' for gap in gaps)} s, "
                      f"{time.monotonic() - began:.1f} s in all")


def outcome(console: Console, name: str, cluster: Failover) -> Outcome:
    """Return the number of sent records and the errors among them."""
    found = Outcome(*map(sum, zip(*cluster.outcomes(), strict=True)))
    console.print(f"{name}: {found}")
    for finding in (each for stream in cluster.streams for each in stream.findings):
        console.print(finding)
    return found


@click.command()
@click.option("--kills", "count", default=50, show_default=True, help="Of each kind.")
@click.option("--peer-kills", default=5, show_default=True, help="Of each kind, of Apache Kafka's nodes.")
@click.option("--restarts", "rounds", default=1, show_default=True, help="Rounds of restarts, of ours.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of all nodes of ours.")
@click.option("--ours", is_flag=True, help="Only our nodes: no ratio.")
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=OUT,
              help="Where all nodes keep their data.")
def main(count: int, peer_kills: int, rounds: int, settings: tuple[str, ...], ours: bool, directory: Path) -> None:
    """Measure the gaps of a producer when nodes die and restart."""
    with reported("failover", directory, quick=False) as (console, home, report):
        theirs: Gaps = {kind: [] for kind in KINDS}
        make = partial(KraftCluster, log_level="info")
        with running(make, home, dict(each.split("=", 1) for each in settings)) as (cluster, nodes):
            gaps = kills(console, "kraft", cluster, count, lambda name: nodes.keep_output(directory / name))
            restarts(console, "kraft", cluster, rounds)
            found = outcome(console, "kraft", cluster)
        if not ours and (reason := missing()) is not None:
            console.print(f"no peer: {reason}")
        elif not ours and peer_kills:
            with running(KafkaCluster, home, {}) as (cluster, _):
                theirs = kills(console, "kafka", cluster, peer_kills, lambda _name: None)
                outcome(console, "kafka", cluster)
        report.add(figures(gaps, theirs, found))


def figures(gaps: Gaps, theirs: Gaps, found: Outcome) -> list[Figure]:
    """Return the figures. The two sides differ in the number of kills, so each figure covers all of its side's."""
    made = [gap_figure(f"{victim} is killed", take, connected(gaps[kind]), connected(theirs[kind]), aim)
            for kind, victim in KINDS.items() for take, aim in AIMS]
    alone, theirs_alone = ([gap.seconds for kind in KINDS for gap in each[kind] if not gap.is_connected]
                           for each in (gaps, theirs))
    return [*made, *(gap_figure("any is killed, the producer has no other connection", take, alone, theirs_alone)
                     for take in ("median", "longest") if alone),
            Figure("any of them is killed", "records refused, lost, reordered or twice", "", 0, absolute=True,
                   ours=[float(sum(found) - found.acknowledged)])]


def gap_figure(row: str, take: str, ours: list[float], peers: list[float], aim: float | None = None) -> Figure:
    """Return the figure of the median gap or of the longest one."""
    of: Callable[[list[float]], float] = statistics.median if take == "median" else max
    return Figure(row, f"gap, {take}", "s", aim, absolute=True,
                  ours=[of(ours)] if ours else [], peers=[of(peers)] if peers else [])


if __name__ == "__main__":
    main()
