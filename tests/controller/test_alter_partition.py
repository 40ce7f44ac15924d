"""AlterPartition and AlterPartitionReassignments as the controller decides them."""

from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.image import NO_LEADER, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
)
from kraft.protocol.messages.assign_replicas_to_dirs_request import PartitionData as DirectoryPartition
from kraft.protocol.messages.assign_replicas_to_dirs_request import TopicData as DirectoryTopic
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.controller.world import World


@pytest.fixture
def world() -> World:
    made = World()
    made.join(1, 2, 3, 4)
    response = made.send(CreateTopicsRequest(timeout_ms=1, topics=[CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])])]), 7)
    assert response.topics[0].error_code == ErrorCode.NONE
    return made


def partition(world: World) -> PartitionRegistration:
    found = world.image.partition("t", 0)
    assert found is not None
    return found


def alter(world: World, *isr: int, leader: int | None = None, **fields: Any) -> Any:
    """Send AlterPartition as the leader does; return the one partition of the answer."""
    known = partition(world)
    broker = world.image.brokers[known.leader if leader is None else leader]
    wanted = {"partition_index": 0, "leader_epoch": known.leader_epoch, "partition_epoch": known.partition_epoch,
              "new_isr_with_epochs": [BrokerState(broker_id=each, broker_epoch=(
                  world.image.brokers[each].epoch if each in world.image.brokers else -1)) for each in isr], **fields}
    topic = world.image.topic("t")
    assert topic is not None
    response = world.send(AlterPartitionRequest(
        broker_id=broker.broker_id, broker_epoch=broker.epoch,
        topics=[TopicData(topic_id=topic.topic_id, partitions=[PartitionData(**wanted)])]), 3)
    assert response.error_code == ErrorCode.NONE
    return response.topics[0].partitions[0]


def reassign(world: World, replicas: list[int] | None) -> ErrorCode:
    response = world.send(AlterPartitionReassignmentsRequest(timeout_ms=1, topics=[ReassignableTopic(
        name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])]), 1)
    return ErrorCode(response.responses[0].partitions[0].error_code)  # type: ignore[call-arg]


def test_a_leader_shrinks_and_grows_its_isr(world: World) -> None:
    answer = alter(world, 1, 3)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.isr, answer.partition_epoch) == ([1, 3], partition(world).partition_epoch)
    assert partition(world).isr == (1, 3)
    assert alter(world, 1, 2, 3).error_code == ErrorCode.NONE
    assert partition(world).isr == (1, 2, 3)


def test_a_stale_or_wrong_leader_is_refused(world: World) -> None:
    known = partition(world)
    assert alter(world, 1, leader_epoch=known.leader_epoch + 1).error_code == ErrorCode.NOT_CONTROLLER
    assert alter(world, 1, partition_epoch=known.partition_epoch + 1).error_code == ErrorCode.NOT_CONTROLLER
    assert alter(world, 1, leader_epoch=known.leader_epoch - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert alter(world, 1, 2, leader=2).error_code == ErrorCode.INVALID_REQUEST
    assert alter(world, 2, 3).error_code == ErrorCode.INVALID_REQUEST, "without the leader"
    assert alter(world, 1, 4).error_code == ErrorCode.INVALID_REQUEST, "no replica"
    assert alter(world, 1, 1).error_code == ErrorCode.INVALID_REQUEST
    assert alter(world, 1, leader_recovery_state=1).error_code == ErrorCode.INVALID_REQUEST
    assert alter(world, 1, 3).error_code == ErrorCode.NONE
    assert alter(world, 1, partition_epoch=known.partition_epoch).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_only_a_broker_that_takes_part_becomes_in_sync(world: World) -> None:
    alter(world, 1, 3)
    another = [BrokerState(broker_id=1, broker_epoch=-1), BrokerState(broker_id=2, broker_epoch=1)]
    assert alter(world, new_isr_with_epochs=another).error_code == ErrorCode.INELIGIBLE_REPLICA
    world.beat(2, want_fence=True)
    assert alter(world, 1, 2, 3).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert partition(world).isr == (1, 3)


def test_a_replica_in_a_failed_directory_does_not_become_in_sync() -> None:
    world = World()
    world.join(1, 3)
    world.register(2, log_dirs=[UUID(int=9002), UUID(int=9102)])
    assert not world.beat(2).is_fenced
    world.send(CreateTopicsRequest(timeout_ms=1, topics=[CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])])]), 7)
    place(world, 2, 9102)
    assert partition(world).directory_of(2) == UUID(int=9102)
    world.beat(2, offline_log_dirs=[UUID(int=9102)])
    assert partition(world).isr == (1, 3)
    assert alter(world, 1, 2, 3).error_code == ErrorCode.INELIGIBLE_REPLICA


def place(world: World, broker_id: int, directory: int) -> None:
    """Send AssignReplicasToDirs of the one replica."""
    topic = world.image.topic("t")
    assert topic is not None
    part = DirectoryPartition(partition_index=0)
    answer = world.send(AssignReplicasToDirsRequest(
        broker_id=broker_id, broker_epoch=world.image.brokers[broker_id].epoch, directories=[DirectoryData(
            id=UUID(int=directory), topics=[DirectoryTopic(topic_id=topic.topic_id, partitions=[part])])]), 0)
    assert answer.directories[0].topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("replicas", [[2], [2, 3]])
def test_a_replica_comes_into_a_failed_directory_and_out_of_it(replicas: list[int]) -> None:
    """A broker reports a replica in a directory that it reported as failed, and then in another one.

    This order occurs when a move between directories is cancelled.
    """
    world = World()
    world.join(3)
    world.register(2, log_dirs=[UUID(int=9002), UUID(int=9102)])
    assert not world.beat(2).is_fenced
    world.send(CreateTopicsRequest(timeout_ms=1, topics=[CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)])]), 7)
    place(world, 2, 9002)
    world.beat(2, offline_log_dirs=[UUID(int=9102)])
    assert (partition(world).leader, partition(world).isr) == (2, tuple(replicas))
    place(world, 2, 9102)
    shrunk = partition(world)
    assert (shrunk.leader, shrunk.isr) == ((3, (3,)) if 3 in replicas else (NO_LEADER, ()))
    place(world, 2, 9002)
    back = partition(world)
    assert (back.leader, back.isr) == ((3, (3,)) if 3 in replicas else (2, (2,)))


def test_a_reassignment_is_over_when_those_added_are_in_sync(world: World) -> None:
    assert reassign(world, [4, 2, 3]) == ErrorCode.NONE
    moving = partition(world)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((4, 2, 3, 1), (4,), (1,))
    assert len(moving.directories) == 4
    before = moving.leader_epoch
    answer = alter(world, 1, 2, 3, 4)
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED, "the leader itself goes"
    done = partition(world)
    assert (done.replicas, sorted(done.isr), done.reassigning) == ((4, 2, 3), [2, 3, 4], False)
    assert done.leader in (2, 3, 4) and done.leader_epoch > before


def test_a_reassignment_that_only_removes_ends_at_once(world: World) -> None:
    before = partition(world).leader_epoch
    assert reassign(world, [1, 2]) == ErrorCode.NONE
    done = partition(world)
    assert (done.replicas, done.isr, done.reassigning, done.leader) == ((1, 2), (1, 2), False, 1)
    assert done.leader_epoch > before, "the removed replica is fenced"


def test_a_cancelled_reassignment_removes_the_added_replicas(world: World) -> None:
    assert reassign(world, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(world, [1, 2, 4])
    assert reassign(world, None) == ErrorCode.NONE
    back = partition(world)
    assert (sorted(back.replicas), back.reassigning) == ([1, 2, 3], False)


@pytest.mark.parametrize("replicas", [[], [1, 1], [1, 9]])
def test_an_assignment_that_cannot_be_is_refused(world: World, replicas: list[int]) -> None:
    assert reassign(world, replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_repeated_reassignment_continues(world: World) -> None:
    """The added replica is a replica already, but it must be in sync before another one is removed."""
    reassign(world, [4, 2, 3])
    assert reassign(world, [4, 2, 3]) == ErrorCode.NONE
    now = partition(world)
    assert (sorted(now.replicas), now.removing_replicas) == ([1, 2, 3, 4], (1,))
    alter(world, 1, 2, 3, 4)
    assert sorted(partition(world).replicas) == [2, 3, 4]


def test_an_added_replica_stays_so_until_it_is_in_sync(world: World) -> None:
    """The reassignment can be repeated, alone or with another removal, and can still be cancelled."""
    for target in ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 4]):
        assert reassign(world, target) == ErrorCode.NONE
        now = partition(world)
        assert (sorted(now.replicas), now.adding_replicas) == ([1, 2, 3, 4], (4,))
    assert reassign(world, None) == ErrorCode.NONE
    assert (sorted(partition(world).replicas), partition(world).reassigning) == ([1, 2, 3], False)


def test_a_removed_replica_is_not_eligible() -> None:
    """A broker that left the in-sync replicas below the minimum may lead, but only while it is a replica."""
    world = World(min_insync_replicas="3")
    world.join(1, 2, 3, 4)
    world.send(CreateTopicsRequest(timeout_ms=1, topics=[CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])])]), 7)
    alter(world, 1, 2)
    assert partition(world).elr == (3,)
    reassign(world, [1, 2])
    assert (partition(world).replicas, partition(world).elr) == ((1, 2), ())
