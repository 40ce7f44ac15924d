"""Elections that the controller holds on its own."""

from typing import Any
from uuid import UUID

import pytest

from kraft.controller import elections
from kraft.metadata.image import NO_LEADER, RECOVERING
from kraft.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.controller.world import World

INTERVAL_MS = 5_000


def world_of(partitions: int = 3, replicas: int = 2, **settings: Any) -> World:
    world = World(**settings)
    world.join(1, 2)
    world.send(CreateTopicsRequest(topics=[
        CreatableTopic(name="a", num_partitions=partitions, replication_factor=replicas)]))
    return world


def leaders(world: World) -> list[int]:
    return [partition.leader for _, _, partition in world.image.partitions()]


def pass_time(world: World, milliseconds: int) -> None:
    world.now_ms += milliseconds
    for broker_id in world.image.brokers:
        world.controller.sessions.contact(broker_id, world.now_ms)
    world.controller.tick(world.now_ms)
    world.commit()


def move_leader_away(world: World, broker_id: int) -> None:
    """The broker leads nothing, then is in sync with everything again."""
    world.beat(broker_id, want_fence=True)
    world.beat(broker_id)
    for topic, index, partition in world.image.partitions():
        if broker_id not in partition.isr:
            expand(world, topic.topic_id, index, broker_id)


def expand(world: World, topic_id: UUID, index: int, broker_id: int) -> None:
    partition = world.image.topics[topic_id].partitions[index]
    isr = (*partition.isr, broker_id)
    world.send(AlterPartitionRequest(
        broker_id=partition.leader, broker_epoch=world.image.brokers[partition.leader].epoch,
        topics=[TopicData(topic_id=topic_id, partitions=[PartitionData(
            partition_index=index, leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=world.image.brokers[each].epoch)
                                 for each in isr])])]), version=3)


def test_preferred_replicas_lead_again_after_the_interval() -> None:
    world = world_of(balance_interval_ms=INTERVAL_MS)
    preferred = leaders(world)
    assert sorted(set(preferred)) == [1, 2]
    move_leader_away(world, 2)
    assert leaders(world) == [1, 1, 1]
    pass_time(world, INTERVAL_MS - 1)
    assert leaders(world) == [1, 1, 1]
    pass_time(world, 1)
    assert leaders(world) == preferred


def test_a_preferred_replica_that_is_not_in_sync_does_not_lead() -> None:
    world = world_of(balance_interval_ms=INTERVAL_MS)
    world.beat(2, want_fence=True)
    world.beat(2)
    pass_time(world, INTERVAL_MS)
    assert leaders(world) == [1, 1, 1]


def test_switched_off_nothing_moves_by_itself() -> None:
    world = world_of(balance_interval_ms=0)
    move_leader_away(world, 2)
    pass_time(world, 10 * INTERVAL_MS)
    assert leaders(world) == [1, 1, 1]


def test_many_elections_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "PER_ROUND_MAX", 1)
    world = world_of(partitions=4, balance_interval_ms=INTERVAL_MS)
    preferred = leaders(world)
    move_leader_away(world, 2)
    pass_time(world, INTERVAL_MS)
    assert leaders(world).count(2) == 1
    assert world.controller.deadline_ms <= world.now_ms
    pass_time(world, 0)
    assert leaders(world) == preferred


def allow_unclean(world: World) -> None:
    world.send(IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
        resource_type=2, resource_name="a",
        configs=[AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")])]))


def test_unclean_elections_come_when_they_are_allowed_and_are_said_loudly() -> None:
    notices: list[str] = []
    world = world_of(partitions=1, unclean_interval_ms=INTERVAL_MS)
    world.controller.on_notice = notices.append
    counted: list[None] = []
    world.controller.on_unclean = lambda: counted.append(None)
    leader = leaders(world)[0]
    other = 3 - leader
    world.beat(other, want_fence=True)          # falls out of sync; it may lack what the leader takes from here on
    world.send(UnregisterBrokerRequest(broker_id=leader))
    world.beat(other)
    pass_time(world, INTERVAL_MS)
    assert leaders(world) == [NO_LEADER]
    allow_unclean(world)
    pass_time(world, 0)
    assert leaders(world) == [other]
    assert world.partition("a").leader_recovery_state == RECOVERING
    assert len(notices) == len(counted) == 1
    assert notices[0].startswith(f"UNCLEAN ELECTION: broker {other} leads a-0 without having been in sync")
