"""Segments of message formats v0 and v1 on a node: what clients read from them."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.integration.admin import admin, wait_until
from tests.integration.clients import (
    Read,
    Record,
    aiokafka_read,
    kafka_python_read,
    librdkafka_consumer,
    librdkafka_produce,
    librdkafka_read,
)
from tests.integration.process import NodeProcess
from tests.integration.quorum import SECONDS
from tests.oracle.batch import assemble
from tests.oracle.legacy import OLD_CODECS, Message, Outer, decode, sample

TOPIC = "old"
CONFIG = {"retention.ms": "-1"}        # the records are of 2014
# Partition: magic and codecs of its segment. Only librdkafka among the clients reads lz4 in v0.
KINDS = {0: (0, ("none", "gzip", "snappy")), 1: (1, OLD_CODECS), 2: (0, ("lz4",))}
# The partition after them has batches of an unknown format.
YOUNGER = assemble(b"whatever it means", 0, 1, 5, 6, 2, magic=3, crc=12345)
SEGMENT = "00000000000000000000.log"


class Served(NamedTuple):
    node: NodeProcess
    messages: dict[int, list[Message]]     # by partition


def messages_of(outers: list[Outer]) -> list[Message]:
    return [message for outer in outers for message in outer.messages]


def put(directory: Path, data: bytes) -> None:
    """Replace the partition's log by one that Kafka left behind: its batches alone."""
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    (directory / SEGMENT).write_bytes(data)


def await_logs(directories: list[Path]) -> None:
    wait_until(lambda: all((each / "partition.metadata").exists() for each in directories), "all replicas have a log")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    node = NodeProcess(tmp_path_factory.mktemp("old") / "data")
    node.start()
    admin(node).create_topics([NewTopic(TOPIC, len(KINDS) + 1, 1, config=CONFIG)])[TOPIC].result(SECONDS)
    await_logs([node.directory / f"{TOPIC}-{partition}" for partition in range(len(KINDS) + 1)])
    node.stop()
    found = {}
    for partition, (magic, codecs) in KINDS.items():
        data = sample(random.Random(partition), 0, 60, (magic,), codecs)
        put(node.directory / f"{TOPIC}-{partition}", data)
        found[partition] = messages_of(decode(data))
    put(node.directory / f"{TOPIC}-{len(KINDS)}", YOUNGER)
    node.start()
    yield Served(node, found)
    node.stop()
    assert all("format younger" in alarm for alarm in node.alarms())


def plain(reads: list[Read]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(each.offset, each.record.key, each.record.value) for each in reads]


@pytest.mark.parametrize(("partition", "read"), [
    *((partition, librdkafka_read) for partition in KINDS),
    *((partition, read) for partition in (0, 1) for read in (aiokafka_read, kafka_python_read)),
])
def test_clients_read_every_record(served: Served, partition: int, read: Callable[..., list[Read]]) -> None:
    messages = served.messages[partition]
    found = read(served.node, TOPIC, len(messages), partition=partition)
    assert plain(found) == [(each.offset, each.key, each.value) for each in messages]
    if partition == 1:
        assert [each.record.timestamp for each in found] == [each.timestamp_ms for each in messages]


def test_from_the_middle_of_a_compressed_message(served: Served) -> None:
    for partition, messages in served.messages.items():
        for start in range(3, len(messages) - 5, len(messages) // 4):
            found = librdkafka_read(served.node, TOPIC, 5, partition=partition, offset=start)
            assert plain(found) == [(each.offset, each.key, each.value) for each in messages[start:start + 5]]


def test_offsets_by_time(served: Served) -> None:
    consumer = librdkafka_consumer(served.node)
    messages = served.messages[1]
    try:
        for message in messages[::len(messages) // 6]:
            first = next(each.offset for each in messages if each.timestamp_ms >= message.timestamp_ms)
            found, = consumer.offsets_for_times([TopicPartition(TOPIC, 1, message.timestamp_ms)], SECONDS)
            assert found.offset == first
        none, = consumer.offsets_for_times([TopicPartition(TOPIC, 0, 1_000)], SECONDS)
        assert none.offset == -1
    finally:
        consumer.close()


def test_records_behind_them_and_a_restart(served: Served) -> None:
    node = served.node
    for _ in range(2):
        for partition, messages in served.messages.items():
            offsets = librdkafka_produce(node, TOPIC, [Record(b"k", b"new")], partition=partition, codec="lz4")
            assert offsets[0] >= len(messages)
        node.stop()
        node.start()
    for partition, messages in served.messages.items():
        found = librdkafka_read(node, TOPIC, len(messages) + 2, partition=partition)
        assert plain(found[:-2]) == [(each.offset, each.key, each.value) for each in messages]
        assert [each.record.value for each in found[-2:]] == [b"new", b"new"]


def test_a_format_that_is_not_known_is_not_served_and_not_touched(served: Served) -> None:
    name = f"{TOPIC}-{len(KINDS)}"
    reason = "a format younger than this version knows; the log was not changed"
    # A node accepts connections before it has opened every replica.
    wait_until(lambda: name in (log := served.node.log()) and reason in log, "the node reports the partition")
    assert (served.node.directory / name / SEGMENT).read_bytes() == YOUNGER
