"""Identities that InitProducerId gives, keeps and fences."""

import pytest

from kraft.broker.transactions.state import Identity, Status
from kraft.protocol.error_codes import ErrorCode
from tests.broker.transactions.txn_node import (
    EXHAUSTED,
    FIRST_ID,
    TIMEOUT_MS,
    TxnNode,
    add_one,
    end,
    end_error,
    init,
    new_producer,
    next_of,
    set_epoch,
)

NONE = ErrorCode.NONE


def test_a_new_id_gets_epoch_0_and_the_next_client_the_next_epoch() -> None:
    node = TxnNode()
    assert new_producer(node) == (FIRST_ID, 0)
    assert new_producer(node) == (FIRST_ID, 1)
    assert new_producer(node, name="other") == (FIRST_ID + 1, 0)
    assert node.transaction().timeout_ms == TIMEOUT_MS


def test_a_repetition_gets_the_same_epoch_and_a_fenced_client_none() -> None:
    node = TxnNode()
    first = new_producer(node)
    second = new_producer(node, expected=first)
    assert second == (first.producer_id, 1)
    assert new_producer(node, expected=first) == second
    third = new_producer(node)                                  # another client
    assert init(node, first).response.error_code == ErrorCode.PRODUCER_FENCED
    assert init(node, second).response.error_code == ErrorCode.PRODUCER_FENCED
    assert init(node, second, version=3).response.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert init(node, Identity(77, 0)).response.error_code == ErrorCode.PRODUCER_FENCED
    assert new_producer(node, expected=third).epoch == third.epoch + 1


def test_an_epoch_that_is_in_use_is_not_given_out_again() -> None:
    """A request that arrives after its producer has begun a transaction would give the same epoch to two producers."""
    node = TxnNode()
    first = new_producer(node)
    second = new_producer(node, expected=first)
    add_one(node, second, version=3)
    assert init(node, first).response.error_code == ErrorCode.PRODUCER_FENCED
    assert end_error(node, second, version=4) == ErrorCode.NONE
    assert init(node, first).response.error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("epoch", [0, EXHAUSTED])
def test_a_repetition_after_a_fail_over_gets_the_same_identity(epoch: int) -> None:
    """KAFKA-20310 and KAFKA-20357: the last epoch and the previous id are in the record."""
    node = TxnNode()
    first = Identity(new_producer(node).producer_id, epoch)
    set_epoch(node, epoch)
    second = new_producer(node, expected=first)
    assert second == ((FIRST_ID + 1, 0) if epoch == EXHAUSTED else (FIRST_ID, 1))
    node.fail_over()
    assert new_producer(node, expected=first) == second


def test_an_exhausted_epoch_leads_to_another_producer_id() -> None:
    node = TxnNode()
    first = new_producer(node)
    set_epoch(node, EXHAUSTED)
    second = new_producer(node)
    assert second == (FIRST_ID + 1, 0)
    assert node.transaction().previous_producer_id == first.producer_id
    assert init(node, Identity(FIRST_ID, EXHAUSTED)).response.error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_is_aborted_and_its_client_fenced(version: int) -> None:
    node = TxnNode(version=version)
    first = new_producer(node)
    assert add_one(node, first, 0, 1, version=5 if version == 2 else 3) == [NONE, NONE]
    assert init(node).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.status() is Status.COMPLETE_ABORT
    assert sorted(node.markers()) == [(FIRST_ID, 1, False, "orders", 0), (FIRST_ID, 1, False, "orders", 1)]
    assert new_producer(node) == (FIRST_ID, 2)
    assert end_error(node, first, version=5 if version == 2 else 4) == ErrorCode.PRODUCER_FENCED


def test_the_epoch_increases_once_when_the_open_transaction_is_aborted() -> None:
    """KAFKA-19367: a fence and an abort raised it twice, from 32766 to -32768."""
    node = TxnNode()
    identity = Identity(new_producer(node).producer_id, EXHAUSTED)
    set_epoch(node, EXHAUSTED)
    add_one(node, identity)
    assert init(node).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.markers() == [(FIRST_ID, 32767, False, "orders", 0)]
    assert node.transaction().client == (FIRST_ID + 1, 0)
    assert new_producer(node) == (FIRST_ID + 1, 1)


@pytest.mark.parametrize("version", [0, 2])
def test_failed_appends_use_no_epochs(version: int) -> None:
    """KAFKA-9666: each failed fence raised the epoch in memory."""
    node = TxnNode(version=version)
    identity = new_producer(node)
    add_one(node, identity, version=3)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(5):
        assert init(node).response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.transaction().client == identity
    node.logs.error = None
    assert init(node).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert new_producer(node) == (FIRST_ID, 2)


def test_a_stale_client_does_not_abort_the_transaction_of_its_successor() -> None:
    node = TxnNode()
    stale = new_producer(node)
    current = new_producer(node)
    add_one(node, current)
    assert init(node, stale).response.error_code == ErrorCode.PRODUCER_FENCED
    assert node.status() is Status.ONGOING


def test_while_markers_are_written_the_client_repeats_the_request() -> None:
    node = TxnNode()
    identity = new_producer(node)
    add_one(node, identity)
    node.answers_markers = False
    end(node, identity)
    assert init(node).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert init(node, identity).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    node.answers_markers = True
    node.settle()
    assert new_producer(node) == (FIRST_ID, 2)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_time_outs_have_a_limit(timeout_ms: int) -> None:
    assert init(TxnNode(), timeout_ms=timeout_ms).response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_the_empty_id_is_refused() -> None:
    assert init(TxnNode(), name="").response.error_code == ErrorCode.INVALID_REQUEST


def test_an_answer_waits_for_a_producer_id_and_for_its_record() -> None:
    node = TxnNode(lag=True)
    node.ids.holds = True
    pending = init(node)
    assert node.logs.records == [[], [], []]
    node.ids.release()
    assert not pending.answered
    node.commit()
    assert pending.response.producer_id == FIRST_ID


def test_without_a_producer_id_the_client_repeats_the_request() -> None:
    node = TxnNode()
    node.ids.fails = True
    assert init(node).response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# -------------------------------------------------------------------- two-phase commit (KIP-939)

def test_two_phase_commit_needs_the_setting() -> None:
    refused = init(TxnNode(), two_phase=True).response
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_transaction_of_two_phase_commit_has_no_time_out() -> None:
    node = TxnNode(two_phase_commit=True)
    identity = new_producer(node, two_phase=True, timeout_ms=0)
    add_one(node, identity)
    node.advance(100 * 24 * 3_600_000)
    assert node.status() is Status.ONGOING


@pytest.mark.parametrize("commits", [True, False])
def test_a_recovered_client_keeps_and_ends_its_prepared_transaction(commits: bool) -> None:
    node = TxnNode(two_phase_commit=True)
    first = new_producer(node, two_phase=True)
    add_one(node, first, 0, 1)
    kept = init(node, two_phase=True, keep=True).response
    assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == first
    second = next_of(kept)
    assert second == (FIRST_ID + 1, 0)
    assert node.status() is Status.ONGOING
    again = init(node, two_phase=True, keep=True).response          # recovered twice
    third = next_of(again)
    assert third == (FIRST_ID + 1, 1)
    assert (again.ongoing_txn_producer_id, again.ongoing_txn_producer_epoch) == first
    node.fail_over()
    assert end_error(node, first, commits) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end_error(node, second, commits) == ErrorCode.PRODUCER_FENCED
    assert add_one(node, third) == [ErrorCode.INVALID_TXN_STATE]
    fourth = next_of(end(node, third, commits))
    assert fourth == (FIRST_ID + 1, 2)
    assert sorted(node.markers()) == [(FIRST_ID, 1, commits, "orders", 0), (FIRST_ID, 1, commits, "orders", 1)]
    assert node.status() is (Status.COMPLETE_COMMIT if commits else Status.COMPLETE_ABORT)
    assert next_of(end(node, third, commits)) == fourth             # a repetition
    assert add_one(node, fourth) == [NONE]


def test_without_a_prepared_transaction_a_recovered_client_just_starts() -> None:
    node = TxnNode(two_phase_commit=True)
    new_producer(node, two_phase=True)
    response = init(node, two_phase=True, keep=True).response
    assert next_of(response) == (FIRST_ID, 1)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (-1, -1)


def test_an_operator_ends_a_prepared_transaction() -> None:
    """InitProducerId without keepPreparedTxn aborts it, also after its client has recovered it."""
    node = TxnNode(two_phase_commit=True)
    first = new_producer(node, two_phase=True)
    add_one(node, first)
    second = next_of(init(node, two_phase=True, keep=True).response)
    assert init(node, timeout_ms=1).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.markers() == [(FIRST_ID, 1, False, "orders", 0)]
    assert end_error(node, second) == ErrorCode.PRODUCER_FENCED
    assert new_producer(node).producer_id == second.producer_id
