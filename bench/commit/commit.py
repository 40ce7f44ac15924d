"""Cost of a commit: controllers in processes of their own, beside C, etcd, Kafka and the disk, in one run.

    python -m bench.commit.commit [--quick] [--replicas 3 --replicas 5] [--only TEXT] [--directory DIR]

Two figures of ours, for two comparisons:

- `inside`: the leader's process proposes, as its state machine does. This is consensus alone, beside a C program with
  the same appends, flushes and loopback messages (bench/c/quorum_commit.c), and beside one fdatasync of 4 KiB.
- `client`: a client proposes over loopback and waits for each answer, as etcd's do. The server etcd (defaults, no
  snapshot within the run) serves Put over gRPC and stores committed values; our state machine keeps nothing. Both
  clients are the same loop over as many connections.

`durable` is on DIR's disk. `page cache` is the same, files and flushes included, on /dev/shm, where a flush costs
nothing. All processes run at the same time and are loaded alternately, so a ratio is the median of ratios turn by turn.

Kafka's metadata log is measured with whole controllers around it, theirs and ours: `controllers.py`. Its
`TestRaftServer` is unsuitable: it ignores its options, paces 20,000 records of 256 B a second, and has no window.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from bench.commit import clients, controllers, failover
from bench.commit.quorums import EtcdQuorum, KraftQuorum
from bench.machine import OUT, compiled, describe, limit, touch_memory
from bench.table import Row, show
from kraft.cli.command import version_text
from tests.peer import kafka

SIZES: Final = ((100, "100 B"), (1024, "1 KiB"))
IN_FLIGHT: Final = (1, 16, 256)
MEMORY: Final = Path("/dev/shm")
SYNCS: Final = 300
TOUCHED_BYTES: Final = 3 << 30
FSYNCS_MAX: Final = 2.0
OF_C_MIN: Final = 0.8
OF_ETCD_MIN: Final = 2.0


@dataclass(frozen=True)
class Setting:
    """One quorum size on one file system, for every load."""

    home: Path
    replicas: int
    place: str
    seconds: float
    turns: int
    only: str


def rows(setting: Setting) -> Iterator[Row]:
    """Start the quorums of one size and measure every load on them."""
    with ExitStack() as stack:
        ours = KraftQuorum(setting.home / "kraft", setting.replicas)
        stack.callback(ours.stop)
        ours.start()
        etcd = None
        if EtcdQuorum.missing() is None:
            etcd = EtcdQuorum(setting.home / "etcd", setting.replicas)
            stack.callback(etcd.stop)
            etcd.start()
        for size, size_name in SIZES:
            for in_flight in IN_FLIGHT:
                name = f"{setting.replicas} x {size_name}, {in_flight} in flight, {setting.place}"
                if setting.only in name:
                    yield from _load_rows(setting, ours, etcd, name, size, in_flight)


def _load_rows(setting: Setting, ours: KraftQuorum, etcd: EtcdQuorum | None, name: str, size: int,
               in_flight: int) -> Iterator[Row]:
    syncs, in_c, inside, client, rival = [], [], [], [], []
    payload = bytes(size)
    is_durable = setting.place == "durable"
    for _ in range(setting.turns):
        if is_durable and in_flight == 1:
            syncs.append(limit("sync", setting.home / "sync", 4096, SYNCS, "append")["p50_us"])
        touch_memory(at_most=TOUCHED_BYTES)      # for all logs of this turn; C uses the same file in each turn
        in_c.append(_in_c(setting, size, in_flight))
        inside.append(ours.measure(size, in_flight, setting.seconds))
        client.append(clients.run(partial(clients.FramedClient, ours.leader_port, payload), in_flight,
                                  setting.seconds))
        if etcd is not None:
            rival.append(clients.run(partial(clients.EtcdClient, etcd.leader_port, payload), in_flight,
                                     setting.seconds))
    row = partial(_row, name)
    if syncs:
        yield row("inside, p50", "us", [run["p50_us"] for run in inside], syncs, "one fdatasync of 4 KiB",
                  FSYNCS_MAX if setting.replicas == 3 else None, "less")
    aims = in_flight == 256 and setting.replicas == 3 and is_durable
    yield row("inside, p50", "us", _of(inside, "p50_us"), _of(in_c, "p50_us"), "C", None, "less")
    yield row("inside, rate", "/s", _of(inside, "per_s"), _of(in_c, "per_s"), "C", OF_C_MIN if aims else None, "more")
    if rival:
        yield row("client, p50", "us", _of(client, "p50_us"), _of(rival, "p50_us"), "etcd", None, "less")
        yield row("client, rate", "/s", _of(client, "per_s"), _of(rival, "per_s"), "etcd",
                  OF_ETCD_MIN if aims else None, "more")
    else:
        yield row("client, rate", "/s", _of(client, "per_s"), [], "", None, "more")


def _of(runs: list[dict[str, float]], name: str) -> list[float]:
    return [run[name] for run in runs]


def _row(name: str, what: str, unit: str, ours: list[float], others: list[float], other: str, target: float | None,
         better: str) -> Row:
    if not others:
        return Row(f"{name}: {what}", unit, sorted(ours)[len(ours) // 2], better=better)
    return Row.of_runs(f"{name}: {what}", unit, list(zip(ours, others, strict=True)), limit_name=other, target=target,
                       better=better)


def _in_c(setting: Setting, size: int, in_flight: int) -> dict[str, float]:
    directory = setting.home / "c"
    directory.mkdir(exist_ok=True)
    command = [str(compiled("quorum_commit.c")), *map(str, (directory, setting.replicas, size, in_flight,
                                                            setting.seconds))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=setting.seconds + 60)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@click.command()
@click.option("--quick", is_flag=True, help="One short turn of each row: to see that everything runs.")
@click.option("--replicas", multiple=True, type=int, default=(3, 5), show_default=True, help="Sizes of the quorum.")
@click.option("--only", default="", help="Only rows whose name contains this text.")
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=OUT,
              help="Where the quorums keep what is durable.")
@click.option("--seconds", default=1.0, show_default=True, help="Of one turn of one load.")
@click.option("--turns", default=3, show_default=True)
@click.option("--kills", default=50, show_default=True, help="Leaders killed; 0: none, and none stopped.")
def main(quick: bool, replicas: tuple[int, ...], only: str, directory: Path, seconds: float, turns: int,
         kills: int) -> None:
    """Measure commits of our controllers beside C, etcd, Kafka and the disk."""
    console = Console(width=150)
    console.print(version_text(), highlight=False)
    console.print(describe(), highlight=False)
    if (reason := EtcdQuorum.missing()) is not None:
        console.print(f"SKIPPED: etcd: {reason}")
    if (without_kafka := kafka.missing()) is not None:
        console.print(f"SKIPPED: Kafka: {without_kafka}")
    if quick:
        seconds, turns, kills = 0.3, 1, min(kills, 2)
    else:
        touch_memory()
    directory.mkdir(parents=True, exist_ok=True)
    places = [("durable", directory), *([("page cache", MEMORY)] if MEMORY.is_dir() else [])]
    found: list[Row] = []
    begin = time.monotonic()

    def add(new: Iterator[Row] | list[Row]) -> None:
        for row in new:
            console.print(row.summary(), highlight=False)
            found.append(row)

    try:
        for count in replicas:
            for place, base in places:
                _in_home(base, lambda home, count=count, place=place: add(  # type: ignore[misc]
                    rows(Setting(home, count, place, seconds, turns, only))))
        if without_kafka is None:
            _in_home(directory, lambda home: add(controllers.rows(home, seconds, turns, only)))
        if kills:
            _in_home(directory, lambda home: add(failover.rows(home, kills)))
    finally:
        show(found, "commits")
        (directory / "commit.json").write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    console.print(f"{time.monotonic() - begin:.0f} s in all", highlight=False)


def _in_home(base: Path, action: Callable[[Path], None]) -> None:
    """Run the action with a directory of its own, which is removed."""
    home = Path(tempfile.mkdtemp(prefix="commit-", dir=base))
    try:
        action(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
