"""A node of ours and a node of Kafka's alternate on one data directory, with one `server.properties`.

They serve the same records and the same groups to the same client.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kraft.config.node_config import NodeConfig
from kraft.config.properties import read_properties
from tests.peer.kafka import KafkaNode, require_kafka
from tests.runtime.nodes import with_node

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.peer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 200
ATTEMPTS = 100
STARTING = (confluent_kafka.KafkaError.NOT_COORDINATOR, confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE)


def produce(address: str, prefix: str) -> None:
    """Send `RECORDS` records with each codec, idempotent, with headers and keys."""
    for codec in CODECS:
        producer = confluent_kafka.Producer({"bootstrap.servers": address, "compression.type": codec,
                                             "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce(f"t-{codec}", b"%s value %d" % (prefix.encode(), number), b"key %d" % number,
                             timestamp=1_700_000_000_000 + number, headers=[("h", b"%d" % number), ("empty", None)])
        assert producer.flush(30) == 0


def read(address: str, group: str, topics: list[str], count: int) -> list[tuple[object, ...]]:
    """Read `count` records of the topics, in the order of their partitions, and commit where they end."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": group,
                                         "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(topics)
    found = []
    for _ in range(300):
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            found.append((message.topic(), message.partition(), message.offset(), message.timestamp(), message.key(),
                          message.value(), message.headers()))
        if len(found) >= count:
            break
    if count:
        consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(found, key=lambda record: record[:3])


def committed(address: str, group: str, topics: list[str]) -> dict[tuple[str, int], int]:
    """Offsets that the group has committed."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": group})
    partitions = [confluent_kafka.TopicPartition(topic, 0) for topic in topics]
    try:
        for _ in range(ATTEMPTS):
            try:
                answer = consumer.committed(partitions, 10)
            except confluent_kafka.KafkaException as error:
                # A node that has just started still loads its coordinator; this client does not retry by itself.
                if error.args[0].code() not in STARTING:
                    raise
                consumer.poll(0.2)
            else:
                return {(each.topic, each.partition): each.offset for each in answer}
        raise AssertionError(f"no coordinator after {ATTEMPTS} attempts")
    finally:
        consumer.close()


class Turns(NamedTuple):
    """Records that were read and offsets that groups had committed, in the order of the nodes: ours, Kafka's, ours."""

    ours: list[tuple[object, ...]]
    committed_in_kafka: dict[tuple[str, int], int]
    ours_from_kafka: list[tuple[object, ...]]
    both_from_kafka: list[tuple[object, ...]]
    committed_in_ours: dict[tuple[str, int], int]
    everything: list[tuple[object, ...]]


TOPICS = [f"t-{codec}" for codec in CODECS]
TOTAL = RECORDS * len(CODECS)


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Run three nodes after each other on one directory. In a fixture, as librdkafka keeps descriptors of its own."""
    require_kafka()
    kafka = KafkaNode(tmp_path_factory.mktemp("turns"))
    config = NodeConfig(read_properties(kafka.properties))

    def first(_cluster: object, _node: object) -> list[tuple[object, ...]]:
        produce(kafka.bootstrap, "ours")
        return read(kafka.bootstrap, "readers", TOPICS, TOTAL)

    def last(_cluster: object, _node: object) -> tuple[dict[tuple[str, int], int], list[tuple[object, ...]]]:
        found = committed(kafka.bootstrap, "both", TOPICS)
        produce(kafka.bootstrap, "ours again")
        return found, read(kafka.bootstrap, "third", TOPICS, 3 * TOTAL)

    ours = with_node(config, first)
    kafka.start()
    try:
        committed_in_kafka = committed(kafka.bootstrap, "readers", TOPICS)
        ours_from_kafka = read(kafka.bootstrap, "others", TOPICS, TOTAL)
        produce(kafka.bootstrap, "theirs")
        both = read(kafka.bootstrap, "both", TOPICS, 2 * TOTAL)
        kafka.stop()
    finally:
        kafka.kill()
    committed_in_ours, everything = with_node(config, last)
    return Turns(ours, committed_in_kafka, ours_from_kafka, both, committed_in_ours, everything)


def test_kafka_serves_what_our_node_wrote(turns: Turns) -> None:
    assert len(turns.ours) == TOTAL
    assert turns.ours_from_kafka == turns.ours
    assert turns.committed_in_kafka == {(topic, 0): RECORDS for topic in TOPICS}


def test_our_node_continues_after_kafka(turns: Turns) -> None:
    assert len(turns.both_from_kafka) == 2 * TOTAL
    assert turns.committed_in_ours == {(topic, 0): 2 * RECORDS for topic in TOPICS}
    assert len(turns.everything) == 3 * TOTAL
    assert [record for record in turns.everything if record[2] < 2 * RECORDS] == turns.both_from_kafka
