"""CreatePartitions, placement."""

from typing import Any

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.controller.world import World


def made(*racks: str | None) -> World:
    world = World()
    world.join(1, 2, 3, racks=racks or (None, None, None))
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=2, replication_factor=2)]))
    return world


def more(world: World, *topics: CreatePartitionsTopic, validate_only: bool = False) -> list[tuple[str, int]]:
    answer: Any = world.send(CreatePartitionsRequest(topics=topics, validate_only=validate_only))
    return [(result.name, result.error_code) for result in answer.results]


def wanted(count: int, *brokers: list[int], name: str = "a") -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name=name, count=count, assignments=[
        CreatePartitionsAssignment(broker_ids=ids) for ids in brokers] or None)


def test_partitions_are_added() -> None:
    """Hazard 6: the answer names the topics."""
    world = made()
    assert more(world, wanted(5)) == [("a", ErrorCode.NONE)]
    topic = world.image.topic("a")
    assert topic is not None
    assert list(topic.partitions) == [0, 1, 2, 3, 4]
    assert all(len(partition.replicas) == 2 for partition in topic.partitions.values())
    assert more(world, wanted(7, [3, 1], [2, 3])) == [("a", ErrorCode.NONE)]
    assert [world.partition("a", index).replicas for index in (5, 6)] == [(3, 1), (2, 3)]


def test_refusals() -> None:
    world = made()
    before = world.log.end_offset
    assert more(world, wanted(2), wanted(5, name="b")) == [
        ("a", ErrorCode.INVALID_PARTITIONS), ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert more(world, wanted(1)) == [("a", ErrorCode.INVALID_PARTITIONS)]
    assert more(world, wanted(3), wanted(4)) == [("a", ErrorCode.INVALID_REQUEST)]
    assert more(world, wanted(4, [1, 2])) == [("a", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    assert more(world, wanted(3, [1])) == [("a", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    assert more(world, wanted(3, [1, 9])) == [("a", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    assert more(world, wanted(20_000)) == [("a", ErrorCode.POLICY_VIOLATION)]
    assert more(world, wanted(3), validate_only=True) == [("a", ErrorCode.NONE)]
    assert world.log.end_offset == before


def test_replicas_are_on_different_racks() -> None:
    world = World()
    world.join(1, 2, 3, 4, racks=("x", "x", "y", "y"))
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=40, replication_factor=2)]))
    rack = {1: "x", 2: "x", 3: "y", 4: "y"}
    partitions = [partition for _, _, partition in world.image.partitions()]
    assert all(len({rack[broker] for broker in partition.replicas}) == 2 for partition in partitions)
    assert [[partition.leader for partition in partitions].count(broker) for broker in (1, 2, 3, 4)] == [10] * 4


def test_brokers_whose_directories_are_cordoned_get_nothing() -> None:
    world = World()
    world.join(1, 2)
    world.beat(1, cordoned_log_dirs=world.image.brokers[1].log_dirs)
    answer: Any = world.send(CreateTopicsRequest(topics=[
        CreatableTopic(name="a", num_partitions=4, replication_factor=1),
        CreatableTopic(name="b", num_partitions=4, replication_factor=2)]))
    assert [result.error_code for result in answer.topics] == [ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR]
    assert {partition.replicas for _, _, partition in world.image.partitions()} == {(2,)}
