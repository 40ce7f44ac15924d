"""AssignReplicasToDirs of a replica whose log was replaced by an empty one, as after the replacement of a disk."""

from uuid import UUID

import pytest

from kraft.metadata.image import LOST_DIRECTORY, NO_LEADER, RECOVERING
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.controller.world import World

OLD, OTHER, NEW = UUID(int=9002), UUID(int=9102), UUID(int=9202)
"""Directories of broker 2."""


def led_last_by_2(
    *replicas: int, log_dirs: tuple[UUID, ...] = (OLD,), placed: UUID | None = OLD, min_insync_replicas: str = "1"
) -> World:
    """World with one partition that broker 2 led last, until it was fenced. The other brokers were fenced before it,
    and those that are not eligible are active again. `placed`: the recorded directory of the replica."""
    world = World(min_insync_replicas=min_insync_replicas)
    others = [replica for replica in replicas if replica != 2]
    world.join(*others)
    world.register(2, log_dirs=list(log_dirs))
    world.beat(2)
    create = CreateTopicsRequest(timeout_ms=1, topics=[CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))])])
    assert world.send(create, 7).topics[0].error_code == ErrorCode.NONE
    if placed is not None:
        place(world, placed)
    for other in others:
        world.beat(other, want_fence=True)
    assert (world.partition("t").leader, world.partition("t").isr) == (2, (2,))
    for other in others if min_insync_replicas == "1" else ():
        world.beat(other)
    stop(world)
    return world


def stop(world: World) -> None:
    """Fence broker 2, whose process ends."""
    world.beat(2, want_fence=True)
    world.controller.sessions.forget(2)


def place(world: World, directory: UUID) -> None:
    topic_id = world.image.topic_ids["t"]
    answer = world.send(AssignReplicasToDirsRequest(
        broker_id=2, broker_epoch=world.image.brokers[2].epoch, directories=[DirectoryData(
            id=directory, topics=[TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=0)])])]), 0)
    assert answer.directories[0].topics[0].partitions[0].error_code == ErrorCode.NONE


def returns(world: World, *log_dirs: UUID) -> None:
    """Register another process of broker 2, which was not stopped cleanly, and unfence it."""
    world.register(2, incarnation=world.image.offset, log_dirs=list(log_dirs))
    world.beat(2)


def test_the_other_replica_leads_when_the_disk_of_the_last_leader_was_replaced() -> None:
    """Broker 2 would be elected with an empty log, and replica 1 would delete what it has (seed 156 of the simulator
    with two directories). Replica 1 leads at once, or when it is back."""
    world = led_last_by_2(2, 1)
    returns(world, NEW)
    assert (world.partition("t").leader, world.partition("t").last_known_elr) == (NO_LEADER, (2,))
    place(world, NEW)
    partition = world.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), RECOVERING)
    assert partition.directory_of(2) == NEW

    world = led_last_by_2(2, 1)
    world.beat(1, want_fence=True)
    returns(world, NEW)
    place(world, NEW)
    partition = world.partition("t")
    assert (partition.leader, partition.isr, partition.last_known_elr) == (NO_LEADER, (), (1,))
    world.beat(1)
    assert world.partition("t").leader == 1


def test_one_of_several_other_replicas_leads_only_on_request() -> None:
    """No one knows which of them has all records. Even an unclean election prefers them to the empty one."""
    world = led_last_by_2(2, 1, 3)
    returns(world, NEW)
    place(world, NEW)
    assert (world.partition("t").leader, world.partition("t").last_known_elr) == (NO_LEADER, (1, 3))
    world.beat(1, want_fence=True)
    world.beat(1)
    assert world.partition("t").leader == NO_LEADER
    world.send(ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(topic="t", partitions=[0])]))
    assert (world.partition("t").leader, world.partition("t").last_known_elr) == (1, ())


def test_the_only_replica_comes_back_empty() -> None:
    world = led_last_by_2(2)
    returns(world, NEW)
    place(world, NEW)
    assert (world.partition("t").leader, world.partition("t").isr) == (2, (2,))


@pytest.mark.parametrize("log_dirs", [(OLD,), (OLD, NEW)])
def test_a_last_leader_whose_disk_is_back_leads(log_dirs: tuple[UUID, ...]) -> None:
    """A directory that was missing for a while has its logs. A log that could not be opened is not empty either."""
    world = led_last_by_2(2, 1, log_dirs=(OLD, OTHER))
    returns(world, OTHER)
    assert world.partition("t").leader == NO_LEADER
    stop(world)
    returns(world, *log_dirs)
    assert world.partition("t").leader == 2

    world = led_last_by_2(2, 1, log_dirs=log_dirs)
    world.register(2, incarnation=2, log_dirs=list(log_dirs))
    place(world, LOST_DIRECTORY)
    world.beat(2)
    assert world.partition("t").leader == NO_LEADER
    place(world, OLD)
    assert world.partition("t").leader == 2


def test_an_eligible_replica_with_an_empty_log_leads_nothing() -> None:
    """The broker stopped cleanly, and one of its directories was removed from its configuration. The other eligible
    replica is the last known one then, also when it has stopped uncleanly."""
    world = led_last_by_2(2, 1, log_dirs=(OLD, OTHER), placed=OTHER, min_insync_replicas="2")
    assert world.partition("t").elr == (1, 2)
    world.register(2, incarnation=2, log_dirs=[OLD], previous_broker_epoch=world.image.brokers[2].epoch)
    world.beat(1, want_fence=True)
    world.beat(2)
    assert (world.partition("t").elr, world.partition("t").last_known_elr) == ((1, 2), (2,))
    place(world, OLD)
    after = world.partition("t")
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (NO_LEADER, (), (1,), (1,))
    world.controller.sessions.forget(1)
    world.register(1, incarnation=3)
    assert world.partition("t").elr == ()
    world.beat(1)
    assert (world.partition("t").leader, world.partition("t").leader_recovery_state) == (1, RECOVERING)


@pytest.mark.parametrize(("log_dirs", "leader"), [((OLD, OTHER), 2), ((OLD, NEW), 1)])
def test_a_log_whose_directory_was_not_recorded_may_have_been_in_a_replaced_one(
        log_dirs: tuple[UUID, ...], leader: int) -> None:
    world = led_last_by_2(2, 1, log_dirs=(OLD, OTHER), placed=None)
    returns(world, *log_dirs)
    world.beat(1, want_fence=True)
    world.beat(1)
    assert world.partition("t").leader == leader
