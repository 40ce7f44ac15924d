"""Transactions that a coordinator confirms before their first batch is appended (KIP-890), and the guard between the
answer and the append (KAFKA-14053)."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft_native.request.reply import Reply
from kraft_native.serve.produce import DeferredProduce
from tests.native.log.test_costly_batches import COSTLY
from tests.native.logs import batch
from tests.native.serving import NODE_ID, Node, produce_response, produced, serving

CONFIRMED = (ErrorCode.NONE,)


class Query:
    """One query to a coordinator."""

    def __init__(self, transactional_id: str, producer_id: int, producer_epoch: int,
                 partitions: list[tuple[str, int]], adds: bool, callback: Callable[[Sequence[int]], None]) -> None:
        self.transactional_id = transactional_id
        self.producer = producer_id, producer_epoch
        self.partitions = partitions
        self.adds = adds
        self.answer = callback


class TransactionalNode(Node):
    """A node whose coordinator answers when the test does."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.queries: list[Query] = []
        self.produce_handler.verifier = lambda *query: self.queries.append(Query(*query))

    def begin(self, *, sequence: int = 0, epoch: int = 0, version: int = 12, count: int = 1, producer_id: int = 9,
              **fields: Any) -> Reply:
        """Produce a transactional batch."""
        return self.produce(batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
                                  transactional=True), version=version, transactional_id="x", **fields)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[TransactionalNode]:
    made = TransactionalNode(tmp_path)
    try:
        yield made
    finally:
        made.close()


def code_of(reply: Reply) -> int:
    return produced(reply).error_code


@pytest.mark.parametrize("version", [3, 10, 11, 12, 13])
def test_the_first_batch_waits_for_the_coordinator(node: TransactionalNode, version: int) -> None:
    partition = node.partition()
    first = node.begin(version=version, count=2)
    assert not first.answered and partition.log.log_end_offset == 0
    [query] = node.queries
    assert (query.transactional_id, query.producer, query.partitions) == ("x", (9, 0), [("t", 0)])
    assert query.adds == (version >= 12)
    query.answer(CONFIRMED)
    assert (code_of(first), produced(first).base_offset) == (ErrorCode.NONE, 0)
    assert partition.has_open_transaction(9, 0)
    assert code_of(node.begin(sequence=2, version=version)) == ErrorCode.NONE
    assert len(node.queries) == 1, "the transaction is open"


ABORTABLE, INVALID = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(("code", "version", "expected"), [
    (ErrorCode.TRANSACTION_ABORTABLE, 10, INVALID), (ErrorCode.TRANSACTION_ABORTABLE, 11, ABORTABLE),
    (ErrorCode.INVALID_TXN_STATE, 12, INVALID), (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.INVALID_PRODUCER_EPOCH, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    *((code, 12, ErrorCode.NOT_ENOUGH_REPLICAS) for code in (
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)),
])
def test_refusals_of_the_coordinator(node: TransactionalNode, code: int, version: int, expected: int) -> None:
    partition = node.partition()
    reply = node.begin(version=version)
    node.queries[0].answer((code,))
    answer = produced(reply)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (expected, -1, -1)
    assert (answer.error_message is not None) == (expected in (INVALID, ErrorCode.NOT_ENOUGH_REPLICAS))
    assert partition.log.log_end_offset == 0
    assert partition.refused_produces == 1


def test_several_partitions_are_one_query(node: TransactionalNode) -> None:
    """Those with an open transaction, of another node or unknown are not in it, and each has its own outcome."""
    for index in range(5):
        node.partition("t", index)
    node.table.get("t", 3).become_follower(1, 2)      # type: ignore[union-attr]
    opened = node.begin(index=1)
    node.queries.pop().answer(CONFIRMED)
    assert code_of(opened) == ErrorCode.NONE

    def part(index: int) -> PartitionProduceData:
        return PartitionProduceData(index=index, records=batch(
            producer_id=9, producer_epoch=0, base_sequence=int(index == 1), transactional=True))

    request = ProduceRequest(transactional_id="x", acks=-1, timeout_ms=0, topic_data=[
        TopicProduceData(name="t", partition_data=[part(index) for index in (0, 1, 2, 3, 4, 9)])])
    reply = node.produce_body(request.encode(12), 12)
    [query] = node.queries
    assert query.partitions == [("t", 0), ("t", 2), ("t", 4)]
    query.answer((0, ErrorCode.TRANSACTION_ABORTABLE, 0))
    [topic] = produce_response(reply).responses
    none = ErrorCode.NONE
    assert [each.error_code for each in topic.partition_responses] == [
        none, none, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, none,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_batches_of_two_producers_in_one_request_are_refused(node: TransactionalNode) -> None:
    node.partition("t", 0)
    node.partition("t", 1)
    for other in ({"producer_id": 8, "producer_epoch": 0}, {"producer_id": 9, "producer_epoch": 1}):
        request = ProduceRequest(transactional_id="x", acks=1, topic_data=[TopicProduceData(name="t", partition_data=[
            PartitionProduceData(index=index, records=batch(base_sequence=0, transactional=True, **identity))
            for index, identity in enumerate(({"producer_id": 9, "producer_epoch": 0}, other))])])
        [topic] = produce_response(node.produce_body(request.encode(12), 12)).responses
        assert {each.error_code for each in topic.partition_responses} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert node.queries == []


def test_an_older_epoch_is_refused_without_a_query(node: TransactionalNode) -> None:
    partition = node.partition()
    partition.append_marker(9, 4, 0, False, transaction_version=2)
    assert code_of(node.begin(epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert node.queries == []


# --- the guard


def test_a_batch_does_not_land_after_the_marker_of_its_transaction(node: TransactionalNode) -> None:
    """Up to transaction.version 1 the marker has the batch's epoch: only the guard keeps them apart."""
    partition = node.partition()
    stuck = node.begin(version=11)
    partition.append_marker(9, 0, 0, False)
    node.queries[0].answer(CONFIRMED)
    assert code_of(stuck) == ErrorCode.INVALID_TXN_STATE
    assert not partition.has_open_transaction(9, 0)
    assert partition.log.log_end_offset == 1


def test_a_batch_does_not_land_after_a_marker_that_had_nothing_to_end(node: TransactionalNode) -> None:
    """The marker equals that of the transaction before, so it is not appended."""
    partition = node.partition()
    partition.append_marker(9, 0, 0, False)
    stuck = node.begin(version=11)
    assert partition.append_marker(9, 0, 0, False).duplicate
    node.queries[0].answer(CONFIRMED)
    assert code_of(stuck) == ErrorCode.INVALID_TXN_STATE
    assert not partition.has_open_transaction(9, 0)
    assert partition.log.log_end_offset == 1


def test_a_later_verification_does_not_help_a_stuck_batch(node: TransactionalNode) -> None:
    """The transaction ends, the next one is being verified: the answer of the first is not one for the second."""
    partition = node.partition()
    stuck = node.begin(version=11)
    partition.append_marker(9, 0, 0, False)
    following = node.begin(version=11)
    node.queries[0].answer(CONFIRMED)
    assert code_of(stuck) == ErrorCode.INVALID_TXN_STATE
    assert not partition.has_open_transaction(9, 0)
    node.queries[1].answer(CONFIRMED)
    assert code_of(following) == ErrorCode.NONE


def test_a_marker_with_a_higher_epoch_fences_a_stuck_batch(node: TransactionalNode) -> None:
    partition = node.partition()
    stuck = node.begin()
    partition.append_marker(9, 1, 0, False, transaction_version=2)
    node.queries[0].answer(CONFIRMED)
    assert code_of(stuck) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not partition.has_open_transaction(9, 0) and not partition.has_open_transaction(9, 1)


def test_a_batch_may_overtake_the_marker_of_the_transaction_before(node: TransactionalNode) -> None:
    """The end of a transaction is answered before its markers are written. A batch of the next one, which was verified
    meanwhile, is verified again, and not refused: its client did nothing wrong."""
    partition = node.partition()
    opened = node.begin(epoch=0)
    node.queries.pop().answer(CONFIRMED)
    assert code_of(opened) == ErrorCode.NONE
    following = node.begin(epoch=1)
    partition.append_marker(9, 1, 0, True, transaction_version=2)
    node.queries.pop().answer(CONFIRMED)
    assert not following.answered
    node.queries.pop().answer(CONFIRMED)
    assert code_of(following) == ErrorCode.NONE
    assert partition.has_open_transaction(9, 1)


def test_a_batch_is_not_verified_indefinitely(node: TransactionalNode) -> None:
    partition = node.partition()
    stuck = node.begin(epoch=1)
    count = 0
    while not stuck.answered:
        partition.append_marker(9, 1, 0, True)
        node.queries.pop().answer(CONFIRMED)
        count += 1
    assert code_of(stuck) == ErrorCode.INVALID_TXN_STATE
    assert count <= 11


def test_a_refused_marker_leaves_the_verification(node: TransactionalNode) -> None:
    partition = node.partition()
    partition.append_marker(9, 0, 7, False)
    reply = node.begin(version=11)
    with pytest.raises(Exception, match="coordinator epoch"):
        partition.append_marker(9, 0, 6, False)
    node.queries[0].answer(CONFIRMED)
    assert code_of(reply) == ErrorCode.NONE


def test_the_verification_ends_with_the_leadership(node: TransactionalNode) -> None:
    """A marker of the next leader is not seen here before this node leads again."""
    partition = node.partition()
    stuck, moved = node.begin(version=11), node.begin(producer_id=5)
    partition.become_follower(1, 2)
    node.queries[1].answer(CONFIRMED)
    assert code_of(moved) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.become_leader(2, node_id=NODE_ID)
    node.queries[0].answer(CONFIRMED)
    assert code_of(stuck) == ErrorCode.INVALID_TXN_STATE


def test_two_connections_may_begin_one_transaction(node: TransactionalNode) -> None:
    partition = node.partition()
    first, second = node.begin(sequence=0), node.begin(sequence=1)
    for query in node.queries:
        query.answer(CONFIRMED)
    assert (code_of(first), code_of(second)) == (ErrorCode.NONE, ErrorCode.NONE)
    assert partition.log.log_end_offset == 2


def test_the_lowest_sequence_goes_first(node: TransactionalNode) -> None:
    """A higher one that was appended first would make the retry of the lower one fail indefinitely."""
    node.partition()
    first, second = node.begin(sequence=0, version=11), node.begin(sequence=1, version=11)
    node.queries[0].answer((ErrorCode.NOT_COORDINATOR,))
    node.queries[1].answer(CONFIRMED)
    assert (code_of(first), code_of(second)) == (
        ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    again = node.begin(sequence=0, version=11)
    node.queries[2].answer(CONFIRMED)
    assert code_of(again) == ErrorCode.NONE
    assert code_of(node.begin(sequence=1, version=11)) == ErrorCode.NONE


def test_a_higher_epoch_begins_its_sequences_again(node: TransactionalNode) -> None:
    node.partition()
    node.begin(sequence=0, epoch=0, version=11)
    following = node.begin(sequence=3, epoch=1, version=11)
    node.queries[1].answer(CONFIRMED)
    assert code_of(following) == ErrorCode.NONE


def test_an_unknown_producer_begins_with_sequence_0_from_version_12(node: TransactionalNode) -> None:
    """Each transaction has an epoch of its own there, so that a first batch with a later sequence misses one."""
    partition = node.partition()
    for version, expected in ((12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (11, ErrorCode.NONE)):
        reply = node.begin(sequence=5, version=version)
        node.queries.pop().answer(CONFIRMED)
        assert code_of(reply) == expected
    partition.append_marker(9, 1, 0, True, transaction_version=2)
    reply = node.begin(sequence=5, epoch=1)
    node.queries.pop().answer(CONFIRMED)
    assert code_of(reply) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_without_verification_the_coordinator_still_adds_the_partition(node: TransactionalNode) -> None:
    """transaction.partition.verification.enable=false: no marker would end a transaction that it does not know."""
    node.partition()
    node.produce_handler.verifies = False
    node.begin(version=12)
    assert len(node.queries) == 1


def test_without_verification_a_transaction_begins_at_once(node: TransactionalNode) -> None:
    """transaction.partition.verification.enable=false: the client has added the partition before."""
    partition = node.partition()
    node.produce_handler.verifies = False
    assert code_of(node.begin(version=11)) == ErrorCode.NONE
    assert node.queries == [] and partition.has_open_transaction(9, 0)


def test_pending_verifications_are_bounded(node: TransactionalNode) -> None:
    """Clients that never return leave a bounded number behind; the oldest go first."""
    node.partition()

    def end(reply: Reply, code: int) -> int:
        node.queries.pop().answer((code,))
        return code_of(reply)

    for producer_id in range(1, 10_002):
        end(node.begin(producer_id=producer_id, version=11), ErrorCode.NOT_COORDINATOR)
    forgotten, kept = (node.begin(producer_id=producer_id, sequence=7, version=11) for producer_id in (1, 10_001))
    assert end(kept, ErrorCode.NONE) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert end(forgotten, ErrorCode.NONE) == ErrorCode.NONE


def test_a_request_with_very_many_partitions(node: TransactionalNode) -> None:
    """They are confirmed in several queries, a bounded number in each."""
    count = 2_500
    partition = node.partition()
    records = batch(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    request = ProduceRequest(transactional_id="x", acks=1, topic_data=[TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=records) for _ in range(count)])])
    reply = node.produce_body(request.encode(12), 12)
    queried = 0
    while not reply.answered:
        query = node.queries.pop()
        assert len(query.partitions) <= 1024
        queried += len(query.partitions)
        query.answer([ErrorCode.TRANSACTION_ABORTABLE] * len(query.partitions))
    assert queried == count
    [topic] = produce_response(reply).responses
    assert [each.error_code for each in topic.partition_responses] == [ErrorCode.TRANSACTION_ABORTABLE] * count
    assert partition.log.log_end_offset == 0


def test_a_costly_batch_is_verified_and_then_checked(tmp_path: Path) -> None:
    """A marker that arrives during the check in another thread is noticed too."""
    deferred: list[DeferredProduce] = []
    with serving(tmp_path) as node:
        node.produce_handler = type(node.produce_handler)(node.table, deferred.append)
        queries: list[Query] = []
        node.produce_handler.verifier = lambda *query: queries.append(Query(*query))
        partition = node.partition()
        records = costly()
        for ended, expected in ((False, ErrorCode.NONE), (True, ErrorCode.INVALID_TXN_STATE)):
            reply = node.produce(records, version=11, transactional_id="x")
            assert not deferred
            queries.pop().answer(CONFIRMED)
            check = deferred.pop()
            if ended:
                partition.append_marker(9, 0, 0, False)
            check.run()
            check.resume()
            assert code_of(reply) == expected
            partition.append_marker(9, 0, 0, False)


def costly() -> bytes:
    assert COSTLY
    return batch(20_000, value=b"v" * 100, codec="gzip", producer_id=9, producer_epoch=0, base_sequence=0,
                 transactional=True)
