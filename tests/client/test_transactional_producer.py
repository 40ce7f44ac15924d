"""Records of transactions: which become visible, in which epoch and with which sequence numbers."""

from typing import cast

import pytest

from kraft.client.cluster import Cluster
from kraft.client.refusals import RefusedError
from kraft.client.transactional_producer import TransactionalProducer
from kraft.client.transactions import GroupMember, Offset
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.batch import first_batch
from kraft_native.batch.records import records
from tests.client.transactional_cluster import TransactionalNode


def producer(node: TransactionalNode, *, two_phase: bool = False, keep_prepared: bool = False) -> TransactionalProducer:
    return TransactionalProducer(cast("Cluster", node), "t", two_phase=two_phase, keep_prepared=keep_prepared)


def values(node: TransactionalNode) -> list[bytes | None]:
    return [record.value for batch in node.visible for record in records(batch)]


def headers(node: TransactionalNode) -> list[tuple[int, int]]:
    """Epoch and first sequence of each batch that was sent."""
    batches = [first_batch(bytes(request.topic_data[0].partition_data[0].records or b""))
               for request, _ in node.sent if isinstance(request, ProduceRequest)]
    return [(batch.producer_epoch, batch.base_sequence) for batch in batches]


@pytest.mark.parametrize(("level", "expected"), [(1, [(0, 0), (0, 1), (0, 3)]), (2, [(0, 0), (0, 1), (1, 0)])])
def test_records_of_committed_transactions_are_visible(level: int, expected: list[tuple[int, int]]) -> None:
    node = TransactionalNode(level)
    with producer(node) as it:
        it.send("orders", 0, [(b"k", b"a")])
        it.send("orders", 0, [(None, b"b"), (None, b"c")])
        it.commit_offsets(GroupMember("g"), {("orders", 0): Offset(5)})
        assert values(node) == []
        it.commit()
        it.send("orders", 0, [(None, b"d")])
    assert values(node) == [b"a", b"b", b"c"], "what was not committed is aborted"
    assert node.ends == [True, False]
    assert headers(node) == expected
    assert set(node.sent_versions(ProduceRequest)) == {12 if level == 2 else 11}


@pytest.mark.parametrize("level", [1, 2])
def test_a_failed_batch_leaves_no_sequence_number_behind(level: int) -> None:
    """The batch may be stored without an answer; a later one with its number would count as its repetition."""
    node = TransactionalNode(level)
    with producer(node) as it:
        node.errors[ProduceRequest] = [ErrorCode.MESSAGE_TOO_LARGE]
        with pytest.raises(RefusedError):
            it.send("orders", 0, [(None, b"a")])
        for attempt in (it.commit, it.prepare, lambda: it.send("orders", 0, [(None, b"b")])):
            with pytest.raises(InvalidArgumentError, match="has to be aborted"):
                attempt()
        it.abort()
        it.send("orders", 0, [(None, b"b")])
        it.commit()
    assert headers(node) == [(0, 0), (1, 0)]
    assert values(node) == [b"b"]
    assert len(node.sent_versions(InitProducerIdRequest)) == (2 if level == 1 else 1)


@pytest.mark.parametrize("level", [1, 2])
def test_a_fenced_producer_does_not_fence_its_successor(level: int) -> None:
    node = TransactionalNode(level)
    with producer(node) as old:
        old.send("orders", 0, [(None, b"a")])
        new = producer(node)
        with pytest.raises(RefusedError):
            old.send("orders", 0, [(None, b"b")])
        with pytest.raises(RefusedError) as refusal:
            old.abort()
        assert refusal.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    new.send("orders", 0, [(None, b"c")])
    new.commit()
    assert values(node) == [b"c"]


def test_the_end_of_the_block_reports_the_first_error_with_that_of_the_abort() -> None:
    node = TransactionalNode()
    with pytest.raises(ZeroDivisionError) as failure, producer(node) as it:
        it.send("orders", 0, [(None, b"a")])
        node.errors[EndTxnRequest] = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        raise ZeroDivisionError
    assert "left to expire or to the next producer" in failure.value.__notes__[0]


def test_a_batch_has_records() -> None:
    with producer(TransactionalNode()) as it, pytest.raises(InvalidArgumentError, match="records"):
        it.send("orders", 0, [])


def test_a_prepared_transaction_outlives_its_producer() -> None:
    node = TransactionalNode()
    with producer(node, two_phase=True) as it:
        it.send("orders", 0, [(None, b"a")])
        state = it.prepare()
    assert node.ends == []
    with producer(node, two_phase=True, keep_prepared=True) as it:
        assert it.prepared == state
        assert it.complete(state)
        assert values(node) == [b"a"]
        it.send("orders", 0, [(None, b"b")])
        it.prepare()
        assert not it.complete(state), "that is the state of the transaction before"
    assert values(node) == [b"a"]
