"""Committed offsets and the state of groups: stored, listed, deleted, and still present after kill -9."""

from collections.abc import Callable

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.protocol.messages.offset_delete_response import OffsetDeleteResponse
from tests.integration.admin import admin, connect, create, wait_until
from tests.integration.clients import Record, librdkafka_consumer, librdkafka_produce, take
from tests.integration.process import NodeProcess


def committed(node: NodeProcess, group: str) -> dict[tuple[str, int], tuple[int, str | None]]:
    """Return the offsets that the group's coordinator has: (topic, partition) -> (offset, metadata)."""
    of_group = ConsumerGroupTopicPartitions(group)
    found = admin(node).list_consumer_group_offsets([of_group])[group].result(10)
    return {(each.topic, each.partition): (each.offset, each.metadata) for each in found.topic_partitions}


def commit(node: NodeProcess, group: str, *offsets: TopicPartition) -> None:
    """Commit offsets by a consumer that is not a member."""
    consumer = librdkafka_consumer(node, group)
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


def test_offsets_and_their_metadata_come_back(node: NodeProcess, name: str) -> None:
    create(node, name, 3)
    commit(node, name, TopicPartition(name, 0, 5, "\u00e9t\u00e9"), TopicPartition(name, 2, 7))
    commit(node, name, TopicPartition(name, 0, 6, "later"))
    assert committed(node, name) == {(name, 0): (6, "later"), (name, 2): (7, None)}
    with pytest.raises(KafkaException) as refused:
        commit(node, name, TopicPartition(name, 0, 8, "x" * 5_000))
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    assert committed(node, name)[name, 0] == (6, "later")


def test_a_member_continues_where_the_last_one_stopped(node: NodeProcess, name: str) -> None:
    librdkafka_produce(node, name, [Record(b"k", b"%d" % i) for i in range(30)])
    for start in (0, 10, 20):
        consumer = librdkafka_consumer(node, name)
        consumer.subscribe([name])
        messages = take(consumer, 10) if start == 20 else [take(consumer, 1)[0] for _ in range(10)]
        assert [each.offset() for each in messages] == list(range(start, start + 10))
        consumer.commit(messages[-1], asynchronous=False)
        consumer.close()


def test_groups_are_listed_described_and_deleted(node: NodeProcess, name: str) -> None:
    create(node, name, 2)
    client = admin(node)
    consumer = librdkafka_consumer(node, name, client_id="somebody", session_timeout_ms=6_000)
    consumer.subscribe([name])
    wait_until(lambda: consumer.poll(0.02) is None and len(consumer.assignment()) == 2, "a member")
    listed = {each.group_id: each for each in client.list_consumer_groups().result(10).valid}
    assert (listed[name].state, listed[name].is_simple_consumer_group) == (ConsumerGroupState.STABLE, False)
    assert name in {each.group_id for each in client.list_consumer_groups(
        states={ConsumerGroupState.STABLE}).result(10).valid}
    assert name not in {each.group_id for each in client.list_consumer_groups(
        states={ConsumerGroupState.EMPTY}).result(10).valid}
    described = client.describe_consumer_groups([name])[name].result(10)
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    member = described.members[0]
    assert (member.client_id, member.host) == ("somebody", "/127.0.0.1")
    with pytest.raises(KafkaException) as refused:
        client.delete_consumer_groups([name])[name].result(10)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    consumer.close()
    assert client.describe_consumer_groups([name])[name].result(10).state == ConsumerGroupState.EMPTY
    client.delete_consumer_groups([name])[name].result(10)
    assert client.describe_consumer_groups([name])[name].result(10).state == ConsumerGroupState.DEAD
    assert name not in {each.group_id for each in client.list_consumer_groups().result(10).valid}


def test_offsets_are_altered_and_deleted(node: NodeProcess, name: str) -> None:
    create(node, name, 2)
    commit(node, name, TopicPartition(name, 0, 5), TopicPartition(name, 1, 6))
    wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 3)])
    admin(node).alter_consumer_group_offsets([wanted])[name].result(10)
    assert committed(node, name)[name, 0] == (3, None)
    request = OffsetDeleteRequest(group_id=name, topics=[
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])])
    with connect(node) as connection:
        answer = connection.send(request, OffsetDeleteResponse)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert committed(node, name) == {(name, 1): (6, None)}


def test_offsets_of_a_deleted_topic_are_deleted(node: NodeProcess, name: str) -> None:
    create(node, name, 2)
    commit(node, name, TopicPartition(name, 0, 5))
    admin(node).delete_topics([name])[name].result(10)
    wait_until(lambda: not committed(node, name), "the offsets are deleted")


@pytest.mark.parametrize("how", ["restart", "kill_and_start"])
def test_offsets_and_groups_survive(new_node: Callable[..., NodeProcess], name: str, how: str) -> None:
    node = new_node()
    create(node, name, 8)
    expected = {}
    for group in range(12):
        for partition in range(8):
            commit(node, f"g{group}", TopicPartition(name, partition, group * 100 + partition, f"m{partition}"))
            expected[f"g{group}", partition] = (group * 100 + partition, f"m{partition}")
            if partition % 4 != group % 4:
                break
    admin(node).delete_consumer_groups(["g3"])["g3"].result(10)
    expected = {key: value for key, value in expected.items() if key[0] != "g3"}
    getattr(node, how)()
    found = {(f"g{group}", partition): value for group in range(12)
             for (_, partition), value in committed(node, f"g{group}").items()}
    assert found == expected
    listed = {each.group_id for each in admin(node).list_consumer_groups().result(10).valid}
    assert listed == {key[0] for key in expected}


def test_a_member_outlives_the_node(new_node: Callable[..., NodeProcess], name: str) -> None:
    node = new_node()
    librdkafka_produce(node, name, [Record(b"k", b"%d" % i) for i in range(10)])
    consumer = librdkafka_consumer(node, name, session_timeout_ms=6_000, reconnect_backoff_max_ms=100)
    consumer.subscribe([name])
    take(consumer, 10)
    consumer.commit(asynchronous=False)
    node.kill_and_start()
    librdkafka_produce(node, name, [Record(b"k", b"%d" % i) for i in range(10, 20)])
    values = []

    def all_came() -> bool:
        values.extend(each.value() for each in consumer.consume(10, 0.1) if each.error() is None)
        return len(values) >= 10

    wait_until(all_came, "the rest")
    assert values == [b"%d" % i for i in range(10, 20)]
    consumer.commit(asynchronous=False)
    consumer.close()
    assert committed(node, name)[name, 0][0] == 20
