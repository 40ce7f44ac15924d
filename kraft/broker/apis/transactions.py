"""ListTransactions (key 66) and DescribeTransactions (65): this node coordinates none."""

from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps, each_step
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse

STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
                 "PrepareEpochFence")


def list_transactions(_broker: Broker, request: ListTransactionsRequest, _context: RequestContext,
                      answer: Answer) -> None:
    """Answer with no transactions, and name the unknown states of the filter."""
    answer(ListTransactionsResponse(
        unknown_state_filters=[state for state in request.state_filters if state not in STATES]))


def describe_transactions(_broker: Broker, request: DescribeTransactionsRequest, _context: RequestContext,
                          answer: Answer) -> Steps:
    """Answer TRANSACTIONAL_ID_NOT_FOUND for each."""
    states = yield from each_step(
        lambda each: TransactionState(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=each),
        request.transactional_ids)
    answer(DescribeTransactionsResponse(transaction_states=states))
