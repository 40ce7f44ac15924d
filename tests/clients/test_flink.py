"""The Kafka sink of Apache Flink with exactly-once delivery: a job that fails and restarts writes each number once."""

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from tests.clients.transactional import FLINK_SOURCES, java_command, java_reason
from tests.integration.clients import librdkafka_consumer

pytestmark = pytest.mark.peer

RECORDS: Final = 4_000
FAILURES: Final = 2
SECONDS: Final = 120.0
OPENS: Final = ("java.lang", "java.util", "java.time")
"""Packages of Java that Flink changes by reflection."""


class Anyone(NamedTuple):
    """All brokers, for the consumer."""

    address: str


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and the consumer closes its sockets at a time of its own."""


@pytest.mark.kraft_cluster(brokers=3, controllers=0, settings={"transaction.state.log.num.partitions": "4"})
@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_a_job_that_fails_writes_each_number_once(naming: str, kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    """INCREMENTING fences what a failed attempt left open by its ids, POOLING finds it by ListTransactions."""
    if (reason := java_reason(FLINK_SOURCES)) is not None:
        pytest.skip(f"needs Apache Flink: {reason}")
    with Cluster(kraft_cluster.bootstrap) as client:
        create_topic(client, "numbers", 2, 3)
    command = java_command("Sink", kraft_cluster.bootstrap, "numbers", str(RECORDS), str(FAILURES), naming,
                           str(tmp_path), heap="768m", directory=FLINK_SOURCES)
    command[1:1] = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.stdout.splitlines()[-1] == f"failed {FAILURES}"
    assert sorted(numbers(kraft_cluster)) == list(range(RECORDS))


def numbers(cluster: LocalCluster) -> list[int]:
    """Return the committed records, up to the end of each partition."""
    consumer = librdkafka_consumer(Anyone(cluster.bootstrap), isolation_level="read_committed",
                                   enable_partition_eof=True)
    consumer.assign([TopicPartition("numbers", partition, 0) for partition in range(2)])
    found: list[int] = []
    ended: dict[int | None, None] = {}
    while len(ended) < 2:
        for message in consumer.consume(1_000, 1.0):
            if message.error() is None:
                found.append(int(message.value() or b""))
            else:
                ended[message.partition()] = None
    consumer.close()
    return found
