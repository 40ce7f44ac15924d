"""AddPartitionsToTxn: of a client for one transaction (versions 0 to 3), or of a broker for several (from 4).

A broker's request adds the partitions of a Produce of transaction.version 2, or only verifies that the transaction has
them (KIP-890). Each transaction has its own result. A transaction with a partition that does not exist gets none of its
partitions, also when the request is decided in parts and another part names that one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.gather import Gather
from kraft.broker.coordinator.shards import Shards
from kraft.broker.transactions.partitions import add, verify
from kraft.broker.transactions.shard import ClusterView, TransactionShard
from kraft.broker.transactions.state import EPOCH_PER_TRANSACTION, Identity, TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
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
    if context.api_version < FIRST_BATCH_VERSION:
        [single] = _transactions(request, context.api_version)
        _serve(shards, cluster, single, context, lambda results: respond(
            AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)), now_ms)
        return

    def place(transactional_id: str, take: Callable[[AddPartitionsToTxnResult], None]) -> Respond:
        return lambda results: take(AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=results))

    gather: Gather[AddPartitionsToTxnResult] = Gather(
        len(request.transactions), lambda results: respond(AddPartitionsToTxnResponse(results_by_transaction=results)))
    for index, each in enumerate(request.transactions):
        _serve(shards, cluster, each, context, place(each.transactional_id, gather.part(index)), now_ms)


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


def _serve(shards: Shards[TransactionShard], cluster: ClusterView, request: AddPartitionsToTxnTransaction,
           context: RequestContext, respond: Callable[[list[AddPartitionsToTxnTopicResult]], None],
           now_ms: int) -> None:
    version = context.api_version
    partitions = list(dict.fromkeys((topic.name, index) for topic in request.topics for index in topic.partitions))

    def all_with(error: ErrorCode, _message: str | None = None) -> list[AddPartitionsToTxnTopicResult]:
        return _results(dict.fromkeys(partitions, error), version)

    answer: Answer[list[AddPartitionsToTxnTopicResult]] = Answer(context, respond, all_with)
    unknown = _unknown(cluster, partitions)
    if unknown or request.transactional_id in context.incomplete:
        answer.give(_results({each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each in unknown
                              else ErrorCode.OPERATION_NOT_ATTEMPTED for each in partitions}, version))
        return
    if not request.transactional_id:
        answer.give(all_with(ErrorCode.INVALID_REQUEST))
        return

    def act(state: TransactionShard) -> None:
        transaction = state.transactions.get(request.transactional_id)
        identity = Identity(request.producer_id, request.producer_epoch)
        if request.verify_only:
            errors: Errors = verify(transaction, identity, partitions)
        else:
            is_implicit = version >= FIRST_BATCH_VERSION
            added = add(transaction, identity, partitions, EPOCH_PER_TRANSACTION if is_implicit else 0, state.now_ms)
            if added is not None:
                state.put(added)
            errors = dict.fromkeys(partitions, ErrorCode.NONE)
        state.shard.reply(answer, _results(errors, version))

    shards.run_for_key(request.transactional_id, answer, now_ms,
                       lambda state: state.decide(request.transactional_id, partial(act, state)))


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
