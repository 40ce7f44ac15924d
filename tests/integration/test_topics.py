"""Topics by clients' admin calls: created, grown, trimmed, deleted; offsets by time."""

import random

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec

from tests.integration.admin import admin, create, end_offset, start_offset, wait_until
from tests.integration.clients import (
    CLIENTS,
    START_MS,
    Client,
    Record,
    librdkafka_consumer,
    librdkafka_produce,
    librdkafka_producer,
    librdkafka_read,
)
from tests.integration.process import NodeProcess


def offsets(client: AdminClient, topic: str, spec: object) -> tuple[int, int]:
    """Return the (offset, timestamp) that ListOffsets reports for partition 0."""
    where = TopicPartition(topic, 0)
    found = client.list_offsets({where: spec})[where].result(10)
    return found.offset, found.timestamp


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_producer_creates_its_topic(node: NodeProcess, name: str, client: Client) -> None:
    assert client.produce(node, name, [Record(b"k", b"v")], partition=3) == [0]
    assert len(admin(node).list_topics(name).topics[name].partitions) == 4


def test_offsets_by_time_and_special_offsets(node: NodeProcess, name: str) -> None:
    client = admin(node)
    create(node, name)
    assert offsets(client, name, OffsetSpec.latest()) == (0, -1)
    assert offsets(client, name, OffsetSpec.max_timestamp()) == (-1, -1)
    times = [START_MS + delta for delta in (0, 10, 5, 40, 30, 30, 60)]
    for time in times:
        librdkafka_produce(node, name, [Record(b"k", b"v", (), time)])
    assert offsets(client, name, OffsetSpec.earliest()) == (0, -1)
    assert offsets(client, name, OffsetSpec.latest()) == (7, -1)
    assert offsets(client, name, OffsetSpec.max_timestamp()) == (6, START_MS + 60)
    for time_ms, offset in ((0, 0), (1, 1), (7, 1), (11, 3), (41, 6), (60, 6)):
        assert offsets(client, name, OffsetSpec.for_timestamp(START_MS + time_ms)) == (offset, times[offset])
    assert offsets(client, name, OffsetSpec.for_timestamp(START_MS + 61)) == (-1, -1)


def test_offsets_by_time_inside_compressed_batches(node: NodeProcess, name: str) -> None:
    records = [Record(b"k", b"v" * 50, (), START_MS + i) for i in range(3_000)]
    librdkafka_produce(node, name, records, "lz4", batch_num_messages=500)
    client = admin(node)
    for time_ms in random.Random(4).sample(range(3_000), 20):
        assert offsets(client, name, OffsetSpec.for_timestamp(START_MS + time_ms)) == (time_ms, START_MS + time_ms)


def test_partitions_are_added(node: NodeProcess, name: str) -> None:
    create(node, name, 2)
    client = admin(node)
    client.create_partitions([NewPartitions(name, 5)])[name].result(10)
    assert sorted(client.list_topics(name).topics[name].partitions) == [0, 1, 2, 3, 4]
    assert librdkafka_produce(node, name, [Record(b"k", b"v")], partition=4) == [0]
    with pytest.raises(KafkaException) as refused:
        client.create_partitions([NewPartitions(name, 3)])[name].result(10)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_records_are_deleted(node: NodeProcess, name: str) -> None:
    records = [Record(b"k", b"%d" % i) for i in range(100)]
    librdkafka_produce(node, name, records, batch_num_messages=10)
    client = admin(node)
    where = TopicPartition(name, 0, 37)
    assert client.delete_records([where])[where].result(10).low_watermark == 37
    assert start_offset(node, name) == 37
    for each in CLIENTS:
        assert [(read.offset, read.record.value) for read in each.read(node, name, 63, offset=37)] == [
            (i, b"%d" % i) for i in range(37, 100)]
    everything = TopicPartition(name, 0, confluent_kafka.OFFSET_END)
    assert client.delete_records([everything])[everything].result(10).low_watermark == 100
    assert (start_offset(node, name), end_offset(node, name)) == (100, 100)
    beyond = TopicPartition(name, 0, 101)
    with pytest.raises(KafkaException) as refused:
        client.delete_records([beyond])[beyond].result(10)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("policy", "is_refused"), [("", False), ("delete,compact", False), ("compact", True)])
def test_records_of_a_log_that_is_only_compacted_are_not_deleted(
        node: NodeProcess, name: str, policy: str, is_refused: bool) -> None:
    client = admin(node)
    client.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": policy})])[name].result(10)
    librdkafka_produce(node, name, [Record(b"k", b"v")])
    everything = TopicPartition(name, 0, confluent_kafka.OFFSET_END)
    deletion = client.delete_records([everything])[everything]
    if is_refused:
        with pytest.raises(KafkaException) as refused:
            deletion.result(10)
        assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION
    else:
        assert deletion.result(10).low_watermark == 1


def test_a_deleted_topic_is_removed_and_its_name_is_free(node: NodeProcess, name: str) -> None:
    client = admin(node)
    create(node, name, 3)
    librdkafka_produce(node, name, [Record(b"k", b"old")])
    first = client.describe_topics(TopicCollection([name]))[name].result(10).topic_id
    client.delete_topics([name])[name].result(10)
    assert name not in client.list_topics().topics
    wait_until(lambda: not list(node.directory.glob(f"{name}-*")), "the files of the topic are deleted")
    create(node, name, 1)
    assert str(client.describe_topics(TopicCollection([name]))[name].result(10).topic_id) != str(first)
    assert end_offset(node, name) == 0
    assert librdkafka_produce(node, name, [Record(b"k", b"new")]) == [0]


def test_a_long_poll_ends_when_records_come(node: NodeProcess, name: str) -> None:
    create(node, name)
    consumer = librdkafka_consumer(node, fetch_wait_max_ms=5_000)
    consumer.assign([TopicPartition(name, 0, 0)])
    assert consumer.poll(0.3) is None
    producer = librdkafka_producer(node, linger_ms=0)
    producer.produce(name, b"v", partition=0)
    assert producer.flush(5) == 0
    message = consumer.poll(2)
    assert message is not None
    assert message.value() == b"v"
    consumer.close()


def test_a_consumer_at_a_deleted_offset_is_reset(node: NodeProcess, name: str) -> None:
    librdkafka_produce(node, name, [Record(b"k", b"%d" % i) for i in range(20)])
    where = TopicPartition(name, 0, 15)
    admin(node).delete_records([where])[where].result(10)
    assert [each.offset for each in librdkafka_read(node, name, 5, offset=3)] == [15, 16, 17, 18, 19]


def test_topics_with_configs_and_bad_ones(node: NodeProcess, name: str) -> None:
    client = admin(node)
    made = client.create_topics([
        NewTopic(f"{name}-good", 2, 1, config={"retention.ms": "1234567"}),
        NewTopic(f"{name}-bad", 2, 1, config={"retention.ms": "soon"}),
        NewTopic(f"{name}-unknown", 2, 1, config={"no.such.config": "1"}),
        NewTopic(f"{name}-replicas", 2, 3),
        NewTopic(f"{name} name", 2, 1),
    ])
    made[f"{name}-good"].result(10)
    for suffix, code in (("-bad", KafkaError.INVALID_CONFIG), ("-unknown", KafkaError.INVALID_CONFIG),
                         ("-replicas", KafkaError.INVALID_REPLICATION_FACTOR), (" name", KafkaError.TOPIC_EXCEPTION)):
        with pytest.raises(KafkaException) as refused:
            made[f"{name}{suffix}"].result(10)
        assert refused.value.args[0].code() == code
    resource = ConfigResource(ConfigResource.Type.TOPIC, f"{name}-good")
    assert client.describe_configs([resource])[resource].result(10)["retention.ms"].value == "1234567"
