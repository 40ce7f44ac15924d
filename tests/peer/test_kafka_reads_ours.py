"""Kafka reads what we wrote: its log dumper sees every record, and a Kafka node started on the directory serves them.

One directory holds a topic per codec, one with transactions (committed, aborted, open producers), a compacted one and
one with deleted records. Our engine writes them into a log directory that Kafka formatted; then Kafka gets it back.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kraft import LogConfig, LogDir
from kraft.log import Log
from kraft_native.batch import control
from kraft_native.batch.records import BatchBuilder
from tests.peer.kafka import KafkaNode, dump_log, kafka_node, require_kafka

pytestmark = pytest.mark.peer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000
SMALL = {"segment_bytes": 16_384, "index_interval_bytes": 512}
_BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* size: (\d+) .* isvalid: (\w+)")
_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (-?\d+) .*?headerKeys: \[(.*?)\]"
                     r"(?: key: (\S*))?(?: payload: (.*))?$")


class Seen(NamedTuple):
    """A record in the form that both sides can express."""

    offset: int
    timestamp_ms: int
    key: str
    value: str


def words(random_source: random.Random) -> bytes:
    return b" ".join(random_source.choice((b"alpha", b"bravo", b"charlie", b"delta", b"echo"))
                     for _ in range(random_source.randrange(1, 12)))


def batch(source: random.Random, codec: str, count: int, clock: int, keys: int = 50, **producer: int) -> bytes:
    builder = BatchBuilder(codec, transactional="producer_id" in producer)
    for i in range(count):
        builder.append(words(source), b"k%d" % source.randrange(keys), clock + i, [("origin", b"ours")])
    return builder.build(**producer)


def write_codec(log: Log, source: random.Random, codec: str) -> None:
    for i in range(120):
        log.append(batch(source, codec, source.randrange(1, 20), START_MS + i * 1000), leader_epoch=1)


def write_transactions(log: Log, source: random.Random) -> None:
    sequences = {100: 0, 101: 0}
    for i in range(60):
        producer_id = 100 + i % 2
        for _ in range(source.randrange(1, 4)):
            count = source.randrange(1, 6)
            log.append(batch(source, "none", count, START_MS + i * 1000, producer_id=producer_id, producer_epoch=0,
                             base_sequence=sequences[producer_id]), leader_epoch=1)
            sequences[producer_id] += count
        log.append(control.marker(commit=i % 3 != 0, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0,
                                  timestamp_ms=START_MS + i * 1000 + 999), leader_epoch=1, origin="coordinator")


def write_compacted(log: Log, source: random.Random) -> None:
    for i in range(200):
        log.append(batch(source, CODECS[i % 5], 10, START_MS + i * 1000), leader_epoch=1)
    stats = log.compact(force=True)
    assert stats.records_kept < stats.records_read
    for i in range(20):
        log.append(batch(source, "none", 3, START_MS + 300_000 + i), leader_epoch=1)


def ours(log: Log, isolation: str = "high_watermark") -> list[Seen]:
    return [Seen(record.offset, record.timestamp_ms, (record.key or b"").decode(), (record.value or b"").decode())
            for record in log.records(isolation=isolation)]


def served(node: KafkaNode, topic: str, count: int, isolation: str = "read_uncommitted") -> list[Seen]:
    found = []
    for line in node.consume(topic, count=count, isolation=isolation):
        timestamp, offset, _headers, key, value = line.split("|", 4)
        found.append(Seen(int(offset.removeprefix("Offset:")), int(timestamp.removeprefix("CreateTime:")), key, value))
    return found


class World(NamedTuple):
    node: KafkaNode
    records: dict[str, list[Seen]]
    committed: list[Seen]


TOPICS = (*(f"codec-{codec}" for codec in CODECS), "transactions", "compacted", "deleted")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A Kafka node, stopped, whose topics our engine has filled."""
    require_kafka()
    with kafka_node(tmp_path_factory.mktemp("peer"), log_cleaner_enable="false") as node:
        node.start()
        for topic in TOPICS:
            policy = {"cleanup_policy": "compact"} if topic == "compacted" else {}
            node.create_topic(topic, retention_ms="-1", segment_bytes="1048576", **policy)
        node.stop()
        records, committed = fill(node.data)
        yield World(node, records, committed)


def fill(data: Path) -> tuple[dict[str, list[Seen]], list[Seen]]:
    source = random.Random(20)
    records = {}
    with LogDir(data, config=LogConfig(**SMALL)) as directory:
        for topic in TOPICS:
            policy = "compact" if topic == "compacted" else "delete"
            log = directory.log(topic, 0, config=LogConfig(cleanup_policy=policy, **SMALL), create=False)
            if topic == "transactions":
                write_transactions(log, source)
            elif topic == "compacted":
                write_compacted(log, source)
            else:
                write_codec(log, source, topic.removeprefix("codec-") if topic != "deleted" else "none")
            if topic == "deleted":
                log.delete_records(log.log_end_offset // 2 + 1)
            records[topic] = ours(log)
        committed = ours(directory.log("transactions", 0), "read_committed")
    return records, committed


@pytest.mark.parametrize("topic", TOPICS)
def test_the_dumper_sees_every_record(world: World, topic: str) -> None:
    files = sorted((world.node.data / f"{topic}-0").glob("*.log"))
    text = dump_log(files)
    assert "isvalid: false" not in text
    found = []
    for line in text.splitlines():
        if (record := _RECORD.match(line)) and "endTxnMarker" not in line:
            found.append(Seen(int(record[1]), int(record[2]), record[4] or "", record[5] or ""))
    start = world.records[topic][0].offset
    assert [record for record in found if record.offset >= start] == world.records[topic]
    sizes = [int(match[4]) for line in text.splitlines() if (match := _BATCH.match(line))]
    assert sum(sizes) == sum(path.stat().st_size for path in files)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_dumper_finds_the_indexes_sound(world: World, topic: str) -> None:
    directory = world.node.data / f"{topic}-0"
    text = dump_log(sorted([*directory.glob("*.index"), *directory.glob("*.timeindex")]))
    for complaint in ("Mismatches", "not found", "out of order", "error", "Exception"):
        assert complaint not in text, text[-1000:]


def test_a_kafka_node_serves_the_same_records(world: World) -> None:
    world.node.start()
    try:
        for topic in TOPICS:
            expected = world.records[topic]
            assert served(world.node, topic, len(expected)) == expected, topic
        assert served(world.node, "transactions", len(world.committed), "read_committed") == world.committed
    finally:
        world.node.stop()
    complaints = ("ERROR", "orrupt", "rebuilding index", "Recovering unflushed")
    # Kafka always checks its own metadata log as after a crash.
    found = [line for line in world.node.output
             if any(words in line for words in complaints) and "__cluster_metadata" not in line]
    assert not found, "".join(found)[:3000]
