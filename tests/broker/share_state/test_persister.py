"""Requests about states of share partitions on their way to coordinators: division, order, repetition, answers."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from kraft.broker.share_state import persister
from kraft.broker.share_state.persister import FIRST_PAUSE_MS, LANES, RETRY_MS, Dispatch, PersisterQueue
from kraft.broker.share_state.responses import ANSWERS, refused
from kraft.broker.share_state.state import ShareKey
from kraft.metadata.image import NO_LEADER
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import write_share_group_state_request as writes
from tests.broker.share_state.share_node import CLICKS, GROUP, ORDERS, delete, read, write

OWN = 1
FENCED = ErrorCode.FENCED_LEADER_EPOCH
KEYS = [ShareKey(GROUP, ORDERS, index) for index in range(8)]


class World:
    """A queue, with the coordinator of each share partition, and the answers that were given."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.coordinator_of: Callable[[ShareKey], int | None] = lambda key: 2 + key.partition % 2
        self.has_partition: Callable[[ShareKey], bool] = lambda _key: True
        self.are_on = True
        self.queue = PersisterQueue(OWN, self)
        self.answers: list[Any] = []

    def submit(self, request: Message) -> None:
        self.queue.submit(request, self.answers.append, self.now_ms)

    def take(self, *brokers: int) -> list[Dispatch]:
        found = []
        for broker in brokers or (OWN, 2, 3):
            while (dispatch := self.queue.take(broker)) is not None:
                found.append(dispatch)
        return found

    def answer(self, dispatch: Dispatch, error: ErrorCode | None = ErrorCode.NONE) -> None:
        """Answer a request, with one error for all partitions; None: not at all."""
        self.queue.answered(dispatch, None if error is None else response_to(dispatch.request, error), self.now_ms)
        for answer, response in self.queue.finished():
            answer(response)

    def pass_pause(self) -> None:
        deadline_ms = self.queue.deadline_ms
        assert deadline_ms is not None
        self.now_ms = max(self.now_ms, deadline_ms)
        self.queue.tick(self.now_ms)
        for answer, response in self.queue.finished():
            answer(response)

    def codes(self, number: int = -1) -> list[int]:
        return [each.error_code for topic in self.answers[number].results for each in topic.partitions]


def response_to(request: Any, error: ErrorCode) -> Message:
    response: Any = refused(request, error)
    if error == ErrorCode.NONE:
        for topic in response.results:
            for each in topic.partitions:
                each.error_message = None
    return response  # type: ignore[no-any-return]


def write_of(*keys: ShareKey, group: str = GROUP, offset: int = 0) -> writes.WriteShareGroupStateRequest:
    topics: dict[Any, list[writes.PartitionData]] = {}
    for key in keys:
        topics.setdefault(key.topic_id, []).append(writes.PartitionData(
            partition=key.partition, start_offset=offset, state_batches=[writes.StateBatch()]))
    return writes.WriteShareGroupStateRequest(group_id=group, topics=[
        writes.WriteStateData(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()])


def partitions(dispatch: Dispatch) -> list[int]:
    request: Any = dispatch.request
    return [each.partition for topic in request.topics for each in topic.partitions]


def test_a_request_is_divided_among_the_coordinators_and_answered_in_its_order() -> None:
    world = World()
    keys = [KEYS[3], KEYS[0], ShareKey(GROUP, CLICKS, 1), KEYS[2], KEYS[1]]
    request = write_of(*keys)
    world.submit(request)
    even, odd = sorted(world.take(), key=lambda each: each.lane)
    assert (partitions(even), partitions(odd)) == ([0, 2], [3, 1, 1])
    world.answer(odd, ErrorCode.FENCED_LEADER_EPOCH)
    assert world.answers == []
    world.answer(even)
    [answer] = world.answers
    assert [(topic.topic_id, [(each.partition, each.error_code) for each in topic.partitions])
            for topic in answer.results] == [
        (ORDERS, [(3, FENCED), (0, ErrorCode.NONE), (2, ErrorCode.NONE), (1, FENCED)]), (CLICKS, [(1, FENCED)])]
    assert answer.results[0].partitions[0].error_message == ErrorCode.FENCED_LEADER_EPOCH.message
    assert len(world.queue) == 0


def test_a_request_for_one_coordinator_is_sent_as_it_is() -> None:
    world = World()
    request = write_of(KEYS[0], KEYS[2])
    world.submit(request)
    [dispatch] = world.take()
    assert dispatch.request is request


def test_what_waits_for_one_coordinator_shares_a_request() -> None:
    """Those of one API and one group: a request has one group."""
    world = World()
    world.coordinator_of = lambda _key: 2
    for key in KEYS[:3]:
        world.submit(write_of(key))
    world.submit(read(key=KEYS[3]))
    world.submit(write_of(ShareKey("other", ORDERS, 5), group="other"))
    dispatches = world.take(2)
    assert [(type(each.request).__name__[:5], partitions(each)) for each in dispatches] == [
        ("Write", [0, 1, 2]), ("ReadS", [3]), ("Write", [5])]
    for each in dispatches:
        world.answer(each)
    assert [[partition.partition for topic in answer.results for partition in topic.partitions]
            for answer in world.answers] == [[0], [1], [2], [3], [5]]


def test_a_broker_has_few_requests_in_flight_and_none_twice_for_a_share_partition() -> None:
    world = World()
    world.coordinator_of = lambda _key: 2
    in_flight = []
    for number in range(LANES + 2):
        world.submit(write_of(KEYS[number]))
        world.submit(write_of(KEYS[number], offset=1))
        in_flight += world.take(2)
    assert [partitions(each) for each in in_flight] == [[number] for number in range(LANES)]
    assert len({each.lane for each in in_flight}) == LANES
    world.answer(in_flight[1])
    [following] = world.take(2)
    assert sorted(partitions(following)) == [1, LANES, LANES + 1]
    assert following.lane == in_flight[1].lane
    assert [each.start_offset for topic in following.request.topics  # type: ignore[attr-defined]
            for each in topic.partitions if each.partition == 1] == [1]


def test_the_own_coordinator_has_no_limit_but_the_size_of_a_step() -> None:
    world = World()
    world.coordinator_of = lambda _key: OWN
    world.submit(write_of(*(ShareKey(GROUP, ORDERS, index) for index in range(200))))
    dispatches = world.take(OWN)
    assert [len(each.elements) for each in dispatches] == [64, 64, 64, 8]
    for each in reversed(dispatches):
        world.answer(each)
    assert world.codes() == [0] * 200


@pytest.mark.parametrize("error", [None, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                                   ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                                   ErrorCode.UNSUPPORTED_VERSION])
def test_errors_that_pass_are_tried_again_at_the_present_coordinator(error: ErrorCode | None) -> None:
    world = World()
    world.submit(write_of(KEYS[0]))
    [first] = world.take()
    world.coordinator_of = lambda _key: 3
    world.answer(first, error)
    assert world.take() == []
    assert world.queue.deadline_ms == FIRST_PAUSE_MS
    world.pass_pause()
    [again] = world.take()
    assert again.lane[0] == 3
    world.answer(again)
    assert world.codes() == [0]


@pytest.mark.parametrize("error", [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST,
                                   ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_other_errors_are_the_result(error: ErrorCode) -> None:
    """KAFKA-17442: an error of the coordinator reaches the caller, for each partition."""
    world = World()
    world.submit(write_of(KEYS[0], KEYS[2]))
    world.answer(world.take()[0], error)
    assert world.codes() == [error, error]


def test_an_unknown_partition_is_tried_again_only_while_the_metadata_has_it() -> None:
    world = World()
    world.has_partition = lambda _key: False
    world.submit(delete(KEYS[0]))
    world.answer(world.take()[0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert world.codes() == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_coordinator_without_share_groups_is_tried_again_only_while_the_metadata_has_them() -> None:
    """The broker may have just started, with metadata that is behind."""
    world = World()
    world.are_on = False
    world.submit(write_of(KEYS[0]))
    world.answer(world.take()[0], ErrorCode.UNSUPPORTED_VERSION)
    assert world.codes() == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_partition_that_the_answer_lacks_has_an_error() -> None:
    world = World()
    world.submit(write_of(KEYS[0], KEYS[2]))
    [dispatch] = world.take()
    world.queue.answered(dispatch, response_to(write_of(KEYS[2]), ErrorCode.NONE), 0)
    for answer, response in world.queue.finished():
        answer(response)
    assert world.codes() == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


@pytest.mark.parametrize("leader", [None, NO_LEADER, 2])
def test_attempts_end_after_a_time(leader: int | None) -> None:
    """The topic is missing, the leader, or its answer."""
    world = World()
    world.coordinator_of = lambda _key: leader
    world.submit(write_of(*KEYS[:2]))
    world.submit(write_of(KEYS[0]))
    attempts = 0
    while not world.answers:
        for dispatch in world.take():
            attempts += 1
            world.answer(dispatch, None)
        if not world.answers:
            world.pass_pause()
    assert world.codes(0) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert RETRY_MS - persister.PAUSE_MS_MAX <= world.now_ms <= RETRY_MS
    assert attempts < 100
    assert world.queue.lacks_topic is (leader is None)
    while len(world.answers) < 2:
        for dispatch in world.take():
            world.answer(dispatch, None)
        if world.queue.deadline_ms is not None:
            world.pass_pause()
    assert world.codes(1) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert world.queue.deadline_ms is None


def test_a_late_repetition_does_not_pass_a_newer_write() -> None:
    """The coordinator did not answer the first write in time, and serves it later than one thinks."""
    world = World()
    world.submit(write_of(KEYS[0], offset=1))
    [first] = world.take()
    world.submit(write_of(KEYS[0], offset=2))
    assert world.take() == []
    world.answer(first, None)
    world.pass_pause()
    sent = []
    while len(world.answers) < 2:
        [dispatch] = world.take()
        sent += [each.start_offset for topic in dispatch.request.topics  # type: ignore[attr-defined]
                 for each in topic.partitions]
        world.answer(dispatch)
    assert sent == [1, 2]


def test_more_than_can_wait_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "ELEMENTS_MAX", 3)
    world = World()
    world.submit(write_of(*KEYS[:3]))
    world.submit(write_of(*KEYS[3:5]))
    for answer, response in world.queue.finished():
        answer(response)
    assert world.codes() == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    for dispatch in world.take():
        world.answer(dispatch)
    assert world.codes() == [0, 0, 0]
    assert len(world.queue) == 0


def test_a_long_queue_of_one_share_partition_ends_without_recursion() -> None:
    world = World()
    world.coordinator_of = lambda _key: NO_LEADER
    for _ in range(5_000):
        world.submit(write_of(KEYS[0]))
    while len(world.answers) < 5_000:
        world.pass_pause()
    assert len(world.queue) == 0


def test_an_answer_may_submit_the_next_request() -> None:
    """KAFKA-18129: nothing is held while an answer is given."""
    world = World()
    sent = 0

    def again(response: Message) -> None:
        nonlocal sent
        world.answers.append(response)
        if sent < 3:
            sent += 1
            world.queue.submit(write_of(KEYS[0]), again, world.now_ms)

    world.queue.submit(write_of(KEYS[0]), again, 0)
    for _ in range(4):
        [dispatch] = world.take()
        world.answer(dispatch)
    assert len(world.answers) == 4


def test_a_request_without_partitions_is_answered() -> None:
    world = World()
    world.submit(writes.WriteShareGroupStateRequest(group_id=GROUP))
    for answer, response in world.queue.finished():
        answer(response)
    assert world.answers[0].results == []


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_each_request_has_one_answer(seed: int) -> None:
    """The writes of a share partition reach coordinators in their order."""
    rng = random.Random(seed)
    world = World()
    in_flight: list[Dispatch] = []
    served: dict[int, list[int]] = {key.partition: [] for key in KEYS}
    submitted = 0
    while submitted < 60 or len(world.answers) < submitted:
        world.coordinator_of = lambda _key: rng.choice((None, NO_LEADER, OWN, 2, 3))
        if submitted < 60 and rng.random() < 0.4:
            world.submit(write_of(*rng.sample(KEYS, rng.randrange(1, 5)), offset=submitted))
            submitted += 1
        in_flight += world.take()
        if in_flight and rng.random() < 0.7:
            dispatch = in_flight.pop(rng.randrange(len(in_flight)))
            error = rng.choice((None, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE))
            if error == ErrorCode.NONE:
                for topic in dispatch.request.topics:  # type: ignore[attr-defined]
                    for each in topic.partitions:
                        served[each.partition].append(each.start_offset)
            world.answer(dispatch, error)
        elif world.queue.deadline_ms is not None:
            world.pass_pause()
    assert len(world.answers) == submitted
    assert all(found == sorted(found) for found in served.values())
    assert len(world.queue) == 0
    assert all(kind.response for kind in ANSWERS.values())
    assert write(key=KEYS[0])
