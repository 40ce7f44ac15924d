"""Delivery of markers: leaders that move, brokers that do not answer, partitions that are deleted."""

from kraft.broker.transactions.markers import MARKERS_PER_REQUEST, RETRY_MS
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
    new_producer,
)


def deciding(node: TxnNode, *partitions: int) -> None:
    """Commit a transaction with these partitions; no broker has answered a marker."""
    node.answers_markers = False
    identity = new_producer(node)
    add_one(node, identity, *partitions)
    end(node, identity)
    assert node.status() is Status.PREPARE_COMMIT


def test_a_broker_has_one_request_at_a_time() -> None:
    node = TxnNode()
    deciding(node, 0, 2)
    first = node.coordinator.markers.take(1)
    assert first is not None
    assert node.coordinator.markers.take(1) is None
    assert first.markers[0].topics[0].partition_indexes == [0, 2]
    node.coordinator.markers.answered(1, node.marker_response(first), node.now_ms)
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
        assert node.coordinator.markers.take(1) is not None
        node.coordinator.markers.answered(1, None, node.now_ms)
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
    node.coordinator.markers.answered(1, None, node.now_ms)
    assert len(node.coordinator.markers) == 0


def test_a_failed_completion_is_written_later() -> None:
    node = TxnNode()
    deciding(node, 0)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.write_markers(1)
    assert node.status() is Status.PREPARE_COMMIT
    node.logs.error = None
    node.advance(TIMEOUT_MS)
    assert node.status() is Status.COMPLETE_COMMIT
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
