"""Events of transactions that a coordinator reports for the flight recorder."""

import pytest

from kraft.broker.transactions.events import (
    Began,
    Completed,
    CoordinatorLoaded,
    CoordinatorResigned,
    Decided,
    EndReason,
    Fenced,
    MarkerDelayed,
    MarkerWritten,
    TransactionEvent,
)
from kraft.broker.transactions.markers import RETRY_MS
from kraft.broker.transactions.state import Identity
from kraft.metadata.image import NO_LEADER
from kraft.protocol.error_codes import ErrorCode
from tests.broker.transactions.txn_node import (
    FIRST_ID,
    TIMEOUT_MS,
    TxnNode,
    add_one,
    end,
    end_error,
    init,
    new_producer,
    next_of,
)


@pytest.fixture
def node() -> TxnNode:
    return TxnNode()


def recorded(node: TxnNode) -> list[TransactionEvent]:
    """Return the list that gets all events from here on."""
    events: list[TransactionEvent] = []
    node.coordinator.on_event = events.append
    return events


def test_a_decision_is_reported_before_the_end_that_follows_at_once(node: TxnNode) -> None:
    identity = new_producer(node)
    events = recorded(node)
    node.logs.reached = lambda partition, end_offset: node.coordinator.committed(partition, end_offset, node.now_ms)
    end(node, identity, False)
    assert events == [Decided("t", FIRST_ID, 1, False, 0, EndReason.CLIENT), Completed("t", FIRST_ID, 1, False)]


def test_a_transaction_from_its_begin_to_its_last_marker(node: TxnNode) -> None:
    events = recorded(node)
    identity = new_producer(node)
    add_one(node, identity, 0, 1)
    add_one(node, identity, 2)
    identity = next_of(end(node, identity))
    assert events == [
        Began("t", FIRST_ID, 0), Decided("t", FIRST_ID, 1, True, 3, EndReason.CLIENT),
        *(MarkerWritten(FIRST_ID, 1, "orders", index, ErrorCode.NONE) for index in (0, 2, 1)),
        Completed("t", FIRST_ID, 1, True)]
    events.clear()
    add_one(node, identity)
    end(node, identity, False)
    assert [events[0], events[1], events[-1]] == [
        Began("t", FIRST_ID, 1), Decided("t", FIRST_ID, 2, False, 1, EndReason.CLIENT),
        Completed("t", FIRST_ID, 2, False)]


def test_the_reason_of_an_abort_by_the_coordinator(node: TxnNode) -> None:
    events = recorded(node)
    add_one(node, new_producer(node))
    node.advance(TIMEOUT_MS)
    identity = new_producer(node)
    add_one(node, identity)
    assert init(node).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert [each.reason for each in events if isinstance(each, Decided)] == [
        EndReason.TIMED_OUT, EndReason.NEW_CLIENT]


def test_a_fenced_client(node: TxnNode) -> None:
    events = recorded(node)
    first = new_producer(node)
    add_one(node, new_producer(node))
    assert add_one(node, first) == [ErrorCode.PRODUCER_FENCED]
    assert end_error(node, first) == ErrorCode.PRODUCER_FENCED
    assert events[1:] == [Fenced("t", ErrorCode.PRODUCER_FENCED)] * 2
    assert end_error(node, Identity(9, 9)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert len(events) == 3


def test_a_marker_that_is_delayed_is_reported_once_per_cause(node: TxnNode) -> None:
    events = recorded(node)
    node.answers_markers = False
    identity = new_producer(node)
    add_one(node, identity)
    end(node, identity)
    node.marker_code = lambda _: ErrorCode.NOT_LEADER_OR_FOLLOWER
    for _ in range(3):
        assert node.write_markers(1)
        node.advance(RETRY_MS)
    node.cluster.leaders["orders", 0] = NO_LEADER
    assert node.write_markers(1)
    node.advance(5 * RETRY_MS)
    assert events[2:] == [MarkerDelayed(FIRST_ID, 1, "orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
                          MarkerDelayed(FIRST_ID, 1, "orders", 0, ErrorCode.LEADER_NOT_AVAILABLE)]


def test_a_failed_write_is_no_event(node: TxnNode) -> None:
    events = recorded(node)
    identity = new_producer(node)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    add_one(node, identity)
    assert events == []


def test_a_coordinator_that_comes_and_goes(node: TxnNode) -> None:
    new_producer(node)
    events = recorded(node)
    for partition in range(3):
        node.coordinator.shards.resign(partition, 9)
    node.epoch = 9
    node.load()
    assert events[:3] == [CoordinatorResigned(partition, 1) for partition in range(3)]
    loaded = [each for each in events[3:] if isinstance(each, CoordinatorLoaded)]
    assert [(each.partition, each.leader_epoch) for each in loaded] == [(0, 10), (1, 10), (2, 10)]
    assert sum(each.transactional_ids for each in loaded) == 1
