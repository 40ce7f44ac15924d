"""The generator of `kraft bench` beside an independent one, at the same time, on the same node.

    python -m bench.macro.open_loop [--quick] [--turns 3] [--seconds 60] [--rate 500] [--directory DIR]

Both send single records at a fixed rate, whatever the node does: an open loop. Ours is measured by `kraft.load`, the
other by librdkafka (`open_loop_client`). Each has a partition of its own of one topic, with acks=all and shared flushes
(`flush.messages`), so both wait for the same disk. The node is stopped for some milliseconds every second in one row
and not in the other. A generator that waits for answers before it sends, or counts from when it could send, misses most
of those stops: its p99.9 is wrong by many times.

The aim is a p99.9 within 5 % of the other's, as the median of the turns. A turn takes the seconds and two more.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from bench.machine import OUT, describe
from bench.macro.options import DIRECTORY, QUICK
from bench.macro.servers import KraftServer
from bench.table import Row, show
from kraft.cli.command import version_text
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.load.measure import measure
from kraft.load.workload import Workload

TOPIC: Final = "open-loop"
OTHERS_PARTITION: Final = 1
RECORD_BYTES: Final = 100
IN_FLIGHT: Final = 4096
STOP_EVERY_SECONDS: Final = 1.0
WITHIN: Final = 0.05
PERCENTILES: Final = (("50", 0.5), ("99", 0.99), ("99.9", 0.999))
QUICK_SECONDS: Final = 5.0


@contextmanager
def stopping(pid: int, stop_ms: float) -> Iterator[None]:
    """Stop a process for that time every second, and let it run at the end. 0: never."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(STOP_EVERY_SECONDS - stop_ms / 1000):
            os.kill(pid, signal.SIGSTOP)
            try:
                over.wait(stop_ms / 1000)
            finally:
                os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=run, daemon=True)
    if stop_ms:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if stop_ms:
            thread.join()


def turn(server: KraftServer, rate: float, seconds: float, stop_ms: float) -> dict[str, tuple[float, float]]:
    """Load the node with both generators; return (ours, the other's) in milliseconds by percentile."""
    workload = Workload("produce", 1, IN_FLIGHT, rate, RECORD_BYTES, acks=-1, topic=TOPIC)
    command = [sys.executable, "-m", "bench.macro.open_loop_client", server.bootstrap, TOPIC, str(OTHERS_PARTITION),
               str(rate), str(seconds), str(RECORD_BYTES)]
    with Cluster(server.bootstrap) as cluster, stopping(server.pids[0], stop_ms):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            ours = measure(workload, cluster, seconds=seconds, warmup=1.0)
            found, _ = other.communicate(timeout=seconds + 120)
        if other.returncode:
            raise RuntimeError(f"the other generator ended with {other.returncode}")
    if ours.errors:
        raise RuntimeError(f"{ours.errors} requests of ours were refused: {ours.first_error}")
    theirs = json.loads(found)["latencies_ns"]
    return {name: (ours.latency_us[name] / 1e3, theirs[min(len(theirs) - 1, int(share * len(theirs)))] / 1e6)
            for name, share in PERCENTILES if name in ours.latency_us}


@click.command()
@QUICK
@DIRECTORY
@click.option("--turns", default=3, show_default=True)
@click.option("--seconds", default=60.0, show_default=True, help="Of one turn.")
@click.option("--rate", default=500.0, show_default=True, help="Records per second of each generator.")
@click.option("--stop-ms", default=50.0, show_default=True, help="The node's stop in every second of the second row.")
def main(quick: bool, directory: Path, turns: int, seconds: float, rate: float, stop_ms: float) -> None:
    """Compare the p99.9 of both generators."""
    console = Console(width=150)
    console.print(version_text(), highlight=False)
    console.print(describe(), highlight=False)
    if quick:
        turns, seconds = 1, QUICK_SECONDS
    directory.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="open-loop-", dir=directory))
    rows: list[Row] = []
    server = KraftServer(home)
    try:
        server.start()
        with Cluster(server.bootstrap) as cluster:
            create_topic(cluster, TOPIC, OTHERS_PARTITION + 1, configs={"flush.messages": "1000000"})
        for label, stopped_ms in (("as it is", 0.0), (f"stopped {stop_ms:g} ms every second", stop_ms)):
            found = [turn(server, rate, seconds, stopped_ms) for _ in range(turns)]
            for name, _ in PERCENTILES:
                runs = [each[name] for each in found if name in each]
                if runs:
                    rows.append(Row.of_runs(f"{label}: p{name}", "ms", runs, limit_name="librdkafka", better="less"))
                    console.print(rows[-1].summary(), highlight=False)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
        show(rows, "open-loop")
    (OUT / "open-loop.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    missed = [row.name for row in rows if row.name.endswith("p99.9") and row.ratio is not None
              and abs(row.ratio - 1) > WITHIN]
    if missed:
        raise click.ClickException(f"not within {WITHIN:.0%} of librdkafka: {', '.join(missed)}")


if __name__ == "__main__":
    main()
