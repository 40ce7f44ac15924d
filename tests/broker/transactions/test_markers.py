"""Delivery of markers: leaders that move, brokers that do not answer, partitions that are deleted or slow."""

import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

from kraft.broker.transactions.markers import (
    LANES,
    MARKERS_PER_REQUEST,
    RETRY_MS,
    SLOW_LANE,
    Decision,
    Dispatch,
    MarkerQueue,
    Marking,
)
from kraft.broker.transactions.state import Status
from kraft.metadata.image import NO_LEADER
from kraft.protocol.error_codes import ErrorCode
from tests.broker.transactions.txn_node import (
    FIRST_ID,
    TIMEOUT_MS,
    TxnNode,
    add_one,
    end,
    end_pending,
    marker_response,
    new_producer,
)


def deciding(node: TxnNode, *partitions: int) -> None:
    """Commit a transaction with these partitions; no broker has answered a marker."""
    node.answers_markers = False
    identity = new_producer(node)
    add_one(node, identity, *partitions)
    end(node, identity)
    assert node.status() is Status.PREPARE_COMMIT


def test_the_markers_of_a_transaction_share_a_request() -> None:
    node = TxnNode()
    deciding(node, 0, 2)
    first = node.coordinator.markers.take(1)
    assert first is not None
    assert node.coordinator.markers.take(1) is None
    assert first.request.markers[0].topics[0].partition_indexes == [0, 2]
    node.coordinator.markers.answered(first, node.marker_response(first.request), node.now_ms)
    assert node.status() is Status.COMPLETE_COMMIT
    assert len(node.coordinator.markers) == 0


def test_failed_markers_follow_the_leader() -> None:
    node = TxnNode()
    deciding(node, 0, 1)
    node.marker_code = lambda partition: (ErrorCode.NOT_LEADER_OR_FOLLOWER if partition[1] == 0 else ErrorCode.NONE)
    assert node.write_markers(1)
    assert node.write_markers(2)
    assert not node.write_markers(1)
    node.cluster.leaders["orders", 0] = 2
    node.advance(RETRY_MS)
    node.marker_code = lambda _: ErrorCode.NONE
    assert not node.write_markers(1)
    assert node.write_markers(2)
    assert node.status() is Status.COMPLETE_COMMIT


def test_an_unreachable_broker_is_tried_again_indefinitely() -> None:
    node = TxnNode()
    deciding(node, 0)
    for _ in range(50):
        dispatch = node.coordinator.markers.take(1)
        assert dispatch is not None
        node.coordinator.markers.answered(dispatch, None, node.now_ms)
        assert node.coordinator.markers.take(1) is None
        node.advance(RETRY_MS)
    assert node.write_markers(1)
    assert node.status() is Status.COMPLETE_COMMIT


def test_a_partition_without_a_leader_waits_and_a_deleted_one_is_done() -> None:
    node = TxnNode()
    deciding(node, 0, 1)
    node.marker_code = lambda _: ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.write_markers(1)
    assert node.write_markers(2)
    node.cluster.leaders["orders", 0] = NO_LEADER
    del node.cluster.leaders["orders", 1]
    node.advance(10 * RETRY_MS)
    assert node.status() is Status.PREPARE_COMMIT
    assert not node.write_markers(1)
    node.cluster.leaders["orders", 0] = 2
    node.marker_code = lambda _: ErrorCode.NONE
    node.answers_markers = True
    node.advance(RETRY_MS)
    assert node.status() is Status.COMPLETE_COMMIT


def test_a_partition_that_is_only_unknown_yet_gets_its_marker() -> None:
    """A broker that starts may lead, by what it knows, before it knows every topic."""
    node = TxnNode()
    deciding(node, 0)
    del node.cluster.leaders["orders", 0]
    node.cluster.is_current = False
    node.fail_over()
    node.advance(5 * RETRY_MS)
    assert node.status() is Status.PREPARE_COMMIT
    node.cluster.leaders["orders", 0] = 2
    node.cluster.is_current = True
    node.answers_markers = True
    node.advance(RETRY_MS)
    assert node.status() is Status.COMPLETE_COMMIT
    assert [broker for broker, _ in node.written] == [2]


def test_a_later_marker_of_the_producer_makes_this_one_needless() -> None:
    """KAFKA-19999: the coordinator's own repetition was refused for its epoch, and the transaction never ended."""
    node = TxnNode()
    deciding(node, 0)
    node.marker_code = lambda _: ErrorCode.INVALID_PRODUCER_EPOCH
    assert node.write_markers(1)
    assert node.status() is Status.COMPLETE_COMMIT


def test_the_next_coordinator_writes_the_markers_again() -> None:
    node = TxnNode()
    deciding(node, 0, 1)
    assert node.write_markers(1)
    node.fail_over()
    assert node.write_markers(1)
    assert node.write_markers(2)
    assert [(broker, request.markers[0].coordinator_epoch) for broker, request in node.written] == [
        (1, 1), (1, 2), (2, 2)]
    assert {marker[:3] for marker in node.markers()} == {(FIRST_ID, 1, True)}
    assert node.status() is Status.COMPLETE_COMMIT


def test_the_next_coordinator_waits_until_the_decision_is_committed() -> None:
    node = TxnNode()
    identity = new_producer(node)
    add_one(node, identity)
    node.lag = True
    end_pending(node, identity, True)
    node.fail_over()
    assert node.status() is Status.PREPARE_COMMIT
    assert node.written == []
    node.commit()
    node.settle()
    assert len(node.written) == 1


def test_a_coordinator_that_resigned_sends_nothing() -> None:
    node = TxnNode()
    deciding(node, 0, 1)
    sent = node.coordinator.markers.take(1)
    assert sent is not None
    for partition in range(3):
        node.coordinator.shards.resign(partition, 9)
    assert node.coordinator.markers.take(2) is None
    node.coordinator.markers.answered(sent, None, node.now_ms)
    assert len(node.coordinator.markers) == 0


def unwritten(node: TxnNode) -> list[str]:
    return [each for _, state in node.coordinator.shards.active(node.now_ms) for each in state.unwritten]


def test_a_failed_completion_is_written_later() -> None:
    node = TxnNode()
    deciding(node, 0)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.write_markers(1)
    assert node.status() is Status.PREPARE_COMMIT
    assert unwritten(node) == ["t"]
    node.logs.error = None
    node.advance(TIMEOUT_MS)
    assert node.status() is Status.COMPLETE_COMMIT
    assert unwritten(node) == []
    assert len(node.written) == 1


def test_requests_are_limited() -> None:
    node = TxnNode()
    count = MARKERS_PER_REQUEST + 10
    node.cluster.leaders |= {("wide", index): 1 for index in range(count)}
    node.answers_markers = False
    identity = new_producer(node)
    add_one(node, identity, *range(count), topic="wide")
    end(node, identity)
    assert node.write_markers(1)
    assert node.write_markers(1)
    assert [len(request.markers[0].topics[0].partition_indexes) for _, request in node.written] == [
        MARKERS_PER_REQUEST, 10]
    assert node.status() is Status.COMPLETE_COMMIT


# -------------------------------------------------------------------- slow partitions

class Broker2:
    """A queue of markers for broker 2, which leads all partitions of "t"; none is written until it is answered.
    `leaders` has partitions that other brokers lead."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.queue = MarkerQueue(SimpleNamespace(
            leader_of=lambda _topic, partition: self.leaders.get(partition, 2), is_current=True))
        self.now_ms = 0
        self.done: list[int] = []

    def add(self, producer_id: int, *partitions: int) -> Marking:
        marking = Marking(Decision(producer_id, 1, True, 2), [("t", each) for each in partitions], lambda: 3,
                          lambda: self.done.append(producer_id))
        self.queue.add(marking, self.now_ms)
        return marking

    def take(self) -> Dispatch:
        dispatch = self.queue.take(2)
        assert dispatch is not None
        return dispatch

    def answer(self, dispatch: Dispatch, *late: int) -> None:
        """Answer that all is committed, except partitions `late`."""
        response = marker_response(dispatch.request, lambda partition: (
            ErrorCode.REQUEST_TIMED_OUT if partition[1] in late else ErrorCode.NONE))
        self.queue.answered(dispatch, response, self.now_ms)

    def back_off(self) -> None:
        self.now_ms += RETRY_MS
        self.queue.tick(self.now_ms, 1000)


def in_request(dispatch: Dispatch) -> list[tuple[int, int]]:
    """Producer id and partition of each marker."""
    return [(marker.producer_id, index) for marker in dispatch.request.markers for topic in marker.topics
            for index in topic.partition_indexes]


def test_markers_of_another_partition_do_not_wait_for_a_slow_one() -> None:
    broker = Broker2()
    broker.add(1, 0)
    stuck = broker.take()
    broker.add(2, 1)
    other = broker.take()
    assert other.lane != stuck.lane
    broker.answer(other)
    assert broker.done == [2]


def test_a_partition_has_markers_in_one_request_at_a_time() -> None:
    broker = Broker2()
    broker.add(1, 0)
    first = broker.take()
    for producer_id in (2, 3):
        broker.add(producer_id, 0)
    assert broker.queue.take(2) is None
    broker.answer(first)
    assert in_request(broker.take()) == [(2, 0), (3, 0)]


def test_requests_in_flight_are_limited() -> None:
    broker = Broker2()
    sent = []
    for index in range(LANES):
        broker.add(index, index)
        sent.append(broker.take())
    broker.add(100, 100)
    broker.add(101, 101)
    assert broker.queue.take(2) is None
    assert {each.lane for each in sent} == set(range(LANES))
    broker.answer(sent[1])
    last = broker.take()
    assert last.lane == sent[1].lane
    assert in_request(last) == [(100, 100), (101, 101)]


def test_slow_partitions_have_a_lane_of_their_own_until_they_commit() -> None:
    broker = Broker2()
    for index in range(2 * LANES):                      # more slow partitions than lanes
        broker.add(index, index)
        broker.answer(broker.take(), index)
    assert broker.queue.slow_count == 2 * LANES
    broker.back_off()
    slow = broker.take()
    assert (slow.lane, len(in_request(slow))) == (SLOW_LANE, 2 * LANES)
    broker.add(100, 0)
    broker.add(101, 101)
    assert in_request(broker.take()) == [(101, 101)]
    assert broker.queue.take(2) is None
    broker.answer(slow, 5)
    broker.back_off()
    assert [in_request(broker.take()) for _ in range(2)] == [[(5, 5)], [(100, 0)]]
    assert broker.queue.slow_count == 1


def test_a_slow_partition_is_probed_by_one_marker() -> None:
    broker = Broker2()
    broker.add(1, 0)
    broker.answer(broker.take(), 0)
    for producer_id in range(2, 10):
        broker.add(producer_id, 0)
    for _ in range(3):
        probe = broker.take()
        assert probe.lane == SLOW_LANE
        assert len(in_request(probe)) == 1
        assert broker.queue.take(2) is None
        broker.answer(probe, 0)
        broker.back_off()
    broker.answer(broker.take())
    assert broker.queue.slow_count == 0
    while (rest := broker.queue.take(2)) is not None:
        assert len(in_request(rest)) > 1
        broker.answer(rest)
    assert sorted(broker.done) == list(range(1, 10))
    assert len(broker.queue) == 0


def test_a_broker_that_does_not_answer_is_tried_by_one_request() -> None:
    broker = Broker2()
    for index in range(LANES):
        broker.add(index, index)
        broker.queue.answered(broker.take(), None, broker.now_ms)
    broker.back_off()
    probe = broker.take()
    assert len(in_request(probe)) == LANES
    broker.add(100, 100)
    assert broker.queue.take(2) is None
    broker.answer(probe)
    assert in_request(broker.take()) == [(100, 100)]
    broker.add(101, 101)
    assert in_request(broker.take()) == [(101, 101)]


def test_partitions_are_not_slow_because_a_connection_broke() -> None:
    """They had one marker at a time each until it was written."""
    broker = Broker2()
    broker.add(1, 0, 1)
    broker.add(2, 0, 1)
    broker.queue.answered(broker.take(), None, broker.now_ms)
    assert broker.queue.slow_count == 0
    broker.back_off()
    assert sorted(in_request(broker.take())) == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_a_slow_partition_stays_slow_when_a_connection_breaks() -> None:
    broker = Broker2()
    broker.add(1, 0)
    broker.add(2, 1)
    broker.answer(broker.take(), 0)
    broker.back_off()
    broker.queue.answered(broker.take(), None, broker.now_ms)
    assert broker.queue.slow_count == 1
    broker.back_off()
    broker.add(3, 0)
    assert in_request(broker.take()) == [(1, 0)]


def test_markers_of_own_partitions_are_settled_one_by_one() -> None:
    broker = Broker2()
    broker.add(1, 0)
    broker.add(2, 0, 1)
    first, second, third = broker.queue.take_own(2, 10)
    assert broker.queue.take_own(2, 10) == []
    broker.queue.settled(second, ErrorCode.NONE, broker.now_ms)
    broker.queue.settled(third, ErrorCode.NONE, broker.now_ms)
    assert broker.done == [2]
    broker.queue.settled(first, ErrorCode.REQUEST_TIMED_OUT, broker.now_ms)
    broker.back_off()
    assert broker.queue.take_own(2, 10) == [first]
    broker.queue.settled(first, ErrorCode.NONE, broker.now_ms)
    assert broker.done == [2, 1]
    assert len(broker.queue) == 0


def test_own_markers_are_taken_in_parts() -> None:
    broker = Broker2()
    for producer_id in range(5):
        broker.add(producer_id, 0)
    taken = [broker.queue.take_own(2, 2) for _ in range(4)]
    assert [[marker.marking.decision.producer_id for marker in part] for part in taken] == [[0, 1], [2, 3], [4], []]


def test_own_markers_that_are_left_are_due() -> None:
    """Also when those that were taken are of transactions that another node coordinates now."""
    broker, due = Broker2(), []
    for producer_id in range(3):
        broker.add(producer_id, producer_id).cancel()
    broker.add(3, 3)
    broker.queue.on_due = due.append
    assert broker.queue.take_own(2, 3) == []
    assert due == [2]
    [left] = broker.queue.take_own(2, 3)
    assert left.marking.decision.producer_id == 3
    assert due == [2]


def test_a_partition_that_was_slow_under_another_leader_is_not_slow_here() -> None:
    """Its marker stayed in the queue as long as another own partition had one, and for good when no more came."""
    broker = Broker2()
    broker.add(1, 0)
    broker.answer(broker.take(), 0)
    broker.leaders = {0: 1, 1: 1}
    broker.back_off()
    broker.add(2, 1)
    taken = broker.queue.take_own(1, 10)
    assert sorted(marker.partition for marker in taken) == [("t", 0), ("t", 1)]
    for marker in taken:
        broker.queue.settled(marker, ErrorCode.NONE, broker.now_ms)
    assert sorted(broker.done) == [1, 2]
    assert (len(broker.queue), broker.queue.slow_count) == (0, 0)


class Driver:
    """Writer of the markers of a queue, for broker 1 itself and for broker 2, when and only when they are due.
    `outcome` returns the code of a partition, None: the broker does not answer."""

    def __init__(self, broker: Broker2, outcome: Callable[[], int | None]) -> None:
        self.broker = broker
        self.outcome = outcome
        self.due: dict[int, None] = {}
        self.in_flight: list[Dispatch] = []
        broker.queue.on_due = lambda broker_id: self.due.setdefault(broker_id)

    def serve(self) -> None:
        due, self.due = self.due, {}
        queue, now_ms = self.broker.queue, self.broker.now_ms
        if 1 in due:
            for marker in queue.take_own(1, 3):
                code = self.outcome()
                queue.settled(marker, ErrorCode.REQUEST_TIMED_OUT if code is None else code, now_ms)
        if 2 in due:
            while (dispatch := queue.take(2)) is not None:
                self.in_flight.append(dispatch)

    def answer(self, place: int) -> None:
        dispatch, code = self.in_flight.pop(place), self.outcome()
        response = None if code is None else marker_response(dispatch.request, lambda _: self.outcome() or code)
        self.broker.queue.answered(dispatch, response, self.broker.now_ms)


def test_what_is_due_is_all_that_has_to_be_taken() -> None:
    """Leaders move between this node and another one, and coordinators too. Then faults end, and so do all markers."""
    failures = (None, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    for seed in range(60):
        chance, broker = random.Random(seed), Broker2()
        driver = Driver(broker, partial(chance.choice, failures))
        markings: list[Marking] = []
        for step in range(150):
            if chance.random() < 0.3:
                markings.append(broker.add(step, *chance.sample(range(8), chance.randint(1, 4))))
            if chance.random() < 0.05:
                chance.choice(markings or [broker.add(-1, 0)]).cancel()
            if chance.random() < 0.1:
                broker.leaders[chance.randrange(8)] = chance.choice((1, 2))
            if chance.random() < 0.6:
                driver.serve()
            if driver.in_flight and chance.random() < 0.5:
                driver.answer(chance.randrange(len(driver.in_flight)))
            if chance.random() < 0.2:
                broker.back_off()
        driver.outcome = lambda: ErrorCode.NONE
        for _ in range(150):
            while driver.due or driver.in_flight:
                driver.serve()
                while driver.in_flight:
                    driver.answer(0)
            broker.back_off()
        assert (len(broker.queue), broker.queue.slow_count, broker.queue.deadline_ms) == (0, 0, None), seed
        assert all(marking.is_cancelled for marking in markings)


def test_any_order_of_events_loses_and_doubles_nothing() -> None:
    """A marker is always in one place, a partition in one request, and a broker has few requests."""
    for seed in range(60):
        chance, broker = random.Random(seed), Broker2()
        in_flight: list[Dispatch] = []
        markings: list[Marking] = []
        for step in range(150):
            if chance.random() < 0.4:
                markings.append(broker.add(step, *chance.sample(range(8), chance.randint(1, 4))))
            if chance.random() < 0.05:
                chance.choice(markings or [broker.add(-1, 0)]).cancel()
            if chance.random() < 0.6 and (dispatch := broker.queue.take(2)) is not None:
                in_flight.append(dispatch)
                assert len({each.lane for each in in_flight}) == len(in_flight) <= LANES + 1
                busy = [{marker.partition for marker in each.markers} for each in in_flight]
                assert sum(map(len, busy)) == len(set().union(*busy))
            if in_flight and chance.random() < 0.5:
                answered = in_flight.pop(chance.randrange(len(in_flight)))
                if chance.random() < 0.1:
                    broker.queue.answered(answered, None, broker.now_ms)
                else:
                    broker.answer(answered, *chance.sample(range(8), chance.choice((0, 0, 1, 3))))
            if chance.random() < 0.2:
                broker.back_off()
        for each in in_flight:
            broker.answer(each)
        while len(broker.queue):
            broker.back_off()
            while (dispatch := broker.queue.take(2)) is not None:
                broker.answer(dispatch)
        assert len(broker.done) == len(set(broker.done))
        assert broker.queue.slow_count == 0
        assert all(marking.is_cancelled for marking in markings)    # written, or cancelled before
