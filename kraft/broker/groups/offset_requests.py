"""Handling of OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Record
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.classic.rebalancing import restart_session
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.group_records import offset_record
from kraft.broker.groups.offsets import ZERO_UUID, CommittedOffset
from kraft.broker.groups.shard import Group, GroupShard
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kraft.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kraft.protocol.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequestTopic

FIRST_COMMIT_VERSION_THAT_KNOWS_GROUP_ID_NOT_FOUND = 9
NO_OFFSET = -1


# -------------------------------------------------------------------- OffsetCommit

def commit(state: GroupShard, request: OffsetCommitRequest, answer: Answer[OffsetCommitResponse]) -> None:
    """Commit offsets of topics that exist. Raises RefusedError for the whole request; nothing changed then."""
    group = _group_to_commit(state, request, answer.context.api_version)
    if isinstance(group, ClassicGroup) and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        restart_session(state, group, group.members[request.member_id])
    retention_ms = request.retention_time_ms
    expire_timestamp_ms = -1 if retention_ms == -1 else state.now_ms + retention_ms
    records, errors = commit_records(state, request.group_id, request.topics, expire_timestamp_ms)
    state.shard.write(records)
    state.shard.reply(answer, OffsetCommitResponse(topics=[
        OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=next(errors))
            for partition in topic.partitions])
        for topic in request.topics]))


def commit_records(state: GroupShard, group_id: str,
                   topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic],
                   expire_timestamp_ms: int = -1) -> tuple[list[Record], Iterator[ErrorCode]]:
    """Return the records of these commits, and the error of each partition in the order of the request."""
    records = []
    errors = []
    for topic in topics:
        topic_id = state.environment.topics.topic_id(topic.name) or ZERO_UUID
        for partition in topic.partitions:
            if _java_length(partition.committed_metadata or "") > state.config.offset_metadata_max_bytes:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            offset = CommittedOffset(
                partition.committed_offset, max(partition.committed_leader_epoch, -1),
                partition.committed_metadata or "", state.now_ms, expire_timestamp_ms, topic_id)
            records.append(offset_record(group_id, topic.name, partition.partition_index, offset, state.now_ms))
    return records, iter(errors)


def _group_to_commit(state: GroupShard, request: OffsetCommitRequest,
                     api_version: int) -> Group | None:
    """Return the group, checked; None for one that its first commit creates."""
    generation_id = request.generation_id_or_member_epoch
    group = state.groups.get(request.group_id)
    if group is None:
        if generation_id < 0:
            return None
        if api_version >= FIRST_COMMIT_VERSION_THAT_KNOWS_GROUP_ID_NOT_FOUND:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
    if isinstance(group, ClassicGroup):
        group.check_offset_commit(request.member_id, request.group_instance_id, generation_id)
    elif isinstance(group, ConsumerGroup):
        group.check_offset_commit(
            request.member_id, generation_id, api_version >= FIRST_COMMIT_VERSION_THAT_KNOWS_GROUP_ID_NOT_FOUND,
            committed_partitions(state, request.topics))
    elif isinstance(group, StreamsGroup):
        group.check_offset_commit(
            request.member_id, generation_id, api_version >= FIRST_COMMIT_VERSION_THAT_KNOWS_GROUP_ID_NOT_FOUND,
            named_partitions(request.topics))
    else:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
    return group


def committed_partitions(state: GroupShard,
                         topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic]
                         ) -> Iterator[tuple[UUID, int]]:
    """Yield the partitions of a commit, by the ids of their topics."""
    for topic in topics:
        topic_id = state.environment.topics.topic_id(topic.name) or ZERO_UUID
        for partition in topic.partitions:
            yield topic_id, partition.partition_index


def named_partitions(topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic]
                     ) -> Iterator[tuple[str, int]]:
    """Yield the partitions of a commit, by the names of their topics."""
    for topic in topics:
        for partition in topic.partitions:
            yield topic.name, partition.partition_index


def _java_length(text: str) -> int:
    """Return the length of a string in Java: its number of UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


# -------------------------------------------------------------------- OffsetFetch

def fetch(state: GroupShard, request: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    """Return the offsets of one group: of the requested topics (their names are set), or of all for None.

    A group that does not exist has no offsets, which is not an error. With `require_stable`, an offset that an open
    transaction is about to change gets UNSTABLE_OFFSET_COMMIT. Raises RefusedError.
    """
    state.check_not_deleting(request.group_id)
    offsets = state.offsets.of_group(request.group_id)
    if not _has_offsets(state, request):
        offsets = {}
    requested = request.topics
    if requested is None:
        requested = [OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
                     for name, partitions in offsets.items()]
    topics = []
    for topic in requested:
        of_topic = offsets.get(topic.name, {})
        partitions = []
        for index in topic.partition_indexes:
            offset = of_topic.get(index)
            if require_stable and state.offsets.is_pending(request.group_id, topic.name, index):
                partitions.append(_nothing(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif offset is None or ZERO_UUID != offset.topic_id != topic.topic_id != ZERO_UUID:
                partitions.append(_nothing(index, ErrorCode.NONE))
            else:
                partitions.append(OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=offset.offset, committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata, error_code=ErrorCode.NONE))
        topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics, error_code=ErrorCode.NONE)


def _nothing(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=-1,
                                         metadata="", error_code=error)


def _has_offsets(state: GroupShard, request: OffsetFetchRequestGroup) -> bool:
    """Return whether the group exists and stores offsets; refuse members that such a group does not have, or in another
    epoch."""
    group = state.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup | StreamsGroup):
        group.check_offset_fetch(request.member_id, request.member_epoch)
        return True
    return isinstance(group, ClassicGroup)


# -------------------------------------------------------------------- OffsetDelete

def delete(state: GroupShard, request: OffsetDeleteRequest, answer: Answer[OffsetDeleteResponse]) -> None:
    """Delete offsets of topics that exist and that no member subscribes to. Raises RefusedError for the whole
    request."""
    group = state.existing_group(request.group_id)
    if isinstance(group, ClassicGroup):
        if group.state is not GroupState.EMPTY and not group.is_consumer_type:
            raise RefusedError(ErrorCode.NON_EMPTY_GROUP)
    elif isinstance(group, ShareGroup):
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND)
    records = []
    topics = []
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            if not subscribed and (state.offsets.get(request.group_id, topic.name, index) is not None
                                   or state.offsets.is_pending(request.group_id, topic.name, index)):
                records.append(offset_record(request.group_id, topic.name, index, None, state.now_ms))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    state.shard.write(records)
    state.shard.reply(answer, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))
