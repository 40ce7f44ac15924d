"""Partitions and groups that join a transaction."""

from types import SimpleNamespace
from typing import cast

import pytest

from kraft.broker.api import RequestContext
from kraft.broker.apis.transaction_requests import serve
from kraft.broker.broker import Broker
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.transactions.state import Identity, Status
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from kraft.steps import finish
from tests.broker.node import Pending
from tests.broker.transactions.txn_node import (
    TIMEOUT_MS,
    TxnNode,
    add_offsets,
    add_one,
    described,
    end,
    end_error,
    new_producer,
    next_of,
)

NONE = ErrorCode.NONE
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE


def test_the_first_partition_opens_the_transaction() -> None:
    node = TxnNode()
    identity = new_producer(node)
    node.now_ms += 5
    assert add_one(node, identity, 2) == [NONE]
    assert node.status() is Status.ONGOING
    shown = described(node)
    assert (shown.transaction_state, shown.transaction_start_time_ms) == ("Ongoing", node.now_ms)
    start_ms = node.now_ms
    node.now_ms += 5
    assert add_one(node, identity, 2, 1) == [NONE, NONE]
    assert node.transaction().partitions == (("orders", 2), ("orders", 1))
    assert node.transaction().deadline_ms == start_ms + TIMEOUT_MS


def test_known_partitions_write_nothing() -> None:
    node = TxnNode()
    identity = new_producer(node)
    add_one(node, identity, 0, 1)
    count = len(node.history())
    assert add_one(node, identity, 1) == [NONE]
    assert len(node.history()) == count


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_other_identities_are_refused(version: int) -> None:
    node = TxnNode()
    identity = new_producer(node)
    new_producer(node)
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert add_one(node, identity, version=version) == [fenced]
    assert add_one(node, Identity(5, 0), version=version) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert add_one(node, identity, name="unknown", version=version) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert add_one(node, identity, name="", version=version) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", [3, 5])
def test_an_unknown_partition_refuses_all_parts_of_a_large_request(version: int) -> None:
    """Other transactions of the request are not concerned. The request is decided in parts of some hundred."""
    node = TxnNode()
    identity, other = new_producer(node), new_producer(node, name="u")
    count = 3_000
    node.cluster.leaders |= {("orders", index): 1 for index in range(count)}
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[*range(count), 9_999])]
    known = [AddPartitionsToTxnTopic(name="orders", partitions=[1, 2])]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t", v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch, v3_and_below_topics=topics)
    else:
        request = AddPartitionsToTxnRequest(transactions=[
            AddPartitionsToTxnTransaction(transactional_id=name, producer_id=each.producer_id,
                                          producer_epoch=each.epoch, topics=wanted)
            for name, each, wanted in (("u", other, known), ("t", identity, topics))])
    answers: list[Message] = []
    broker = cast("Broker", SimpleNamespace(transactions=node.coordinator))
    finish(serve(broker, request, RequestContext(version, "client", "host", "PLAINTEXT", node.now_ms, finish),
                 answers.append))
    node.settle()
    [answer] = answers
    assert isinstance(answer, AddPartitionsToTxnResponse)
    if version < 4:
        of_t = answer.results_by_topic_v3_and_below
    else:
        of_u, of_t = (each.topic_results for each in answer.results_by_transaction)
        assert [each.partition_error_code for each in of_u[0].results_by_partition] == [NONE] * 2
    codes = {each.partition_index: each.partition_error_code for each in of_t[0].results_by_partition}
    assert codes == {**dict.fromkeys(range(count), ErrorCode.OPERATION_NOT_ATTEMPTED),
                     9_999: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert node.status("t") is Status.EMPTY


def test_an_unknown_partition_refuses_all() -> None:
    node = TxnNode()
    identity = new_producer(node)
    assert add_one(node, identity, 0, 99) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert node.status() is Status.EMPTY


def test_verification_finds_the_partitions_of_the_open_transaction() -> None:
    node = TxnNode()
    identity = new_producer(node)
    assert add_one(node, identity, verify=True) == [ABORTABLE]
    add_one(node, identity, 0)
    assert add_one(node, identity, 0, 1, verify=True) == [NONE, ABORTABLE]
    assert add_one(node, identity, 1, verify=True, version=4) == [ErrorCode.INVALID_TXN_STATE]
    following = next_of(end(node, identity))
    assert add_one(node, following, 0, verify=True) == [ABORTABLE]
    assert add_one(node, identity, 0, verify=True) == [ErrorCode.PRODUCER_FENCED]


def test_while_the_markers_are_written_every_identity_waits() -> None:
    """KAFKA-18660: with an exhausted epoch the client has its next producer id before the last marker is written."""
    node = TxnNode()
    identity = new_producer(node)
    add_one(node, identity)
    node.answers_markers = False
    following = next_of(end(node, identity))
    for each in (identity, following, Identity(4711, 0)):
        assert add_one(node, each) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert add_one(node, each, verify=True) == [ErrorCode.CONCURRENT_TRANSACTIONS]


def ending(node: TxnNode) -> Identity:
    """End a transaction of a client of transaction.version 1, without its markers; return the client's identity."""
    identity = new_producer(node)
    add_one(node, identity, version=3)
    node.answers_markers = False
    end(node, identity, version=4)
    return identity


def add_pending(node: TxnNode, identity: Identity) -> Pending:
    return node.send(AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[1])]), 3)


def added_error(pending: Pending) -> int:
    return pending.response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def test_an_addition_waits_for_the_end_of_the_previous_transaction() -> None:
    node = TxnNode(addition_wait_ms=100)
    identity = ending(node)
    pending = add_pending(node, identity)
    assert not pending.answered
    assert add_one(node, identity) == [ErrorCode.CONCURRENT_TRANSACTIONS], "a broker's request does not wait"
    assert added_error(add_pending(node, identity)) == ErrorCode.CONCURRENT_TRANSACTIONS, "one request waits"
    node.answers_markers = True
    node.settle()
    assert added_error(pending) == NONE
    assert node.transaction().partitions == (("orders", 1),)
    deadline_ms = node.transaction().deadline_ms
    assert node.coordinator.deadline_ms == deadline_ms, "no timer is left"


def test_an_addition_of_offsets_waits_too() -> None:
    node = TxnNode(addition_wait_ms=100)
    identity = ending(node)
    pending = node.send(AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=identity.producer_id, producer_epoch=identity.epoch, group_id="g"), 3)
    assert not pending.answered
    node.answers_markers = True
    node.settle()
    assert pending.response.error_code == NONE
    assert [topic for topic, _ in node.transaction().partitions] == [OFFSETS_TOPIC]


def test_the_wait_for_the_previous_transaction_is_short() -> None:
    node = TxnNode(addition_wait_ms=100)
    pending = add_pending(node, ending(node))
    node.advance(99)
    assert not pending.answered
    node.advance(1)
    assert added_error(pending) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.status() is Status.PREPARE_COMMIT


def test_an_addition_that_waits_is_refused_when_the_coordinator_moves() -> None:
    node = TxnNode(addition_wait_ms=100)
    pending = add_pending(node, ending(node))
    for partition in node.coordinator.shards.partitions():
        node.coordinator.shards.resign(partition)
    assert added_error(pending) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("commits", [True, False])
def test_a_request_that_arrives_after_the_end_opens_no_transaction(commits: bool) -> None:
    """KAFKA-18957: franz-go requested the end of a transaction while a request to add partitions was under way. That
    request opened a transaction that nobody ended, in the same epoch. Now each transaction has an epoch of its own."""
    node = TxnNode()
    identity = new_producer(node)
    add_one(node, identity, 0)
    following = next_of(end(node, identity, commits))
    count = len(node.history())
    for version in (3, 5):
        assert add_one(node, identity, 1, version=version) == [ErrorCode.PRODUCER_FENCED]
    assert add_one(node, identity, 1, verify=True) == [ErrorCode.PRODUCER_FENCED]
    assert add_offsets(node, identity) == ErrorCode.PRODUCER_FENCED
    assert len(node.history()) == count
    assert node.status() is (Status.COMPLETE_COMMIT if commits else Status.COMPLETE_ABORT)
    assert add_one(node, following, 1) == [NONE]


def test_below_level_2_a_late_request_opens_a_transaction_until_its_time_out() -> None:
    node = TxnNode(version=1)
    identity = new_producer(node, version=4)
    add_one(node, identity, 0, version=3)
    assert end_error(node, identity, version=4) == NONE
    assert add_one(node, identity, 1, version=3) == [NONE]
    assert node.status() is Status.ONGOING
    node.advance(TIMEOUT_MS)
    assert node.status() is Status.COMPLETE_ABORT
    assert node.markers()[-1] == (identity.producer_id, identity.epoch + 1, False, "orders", 1)


def test_a_group_adds_its_partition_of_the_offsets_topic() -> None:
    node = TxnNode()
    identity = new_producer(node)
    assert add_offsets(node, identity) == NONE
    [(topic, _)] = node.transaction().partitions
    assert topic == OFFSETS_TOPIC
    assert node.transaction().client_version == 0
    assert add_offsets(node, Identity(identity.producer_id, 9)) == ErrorCode.PRODUCER_FENCED
    assert add_offsets(node, Identity(identity.producer_id, 9), version=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_without_an_offsets_topic_the_client_repeats_the_request() -> None:
    node = TxnNode()
    identity = new_producer(node)
    node.cluster.leaders = {("orders", 0): 1}
    assert add_offsets(node, identity) == ErrorCode.COORDINATOR_NOT_AVAILABLE
