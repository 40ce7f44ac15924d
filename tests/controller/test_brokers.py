"""Registration, heartbeats, fencing: changes of a broker and of its partitions."""

from typing import Any
from uuid import UUID

import pytest

from kraft.controller import decision
from kraft.metadata.image import NO_LEADER, RECOVERED, RECOVERING
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.controller.world import CLUSTER, ListLog, World


def with_topic(world: World, replicas: int = 1) -> World:
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=replicas)]))
    return world


def single() -> World:
    world = World()
    world.join(1)
    return with_topic(world)


def state(world: World) -> tuple[Any, ...]:
    partition = world.partition("a")
    return (partition.leader, partition.leader_epoch, partition.isr, partition.elr, partition.last_known_elr,
            partition.leader_recovery_state)


# --- the life of a single node, as Kafka's own log records it (golden/node) -----------------------------------------


def test_a_clean_stop_and_start_of_the_only_replica() -> None:
    """The records are those at offsets 62 to 99 of golden/node: the leader epoch grows by two."""
    world = single()
    epoch = world.image.brokers[1].epoch
    start = world.log.end_offset
    answer = world.beat(want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (False, False)
    topic_id = world.image.topic_ids["a"]
    assert world.log.messages(start) == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1),
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[], leader=NO_LEADER,
                              eligible_leader_replicas=[1], last_known_elr=[1])]
    assert state(world) == (NO_LEADER, 1, (), (1,), (1,), RECOVERED)
    start = world.log.end_offset
    answer = world.beat(want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert world.log.messages(start) == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1)]

    world = World(world.log)
    start = world.log.end_offset
    assert world.register(incarnation=2, previous_broker_epoch=epoch) == start
    assert [type(message) for message in world.log.messages(start)] == [RegisterBrokerRecord]
    start = world.log.end_offset
    assert not world.beat().is_fenced
    assert world.log.messages(start) == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=start - 1, fenced=-1),
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], leader=1, eligible_leader_replicas=[],
                              last_known_elr=[])]
    assert state(world) == (1, 2, (1,), (), (), RECOVERED)


def test_a_heartbeat_from_before_the_stop_does_not_unfence() -> None:
    """The heartbeat stayed in a socket while later ones came by another connection (seed 6528 of the simulator)."""
    world = single()
    while not world.beat(want_shut_down=True).should_shut_down:
        pass
    end_offset, before = world.log.end_offset, state(world)
    answer = world.beat()
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert (world.log.end_offset, state(world)) == (end_offset, before)
    assert world.register(incarnation=2) >= 0


def test_a_killed_only_replica_comes_back_at_once() -> None:
    """Its old session is no obstacle: it ended with the process. The epoch grows by two here too."""
    world = single()
    for kill in range(1, 4):
        world = World(world.log)
        start = world.log.end_offset
        assert world.register(incarnation=1 + kill) == start
        assert state(world) == (NO_LEADER, 2 * kill - 1, (), (), (1,), RECOVERED if kill == 1 else RECOVERING)
        assert not world.beat().is_fenced
        assert state(world) == (1, 2 * kill, (1,), (), (), RECOVERING)


@pytest.mark.parametrize("level", [7, 14, 22])
def test_without_eligible_leader_replicas_the_last_one_stays_in_sync(level: int) -> None:
    world = World(metadata_level=level)
    world.join(1)
    with_topic(world)
    world = World(world.log)
    world.register(incarnation=2)
    assert state(world) == (NO_LEADER, 1, (1,), (), (), RECOVERED)
    world.beat()
    assert state(world) == (1, 2, (1,), (), (), RECOVERED)


# --- registration ---------------------------------------------------------------------------------------------------


def registration(world: World, **fields: Any) -> Any:
    features = [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]
    features += [Feature(name=name, min_supported_version=0, max_supported_version=2)
                 for name in world.image.features if name != "metadata.version"]
    return world.send(BrokerRegistrationRequest(**{
        "broker_id": 2, "cluster_id": CLUSTER, "incarnation_id": UUID(int=42_000), "log_dirs": [UUID(int=43_000)],
        "features": features, **fields}))


@pytest.mark.parametrize(("fields", "code"), [
    ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
    ({"log_dirs": [UUID(int=1)]}, ErrorCode.INVALID_REGISTRATION),
    ({"log_dirs": [UUID(int=500), UUID(int=500)]}, ErrorCode.INVALID_REGISTRATION),
    ({"log_dirs": [UUID(int=9001)]}, ErrorCode.INVALID_REGISTRATION),  # broker 1 has it
    ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
    ({}, ErrorCode.NONE),
])
def test_registrations_that_are_refused(fields: dict[str, Any], code: int) -> None:
    world = single()
    answer = registration(world, **fields)
    assert answer.error_code == code
    assert answer.broker_epoch == (-1 if code else world.log.end_offset - 1)
    assert (2 in world.image.brokers) == (code == 0)


def test_the_same_incarnation_keeps_its_epoch() -> None:
    """wire.md 1.5: another incarnation is refused while the session lasts."""
    world = single()
    world.join(2)
    epoch = world.image.brokers[2].epoch
    assert world.register(2, incarnation=1, rack="r") == epoch
    assert (world.image.brokers[2].rack, world.image.brokers[2].fenced) == ("r", False)
    assert registration(world).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += 9_000
    assert registration(world, log_dirs=[UUID(int=9002)]).error_code == ErrorCode.NONE
    assert world.image.brokers[2].epoch > epoch
    assert world.image.brokers[2].fenced


def test_a_killed_broker_comes_back_whatever_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record for each partition, in several batches. A controller that dies between them leaves nothing wrong."""
    monkeypatch.setattr("kraft.controller.controller.RECORDS_PER_BATCH_MAX", 4)
    world = World()
    world.join(1)
    for name in "ab":
        world.send(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=3, replication_factor=1)]))
    world = World(world.log)
    start = world.log.end_offset
    assert world.register(incarnation=2) == start + 4
    assert world.log.batches[-2:] == [4, 3]
    answer = world.beat(current_metadata_offset=start + 3)
    assert (answer.is_caught_up, answer.is_fenced) == (False, True)
    assert not world.beat(current_metadata_offset=start + 4).is_fenced
    assert [world.partition(name, index).leader for name in "ab" for index in range(3)] == [1] * 6
    half = World(ListLog([each for each in world.log.records if each[0] < start + 4]))
    assert half.image.brokers[1].incarnation_id == UUID(int=5001)
    start = half.log.end_offset
    assert half.register(incarnation=3) == start
    assert not half.beat().is_fenced
    assert [half.partition(name, index).leader for name in "ab" for index in range(3)] == [1] * 6


def test_a_fenced_broker_that_speaks_keeps_its_id() -> None:
    """Kafka 4 goes by the session of the broker's epoch, too, not only by whether it is fenced."""
    world = single()
    world.register(2)
    world.beat(2, want_fence=True)
    world.now_ms += 8_999
    assert registration(world, log_dirs=[UUID(int=9002)]).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += 1
    assert registration(world, log_dirs=[UUID(int=9002)]).error_code == ErrorCode.NONE


@pytest.mark.parametrize("serves", [False, True])
def test_a_broker_that_was_let_go_leaves_its_id(serves: bool) -> None:
    world = single()
    world.register(2)
    world.beat(2, want_fence=not serves)
    assert world.beat(2, want_shut_down=True).should_shut_down
    assert registration(world, log_dirs=[UUID(int=9002)]).error_code == ErrorCode.NONE


def test_a_fenced_broker_whose_connection_closed_leaves_its_id() -> None:
    world = single()
    epoch = world.register(2)
    world.beat(2, want_fence=True)
    world.controller.broker_disconnected(2, epoch, world.now_ms)
    world.now_ms += 199
    assert registration(world, log_dirs=[UUID(int=9002)]).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += 1
    assert registration(world, log_dirs=[UUID(int=9002)]).error_code == ErrorCode.NONE


def test_a_paused_controller_renews_no_session_that_was_over() -> None:
    world = World()
    world.join(1, 2)
    world.now_ms += 8_000
    world.beat(1)
    world.controller.tick(world.now_ms)
    world.now_ms += 1_000
    world.controller.tick(world.now_ms)
    world.commit()
    assert world.image.brokers[2].fenced
    world.now_ms += 60_000
    world.controller.tick(world.now_ms)
    assert registration(world, log_dirs=[UUID(int=9002)]).error_code == ErrorCode.NONE


# --- heartbeats -----------------------------------------------------------------------------------------------------


def test_stale_epochs_are_refused() -> None:
    world = single()
    assert world.beat(epoch=99).error_code == ErrorCode.STALE_BROKER_EPOCH
    answer: Any = world.send(BrokerHeartbeatRequest(broker_id=7, broker_epoch=1))
    assert (answer.error_code, answer.is_fenced, answer.is_caught_up) == (ErrorCode.STALE_BROKER_EPOCH, True, False)


def test_a_broker_is_fenced_until_it_has_caught_up() -> None:
    world = single()
    epoch = world.register(2)
    answer = world.beat(2, current_metadata_offset=epoch - 1)
    assert (answer.is_fenced, answer.is_caught_up) == (True, False)
    answer = world.beat(2, current_metadata_offset=epoch, want_fence=True)
    assert (answer.is_fenced, answer.is_caught_up) == (True, True)
    assert not world.beat(2).is_fenced


def test_a_silent_broker_is_fenced() -> None:
    world = World()
    world.join(1, 2)
    with_topic(world, replicas=2)
    leader = world.partition("a").leader
    other = 3 - leader
    world.now_ms += 8_000
    world.beat(other)
    world.controller.tick(world.now_ms)
    world.now_ms = world.controller.deadline_ms
    assert world.now_ms == 1_009_000
    world.controller.tick(world.now_ms)
    world.commit()
    assert world.image.brokers[leader].fenced
    assert state(world) == (other, 1, (other,), (), (), RECOVERED)


def test_a_fence_reads_equal_settings_of_topics_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of all its partitions wait for the fence, so the work for each partition counts."""
    world = World()
    world.join(1, 2)
    own = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
    topics = [CreatableTopic(name=name, num_partitions=50, replication_factor=2, configs=configs)
              for name, configs in (("a", []), ("b", []), ("c", own), ("d", own))]
    assert not any(each.error_code for each in world.send(CreateTopicsRequest(topics=topics, timeout_ms=1_000)).topics)
    reads: list[tuple[str, str]] = []
    topic_value = decision.Context.topic_value

    def read(context: decision.Context, topic: str, name: str) -> str:
        reads.append((topic, name))
        return topic_value(context, topic, name)

    monkeypatch.setattr(decision.Context, "topic_value", read)
    world.now_ms += 9_001
    world.beat(2)
    world.controller.tick(world.now_ms)
    world.commit()
    assert world.image.brokers[1].fenced
    assert all(world.partition(topic.name, index).leader == 2 for topic in topics for index in range(50))
    assert sorted(reads) == [(topic, name) for topic in ("a", "c")
                             for name in ("min.insync.replicas", "unclean.leader.election.enable")]


def test_a_lease_is_granted_in_the_brokers_own_time() -> None:
    """KIP-631: "based on the start time that was passed, not the controller's local clock"."""
    world = single()
    world.now_ms += 5
    assert world.beat(lease_start_time_ms=77).lease_end_time_ms == 77 + 9_000
    answer = world.beat()
    assert (answer.lease_end_time_ms, answer.active_controller_id) == (world.now_ms + 9_000, 1)


def test_a_controller_that_was_paused_fences_nobody() -> None:
    world = World()
    world.join(1, 2)
    world.now_ms += 60_000
    world.controller.tick(world.now_ms)
    world.commit()
    assert not any(broker.fenced for broker in world.image.brokers.values())
    assert world.controller.deadline_ms == world.now_ms + 9_000


def test_leaders_move_before_a_broker_may_stop() -> None:
    """The other brokers must learn of it first."""
    world = World()
    world.join(1, 2)
    with_topic(world, replicas=2)
    leader = world.partition("a").leader
    other = 3 - leader
    answer = world.beat(leader, want_shut_down=True)
    assert (answer.should_shut_down, world.partition("a").leader) == (False, other)
    assert not world.beat(leader, want_shut_down=True).should_shut_down
    world.beat(other)
    assert world.beat(leader, want_shut_down=True).should_shut_down
    assert world.image.brokers[leader].fenced


def test_a_failed_directory_takes_its_leaderships() -> None:
    world = World()
    world.join(1, 2)
    with_topic(world, replicas=2)
    leader = world.partition("a").leader
    world.beat(leader, offline_log_dirs=world.image.brokers[leader].log_dirs)
    assert world.partition("a").leader == 3 - leader
    assert world.image.brokers[leader].log_dirs != ()  # a change record cannot express "none", as in Kafka


def two_directories() -> World:
    """World with partition a-0 that broker 1 leads, in the second of its two directories."""
    world = World()
    world.join(2)
    world.register(1, log_dirs=[UUID(int=9001), UUID(int=9101)])
    world.beat(1)
    world.send(CreateTopicsRequest(topics=[CreatableTopic(
        name="a", num_partitions=-1, replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])])]))
    world.send(AssignReplicasToDirsRequest(
        broker_id=1, broker_epoch=world.image.brokers[1].epoch, directories=[DirectoryData(
            id=UUID(int=9101), topics=[TopicData(topic_id=world.image.topic_ids["a"],
                                                 partitions=[PartitionData(partition_index=0)])])]))
    assert (world.partition("a").leader, world.partition("a").directory_of(1)) == (1, UUID(int=9101))
    return world


def test_a_broker_that_returns_without_a_directory_does_not_lead_in_it() -> None:
    """The heartbeat that unfences the broker reports the directory as failed too (seed 142 of the simulator with two
    directories)."""
    world = two_directories()
    world.beat(2, want_fence=True)
    world.beat(1, want_fence=True)
    assert state(world)[0] == NO_LEADER
    world.beat(1, offline_log_dirs=[UUID(int=9101)])
    assert (world.image.brokers[1].fenced, world.image.brokers[1].log_dirs) == (False, (UUID(int=9001),))
    assert (state(world)[0], state(world)[2]) == (NO_LEADER, ())


def test_a_broker_without_any_directory_stays_fenced() -> None:
    world = two_directories()
    world.beat(2, want_fence=True)
    world.beat(1, want_fence=True)
    assert world.beat(1, offline_log_dirs=world.image.brokers[1].log_dirs).is_fenced
    assert state(world)[0] == NO_LEADER


def test_a_broker_that_leaves_with_a_failed_directory_leaves_once() -> None:
    world = two_directories()
    epoch = world.partition("a").leader_epoch
    world.beat(1, want_fence=True, offline_log_dirs=[UUID(int=9101)])
    assert (world.partition("a").leader, world.partition("a").leader_epoch) == (2, epoch + 1)
    assert world.image.brokers[1].log_dirs == (UUID(int=9001),)


def test_a_process_that_registers_again_without_a_directory_does_not_lead_in_it() -> None:
    world = two_directories()
    world.register(1, log_dirs=[UUID(int=9001)])
    assert not world.image.brokers[1].fenced
    assert (world.partition("a").leader, world.partition("a").isr) == (2, (2,))


# --- the rest -------------------------------------------------------------------------------------------------------


def test_unregistering() -> None:
    world = World()
    world.join(1, 2)
    with_topic(world, replicas=2)
    assert world.send(UnregisterBrokerRequest(broker_id=9)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert world.send(UnregisterBrokerRequest(broker_id=2)).error_code == ErrorCode.NONE
    assert list(world.image.brokers) == [1]
    assert (world.partition("a").leader, world.partition("a").isr) == (1, (1,))
    assert sorted(world.partition("a").replicas) == [1, 2]


def test_controllers_register() -> None:
    world = single()
    answer: Any = world.send(ControllerRegistrationRequest(controller_id=1, incarnation_id=UUID(int=5)))
    assert (answer.error_code, world.image.controllers[1].incarnation_id) == (ErrorCode.NONE, UUID(int=5))
    old = World(metadata_level=14)
    answer = old.send(ControllerRegistrationRequest(controller_id=1))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_producer_ids_come_in_blocks() -> None:
    world = single()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch)
    assert [world.send(request).producer_id_start for _ in range(3)] == [0, 1000, 2000]
    assert world.image.next_producer_id == 3000
    world = World(world.log)
    assert world.send(request).producer_id_start == 3000
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
    assert world.send(stale).error_code == ErrorCode.STALE_BROKER_EPOCH
