"""Data that was written survives a clean stop and kill -9, and a node continues where it was."""

from collections.abc import Callable

import pytest
from confluent_kafka import TopicCollection, TopicPartition

from tests.integration.admin import admin, alter, configs, create, end_offset, start_offset
from tests.integration.clients import (
    CLIENTS,
    CODECS,
    Read,
    Record,
    librdkafka_produce,
    librdkafka_producer,
    librdkafka_read,
)
from tests.integration.process import NodeProcess
from tests.integration.test_group_offsets import commit, committed
from tests.integration.test_records import numbered, plain


def stored(node: NodeProcess) -> tuple[object, ...]:
    """Return everything that a client can know of the cluster, apart from records."""
    client = admin(node)
    known = client.list_topics(timeout=10)
    topics = {name: sorted(topic.partitions) for name, topic in known.topics.items()}
    described = client.describe_topics(TopicCollection(sorted(topics)))
    ids = {name: str(each.result(10).topic_id) for name, each in described.items()}
    dynamic = {name: {key: entry.value for key, entry in configs(node, name).items() if not entry.is_default}
               for name in topics}
    return known.cluster_id, known.controller_id, topics, ids, dynamic


@pytest.mark.parametrize("how", ["restart", "kill_and_start"])
def test_everything_exists_again(new_node: Callable[..., NodeProcess], how: str) -> None:
    node = new_node()
    records: dict[str, list[Read]] = {}
    create(node, "grown", 3, {"retention.ms": "123456789", "flush.messages": "1"})
    alter(node, "grown", "max.message.bytes", "2000000")
    for seed, codec in enumerate(CODECS):
        sent = plain(300, seed)
        CLIENTS[seed % 3].produce(node, codec, sent, codec, idempotent=seed % 2 == 0)
        records[codec] = numbered(sent)
    trimmed = TopicPartition("gzip", 0, 123)
    admin(node).delete_records([trimmed])[trimmed].result(10)
    records["gzip"] = records["gzip"][123:]
    create(node, "gone", 2)
    admin(node).delete_topics(["gone"])["gone"].result(10)
    commit(node, "group", TopicPartition("none", 0, 5))
    before = stored(node)
    for _ in range(2):
        getattr(node, how)()
        assert stored(node) == before
        for topic, expected in records.items():
            assert (start_offset(node, topic), end_offset(node, topic)) == (expected[0].offset, 300)
            assert librdkafka_read(node, topic, len(expected), offset=expected[0].offset) == expected
        assert committed(node, "group") == {("none", 0): (5, None)}
    for topic in CODECS:
        assert librdkafka_produce(node, topic, [Record(b"k", b"more")], idempotent=True) == [300]
    assert not list(node.directory.glob("gone-*"))


def test_a_producer_outlives_the_node(new_node: Callable[..., NodeProcess], name: str) -> None:
    """Sequence numbers continue where they were: the node read the producer's state back."""
    node = new_node()
    producer = librdkafka_producer(node, enable_idempotence=True, reconnect_backoff_max_ms=100)
    offsets: list[int | None] = []
    for how in ("kill_and_start", "restart", "kill_and_start"):
        for _ in range(100):
            producer.produce(name, b"v", partition=0, on_delivery=lambda error, message: offsets.append(
                None if error else message.offset()))
        assert producer.flush(10) == 0
        getattr(node, how)()
    assert offsets == list(range(300))
