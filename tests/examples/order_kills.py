"""Kills of the order service, its database and a broker at random points, and the judgement of what is left.

    python -m tests.examples.order_kills [--kills 100] [--seed 1]
"""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import click
import confluent_kafka
import psycopg

from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from tests.examples.postgres import Postgres, missing
from tools.tree import ROOT

PROGRAM: Final = ROOT / "examples" / "orders.py"
TOPIC: Final = "orders"
TARGETS: Final = ("service", "service", "database", "broker")
PAUSE_MS_MAX: Final = 150
RECOVERY_SECONDS: Final = 60.0
"""Limit of the time until the service works again after a kill."""
ERROR_BYTES: Final = 2_000
POLL_SECONDS: Final = 0.5


class OrdersUnderKills:
    """A cluster, a database and the service between them. Used by one thread."""

    def __init__(self, cluster: LocalCluster, database: Postgres, seed: int) -> None:
        self.kills: Counter[str] = Counter()
        self._cluster = cluster
        self._database = database
        self._random = random.Random(seed)
        self._service: subprocess.Popen[bytes] | None = None
        self._opened = ExitStack()
        self._errors = self._opened.enter_context(tempfile.TemporaryFile())     # noqa: SIM115  __exit__ closes it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop_service()
        self._opened.close()

    def kill_once(self) -> None:
        """Let the service work for a random time, then kill one of the three, and start it again."""
        self.await_progress()
        time.sleep(self._random.uniform(0, PAUSE_MS_MAX) / 1000)
        target = self._random.choice(TARGETS)
        self.kills[target] += 1
        if target == "database":
            self._database.kill()
            self._database.start()
        elif target == "broker":
            node = self._cluster.node(self._random.choice([each.node_id for each in self._cluster.running]))
            node.kill()
            node.start()
        else:
            self.stop_service()

    def await_progress(self) -> None:
        """Wait until the service has stored another order, and start it whenever it has ended."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            if self._service is None:
                self._service = self._start_service()
            assert self._service.stdout is not None
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._service.stdout], [], [], left)[0]:
                raise AssertionError(f"no order was stored within {RECOVERY_SECONDS:.0f} s: {self._last_error()}")
            if os.read(self._service.stdout.fileno(), 1 << 16):
                return
            self.stop_service()

    def stop_service(self) -> None:
        if self._service is not None:
            self._service.kill()
            self._service.communicate()
            self._service = None

    def check(self) -> int:
        """Let a last process end what is open. Return the number of orders; raise AssertionError when the rows and the
        records differ."""
        self.stop_service()
        last = subprocess.run([*self._command(), "--count=2"], check=False, stdout=subprocess.DEVNULL,
                              stderr=self._errors, timeout=RECOVERY_SECONDS)
        assert last.returncode == 0, f"the service cannot start: {self._last_error()}"
        with psycopg.connect(self._database.dsn) as connection:
            rows = Counter(number for number, in connection.execute("SELECT id FROM orders"))
        records = Counter(int(key) for key in self._keys())
        only_rows, only_records = (sorted(each.elements())[:5] for each in (rows - records, records - rows))
        assert records == rows, f"only rows: {only_rows}, only records: {only_records}"
        return rows.total()

    def _keys(self) -> list[bytes]:
        """Return the keys of all committed records, by another client than the service's."""
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": self._cluster.bootstrap, "group.id": "judge", "isolation.level": "read_committed",
            "enable.partition.eof": True, "enable.auto.commit": False})
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        keys: list[bytes] = []
        try:
            while True:
                for message in consumer.consume(10_000, POLL_SECONDS):
                    error = message.error()
                    if error is None:
                        keys.append(message.key())
                    elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                        return keys
        finally:
            consumer.close()

    def _start_service(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._command(), "--count=1000000"], stdout=subprocess.PIPE, stderr=self._errors)

    def _last_error(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-ERROR_BYTES:].decode(errors="replace")

    def _command(self) -> list[str]:
        return [sys.executable, str(PROGRAM), f"--bootstrap={self._cluster.bootstrap}",
                f"--database={self._database.dsn}"]


CHECK_KILLS: Final = 100
SETTINGS: Final = {"transaction.two.phase.commit.enable": "true", "min.insync.replicas": "2"}


@click.command()
@click.option("--kills", type=click.IntRange(1), default=100, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(kills: int, seed: int) -> None:
    """Kill the service, the database and brokers at random points, and compare rows and records at the end."""
    if (reason := missing()) is not None:
        raise click.ClickException(reason)
    with (tempfile.TemporaryDirectory(prefix="kraft-orders-") as home, Postgres() as database,
          LocalCluster(Path(home), brokers=3, controllers=0, settings=SETTINGS) as cluster):
        cluster.start()
        with cluster.client() as client:
            create_topic(client, TOPIC, 1, replication=3)
        with OrdersUnderKills(cluster, database, seed) as run:
            for number in range(1, kills + 1):
                run.kill_once()
                if number % CHECK_KILLS == 0:
                    click.echo(f"{number} kills: {run.check():,} orders in both")
            click.echo(f"{kills} kills of {dict(run.kills)}: {run.check():,} orders, each in database and topic")


if __name__ == "__main__":
    main()
