"""Commits, aborts, their repetitions, and delayed requests of earlier transactions."""

import pytest

from kraft.broker.transactions.state import EPOCH_MAX, Identity, Status
from kraft.protocol.error_codes import ErrorCode
from tests.broker.transactions.txn_node import (
    EXHAUSTED,
    FIRST_ID,
    TIMEOUT_MS,
    TxnNode,
    add_one,
    end,
    end_error,
    end_pending,
    init,
    new_producer,
    next_of,
    set_epoch,
)

NONE, FENCED, ITS = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def opened(node: TxnNode, *partitions: int, version: int = 5) -> Identity:
    identity = new_producer(node)
    add_one(node, identity, *partitions, version=version)
    return identity


@pytest.mark.parametrize("commits", [True, False])
def test_markers_follow_the_committed_decision_and_precede_its_completion(commits: bool) -> None:
    node = TxnNode()
    identity = opened(node, 0, 1, 2)
    node.lag = True
    pending = end_pending(node, identity, commits)
    assert not pending.answered
    assert node.markers() == []                                  # appended is not committed
    node.answers_markers = False
    node.commit()
    assert next_of(pending.response) == (FIRST_ID, 1)
    prepared = Status.PREPARE_COMMIT if commits else Status.PREPARE_ABORT
    assert node.status() is prepared
    assert node.write_markers(2)
    assert node.status() is prepared
    assert node.write_markers(1)
    assert sorted(node.markers()) == [(FIRST_ID, 1, commits, "orders", index) for index in range(3)]
    assert node.status() is (Status.COMPLETE_COMMIT if commits else Status.COMPLETE_ABORT)
    [request] = [request for broker, request in node.written if broker == 2]
    assert (request.markers[0].coordinator_epoch, request.markers[0].transaction_version) == (1, 2)


def test_clients_of_earlier_versions_keep_their_epoch() -> None:
    node = TxnNode()
    identity = opened(node, version=3)
    response = end(node, identity, version=4)
    assert (response.error_code, response.producer_id) == (NONE, -1)
    assert node.markers() == [(FIRST_ID, 0, True, "orders", 0)]
    assert node.written[0][1].markers[0].transaction_version == 0
    assert end_error(node, identity, version=4) == NONE
    assert end_error(node, identity, False, version=4) == ITS
    add_one(node, identity, version=3)
    assert end_error(node, identity, False, version=0) == NONE
    assert end_error(node, Identity(FIRST_ID, 1), version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end_error(node, Identity(FIRST_ID, 1), version=2) == FENCED
    assert end_error(node, Identity(1, 0), version=4) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end_error(node, identity, name="unknown", version=4) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_client_of_an_earlier_version_waits_while_markers_are_written() -> None:
    node = TxnNode()
    identity = opened(node, version=3)
    node.answers_markers = False
    assert end_error(node, identity, version=4) == NONE
    assert end_error(node, identity, version=4) == CONCURRENT
    assert end_error(node, identity, False, version=4) == ITS


@pytest.mark.parametrize("commits", [True, False])
def test_repetitions_get_the_same_answer(commits: bool) -> None:
    node = TxnNode()
    identity = opened(node)
    node.answers_markers = False
    following = next_of(end(node, identity, commits))
    assert end_error(node, identity, commits) == CONCURRENT
    assert end_error(node, following, commits) == CONCURRENT
    node.answers_markers = True
    node.settle()
    assert next_of(end(node, identity, commits)) == following
    assert end_error(node, identity, not commits) == (ITS if commits else FENCED)
    node.fail_over()
    assert next_of(end(node, identity, commits)) == following


@pytest.mark.parametrize("commits", [True, False])
def test_a_delayed_request_does_not_decide_a_later_transaction(commits: bool) -> None:
    """KAFKA-17754: a delayed EndTxn met the next transaction, which had the same epoch."""
    node = TxnNode()
    first = opened(node)
    second = next_of(end(node, first, commits))
    add_one(node, second)
    assert end_error(node, first, commits) == FENCED
    assert end_error(node, first, not commits) == FENCED
    assert node.status() is Status.ONGOING
    assert next_of(end(node, second, not commits)) == (FIRST_ID, 2)


def test_without_partitions_an_abort_only_raises_the_epoch() -> None:
    """A stuck Produce of a client that aborts may be its first one (KAFKA-14053)."""
    node = TxnNode()
    identity = new_producer(node)
    assert end_error(node, identity) == ITS
    second = next_of(end(node, identity, False))
    assert second == (FIRST_ID, 1)
    assert node.status() is Status.COMPLETE_ABORT
    assert end_error(node, second) == ITS
    third = next_of(end(node, second, False))
    add_one(node, third)
    fourth = next_of(end(node, third))
    assert next_of(end(node, fourth, False)) == (FIRST_ID, 4)
    assert len(node.markers()) == 1


def test_an_abort_without_partitions_waits_for_the_markers_of_the_previous_transaction() -> None:
    """franz-go aborts at once what it has not sent. The answer must not end its producer."""
    node = TxnNode()
    identity = opened(node)
    node.answers_markers = False
    second = next_of(end(node, identity))
    assert end_error(node, second, False) == CONCURRENT
    node.answers_markers = True
    node.settle()
    assert node.status() is Status.COMPLETE_COMMIT
    assert next_of(end(node, second, False)) == (FIRST_ID, 2)


def test_aborts_without_partitions_that_wait_for_one_commit_end_one_after_the_other() -> None:
    """The followers have left the in-sync replicas: the leader commits all that waits, and then each append at once."""
    node = TxnNode()
    identities = {name: new_producer(node, name=name) for name in ("t", "w")}       # both in one partition
    node.lag = True
    pending = [end_pending(node, identity, False, name=name) for name, identity in identities.items()]
    assert not any(each.answered for each in pending)
    node.logs.reached = lambda partition, end_offset: node.coordinator.committed(partition, end_offset, node.now_ms)
    node.commit()
    assert [each.response.error_code for each in pending] == [NONE, NONE]
    assert [node.status(name) for name in identities] == [Status.COMPLETE_ABORT] * 2
    assert node.history()[-4:] == [Status.PREPARE_ABORT] * 2 + [Status.COMPLETE_ABORT] * 2


def test_an_exhausted_epoch_gives_the_client_another_producer_id() -> None:
    """KAFKA-18660: the answer had the old id."""
    node = TxnNode()
    identity = Identity(new_producer(node).producer_id, EXHAUSTED)
    set_epoch(node, EXHAUSTED)
    add_one(node, identity)
    node.answers_markers = False
    following = next_of(end(node, identity))
    assert following == (FIRST_ID + 1, 0)
    assert end_error(node, identity) == CONCURRENT
    node.fail_over()                                # the next id is in the record (KAFKA-20310)
    node.answers_markers = True
    node.settle()
    assert node.markers() == [(FIRST_ID, EPOCH_MAX, True, "orders", 0)]
    assert node.transaction().client == following
    assert next_of(end(node, identity)) == following
    assert end_error(node, identity, False) == ITS
    assert add_one(node, following) == [NONE]
    assert end_error(node, identity) == FENCED
    assert next_of(end(node, following)) == (FIRST_ID + 1, 1)


def test_the_last_epoch_and_a_time_out_leave_no_open_transaction() -> None:
    """KAFKA-20090: a late EndTxn after the time-out got epoch 32767, with which nothing could be aborted."""
    node = TxnNode()
    identity = Identity(new_producer(node).producer_id, EXHAUSTED)
    set_epoch(node, EXHAUSTED)
    add_one(node, identity)
    node.advance(TIMEOUT_MS)
    assert node.status() is Status.COMPLETE_ABORT
    following = next_of(end(node, identity, False))
    assert following == (FIRST_ID + 1, 0)
    add_one(node, following)
    node.advance(TIMEOUT_MS)
    assert node.status() is Status.COMPLETE_ABORT


@pytest.mark.parametrize("commits", [True, False])
def test_a_client_never_gets_the_epoch_of_an_abort_below_version_2(commits: bool) -> None:
    """The coordinator aborts at level 0 with the epoch that only markers have; the client repeats by level 2."""
    node = TxnNode()
    identity = Identity(new_producer(node).producer_id, EXHAUSTED)
    set_epoch(node, EXHAUSTED)
    add_one(node, identity)
    node.cluster.transaction_version = 0
    node.answers_markers = False
    node.advance(TIMEOUT_MS)
    assert end_error(node, identity, commits) == FENCED
    assert node.write_markers(1)
    assert node.markers() == [(FIRST_ID, EPOCH_MAX, False, "orders", 0)]
    assert end_error(node, identity, commits) == FENCED
    response = init(node).response
    assert (response.error_code, response.producer_id, response.producer_epoch) == (NONE, FIRST_ID + 1, 0)


@pytest.mark.parametrize("commits", [True, False])
def test_a_commit_of_an_aborted_transaction_does_not_repeat_a_later_one_in_the_same_epoch(commits: bool) -> None:
    """A delayed EndTxn was answered with success, because a later transaction with the next epoch was committed below
    transaction.version 2. Its own transaction was aborted by InitProducerId."""
    node = TxnNode()
    identity = opened(node)
    assert init(node, identity).response.error_code == CONCURRENT
    following = new_producer(node, expected=identity)
    assert following == (FIRST_ID, 1)
    add_one(node, following, version=3)
    assert end_error(node, following, commits, version=4) == NONE
    assert end_error(node, identity, commits) == FENCED
    node.fail_over()
    assert end_error(node, identity, commits) == FENCED


def test_the_epoch_that_no_client_may_have_is_ended_too() -> None:
    """A log of Kafka with that bug has it in an open transaction."""
    node = TxnNode()
    identity = Identity(new_producer(node).producer_id, EPOCH_MAX)
    set_epoch(node, EPOCH_MAX)
    add_one(node, identity)
    node.advance(TIMEOUT_MS)
    assert node.markers() == [(FIRST_ID, EPOCH_MAX, False, "orders", 0)]
    assert node.written[0][1].markers[0].transaction_version == 0
    assert node.transaction().client == (FIRST_ID + 1, 0)


def test_a_commit_after_the_time_out_is_fenced() -> None:
    """KAFKA-20785: INVALID_TXN_STATE ends the client."""
    node = TxnNode()
    identity = opened(node)
    node.advance(TIMEOUT_MS)
    assert end_error(node, identity) == FENCED
    assert next_of(end(node, identity, False)) == (FIRST_ID, 1)


def test_a_failed_append_changes_nothing() -> None:
    node = TxnNode()
    identity = opened(node)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert end_error(node, identity) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.logs.error = None
    assert node.status() is Status.ONGOING
    assert next_of(end(node, identity)) == (FIRST_ID, 1)


def test_the_version_may_change_while_a_transaction_is_open() -> None:
    node = TxnNode(version=0)
    identity = opened(node, version=3)
    node.cluster.transaction_version = 2
    following = next_of(end(node, identity))
    assert following.epoch == 1
    add_one(node, following)
    node.cluster.transaction_version = 0
    assert end_error(node, following, version=4) == NONE
    node.fail_over()
    assert end_error(node, following, version=4) == NONE
    assert init(node).response.error_code == NONE
