"""A backup of some gigabytes beside clients: their throughput with it and without, and the copy rate beside the disk's.

The clients send at a fixed share of what the node accepts from them alone. Requests that are due and not answered count
as lost throughput.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from bench.macro.options import DIRECTORY
from bench.macro.servers import KraftServer
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.load.measure import fill, measure
from kraft.load.workload import Workload

PARTITIONS: Final = 8
CONNECTIONS: Final = 4
RECORD_BYTES: Final = 1000
BATCH_BYTES: Final = 64 << 10
ALONE_SECONDS: Final = 5.0
LOAD_SECONDS: Final = 20.0
DISK_BYTES: Final = 2 << 30
BLOCK: Final = bytes(8 << 20)
TARGET_THROUGHPUT: Final = 0.9
TARGET_COPY: Final = 0.5


def disk_rate(directory: Path) -> float:
    """Return the rate in bytes per second at which this disk stores a new file, its flush included."""
    path = directory / "disk"
    begun = time.monotonic()
    with path.open("wb", buffering=0) as file:
        for _ in range(DISK_BYTES // len(BLOCK)):
            file.write(BLOCK)
        os.fsync(file.fileno())
    seconds = time.monotonic() - begun
    path.unlink()
    return DISK_BYTES / seconds


class BackupProcess(threading.Thread):
    """`kraft backup create` in a process of its own; `result` is what it prints."""

    def __init__(self, bootstrap: str, place: Path, *options: str) -> None:
        super().__init__()
        self.result: dict[str, Any] = {}
        self._command = [sys.executable, "-m", "kraft", "backup", "create", str(place), "--bootstrap", bootstrap,
                         "--json", *options]

    def run(self) -> None:
        done = subprocess.run(self._command, check=True, capture_output=True, text=True)
        self.result = json.loads(done.stdout)


def figures(server: KraftServer, top: Path, data_bytes: int, share: float, options: tuple[str, ...]) -> dict[str, Any]:
    """Return the figures of one backup."""
    stored = Workload("fetch", PARTITIONS, record_bytes=RECORD_BYTES, batch_bytes=1 << 20, topic="stored")
    sent = Workload("produce", CONNECTIONS, 4, record_bytes=RECORD_BYTES, batch_bytes=BATCH_BYTES, topic="sent")
    with Cluster(server.bootstrap) as cluster:
        create_topic(cluster, stored.topic, PARTITIONS, configs={"retention.ms": "-1"})
        create_topic(cluster, sent.topic, CONNECTIONS, configs={"retention.bytes": str(256 << 20)})
        fill(stored, cluster, data_bytes)
        os.sync()
        disk = disk_rate(top)
        highest = measure(sent, cluster, seconds=ALONE_SECONDS, pids=server.pids)
        paced = replace(sent, rate=highest.requests_per_second * share)
        before = measure(paced, cluster, seconds=LOAD_SECONDS, pids=server.pids)
        # Not the clients' own records, of which there are as many as this machine is fast.
        backup = BackupProcess(server.bootstrap, top / "backups", "--topic", stored.topic, *options)
        backup.start()
        during = measure(paced, cluster, seconds=LOAD_SECONDS, warmup=0.5, pids=server.pids)
        backup.join()
    result = backup.result
    copied = result["bytes_read"] / result["seconds"]
    return {
        "backup_bytes": result["bytes"], "backup_seconds": result["seconds"],
        "measured_seconds_within": min(LOAD_SECONDS, result["seconds"]),
        "highest_megabytes_per_second": highest.megabytes_per_second, "share": share,
        "before_megabytes_per_second": before.megabytes_per_second,
        "during_megabytes_per_second": during.megabytes_per_second,
        "throughput_ratio": during.megabytes_per_second / before.megabytes_per_second,
        "before_p99_us": before.latency_us.get("99"), "during_p99_us": during.latency_us.get("99"),
        "copy_megabytes_per_second": copied / 1e6, "disk_megabytes_per_second": disk / 1e6,
        "copy_ratio": copied / disk,
    }


@click.command(help=__doc__)
@click.option("--gigabytes", default=10.0, show_default=True, help="Data to back up.")
@click.option("--share", default=0.3, show_default=True, help="Load of the clients, as a share of the highest.")
@click.option("--option", "options", multiple=True, help="Option of kraft backup create; may be given again.")
@DIRECTORY
def main(gigabytes: float, share: float, options: tuple[str, ...], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    top = Path(tempfile.mkdtemp(prefix="backup-", dir=directory))
    server = KraftServer(top / "node")
    try:
        server.start()
        found = figures(server, top, int(gigabytes * 1e9), share, options)
    finally:
        server.stop()
        shutil.rmtree(top, ignore_errors=True)
    click.echo(json.dumps(found, indent=1))
    met = found["throughput_ratio"] >= TARGET_THROUGHPUT and found["copy_ratio"] >= TARGET_COPY
    click.echo(f"clients {found['throughput_ratio']:.0%} of their throughput (at least {TARGET_THROUGHPUT:.0%}), copy "
               f"{found['copy_ratio']:.0%} of the disk's rate (at least {TARGET_COPY:.0%}): "
               f"{'met' if met else 'missed'}", err=True)


if __name__ == "__main__":
    main()
