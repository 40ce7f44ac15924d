"""Handling of TxnOffsetCommit: offsets that a transaction commits together with its records (KIP-98, KIP-447, KIP-890).

Their records are appended with the producer's id and epoch. They are pending until the transaction's marker is in the
log, and OffsetFetch shows the previous offsets until then.

The first commit of a transaction in this log is verified. The transaction coordinator has to confirm that the
transaction is open and that it contains this partition of `__consumer_offsets`; from version 5 it adds the partition.
Other requests are served meanwhile. The transaction may end meanwhile too: after a marker that arrives before the
confirmation, the confirmed transaction may be the one that has ended (KAFKA-14053). From version 5 on each transaction
has an epoch of its own, and it is verified again. Clients of older versions have to retry.
"""

from __future__ import annotations

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError, append_error
from kraft.broker.coordinator.shard import Producer
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.offset_requests import commit_records, committed_partitions, named_partitions
from kraft.broker.groups.ports import Transaction, TransactionPort
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST_VERSION_THAT_KNOWS_LOADING = 2
FIRST_VERSION_THAT_KNOWS_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5


def commit(state: GroupShard, request: TxnOffsetCommitRequest, answer: Answer[TxnOffsetCommitResponse],
           port: TransactionPort) -> None:
    """Commit offsets of topics that exist as a part of the transaction."""
    producer = Producer(request.producer_id, request.producer_epoch)
    verification = state.begin_verification(producer.producer_id, answer)
    version = answer.context.api_version

    def verified(error: ErrorCode, now_ms: int) -> None:
        state.end_verification(verification)
        if answer.given:
            return                     # this node stopped coordinating the group
        state.shard.now_ms = max(state.shard.now_ms, now_ms)
        if error:
            state.shard.refuse(answer, append_error(error))
        elif verification.is_outdated and version < FIRST_VERSION_THAT_ADDS:
            # The next transaction may have the same epoch. Only a client that still needs the commit sends it again.
            state.shard.refuse(answer, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif verification.is_outdated:
            commit(state, request, answer, port)
        else:
            _append(state, request, producer, answer)

    port.verify(state.shard.partition, Transaction(request.transactional_id, producer),
                adds=version >= FIRST_VERSION_THAT_ADDS,
                knows_abortable=version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE, done=verified)


def _append(state: GroupShard, request: TxnOffsetCommitRequest, producer: Producer,
            answer: Answer[TxnOffsetCommitResponse]) -> None:
    """Append the offsets, or answer with the refusal of the whole request."""
    try:
        state.check_not_deleting(request.group_id)
        _check_group(state, request)
        records, errors = commit_records(state, request.group_id, request.topics)
        state.shard.write(records, producer)
    except RefusedError as refused:
        state.shard.refuse(answer, refused.error)
        return
    state.shard.reply(answer, TxnOffsetCommitResponse(topics=[
        TxnOffsetCommitResponseTopic(name=topic.name, partitions=[
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=next(errors))
            for partition in topic.partitions])
        for topic in request.topics]))


def _check_group(state: GroupShard, request: TxnOffsetCommitRequest) -> None:
    """Refuse a member that is not in the group's current generation."""
    group = state.groups.get(request.group_id)
    names_member = request.generation_id >= 0 or request.member_id or request.group_instance_id is not None
    if group is None:
        if request.generation_id >= 0:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
    elif isinstance(group, ClassicGroup):
        group.check_offset_commit(request.member_id, request.group_instance_id, request.generation_id,
                                  in_transaction=True)
    elif isinstance(group, ShareGroup):
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
    elif names_member:
        _check_member(state, group, request)


def _check_member(state: GroupShard, group: ConsumerGroup | StreamsGroup, request: TxnOffsetCommitRequest) -> None:
    """Refuse a member in another epoch with ILLEGAL_GENERATION: these clients do not know STALE_MEMBER_EPOCH
    (KIP-1319)."""
    try:
        if isinstance(group, ConsumerGroup):
            group.check_offset_commit(request.member_id, request.generation_id, True,
                                      committed_partitions(state, request.topics))
        else:
            group.check_offset_commit(request.member_id, request.generation_id, True, named_partitions(request.topics))
    except RefusedError as refused:
        stale = refused.error is ErrorCode.STALE_MEMBER_EPOCH
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION if stale else refused.error) from None


def refusal(request: TxnOffsetCommitRequest, error: ErrorCode, api_version: int) -> TxnOffsetCommitResponse:
    """Return the refusal of a whole request: the error of each partition. Clients of the first versions do not know
    that a coordinator may be loading."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < FIRST_VERSION_THAT_KNOWS_LOADING:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(topics=[
        TxnOffsetCommitResponseTopic(name=topic.name, partitions=[
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions])
        for topic in request.topics])
