"""Lists and descriptions of transactions."""

from typing import Any

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from tests.broker.transactions.txn_node import FIRST_ID, TIMEOUT_MS, TxnNode, add_one, described, new_producer


def listed(node: TxnNode, version: int = 2, **filters: Any) -> list[str]:
    response = node.call(ListTransactionsRequest(**filters), version)
    assert response.error_code == ErrorCode.NONE
    return sorted(each.transactional_id for each in response.transaction_states)


def filled() -> TxnNode:
    node = TxnNode()
    for name in ("a-1", "a-2", "b-1"):
        new_producer(node, name=name)
    identity = new_producer(node, name="open")
    add_one(node, identity, 1, 0, name="open")
    return node


def test_the_list_has_all_that_pass_the_filters() -> None:
    node = filled()
    assert listed(node, 0) == ["a-1", "a-2", "b-1", "open"]
    assert listed(node, state_filters=["Ongoing"]) == ["open"]
    assert listed(node, state_filters=["Ongoing", "Empty"], producer_id_filters=[FIRST_ID, FIRST_ID + 3]) == [
        "a-1", "open"]
    assert listed(node, transactional_id_pattern="a-.*") == ["a-1", "a-2"]
    assert listed(node, transactional_id_pattern="a-") == []
    assert listed(node, duration_filter=0) == []
    node.now_ms += 10
    assert listed(node, duration_filter=9) == ["open"]
    assert listed(node, duration_filter=10) == []


def test_unknown_states_are_named_and_list_nothing() -> None:
    response = filled().call(ListTransactionsRequest(state_filters=["Mislaid"]))
    assert response.unknown_state_filters == ["Mislaid"]
    assert response.transaction_states == []


def test_a_malformed_pattern_is_refused() -> None:
    response = filled().call(ListTransactionsRequest(transactional_id_pattern="("))
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_while_a_partition_loads_the_list_is_an_error() -> None:
    node = filled()
    node.coordinator.shards.resign(0, 7)
    node.coordinator.shards.start_load(0, 8)
    response = node.call(ListTransactionsRequest())
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert response.transaction_states == []


def test_a_description_has_the_partitions() -> None:
    node = filled()
    shown = described(node, "open")
    assert (shown.error_code, shown.transaction_state, shown.producer_id, shown.producer_epoch) == (
        ErrorCode.NONE, "Ongoing", FIRST_ID + 3, 0)
    assert (shown.transaction_timeout_ms, shown.transaction_start_time_ms) == (TIMEOUT_MS, node.now_ms)
    assert [(topic.topic, topic.partitions) for topic in shown.topics] == [("orders", [1, 0])]


def test_each_id_has_its_own_error() -> None:
    node = filled()
    response = node.call(DescribeTransactionsRequest(transactional_ids=["a-1", "none", ""]))
    assert [each.error_code for each in response.transaction_states] == [
        ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
    node.coordinator.partition_count = None
    assert described(node, "a-1").error_code == ErrorCode.NOT_COORDINATOR
