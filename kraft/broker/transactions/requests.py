"""Requests that the transaction coordinator serves. It imports this module at the first of them: a start need not wait
for what serves them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Protocol

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.coordinator import Handlers, Respond
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.hashing import partition_of
from kraft.broker.coordinator.shards import Shards
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.transactions import partition_requests, queries
from kraft.broker.transactions.ending import EndRequest, end
from kraft.broker.transactions.events import EndReason
from kraft.broker.transactions.init_producer import InitRequest, init_producer
from kraft.broker.transactions.partitions import add
from kraft.broker.transactions.ports import Environment
from kraft.broker.transactions.producer_id import ProducerIdNeededError
from kraft.broker.transactions.shard import TransactionShard, decide
from kraft.broker.transactions.state import EPOCH_PER_TRANSACTION, NO_EPOCH, NO_ID, NO_TIMEOUT_MS, Identity
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest

FIRST_INIT_VERSION_WITH_FENCED: Final = 4
FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_END_VERSION_WITH_EPOCH: Final = 5


class Act(Protocol):
    """Decision about one transactional id in its shard, with a new producer id if the previous attempt needed one."""

    def __call__(self, state: TransactionShard, *, new_producer_id: int | None) -> None:
        """Decide, and reply. Raise RefusedError, or ProducerIdNeededError for another attempt."""


def handlers_of(shards: Shards[TransactionShard], environment: Environment) -> Handlers:
    """Return the function of each type of request."""
    requests = TransactionRequests(shards, environment)
    return {
        InitProducerIdRequest: requests.init_producer_id,
        AddPartitionsToTxnRequest: partial(partition_requests.add_partitions, shards, environment.cluster),
        AddOffsetsToTxnRequest: requests.add_offsets,
        EndTxnRequest: requests.end,
        DescribeTransactionsRequest: partial(queries.describe, shards),
        ListTransactionsRequest: partial(queries.list_transactions, shards),
    }


class TransactionRequests:
    """Requests about one transactional id, one function per type, with the arguments of `Coordinator.handle`."""

    def __init__(self, shards: Shards[TransactionShard], environment: Environment) -> None:
        self._shards = shards
        self._environment = environment

    def _in_shard(self, transactional_id: str, answer: Answer[Any], now_ms: int, act: Act,
                  new_producer_id: int | None = None) -> None:
        """Run `act` in the shard of a transactional id and turn a refusal into the answer. An `act` that needs a new
        producer id runs again with one."""
        if not transactional_id:
            answer.give(answer.refusal(ErrorCode.INVALID_REQUEST))
            return
        try:
            decide(self._shards, transactional_id, answer, now_ms, partial(act, new_producer_id=new_producer_id))
        except ProducerIdNeededError:
            self._environment.producer_ids.take(
                now_ms, partial(self._with_producer_id, transactional_id, answer, now_ms, act))

    def _with_producer_id(self, transactional_id: str, answer: Answer[Any], now_ms: int, act: Act,
                          producer_id: int | None) -> None:
        if producer_id is None:
            answer.give(answer.refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self._in_shard(transactional_id, answer, now_ms, act, producer_id)

    def init_producer_id(self, request: InitProducerIdRequest, context: RequestContext, respond: Respond,
                          now_ms: int) -> None:
        answer: Answer[InitProducerIdResponse] = Answer(
            context, respond, lambda error, _: _init_refusal(context.api_version, error))
        transactional_id = request.transactional_id
        assert transactional_id is not None, "ids without a transactional id are not the coordinator's"
        config = self._environment.config
        if request.enable2_pc and not config.two_phase_commit:
            answer.give(answer.refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            return
        if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= config.max_timeout_ms:
            answer.give(answer.refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        wanted = InitRequest(
            transactional_id, NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms,
            None if request.producer_id == NO_ID else Identity(request.producer_id, request.producer_epoch),
            request.keep_prepared_txn, self._environment.cluster.transaction_version)

        def act(state: TransactionShard, *, new_producer_id: int | None) -> None:
            decided = init_producer(state.transactions.get(transactional_id), wanted, state.now_ms, new_producer_id)
            if decided.transaction is not None:
                state.put(decided.transaction, EndReason.NEW_CLIENT)
            if decided.identity is None:
                raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
            response = InitProducerIdResponse(producer_id=decided.identity.producer_id,
                                              producer_epoch=decided.identity.epoch)
            if decided.kept is not None:
                response.ongoing_txn_producer_id = decided.kept.producer_id
                response.ongoing_txn_producer_epoch = decided.kept.epoch
            state.shard.reply(answer, response)

        self._in_shard(transactional_id, answer, now_ms, act)

    def add_offsets(self, request: AddOffsetsToTxnRequest, context: RequestContext, respond: Respond,
                     now_ms: int) -> None:
        answer: Answer[AddOffsetsToTxnResponse] = Answer(context, respond, lambda error, _: AddOffsetsToTxnResponse(
            error_code=_fenced_before(FIRST_VERSION_WITH_FENCED, context.api_version, error)))

        self._attempt_offsets(request, answer, now_ms, may_wait=True)

    def _attempt_offsets(self, request: AddOffsetsToTxnRequest, answer: Answer[AddOffsetsToTxnResponse], now_ms: int, *,
                         may_wait: bool) -> None:
        """Add the offsets' partition now, or again when the transaction before it has ended."""
        def act(state: TransactionShard, *, new_producer_id: int | None) -> None:  # noqa: ARG001
            if may_wait and state.postpone(request.transactional_id, partial(
                    self._attempt_offsets, request, answer, now_ms, may_wait=False)):
                return
            count = self._environment.cluster.partition_count(OFFSETS_TOPIC)
            if not count:
                raise RefusedError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            added = add(state.transactions.get(request.transactional_id),
                        Identity(request.producer_id, request.producer_epoch),
                        [(OFFSETS_TOPIC, partition_of(request.group_id, count))], 0, state.now_ms)
            if added is not None:
                state.put(added)
            state.shard.reply(answer, AddOffsetsToTxnResponse())

        self._in_shard(request.transactional_id, answer, now_ms, act)

    def end(self, request: EndTxnRequest, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answer: Answer[EndTxnResponse] = Answer(context, respond, lambda error, _: EndTxnResponse(
            error_code=_fenced_before(FIRST_VERSION_WITH_FENCED, context.api_version, error)))
        bumps = context.api_version >= FIRST_END_VERSION_WITH_EPOCH
        wanted = EndRequest(Identity(request.producer_id, request.producer_epoch), request.committed,
                            EPOCH_PER_TRANSACTION if bumps else 0)

        def act(state: TransactionShard, *, new_producer_id: int | None) -> None:
            ended = end(state.transactions.get(request.transactional_id), wanted, state.now_ms, new_producer_id)
            if ended.transaction is not None:
                state.put(ended.transaction)
            state.shard.reply(answer, EndTxnResponse(producer_id=ended.identity.producer_id,
                                                     producer_epoch=ended.identity.epoch)
                              if bumps else EndTxnResponse())

        self._in_shard(request.transactional_id, answer, now_ms, act)


def _init_refusal(version: int, error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=_fenced_before(FIRST_INIT_VERSION_WITH_FENCED, version, error),
                                  producer_id=NO_ID, producer_epoch=NO_EPOCH)


def _fenced_before(first_version: int, version: int, error: ErrorCode) -> ErrorCode:
    """Return the error for a client, in versions before PRODUCER_FENCED existed the older INVALID_PRODUCER_EPOCH."""
    is_unknown = version < first_version and error is ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error
