"""Content of a request to a transaction coordinator, and the outcome of each check in it."""

from collections.abc import Sequence

import pytest

from kraft.broker.transaction_checks import (
    CHECKS_PER_REQUEST,
    CHECKS_WAITING_MAX,
    CheckQueue,
    TransactionCheck,
    errors_of,
    request_of,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from kraft.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)


class Answers:
    def __init__(self) -> None:
        self.given: list[tuple[str, list[int]]] = []

    def check(self, transactional_id: str, *partitions: tuple[str, int], adds: bool = True,
              expires: float = 10.0) -> TransactionCheck:
        def done(errors: Sequence[int]) -> None:
            self.given.append((transactional_id, list(errors)))

        return TransactionCheck(transactional_id, 7, 1, partitions or (("t", 0),), adds, done, 0.0, expires)


def test_checks_share_a_request() -> None:
    answers, queue = Answers(), CheckQueue()
    for check in (answers.check("a", ("t", 0), ("u", 1), ("t", 2)), answers.check("b", adds=False)):
        queue.add(check)
    request = request_of(queue.take(0.0))
    decoded = AddPartitionsToTxnRequest.decode(request.encode(5), 5)
    assert [(each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only,
             [(topic.name, topic.partitions) for topic in each.topics]) for each in decoded.transactions] == [
        ("a", 7, 1, False, [("t", [0, 2]), ("u", [1])]), ("b", 7, 1, True, [("t", [0])])]
    assert len(queue) == 0 and queue.take(0.0) == []


def test_a_request_holds_an_id_once() -> None:
    answers, queue = Answers(), CheckQueue()
    checks = [answers.check(name) for name in ("a", "b", "a", "c", "a")]
    for check in checks:
        queue.add(check)
    assert queue.take(0.0) == [checks[0], checks[1], checks[3]]
    assert queue.take(0.0) == [checks[2]]
    assert queue.take(0.0) == [checks[4]]


def test_requests_and_the_queue_are_bounded() -> None:
    answers, queue = Answers(), CheckQueue()
    for number in range(CHECKS_WAITING_MAX + 1):
        queue.add(answers.check(str(number)))
    assert answers.given == [(str(CHECKS_WAITING_MAX), [ErrorCode.COORDINATOR_NOT_AVAILABLE])]
    assert len(queue.take(0.0)) == CHECKS_PER_REQUEST
    assert len(queue) == CHECKS_WAITING_MAX - CHECKS_PER_REQUEST


def test_a_check_that_waited_too_long_is_refused() -> None:
    answers, queue = Answers(), CheckQueue()
    queue.add(answers.check("late", ("t", 0), ("t", 1), expires=1.0))
    queue.add(answers.check("a"))
    assert [each.transactional_id for each in queue.take(1.0)] == ["a"]
    assert answers.given == [("late", [ErrorCode.NETWORK_EXCEPTION] * 2)]


def test_each_partition_gets_its_error() -> None:
    answers = Answers()
    checks = [answers.check("a", ("t", 0), ("u", 0), ("t", 1)), answers.check("b")]
    response = AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult(
        transactional_id="a", topic_results=[
            AddPartitionsToTxnTopicResult(name="t", results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=1, partition_error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
                AddPartitionsToTxnPartitionResult(partition_index=0)])])])
    not_named = ErrorCode.NETWORK_EXCEPTION
    assert errors_of(checks, response) == [[ErrorCode.NONE, not_named, ErrorCode.CONCURRENT_TRANSACTIONS],
                                            [not_named]]


@pytest.mark.parametrize(("code", "expected"), [
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_an_error_of_the_whole_request_is_everyones(code: ErrorCode, expected: ErrorCode) -> None:
    answers = Answers()
    response = AddPartitionsToTxnResponse(error_code=code)
    assert errors_of([answers.check("a", ("t", 0), ("t", 1))], response) == [[expected, expected]]
