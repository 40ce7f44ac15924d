"""The controller as a state machine: order, commits, elections of its own, determinism."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from typing import Any
from uuid import UUID

import pytest

from kraft.controller import controller, elections, leaderships
from kraft.controller.decision import RECORDS_PER_BATCH_MAX, STEP, Decision
from kraft.controller.sessions import Found
from kraft.deadlines import NEVER_MS
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import Record, encode_snapshot, image_records
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import alter_partition_request as isr
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kraft.protocol.messages.no_op_record import NoOpRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft.protocol.record_frames import encode_record
from kraft_native.base.errors import InvalidArgumentError
from tests.controller.world import CLUSTER, LATEST_VERSION, World
from tools.tree import ROOT


def topic(name: str, replicas: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=replicas)])


def test_answers_come_in_order_and_only_when_committed() -> None:
    world = World()
    world.join(1)
    answers: list[Any] = []
    for name in ("a", "b", "a"):
        world.controller.submit(topic(name), 7, world.now_ms, answers.append)
    assert not answers
    assert not world.image.topic_ids
    assert list(world.controller.decided.topic_ids) == ["a", "b"]
    end = world.log.end_offset
    world.controller.committed(end - 2, world.now_ms)
    assert [answer.topics[0].name for answer in answers] == ["a"]
    assert list(world.image.topic_ids) == ["a"]
    world.controller.committed(end, world.now_ms)
    # The refusal says that "a" exists, which holds only after the first commit: it waited too.
    assert [answer.topics[0].error_code for answer in answers] == [
        ErrorCode.NONE, ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]


def test_listeners_get_every_change_once() -> None:
    world = World()
    world.join(1)
    seen: list[tuple[int, list[str]]] = []
    world.controller.subscribe(lambda delta, image: seen.append(
        (image.offset, [created.name for created in delta.created_topics()])))
    world.send(topic("a"))
    world.send(topic("b"))
    assert [names for _, names in seen] == [["a"], ["b"]]
    assert [offset for offset, _ in seen] == sorted(offset for offset, _ in seen)


def test_a_node_that_does_not_lead_says_so() -> None:
    world = World()
    world.join(1)
    answers: list[Any] = []
    world.controller.submit(topic("a"), 7, world.now_ms, answers.append)
    world.controller.resigned(world.now_ms)
    world.controller.submit(topic("b"), 7, world.now_ms, answers.append)
    assert [answer.topics[0].error_code for answer in answers] == [ErrorCode.NOT_CONTROLLER] * 2
    assert not world.image.topic_ids
    world.controller.tick(world.now_ms + 100_000)
    request = DescribeQuorumRequest(topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])])
    for leader_id in (3, -1):          # another controller leads; no leader is known
        world.log.leader_id = leader_id
        world.controller.submit(request, 2, world.now_ms, answers.append)
        assert answers[-1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        [part] = answers[-1].topics[0].partitions
        assert (part.error_code, part.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id)
        world.controller.submit(BrokerHeartbeatRequest(broker_id=1), 1, world.now_ms, answers.append)
        assert (answers[-1].error_code, answers[-1].active_controller_id) == (ErrorCode.NOT_CONTROLLER, leader_id)


def test_a_refused_heartbeat_names_the_active_controller() -> None:
    """The same holds for a request that the active controller refuses, and for one that waits when it resigns."""
    world = World()
    world.join(1)
    answers: list[Any] = []
    world.log.leader_id = 1
    world.controller.submit(BrokerHeartbeatRequest(broker_id=1, broker_epoch=99), 1, world.now_ms, answers.append)
    assert (answers[-1].error_code, answers[-1].active_controller_id) == (ErrorCode.STALE_BROKER_EPOCH, 1)
    world.controller.submit(topic("a"), 7, world.now_ms, answers.append)
    epoch = world.controller.decided.brokers[1].epoch
    world.controller.submit(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch), 1, world.now_ms, answers.append)
    world.log.leader_id = 3
    world.controller.resigned(world.now_ms)
    assert (answers[-1].error_code, answers[-1].active_controller_id) == (ErrorCode.NOT_CONTROLLER, 3)


def test_other_requests_are_not_the_controllers() -> None:
    with pytest.raises(InvalidArgumentError, match="FetchRequest"):
        World().send(FetchRequest())


def test_an_idle_leader_shows_that_it_commits() -> None:
    world = World(idle_interval_ms=500)
    assert world.controller.deadline_ms == world.now_ms + 500
    world.controller.tick(world.now_ms + 499)
    end = world.log.end_offset
    world.controller.tick(world.now_ms + 500)
    assert world.log.messages(end) == [NoOpRecord()]
    assert world.controller.deadline_ms == world.now_ms + 1000


def test_elections() -> None:
    world = World()
    world.join(1, 2)
    world.send(topic("a", 2))
    preferred = world.partition("a").replicas[0]

    def elect(kind: int, *partitions: tuple[str, int]) -> list[int]:
        answer = world.send(ElectLeadersRequest(election_type=kind, topic_partitions=None if not partitions else [
            TopicPartitions(topic=name, partitions=[index]) for name, index in partitions]))
        return [answer.error_code, *(each.error_code for result in answer.replica_election_results
                                     for each in result.partition_result)]

    assert elect(0, ("a", 0)) == [0, ErrorCode.ELECTION_NOT_NEEDED]
    assert elect(0) == [0]
    assert elect(0, ("a", 1), ("b", 0)) == [ErrorCode.NONE, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2]
    assert elect(5) == [ErrorCode.INVALID_REQUEST]
    world.beat(preferred, want_fence=True)
    assert elect(0, ("a", 0)) == [0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    world.beat(preferred)
    change = PartitionChangeRecord(partition_id=0, topic_id=world.image.topic_ids["a"], isr=[1, 2])
    world.log.append([encode_record(change, 2)], 0)
    world = World(world.log)
    for broker in (1, 2):
        world.beat(broker)
    assert elect(0, ("a", 0)) == [0, 0]
    assert world.partition("a").leader == preferred
    world.beat(1, want_fence=True)
    world.beat(2, want_fence=True)
    assert world.partition("a").leader == -1
    assert elect(1, ("a", 0)) == [0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_reassignments_are_listed() -> None:
    world = World()
    world.join(1, 2)
    world.send(topic("a"))
    world.send(topic("b"))
    change = PartitionChangeRecord(partition_id=0, topic_id=world.image.topic_ids["a"], replicas=[1, 2],
                                   adding_replicas=[2], directories=[UUID(int=9001), UUID(int=9002)])
    world.log.append([encode_record(change, 2)], 0)
    world = World(world.log)
    for topics in (None, [ListPartitionReassignmentsTopics(name="a", partition_indexes=[0, 5]),
                          ListPartitionReassignmentsTopics(name="b", partition_indexes=[0]),
                          ListPartitionReassignmentsTopics(name="c", partition_indexes=[0])]):
        answer = world.send(ListPartitionReassignmentsRequest(topics=topics))
        assert [(each.name, partition.partition_index, partition.replicas, partition.adding_replicas)
                for each in answer.topics for partition in each.partitions] == [("a", 0, [1, 2], [2])]


def history() -> str:
    """Run decisions; return the records written, and a snapshot of them."""
    world = World()
    world.join(3, 1, 2, racks=("x", "y", "x"))
    for number in range(20):
        world.send(topic(f"t{number}", 1 + number % 3))
    world.beat(2, want_shut_down=True)
    world = World(world.log)
    world.now_ms += 10_000
    world.register(2, incarnation=2)
    world.beat(2)
    log = b"".join(encode_record(message, version) for _, message, version in world.log.records)
    snapshot = b"".join(encode_snapshot(image_records(world.image), epoch=1, now_ms=0, last_timestamp_ms=0))
    return f"{log.hex()} {snapshot.hex()}"


def test_the_same_requests_give_the_same_bytes_in_every_process() -> None:
    program = "from tests.controller.test_controller import history; print(history())"
    found = [subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
                            check=True, capture_output=True, text=True).stdout.strip() for seed in ("1", "2")]
    assert found[0] == found[1] == history()


def test_replaying_the_log_gives_the_image() -> None:
    world = World()
    world.join(1, 2, 3)
    for number in range(10):
        world.send(topic(f"t{number}", 2))
    world.beat(3, want_fence=True)
    replayer = Replayer()
    for offset, message, _ in world.log.records:
        replayer.replay(message, offset, 1, world.now_ms)
    replayer.take()
    assert replayer.image.state() == world.image.state()


# --- decisions in steps


class Stepwise:
    """A world whose long operations run step by step, as the test says."""

    def __init__(self) -> None:
        self.world = World()
        self.world.join(1, 2, 3)
        self.work: list[Generator[None]] = []
        self.deadlines = 0
        self.world.controller.run_steps = lambda _key, steps: self.work.append(steps)
        self.world.controller.on_deadline = self.note
        self.answers: list[Any] = []

    def note(self) -> None:
        self.deadlines += 1

    def submit(self, request: Message) -> None:
        self.world.controller.submit(request, LATEST_VERSION, self.world.now_ms, self.answers.append)

    def create(self, name: str, partitions: int, **fields: Any) -> None:
        self.submit(CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=3)], **fields))

    def step(self) -> bool:
        """Run one step of the oldest operation; return whether that ended it."""
        try:
            next(self.work[0])
        except StopIteration:
            self.work.pop(0)
            return True
        return False

    def finish(self) -> int:
        """Run all steps; return their number."""
        count = 1
        while not self.step():
            count += 1
        return count


def test_many_partitions_are_decided_in_steps_and_appended_in_one_batch() -> None:
    made = Stepwise()
    log = made.world.log
    before = len(log.batches)
    made.create("large", 3_000)
    assert made.answers == [] and len(log.batches) == before
    assert made.finish() > 3_000 * 4 // STEP       # placement, records, encoding, replay
    assert log.batches[before:] == [3_001]
    assert made.world.image.topic("large") is None and made.answers == []
    made.world.commit()
    assert made.answers[0].topics[0].error_code == ErrorCode.NONE
    topic = made.world.image.topic("large")
    assert topic is not None and len(topic.partitions) == 3_000


def test_short_decisions_need_no_steps() -> None:
    made = Stepwise()
    made.create("small", STEP // 2)
    assert made.work == []
    made.world.commit()
    assert made.answers[0].topics[0].error_code == ErrorCode.NONE


def test_an_appending_request_waits_for_a_decision_in_steps() -> None:
    made = Stepwise()
    world = made.world
    made.create("large", 1_000)
    made.create("other", 1)
    world.controller.broker_disconnected(2, world.image.brokers[2].epoch, world.now_ms)
    world.now_ms += 1_000              # that one is to be probed
    world.controller.tick(world.now_ms)
    assert world.controller.deadline_ms == NEVER_MS
    world.controller.broker_probed(2, world.image.brokers[2].epoch, Found.REFUSED, world.now_ms)
    made.finish()
    made.finish()                      # the fencing takes steps of its own
    assert world.log.batches[-3:] == [1_001, 2, 1_002]      # the last fences a broker: each partition changes
    assert made.deadlines == 1 and world.controller.deadline_ms < NEVER_MS
    world.commit()
    assert [answer.topics[0].name for answer in made.answers] == ["large", "other"]
    assert world.image.brokers[2].fenced


def test_a_commit_may_come_before_the_last_step() -> None:
    made = Stepwise()
    made.create("large", 1_000)
    before = len(made.world.log.batches)
    while len(made.world.log.batches) == before:
        made.step()
    made.world.commit()
    assert made.answers == [] and made.world.image.topic("large") is None
    made.finish()
    assert made.answers[0].topics[0].error_code == ErrorCode.NONE and made.world.image.topic("large") is not None


@pytest.mark.parametrize("appended", [False, True])
def test_a_leader_that_resigns_between_two_steps_answers_once(appended: bool) -> None:
    made = Stepwise()
    made.create("large", 1_000)
    made.create("other", 1)
    before = len(made.world.log.batches)
    while appended and len(made.world.log.batches) == before:
        made.step()
    made.world.controller.resigned(made.world.now_ms)
    made.finish()
    assert [answer.topics[0].error_code for answer in made.answers] == [ErrorCode.NOT_CONTROLLER] * 2
    assert made.world.image.topic("large") is None


@pytest.mark.parametrize("request_", [
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="large", count=3_000, assignments=None)]),
    ElectLeadersRequest(election_type=0, topic_partitions=None),
    ListPartitionReassignmentsRequest(topics=None)])
def test_requests_for_all_partitions_work_in_steps(request_: Message) -> None:
    made = Stepwise()
    made.create("large", 2_000)
    made.finish()
    made.world.commit()
    made.submit(request_)
    assert len(made.work) == 1 and len(made.answers) == 1
    made.finish()
    made.world.commit()
    assert len(made.answers) == 2


def shuts_down(world: World) -> Message:
    return BrokerHeartbeatRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch, want_shut_down=True,
                                  current_metadata_offset=world.image.offset)


def loses_its_directory(world: World) -> Message:
    broker = world.image.brokers[1]
    return BrokerHeartbeatRequest(broker_id=1, broker_epoch=broker.epoch, offline_log_dirs=list(broker.log_dirs),
                                  current_metadata_offset=world.image.offset)


def is_fenced(world: World) -> Message:
    return BrokerHeartbeatRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch, want_fence=True)


def is_unregistered(_world: World) -> Message:
    return UnregisterBrokerRequest(broker_id=1)


def registers_again(world: World) -> Message:
    world.now_ms += 9_000
    return BrokerRegistrationRequest(
        broker_id=1, cluster_id=CLUSTER, incarnation_id=UUID(int=77), log_dirs=[UUID(int=9_001)],
        listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092)],
        features=[Feature(name=name, min_supported_version=low, max_supported_version=high)
                  for name, (low, high) in SUPPORTED.items()])


def with_large_topic(partitions: int, replicas: int = 3) -> Stepwise:
    made = Stepwise()
    for broker_id in range(1, replicas + 1):
        made.world.beat(broker_id)
    made.submit(CreateTopicsRequest(topics=[CreatableTopic(
        name="large", num_partitions=partitions, replication_factor=replicas)]))
    made.finish()
    made.world.commit()
    made.answers.clear()
    return made


class Pace:
    """Counts the partitions decided and the records encoded and replayed between two steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = self.largest = 0
        for owner, name in ((leaderships, "change_of"), (elections, "change_of"), (controller, "encode_record"),
                            (MetadataDelta, "replay")):
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function: Any) -> Any:
        def counts(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            self.largest = max(self.largest, self.count)
            return function(*arguments, **named)
        return counts

    def step(self, made: Stepwise) -> None:
        self.count = 0
        made.step()

    def run(self, made: Stepwise) -> None:
        """Run all work; a step has at most `STEP` partitions, each decided, encoded and replayed."""
        while made.work:
            self.step(made)
        assert 0 < self.largest <= 3 * STEP + 4


@pytest.mark.parametrize("cause", [
    shuts_down, loses_its_directory, is_fenced, is_unregistered, registers_again])
def test_a_broker_of_many_partitions_leaves_in_bounded_steps(
        cause: Callable[[World], Message], monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_large_topic(4_500)
    world, before = made.world, len(made.world.log.batches)
    pace = Pace(monkeypatch)
    made.submit(cause(world))
    assert not made.answers and pace.largest <= 3 * STEP + 4
    pace.run(made)
    assert world.log.batches[before:before + 2] == [RECORDS_PER_BATCH_MAX] * 2 and len(world.log.batches) == before + 3
    world.commit()
    assert [answer.error_code for answer in made.answers] == [ErrorCode.NONE]
    topic = world.image.topic("large")
    assert topic is not None and all(1 not in (each.leader, *each.isr) for each in topic.partitions.values())


def test_the_controller_fences_in_bounded_steps_and_the_first_leaders_come_first(
        monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_large_topic(4_500)
    world, before = made.world, len(made.world.log.batches)
    pace = Pace(monkeypatch)
    world.now_ms += 8_000
    for broker_id in (2, 3):
        made.submit(BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=world.image.brokers[broker_id].epoch))
    world.now_ms += 1_000
    world.controller.tick(world.now_ms)
    assert world.controller.deadline_ms == NEVER_MS and len(made.work) == 1
    while len(world.log.batches) == before:
        pace.step(made)
    world.commit()                     # the others are not decided yet
    while not (moved := world.partition("large").leader != 1) and made.work:
        pace.step(made)
    assert moved and world.partition("large", 4_499).isr == world.partition("large", 4_499).replicas
    assert not world.image.brokers[1].fenced
    made.submit(shuts_down(world))     # waits: it meets a broker that is fenced
    pace.run(made)
    world.commit()
    assert world.image.brokers[1].fenced and world.controller.deadline_ms < NEVER_MS
    assert made.answers[-1].should_shut_down


def test_a_broker_returns_to_many_partitions_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_large_topic(3_000, replicas=1)
    world = made.world
    topic = world.image.topic("large")
    assert topic is not None
    own = [index for index, each in topic.partitions.items() if each.leader == 1]
    assert len(own) == 1_000
    for wants_fence in (True, False):
        pace = Pace(monkeypatch)
        made.submit(BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=world.image.brokers[1].epoch, current_metadata_offset=world.image.offset,
            want_fence=wants_fence))
        pace.run(made)
        world.commit()
        assert {world.partition("large", index).leader for index in own} == {-1 if wants_fence else 1}


def test_periodic_elections_work_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_large_topic(2_000)
    world = made.world
    for wants_fence in (True, False):
        made.submit(BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=world.image.brokers[1].epoch, current_metadata_offset=world.image.offset,
            want_fence=wants_fence))
        while made.work:
            made.step()
        world.commit()
    pace = Pace(monkeypatch)
    for _ in range(3):
        made.world.controller._rounds._preferred.due_ms = world.now_ms
        world.controller.tick(world.now_ms)
        assert made.work
        pace.run(made)
        world.commit()


def test_a_leader_that_resigns_while_it_fences_appends_no_more() -> None:
    made = with_large_topic(4_500)
    world, before = made.world, len(made.world.log.batches)
    made.submit(is_unregistered(world))
    while len(world.log.batches) == before:
        made.step()
    world.controller.resigned(world.now_ms)
    made.finish()
    assert len(world.log.batches) == before + 1
    assert [answer.error_code for answer in made.answers] == [ErrorCode.NOT_CONTROLLER]


# --- long lists of one element, and faults of our own


class Id(int):
    """A broker id that counts how often one is hashed or compared."""

    read = 0

    def __hash__(self) -> int:
        Id.read += 1
        return int.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Id.read += 1
        return int.__eq__(self, other)


def ids(*first: int) -> list[int]:
    return [*map(Id, first), *[Id(1)] * 10_000]


LONG_LISTS: list[tuple[Callable[[World, list[int]], Message], int]] = [
    (lambda _world, brokers: CreateTopicsRequest(topics=[CreatableTopic(
        name="new", num_partitions=-1, replication_factor=-1, assignments=[
            CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)])]), LATEST_VERSION),
    (lambda _world, brokers: CreatePartitionsRequest(topics=[CreatePartitionsTopic(
        name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=brokers)])]), LATEST_VERSION),
    (lambda _world, brokers: AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(
        name="t", partitions=[ReassignablePartition(partition_index=0, replicas=brokers)])]), LATEST_VERSION),
    (lambda world, brokers: alter_isr(world, new_isr=brokers), 2),
    (lambda world, brokers: alter_isr(world, new_isr_with_epochs=[
        isr.BrokerState(broker_id=each) for each in brokers]), LATEST_VERSION),
]


def alter_isr(world: World, **fields: Any) -> Message:
    partition, topic_id = world.partition("t"), world.image.topic_ids["t"]
    return isr.AlterPartitionRequest(
        broker_id=partition.leader, broker_epoch=world.image.brokers[partition.leader].epoch, topics=[isr.TopicData(
            topic_id=topic_id, partitions=[isr.PartitionData(
                partition_index=0, leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch, **fields)])])


@pytest.mark.parametrize("first", [(1, 2, 3), (7,), ()])
@pytest.mark.parametrize(("make", "version"), LONG_LISTS)
def test_a_list_of_brokers_is_read_as_far_as_there_are_brokers(
        make: Callable[[World, list[int]], Message], version: int, first: tuple[int, ...]) -> None:
    """A partition cannot have more replicas than brokers are registered: the list is refused at the first fault."""
    world = World()
    world.join(1, 2, 3)
    world.send(topic("t", 3))
    request = make(world, ids(*first))
    Id.read = 0
    answer = world.send(request, version)
    assert Id.read <= 40
    [result] = {CreateTopicsRequest: lambda: answer.topics, CreatePartitionsRequest: lambda: answer.results,
                AlterPartitionReassignmentsRequest: lambda: answer.responses[0].partitions,
                isr.AlterPartitionRequest: lambda: answer.topics[0].partitions}[type(request)]()
    assert result.error_code == (ErrorCode.INVALID_REQUEST if isinstance(request, isr.AlterPartitionRequest)
                                 else ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert len(getattr(result, "error_message", "")) < 200


def fails(_context: Any, _request: Message) -> Any:
    raise KeyError("a fault of ours")


def long_record(_context: Any, _request: Message) -> Any:
    return Decision(UnregisterBrokerResponse(), [Record(
        ConfigRecord(resource_type=2, resource_name="t", name="n", value="x" * 40_000))])


@pytest.mark.parametrize(("decide", "code"), [
    (fails, ErrorCode.UNKNOWN_SERVER_ERROR), (long_record, ErrorCode.INVALID_REQUEST)])
def test_a_request_that_fails_keeps_the_controller_from_nothing(
        monkeypatch: pytest.MonkeyPatch, decide: Callable[..., Any], code: ErrorCode) -> None:
    world = World()
    world.join(1)
    notices: list[str] = []
    world.controller.on_notice = notices.append
    handler = controller.HANDLERS[ApiKey.UNREGISTER_BROKER]
    monkeypatch.setitem(controller.HANDLERS, ApiKey.UNREGISTER_BROKER, handler._replace(decide=decide))
    before = world.log.end_offset
    assert (world.send(UnregisterBrokerRequest(broker_id=1)).error_code, world.log.end_offset) == (code, before)
    assert bool(notices) == (decide is fails)
    assert world.send(topic("t")).topics[0].error_code == ErrorCode.NONE
