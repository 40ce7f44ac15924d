"""Kills of order services, their database and brokers at random points, and the judgement of what is left.

    python -m tests.examples.order_kills [--kills 100] [--seed 1]

Several services write to one database and one topic, each under a name of its own. A service is a child of a process
that has imported everything, so a life takes milliseconds. Most lives end shortly after their start, the others
after their first order. Meanwhile the database and one broker at a time are killed and started again.
"""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Final, Self

import click
import confluent_kafka
import psycopg

from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from tests.examples.order_service import PROGRAM, name_of, serve
from tests.examples.postgres import Postgres, missing

TOPIC: Final = "orders"
SERVICES: Final = 10
SHARES: Final = {"database": 0.05, "broker": 0.05}
"""Parts of all kills; the others are of services."""
EARLY: Final = 0.7
"""Part of the lives that end soon after their start."""
EARLY_MS: Final = (5, 200)
"""Time from the start of such a life to its kill."""
LATE_MS: Final = (0, 100)
"""Time from the first order to the kill, in the other lives."""
PAUSE_SECONDS: Final = 0.05
RECOVERY_SECONDS: Final = 60.0
"""Limit of the time until a service works again after a kill."""
ENDLESS: Final = 1_000_000
POLL_SECONDS: Final = 0.5
ERROR_BYTES: Final = 2_000


class NoOrderError(Exception):
    """A service did not store an order in time."""


class Life:
    """One process of a service, up to its kill. A process that ends by itself is replaced in the same life."""

    def __init__(self, start: Callable[[], tuple[ForkServerProcess, Connection]], chance: random.Random) -> None:
        self._start = start
        self._began = time.monotonic()
        self._is_early = chance.random() < EARLY
        self._late_seconds = chance.uniform(*LATE_MS) / 1000
        self.kill_at = (self._began + chance.uniform(*EARLY_MS) / 1000 if self._is_early
                        else self._began + RECOVERY_SECONDS)
        self.has_stored = False
        self._process, self.stored = start()

    def read(self) -> None:
        """Process what the service has written, or its end."""
        try:
            self.stored.recv_bytes()
        except EOFError:
            self.end()
            time.sleep(PAUSE_SECONDS)       # the database or a broker is down
            self._process, self.stored = self._start()
            return
        if not self.has_stored and not self._is_early:
            self.kill_at = time.monotonic() + self._late_seconds
        self.has_stored = True

    def kill(self) -> None:
        """Kill the process. Raises `NoOrderError` if it had time to work, and did not."""
        self.end()
        if not self.has_stored and not self._is_early:
            raise NoOrderError

    def end(self) -> None:
        """End the process, unless it has been ended: its replacement may have failed to start."""
        if self.stored.closed:
            return
        if self._process.is_alive():        # else its id may be another process's
            self._process.kill()
        self._process.join()
        self._process.close()
        self.stored.close()


class OrdersUnderKills:
    """A cluster, a database and the services between them."""

    def __init__(self, cluster: LocalCluster, database: Postgres, seed: int, services: int = SERVICES) -> None:
        self.kills = Counter({"service": 0, "database": 0, "broker": 0})
        self._cluster = cluster
        self._database = database
        self._seed = seed
        self._services = services
        self._blocks = 0
        self._home = tempfile.TemporaryDirectory(prefix="kraft-orders-")
        self._errors = Path(self._home.name, "errors.log")
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__, "tests.examples.order_service"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._home.cleanup()

    def kill(self, count: int, shares: dict[str, float] = SHARES) -> None:
        """Kill until there were `count` more kills. `shares`: parts of the database and of brokers."""
        self._blocks += 1
        goal = self.kills.total() + count
        ended = Event()
        ways: list[Callable[[int, Event, float], None]] = [self._kill_services, self._kill_database, self._kill_brokers]
        parts = [1.0, shares["database"], shares["broker"]]
        with ThreadPoolExecutor(len(ways)) as pool:
            running = [pool.submit(self._until_ended, ended, way, goal, part)
                       for way, part in zip(ways, parts, strict=True)]
        try:
            for each in running:
                each.result()
        except NoOrderError:
            raise AssertionError(
                f"no order was stored within {RECOVERY_SECONDS:.0f} s: {self.last_error()}") from None

    def check(self) -> int:
        """Let each service end what is open. Return the number of orders; raise AssertionError when the rows and the
        records differ."""
        last = [self._start(service, 2) for service in range(self._services)]
        for process, stored in last:
            process.join(RECOVERY_SECONDS)
            assert process.exitcode == 0, f"the service cannot start: {self.last_error()}"
            stored.close()
        self._run_program()
        with psycopg.connect(self._database.dsn) as connection:
            rows = Counter(number for number, in connection.execute("SELECT id FROM orders"))
        records = Counter(int(key) for key in self._keys())
        only_rows, only_records = (sorted(each.elements())[:5] for each in (rows - records, records - rows))
        assert records == rows, f"only rows: {only_rows}, only records: {only_records}"
        return rows.total()

    # --- the three kinds of kills

    @staticmethod
    def _until_ended(ended: Event, way: Callable[[int, Event, float], None], goal: int, part: float) -> None:
        """Kill in one way; an error ends the others too."""
        try:
            way(goal, ended, part)
        finally:
            ended.set()

    def _kill_services(self, goal: int, ended: Event, part: float) -> None:
        chance = random.Random(f"{self._seed}.{self._blocks}.services")
        lives: dict[int, Life] = {}
        try:
            while self.kills.total() < goal and not ended.is_set():
                for service in range(self._services):
                    if service not in lives:
                        lives[service] = Life(lambda service=service: self._start(service, ENDLESS), chance)
                by_pipe = {each.stored: each for each in lives.values()}
                due = min(each.kill_at for each in lives.values())
                for pipe in wait(list(by_pipe), max(0.0, due - time.monotonic())):
                    assert isinstance(pipe, Connection)
                    by_pipe[pipe].read()
                now = time.monotonic()
                for service in [service for service, life in lives.items() if life.kill_at <= now]:
                    lives.pop(service).kill()
                    self.kills["service"] += 1
        finally:
            for life in lives.values():
                life.end()

    def _kill_database(self, goal: int, ended: Event, part: float) -> None:
        while self._await_share("database", part, goal, ended):
            self._database.kill()
            self.kills["database"] += 1
            self._database.start()

    def _kill_brokers(self, goal: int, ended: Event, part: float) -> None:
        chance = random.Random(f"{self._seed}.{self._blocks}.brokers")
        while self._await_share("broker", part, goal, ended):
            node = self._cluster.node(chance.choice([each.node_id for each in self._cluster.running]))
            node.kill()
            self.kills["broker"] += 1
            node.start()

    def _await_share(self, target: str, part: float, goal: int, ended: Event) -> bool:
        """Wait until a kill of this target is due. Return False at the end."""
        while self.kills[target] >= part * (self.kills.total() + 1):
            if ended.wait(PAUSE_SECONDS):
                return False
        return self.kills.total() < goal and not ended.is_set()

    # --- processes

    def _start(self, service: int, transactions: int) -> tuple[ForkServerProcess, Connection]:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=serve, daemon=True,
            args=(self._cluster.bootstrap, self._database.dsn, service, transactions, theirs, self._errors))
        process.start()
        theirs.close()
        return process, ours

    def _run_program(self) -> None:
        """Run the example itself, under the name of a service."""
        done = subprocess.run(
            [sys.executable, str(PROGRAM), f"--bootstrap={self._cluster.bootstrap}", f"--database={self._database.dsn}",
             f"--name={name_of(0)}", "--count=2"], check=False, capture_output=True, timeout=RECOVERY_SECONDS)
        assert done.returncode == 0, f"the example cannot start: {done.stderr[-ERROR_BYTES:].decode(errors='replace')}"

    def last_error(self) -> str:
        """Return the end of what the services have written to their standard error."""
        return self._errors.read_text(errors="replace")[-ERROR_BYTES:] if self._errors.exists() else "no error"

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


CHECK_KILLS: Final = 250
SETTINGS: Final = {"transaction.two.phase.commit.enable": "true", "min.insync.replicas": "2"}


@click.command()
@click.option("--kills", type=click.IntRange(1), default=100, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(kills: int, seed: int) -> None:
    """Kill services, their database and brokers at random points, and compare rows and records now and then."""
    if (reason := missing()) is not None:
        raise click.ClickException(reason)
    with (tempfile.TemporaryDirectory(prefix="kraft-orders-") as home, Postgres() as database,
          LocalCluster(Path(home), brokers=3, controllers=0, settings=SETTINGS) as cluster):
        cluster.start()
        with cluster.client() as client:
            create_topic(client, TOPIC, 1, replication=3)
        with OrdersUnderKills(cluster, database, seed) as run:
            while run.kills.total() < kills:
                began = time.monotonic()
                run.kill(min(CHECK_KILLS, kills - run.kills.total()))
                seconds = time.monotonic() - began
                click.echo(f"seed {seed}: {run.kills.total()} kills, {dict(run.kills)}, the last in {seconds:.0f} s: "
                           f"{run.check():,} orders, each in database and topic")


if __name__ == "__main__":
    main()
