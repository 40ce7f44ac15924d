"""AddPartitionsToTxn: of a client for one transaction (versions 0 to 3), or of a broker for several (from 4).

A broker's request adds the partitions of a Produce of transaction.version 2, or only verifies that the transaction has
them (KIP-890). Each transaction has its own result. A transaction with a partition that does not exist gets none of its
partitions, also when the request is decided in parts and another part names that one.

EndTxn is answered before the markers are written, so a client's first addition of the next transaction often comes
before the previous one is complete. It waits for that, up to `addition_wait_ms`. Refused at once, the client would
repeat it after a pause of its own. A broker's request does not wait: it has transactions of many clients, and the
broker repeats those that are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.gather import Gather
from kraft.broker.coordinator.shards import Shards
from kraft.broker.transactions.partitions import add, verify
from kraft.broker.transactions.ports import ClusterView, Query
from kraft.broker.transactions.shard import TransactionShard, decide
from kraft.broker.transactions.state import EPOCH_PER_TRANSACTION, Identity, TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

Respond: TypeAlias = Callable[[Any], None]
Errors: TypeAlias = Mapping[TopicPartition, ErrorCode]

CHECKED_STEP: Final = 256
"""Partitions that one step looks for."""
FIRST_BATCH_VERSION: Final = 4
FIRST_VERSION_WITH_ABORTABLE: Final = 5
FIRST_VERSION_WITH_FENCED: Final = 2


def add_partitions(shards: Shards[TransactionShard], cluster: ClusterView, request: AddPartitionsToTxnRequest,
                   context: RequestContext, respond: Respond, now_ms: int) -> None:
    """Serve the request, in either form."""
    version = context.api_version
    if version < FIRST_BATCH_VERSION:
        identity = Identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        single = Query(request.v3_and_below_transactional_id, identity, _partitions(request.v3_and_below_topics),
                       adds=True, client_version=0)
        decide_query(shards, cluster, single, context, lambda errors: respond(
            AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(errors, version))), now_ms, may_wait=True)
        return

    def place(transactional_id: str, take: Callable[[AddPartitionsToTxnResult], None]) -> Callable[[Errors], None]:
        return lambda errors: take(AddPartitionsToTxnResult(
            transactional_id=transactional_id, topic_results=_results(errors, version)))

    gather: Gather[AddPartitionsToTxnResult] = Gather(
        len(request.transactions), lambda results: respond(AddPartitionsToTxnResponse(results_by_transaction=results)))
    for index, each in enumerate(request.transactions):
        query = Query(each.transactional_id, Identity(each.producer_id, each.producer_epoch), _partitions(each.topics),
                      not each.verify_only, EPOCH_PER_TRANSACTION)
        decide_query(shards, cluster, query, context, place(each.transactional_id, gather.part(index)), now_ms,
                     may_wait=False)


def incomplete(cluster: ClusterView, request: AddPartitionsToTxnRequest, api_version: int
               ) -> Generator[None, None, dict[str, None]]:
    """Return the transactional ids for which the request names a partition that does not exist, in steps."""
    found: dict[str, None] = {}
    count = 0
    for transaction in _transactions(request, api_version):
        for topic in transaction.topics:
            for index in topic.partitions:
                if cluster.leader_of(topic.name, index) is None:
                    found[transaction.transactional_id] = None
                count += 1
                if count % CHECKED_STEP == 0:
                    yield
    return found


def _transactions(request: AddPartitionsToTxnRequest, api_version: int) -> list[AddPartitionsToTxnTransaction]:
    if api_version >= FIRST_BATCH_VERSION:
        return request.transactions
    return [AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id, producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch, topics=request.v3_and_below_topics)]


def decide_query(shards: Shards[TransactionShard], cluster: ClusterView, query: Query, context: RequestContext,
                 respond: Callable[[Errors], None], now_ms: int, *, may_wait: bool) -> None:
    """Decide a query, and pass an error per partition to `respond`."""
    transactional_id, partitions = query.transactional_id, query.partitions
    answer: Answer[Errors] = Answer(context, respond, lambda error, _: dict.fromkeys(partitions, error))
    unknown = _unknown(cluster, partitions)
    if unknown or transactional_id in context.incomplete:
        answer.give({each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each in unknown
                     else ErrorCode.OPERATION_NOT_ATTEMPTED for each in partitions})
        return
    if not transactional_id:
        answer.give(answer.refusal(ErrorCode.INVALID_REQUEST))
        return

    _attempt(shards, query, answer, now_ms, may_wait=may_wait and query.adds)


def _attempt(shards: Shards[TransactionShard], query: Query, answer: Answer[Errors], now_ms: int, *,
             may_wait: bool) -> None:
    """Decide a query in its shard, or again when the transaction before it has ended."""
    transactional_id, identity, partitions, adds, client_version = query

    def act(state: TransactionShard) -> None:
        if may_wait and state.postpone(transactional_id,
                                       partial(_attempt, shards, query, answer, now_ms, may_wait=False)):
            return
        transaction = state.transactions.get(transactional_id)
        if adds:
            added = add(transaction, identity, partitions, client_version, state.now_ms)
            if added is not None:
                state.put(added)
            errors: Errors = dict.fromkeys(partitions, ErrorCode.NONE)
        else:
            errors = verify(transaction, identity, partitions)
        state.shard.reply(answer, errors)

    decide(shards, transactional_id, answer, now_ms, act)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return list(dict.fromkeys((topic.name, index) for topic in topics for index in topic.partitions))


def _unknown(cluster: ClusterView, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, None]:
    return {each: None for each in partitions if cluster.leader_of(*each) is None}


def _results(errors: Errors, version: int) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), error in errors.items():
        by_topic.setdefault(topic, []).append(AddPartitionsToTxnPartitionResult(
            partition_index=partition, partition_error_code=_for_version(error, version)))
    return [AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
            for topic, results in by_topic.items()]


def _for_version(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error
