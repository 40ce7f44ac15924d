"""Consumer groups of KIP-848 by librdkafka: members join and leave, a restart, conversion, commands, permissions."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType

from kraft.cli.command import kraft
from kraft.cli.group_why import group_answers
from kraft.client import Cluster
from tests.integration.admin import admin, create, wait_until
from tests.integration.clients import Record, librdkafka_consumer, librdkafka_produce
from tests.integration.process import NodeProcess

PARTITIONS = 6
RECORDS = 20
# Members take their steps at heartbeats, which are usually five seconds apart.
QUICK = {"group.consumer.heartbeat.interval.ms": "300", "group.consumer.min.heartbeat.interval.ms": "300",
         "group.consumer.assignment.interval.ms": "100", "group.initial.rebalance.delay.ms": "100"}


@pytest.fixture
def node(new_node: Callable[..., NodeProcess]) -> NodeProcess:
    return new_node(QUICK)


class Reader:
    """A consumer, and what it has read."""

    def __init__(self, node: NodeProcess, group: str, topic: str, protocol: str = "consumer") -> None:
        self.consumer = librdkafka_consumer(node, group, group_protocol=protocol, client_id=protocol)
        self.consumer.subscribe([topic])
        self.seen: list[tuple[int, int]] = []

    @property
    def partitions(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.seen.append((message.partition(), message.offset()))
            self.consumer.commit(message, asynchronous=False)


@contextmanager
def readers(node: NodeProcess, group: str, topic: str, *protocols: str) -> Iterator[list[Reader]]:
    found = [Reader(node, group, topic, protocol) for protocol in protocols]
    try:
        yield found
    finally:
        for each in found:
            each.consumer.close()


def poll_until_shared(found: list[Reader]) -> None:
    """Poll until the members have all partitions, and each a fair part."""
    def shared() -> bool:
        for each in found:
            each.poll()
        owned = [index for each in found for index in each.partitions]
        return sorted(owned) == list(range(PARTITIONS)) and all(
            len(each.partitions) == PARTITIONS // len(found) for each in found)

    wait_until(shared, "each member has its part", seconds=30)


def fill(node: NodeProcess, topic: str) -> None:
    create(node, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        librdkafka_produce(node, topic, [Record(None, b"%d" % number) for number in range(RECORDS)],
                           partition=partition)


def every(found: list[Reader]) -> list[tuple[int, int]]:
    return sorted(place for each in found for place in each.seen)


def test_members_share_the_partitions_and_each_record_is_read_once(node: NodeProcess, name: str) -> None:
    fill(node, name)
    with readers(node, name, name, "consumer", "consumer") as found:
        poll_until_shared(found)
        wait_until(lambda: [each.poll() for each in found] and len(every(found)) >= PARTITIONS * RECORDS,
                   "all records are read", seconds=30)
        assert every(found) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)]
        group = admin(node).describe_consumer_groups([name])[name].result(10)
        assert (group.state, group.type, group.partition_assignor) == (
            ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER, "uniform")
        assert sorted(len(member.assignment.topic_partitions) for member in group.members) == [3, 3]
        with Cluster(node.address) as cluster:
            answers = group_answers(cluster, [name])
        shown = CliRunner().invoke(kraft, ["groups", "members", name, "--bootstrap", node.address, "--json"])
        assert [len(json.loads(line)["target"]) for line in shown.output.splitlines()] == [3, 3]
        assert all(answer.is_well for answer in answers)
        assert [f"{name}/{index}" in "".join(answer.text for answer in answers)
                for index in range(PARTITIONS)] == [True] * PARTITIONS
    committed = admin(node).list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(10)
    assert sorted((each.partition, each.offset) for each in committed.topic_partitions) == [
        (partition, RECORDS) for partition in range(PARTITIONS)]
    assert admin(node).delete_consumer_groups([name])[name].result(10) is None


def test_a_group_goes_on_after_kill_9(node: NodeProcess, name: str) -> None:
    fill(node, name)
    with readers(node, name, name, "consumer", "consumer") as found:
        poll_until_shared(found)
        node.kill_and_start()
        wait_until(lambda: [each.poll() for each in found] and len(set(every(found))) >= PARTITIONS * RECORDS,
                   "all records are read", seconds=30)
        poll_until_shared(found)


def test_a_group_changes_its_protocol_under_its_members(node: NodeProcess, name: str) -> None:
    fill(node, name)

    def kind() -> ConsumerGroupType:
        found: confluent_kafka.admin.ConsumerGroupDescription = admin(node).describe_consumer_groups(
            [name])[name].result(10)
        return found.type

    with readers(node, name, name, "classic") as old:
        poll_until_shared(old)
        assert kind() == ConsumerGroupType.CLASSIC
        with readers(node, name, name, "consumer") as new:
            poll_until_shared([*old, *new])
            assert kind() == ConsumerGroupType.CONSUMER
        poll_until_shared(old)
        assert kind() == ConsumerGroupType.CLASSIC
        wait_until(lambda: [old[0].poll()] and len(set(every([*old, *new]))) >= PARTITIONS * RECORDS,
                   "all records are read", seconds=30)
