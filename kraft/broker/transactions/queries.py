"""ListTransactions and DescribeTransactions: what operators see of the transactions in some shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.gather import Gather
from kraft.broker.coordinator.patterns import Pattern, PatternError
from kraft.broker.coordinator.shards import Phase, Shards
from kraft.broker.transactions.shard import TransactionShard
from kraft.broker.transactions.state import LABELS, Status, Transaction
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
)
from kraft.protocol.messages.describe_transactions_response import TransactionState as DescribedTransaction
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.protocol.messages.list_transactions_response import TransactionState as ListedTransaction

Respond: TypeAlias = Callable[[Any], None]


# -------------------------------------------------------------------- ListTransactions

def list_transactions(shards: Shards[TransactionShard], request: ListTransactionsRequest, context: RequestContext,
                      respond: Respond, now_ms: int) -> None:
    """List the transactions of this coordinator that pass all filters of the request. While a partition loads, the list
    would be incomplete, so the answer is COORDINATOR_LOAD_IN_PROGRESS."""
    unknown = [label for label in request.state_filters if label not in LABELS]
    try:
        keeps = _filter(request, now_ms)
    except PatternError:
        respond(ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION,
                                         unknown_state_filters=unknown))
        return

    def done(parts: list[ListTransactionsResponse]) -> None:
        error = next((part.error_code for part in parts if part.error_code), 0)
        respond(ListTransactionsResponse(
            error_code=error, unknown_state_filters=unknown,
            transaction_states=[] if error else [each for part in parts for each in part.transaction_states]))

    serving = [partition for partition in shards.partitions() if shards.phase(partition) is not Phase.FAILED]
    gather: Gather[ListTransactionsResponse] = Gather(len(serving), done)
    for index, partition in enumerate(serving):
        answer: Answer[ListTransactionsResponse] = Answer(
            context, gather.part(index), lambda error, _: ListTransactionsResponse(error_code=error))
        try:
            shard, state = shards.serving(partition, now_ms)
        except RefusedError as refused:
            answer.give(answer.refusal(refused.error))
            continue
        shard.reply(answer, ListTransactionsResponse(transaction_states=[
            ListedTransaction(transactional_id=each.transactional_id, producer_id=each.producer_id,
                              transaction_state=each.status.label)
            for each in state.transactions.values() if keeps(each)]))


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    statuses = [LABELS[label] for label in request.state_filters if label in LABELS]
    producer_ids = dict.fromkeys(request.producer_id_filters)
    pattern = Pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def keeps(transaction: Transaction) -> bool:
        return ((not request.state_filters or transaction.status in statuses)
                and (not producer_ids or transaction.producer_id in producer_ids)
                and (request.duration_filter < 0 or _runs_longer(transaction, now_ms - request.duration_filter))
                and (pattern is None or pattern.matches(transaction.transactional_id)))

    return keeps


def _runs_longer(transaction: Transaction, started_before_ms: int) -> bool:
    """Return whether the transaction is open, or being ended, and began before that time."""
    is_running = transaction.status is Status.ONGOING or transaction.status.is_prepared
    return is_running and transaction.start_ms < started_before_ms


# -------------------------------------------------------------------- DescribeTransactions

def describe(shards: Shards[TransactionShard], request: DescribeTransactionsRequest, context: RequestContext,
             respond: Respond, now_ms: int) -> None:
    """Describe each transactional id, from its shard."""
    gather: Gather[DescribedTransaction] = Gather(
        len(request.transactional_ids), lambda parts: respond(DescribeTransactionsResponse(transaction_states=parts)))
    for index, transactional_id in enumerate(request.transactional_ids):
        answer: Answer[DescribedTransaction] = Answer(
            context, gather.part(index), _refusal_for(transactional_id))
        if not transactional_id:
            answer.give(answer.refusal(ErrorCode.INVALID_REQUEST))
            continue
        shards.run_for_key(transactional_id, answer, now_ms, partial(_describe, transactional_id, answer))


def _describe(transactional_id: str, answer: Answer[DescribedTransaction], state: TransactionShard) -> None:
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        raise RefusedError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    state.shard.reply(answer, _described(transaction))


def _refusal_for(transactional_id: str) -> Callable[[ErrorCode, str | None], DescribedTransaction]:
    return lambda error, _: DescribedTransaction(error_code=error, transactional_id=transactional_id)


def _described(transaction: Transaction) -> DescribedTransaction:
    return DescribedTransaction(
        transactional_id=transaction.transactional_id, transaction_state=transaction.status.label,
        transaction_timeout_ms=transaction.timeout_ms, transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch,
        topics=_topics(transaction.partitions))


def _topics(partitions: Iterable[tuple[str, int]]) -> list[TopicData]:
    indexes: dict[str, list[int]] = {}
    for topic, partition in partitions:
        indexes.setdefault(topic, []).append(partition)
    return [TopicData(topic=topic, partitions=found) for topic, found in indexes.items()]
