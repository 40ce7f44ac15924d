"""Requests of a transactional client, by the cluster's level of `transaction.version`."""

from typing import cast

import pytest

from kraft.client.cluster import Cluster
from kraft.client.refusals import RefusedError
from kraft.client.transactions import GroupMember, Offset, Transactions
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft_native.base.errors import InvalidArgumentError, UnsupportedVersionError
from tests.client.transactional_cluster import TransactionalNode


def transactions(node: TransactionalNode, *, two_phase: bool = False) -> Transactions:
    return Transactions(cast("Cluster", node), "t", expiry_ms=60_000, timeout=5.0, two_phase=two_phase)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_versions_follow_the_level_of_the_cluster(level: int) -> None:
    node = TransactionalNode(level)
    it = transactions(node)
    it.begin()
    it.add("orders", 0)
    it.commit_offsets(GroupMember("g", 3, "m", "i"), {("orders", 0): Offset(5, "x"), ("clicks", 1): Offset(6)})
    it.end(commit=True)
    is_new = level == 2
    assert it.adds_implicitly == is_new
    assert node.offsets == [("orders", 0, 5), ("clicks", 1, 6)]
    assert {kind.__name__: node.sent_versions(kind) for kind in (
        InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest,
        EndTxnRequest)} == {
        "InitProducerIdRequest": [5 if is_new else 4], "AddPartitionsToTxnRequest": [] if is_new else [3],
        "AddOffsetsToTxnRequest": [] if is_new else [3], "TxnOffsetCommitRequest": [5 if is_new else 4],
        "EndTxnRequest": [5 if is_new else 4]}
    sent = next(request for request, _ in node.sent if isinstance(request, TxnOffsetCommitRequest))
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.group_instance_id) == ("g", 3, "m", "i")
    assert (it.producer_id, it.producer_epoch) == (7, 1 if is_new else 0), "the end returns the next epoch"


def test_an_end_without_an_answer_is_repeated_and_returns_the_next_epoch() -> None:
    node = TransactionalNode()
    it = transactions(node)
    it.begin()
    it.add("orders", 0)
    node.lost.append(EndTxnRequest)
    it.end(commit=True)
    assert node.sent_versions(EndTxnRequest) == [5, 5]
    assert (node.ends, it.producer_epoch) == ([True], 1)


def test_an_empty_transaction_needs_no_request_to_end() -> None:
    node = TransactionalNode()
    it = transactions(node)
    it.begin()
    it.end(commit=True)
    assert node.sent_versions(EndTxnRequest) == []


def test_a_fenced_producer() -> None:
    node = TransactionalNode()
    old, new = transactions(node), transactions(node)
    old.begin()
    old.add("orders", 0)
    new.begin()
    with pytest.raises(RefusedError) as refusal:
        old.end(commit=True)
    assert refusal.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


# -------------------------------------------------------------------- two-phase commit

def test_a_prepared_transaction_is_completed_as_the_other_system_decided() -> None:
    for stored in ("its own", "another"):
        node = TransactionalNode()
        it = transactions(node, two_phase=True)
        it.begin()
        it.commit_offset("g", ("orders", 0), 5, "")
        state = it.prepare()
        assert state == "7:0"
        assert it.complete(state if stored == "its own" else "7:9") == (stored == "its own")
        assert node.ends == [stored == "its own"]
        assert it.prepared is None
        it.add("orders", 0)
    request, version = next(each for each in node.sent if isinstance(each[0], InitProducerIdRequest))
    assert isinstance(request, InitProducerIdRequest)
    assert (version, request.enable2_pc, request.keep_prepared_txn) == (6, True, False)


def test_the_next_producer_completes_the_prepared_transaction() -> None:
    node = TransactionalNode()
    first = transactions(node, two_phase=True)
    first.begin()
    first.commit_offset("g", ("orders", 0), 5, "")
    state = first.prepare()
    second = transactions(node, two_phase=True)
    second.begin(keep_prepared=True)
    assert second.prepared == state
    assert second.complete(state)
    assert node.ends == [True]
    third = transactions(node, two_phase=True)
    third.begin(keep_prepared=True)
    assert third.prepared is None
    assert not third.complete(state), "nothing is left to complete"
    assert node.ends == [True]


def test_nothing_is_added_to_a_prepared_transaction() -> None:
    node = TransactionalNode()
    it = transactions(node, two_phase=True)
    it.begin()
    it.add("orders", 0)
    it.prepare()
    for attempt in (lambda: it.add("orders", 0), lambda: it.commit_offset("g", ("orders", 0), 5, ""), it.prepare):
        with pytest.raises(InvalidArgumentError, match="completed first"):
            attempt()


def test_preparing_needs_two_phase_commit() -> None:
    it = transactions(TransactionalNode())
    with pytest.raises(InvalidArgumentError, match="two_phase"):
        it.prepare()
    with pytest.raises(InvalidArgumentError, match="two_phase"):
        it.begin(keep_prepared=True)
    empty = transactions(TransactionalNode(), two_phase=True)
    empty.begin()
    with pytest.raises(InvalidArgumentError, match="nothing to prepare"):
        empty.prepare()
    for level in (0, 1):
        low = transactions(TransactionalNode(level), two_phase=True)
        with pytest.raises(UnsupportedVersionError, match="no epoch of its own"):
            low.begin()
    old = transactions(TransactionalNode(init_version=5), two_phase=True)
    with pytest.raises(UnsupportedVersionError, match="two-phase"):
        old.begin()
