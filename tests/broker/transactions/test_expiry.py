"""Time-outs of open transactions, and expiry of unused transactional ids."""

import pytest

from kraft.broker.transactions.state import Status
from kraft.protocol.error_codes import ErrorCode
from tests.broker.transactions.txn_node import (
    FIRST_ID,
    TIMEOUT_MS,
    TxnNode,
    add_one,
    described,
    end,
    end_error,
    new_producer,
    next_of,
)

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_ends_exactly_at_its_time(version: int) -> None:
    node = TxnNode(version=version)
    identity = new_producer(node)
    node.advance(1_000)
    add_one(node, identity, 0, 1, version=5 if version else 3)
    node.advance(TIMEOUT_MS - 1)
    assert node.status() is Status.ONGOING
    node.advance(1)
    assert node.status() is Status.COMPLETE_ABORT
    assert {marker[:3] for marker in node.markers()} == {(FIRST_ID, 1, False)}
    assert end_error(node, identity, version=5 if version else 4) == ErrorCode.PRODUCER_FENCED


def test_the_time_counts_from_the_first_partition_of_each_transaction() -> None:
    node = TxnNode()
    identity = new_producer(node)
    for _ in range(3):
        add_one(node, identity)
        node.advance(TIMEOUT_MS - 1)
        identity = next_of(end(node, identity))
    node.advance(10 * TIMEOUT_MS)
    assert node.status() is Status.COMPLETE_COMMIT


def test_the_next_coordinator_knows_the_time() -> None:
    node = TxnNode()
    add_one(node, new_producer(node))
    node.advance(TIMEOUT_MS - 10)
    node.fail_over()
    assert node.status() is Status.ONGOING
    node.advance(10)
    assert node.status() is Status.COMPLETE_ABORT


def test_a_failed_abort_is_tried_again_soon() -> None:
    node = TxnNode()
    add_one(node, new_producer(node))
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(TIMEOUT_MS)
    assert node.status() is Status.ONGOING
    node.logs.error = None
    node.advance(1_000)
    assert node.status() is Status.COMPLETE_ABORT
    assert node.markers() == [(FIRST_ID, 1, False, "orders", 0)]


def test_the_pause_after_a_failed_abort_is_a_setting() -> None:
    node = TxnNode(abort_retry_ms=20)
    add_one(node, new_producer(node))
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(TIMEOUT_MS)
    node.logs.error = None
    node.advance(20)
    assert node.status() is Status.COMPLETE_ABORT


def test_unused_ids_expire() -> None:
    node = TxnNode(id_expiration_ms=7 * DAY_MS, expiration_interval_ms=DAY_MS)
    new_producer(node)
    used = new_producer(node, name="used")
    new_producer(node, name="open", timeout_ms=900_000)
    node.advance(6 * DAY_MS)
    add_one(node, used, name="used")
    end(node, used, name="used")
    node.advance(2 * DAY_MS)
    assert described(node).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert described(node, "open").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert described(node, "used").error_code == ErrorCode.NONE
    assert node.history().count(None) == 2
    node.fail_over()
    assert described(node).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert new_producer(node) == (FIRST_ID + 3, 0)


def test_open_and_decided_transactions_do_not_expire() -> None:
    node = TxnNode(id_expiration_ms=1, expiration_interval_ms=10, two_phase_commit=True)
    add_one(node, new_producer(node, two_phase=True))
    decided = new_producer(node, name="decided")
    add_one(node, decided, name="decided")
    node.answers_markers = False
    end(node, decided, name="decided")
    node.advance(1_000)
    assert node.status() is Status.ONGOING
    assert node.status("decided") is Status.PREPARE_COMMIT


def test_a_failed_expiry_is_tried_again() -> None:
    node = TxnNode(id_expiration_ms=1, expiration_interval_ms=10)
    new_producer(node)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(15)
    node.logs.error = None
    node.advance(15)
    assert described(node).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_many_ids_expire_in_steps() -> None:
    node = TxnNode(id_expiration_ms=1, expiration_interval_ms=10)
    for number in range(600):
        new_producer(node, name=f"id-{number}")
    node.advance(100)
    assert node.history().count(None) == 600
    assert max(end - start for ends in node.logs.batches for start, end in zip([0, *ends], ends, strict=False)) <= 257
