"""Kills of a Kafka Streams application with exactly_once_v2 at random points, and the judgement of its output.

    python -m tests.clients.streams_kills [--kills 50] [--seed 1]

Each word's counts have to be 1, 2, 3 and so on in the output, each once and in order: a transaction that is lost or
repeated breaks the sequence.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import click
import confluent_kafka
from confluent_kafka import TopicPartition

from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from tests.clients.transactional import java_command, java_reason
from tests.integration.clients import librdkafka_consumer

LINES: Final = "lines"
COUNTS: Final = "counts"
PARTITIONS: Final = 4
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300", "replica.lag.time.max.ms": "4000",
}
WORDS: Final = tuple(f"word{number}" for number in range(50))
ROUND_LINES: Final = 400
KEEPS_STATE: Final = 0.5
"""Chance that the next instance finds the state of the killed one. Else it restores it from the changelog."""
KILLS_BROKER: Final = 0.2
PAUSE_SECONDS_MAX: Final = 1.5
PROGRESS_SECONDS: Final = 120.0


class StreamsUnderKills:
    """The application between its topics. Used by one thread."""

    def __init__(self, cluster: LocalCluster, directory: Path, seed: int) -> None:
        self.kills: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.outputs: dict[str, list[int]] = {}
        """Counts of each word, as a reader with read_committed has received them."""
        self._cluster = cluster
        self._directory = directory
        self._state = 0
        self._lines = 0
        self._random = random.Random(seed)
        self._application: subprocess.Popen[bytes] | None = None
        with Cluster(cluster.bootstrap) as client:
            for topic in (LINES, COUNTS):
                create_topic(client, topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        self._producer = confluent_kafka.Producer({
            "bootstrap.servers": cluster.bootstrap, "log_level": 2, "enable.idempotence": True, "linger.ms": 5})
        self._consumer = librdkafka_consumer(_Anyone(cluster), isolation_level="read_committed")
        self._consumer.assign([TopicPartition(COUNTS, partition, 0) for partition in range(PARTITIONS)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._kill_application()
        self._consumer.close()

    def kill_once(self) -> None:
        """Send more lines, let the application work for a random time, and kill it; now and then a broker with it."""
        self._send()
        self._start()
        before = self._received
        self._await(lambda: self._received > before, "another count")
        time.sleep(self._random.uniform(0, PAUSE_SECONDS_MAX))
        self._kill_application()
        if self._random.random() >= KEEPS_STATE:
            shutil.rmtree(self._directory / str(self._state), ignore_errors=True)
            self._state += 1
            self.kills["application, and its state deleted"] += 1
        else:
            self.kills["application"] += 1
        if self._random.random() < KILLS_BROKER:
            self._random.choice(list(self._cluster.brokers.values())).kill_and_start()
            self.kills["broker"] += 1

    def finish(self) -> str:
        """Let the application process everything. Return what is wrong with its output."""
        self._start()
        self._await(lambda: self._received >= self.sent.total(), f"{self.sent.total()} counts")
        self._kill_application()
        self._drain()
        return "\n".join(f"{word}: {self.outputs.get(word)} in place of 1 to {count}" for word, count in
                         self.sent.items() if self.outputs.get(word) != list(range(1, count + 1)))

    @property
    def _received(self) -> int:
        return sum(len(found) for found in self.outputs.values())

    def _send(self) -> None:
        for _ in range(ROUND_LINES):
            words = self._random.choices(WORDS, k=3)
            self.sent.update(words)
            self._producer.produce(LINES, " ".join(words), str(self._lines))
            self._lines += 1
        if self._producer.flush(PROGRESS_SECONDS):
            raise TimeoutError("lines were not acknowledged")

    def _start(self) -> None:
        command = java_command("ExactlyOnce", self._cluster.bootstrap, "exactly", LINES, COUNTS,
                               str(self._directory / str(self._state)), heap="384m", level="error")
        with (self._directory / "application.log").open("ab") as log:
            self._application = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def _kill_application(self) -> None:
        if self._application is not None:
            self._application.kill()
            self._application.communicate()
            self._application = None

    def _await(self, done: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + PROGRESS_SECONDS
        while not done():
            self._drain()
            if self._application is not None and self._application.poll() is not None:
                raise AssertionError("the application ended by itself: "
                                     + (self._directory / "application.log").read_text()[-2_000:])
            if time.monotonic() > until:
                raise TimeoutError(f"not in {PROGRESS_SECONDS:.0f} s: {what}; {self._received} received")

    def _drain(self) -> None:
        for message in self._consumer.consume(1_000, 0.1):
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                self.outputs.setdefault(key.decode(), []).append(int(value))


class _Anyone:
    """All brokers, for the clients of tests."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.address = cluster.bootstrap


def run(directory: Path, kills: int, seed: int) -> tuple[str, StreamsUnderKills]:
    """Run that many kills. Return what is wrong, and the counts."""
    with LocalCluster(directory / "cluster", brokers=3, controllers=0, settings=SETTINGS) as cluster:
        cluster.start()
        with StreamsUnderKills(cluster, directory, seed) as streams:
            for number in range(kills):
                streams.kill_once()
                if (number + 1) % 10 == 0:
                    click.echo(f"{number + 1} kills, {sum(map(len, streams.outputs.values()))} counts", err=True)
            wrong = streams.finish()
        cluster.check()
        return wrong, streams


@click.command()
@click.option("--kills", default=50, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(kills: int, seed: int) -> None:
    """Kill a Streams application with exactly_once_v2, and compare its output with the input."""
    if (reason := java_reason()) is not None:
        sys.exit(f"needs Java and Maven: {reason}")
    directory = Path(tempfile.mkdtemp(prefix="kraft-streams-"))
    began = time.monotonic()
    wrong, streams = run(directory, kills, seed)
    click.echo(f"seed {seed}, {time.monotonic() - began:.0f} s, {dict(streams.kills)}, {streams.sent.total()} words")
    if wrong:
        sys.exit(f"files in {directory}:\n{wrong}")
    shutil.rmtree(directory)
    click.echo("the output equals the input's words")


if __name__ == "__main__":
    main()
