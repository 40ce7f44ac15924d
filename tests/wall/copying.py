"""The job that stream processors and clients do on the wall: copy one topic to another, and commit positions.

A broker and the program itself are killed meanwhile. `check_copy` judges all of them.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.local.cluster import LocalCluster
from tests.integration.admin import wait_until

SOURCE: Final = "wall-source"
TARGET: Final = "wall-target"
GROUP: Final = "wall"
PARTITIONS: Final = 4
RECORDS: Final = 4_000
SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.2
LOG_CHARS: Final = 3_000


class Program(NamedTuple):
    """A program that copies `SOURCE` to `TARGET`. Its arguments are the bootstrap servers, both topics, the group and a
    directory for its state."""

    command: Sequence[str]
    is_exactly_once: bool = False
    """True when it copies in transactions: each record comes once."""
    commits: bool = True
    """False when it keeps its positions itself, not in a group."""
    environment: Mapping[str, str] = {}


class Target:
    """Records that the program has written so far."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "log_level": 2,
                                   "enable.auto.commit": False, "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(TARGET, number, 0) for number in range(PARTITIONS)])
        self.values: Counter[bytes] = Counter()

    def poll(self) -> int:
        """Read what has come since; return the number of different values."""
        for record in self._consumer.consume(10_000, POLL_SECONDS):
            if record.error() is None:
                self.values[record.value()] += 1
        return len(self.values)

    def close(self) -> None:
        self._consumer.close()


def check_copy(cluster: LocalCluster, program: Program, directory: Path) -> None:
    """Run the program through the loss of a broker and its own. Every record must come, and once from a program that is
    exactly-once. At the end its group's offsets are the ends of the source."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, TARGET)]).values():
        made.result(SECONDS)
    target = Target(cluster.bootstrap)
    try:
        send(cluster.bootstrap, SOURCE, range(RECORDS // 2))
        with _running(cluster, program, directory):
            wait_until(lambda: target.poll() >= RECORDS // 4, "a quarter is copied", SECONDS)
            cluster.brokers[1].kill_and_start()
            send(cluster.bootstrap, SOURCE, range(RECORDS // 2, RECORDS * 3 // 4))
            wait_until(lambda: target.poll() >= RECORDS // 2, "half is copied", SECONDS)
        send(cluster.bootstrap, SOURCE, range(RECORDS * 3 // 4, RECORDS))
        with _running(cluster, program, directory):
            wait_until(lambda: target.poll() >= RECORDS, "everything is copied", SECONDS)
            if program.commits:
                wait_until(lambda: _committed(cluster) == _ends(cluster), "the ends are committed", SECONDS)
        assert set(target.values) == {b"seen %d" % number for number in range(RECORDS)}
        if program.is_exactly_once:
            assert target.poll() == RECORDS
            assert target.values.total() == RECORDS
    finally:
        target.close()


def send(bootstrap: str, topic: str, numbers: range) -> None:
    """Send these numbers as text, with keys, and wait for the acknowledgements."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2})
    for number in numbers:
        producer.produce(topic, b"%d" % number, b"%d" % (number % 97))
    assert producer.flush(SECONDS) == 0


def _committed(cluster: LocalCluster) -> dict[int, int]:
    """Return the group's offsets, by partition. A transaction's commit marker takes an offset as well, of the target
    only."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 2})
    found = consumer.committed([TopicPartition(SOURCE, number) for number in range(PARTITIONS)], SECONDS)
    consumer.close()
    return {each.partition: each.offset for each in found}


def _ends(cluster: LocalCluster) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 2})
    ends = {number: consumer.get_watermark_offsets(TopicPartition(SOURCE, number), SECONDS)[1]
            for number in range(PARTITIONS)}
    consumer.close()
    return ends


@contextmanager
def _running(cluster: LocalCluster, program: Program, directory: Path) -> Iterator[None]:
    """Run the program, and kill it at the end. Its output is in the error of a test that fails."""
    log = directory / "program.log"
    command = [*program.command, cluster.bootstrap, SOURCE, TARGET, GROUP, str(directory)]
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd=directory,
                                                    env={**os.environ, **program.environment}) as process:
        try:
            yield
            assert process.poll() is None, f"the program ended with {process.returncode}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text(errors='replace')[-LOG_CHARS:]}") from error
        finally:
            process.kill()
