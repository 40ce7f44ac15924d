"""Start offsets of share groups: DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets.

The share coordinators have the offsets. A description reads summaries of states. An alteration creates the states
again, with the offset; a deletion removes them. Both need a group without members, and a group has one such request
under way at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.epochs import GroupEpoch
from kraft.broker.groups.offsets import ZERO_UUID
from kraft.broker.groups.ports import SharePort
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share import states
from kraft.broker.groups.share.group import ShareGroup, StatePartitions, StateRequest
from kraft.broker.groups.share.initializing import is_current
from kraft.broker.groups.share.records import EpochChange, StatesChange
from kraft.broker.groups.share.sending import deletions, divided, send_each
from kraft.broker.groups.share.serving import existing
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from kraft.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.delete_share_group_state_response import DeleteStateResult
from kraft.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequestGroup
from kraft.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kraft.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from kraft.protocol.messages.initialize_share_group_state_request import PartitionData as InitializedPartition
from kraft.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from kraft.protocol.messages.read_share_group_state_summary_request import (
    PartitionData as SummarizedPartition,
)
from kraft.protocol.messages.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kraft.protocol.messages.read_share_group_state_summary_response import PartitionResult, ReadStateSummaryResult

NO_OFFSET = -1
NO_COUNT = -1
LEADER_EPOCH = 0


def _port(state: GroupShard) -> SharePort:
    port = state.environment.share
    if port is None:
        raise RefusedError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return port


# -------------------------------------------------------------------- DescribeShareGroupOffsets

def describe(state: GroupShard, request: DescribeShareGroupOffsetsRequestGroup,
             answer: Answer[DescribeShareGroupOffsetsResponseGroup]) -> None:
    """Answer with the start offsets of the requested topics, of all that have states for None, and the records behind
    them that are yet to be delivered. What has no offset, also because its topic does not exist, has the offset -1,
    which is not an error."""
    topics = state.environment.topics
    wanted: list[tuple[UUID, str, Sequence[int]]] = []
    absent: list[DescribeShareGroupOffsetsResponseTopic] = []
    if request.topics is None:
        group = state.share_group(request.group_id)
        initialized = {} if group is None else group.states.initialized
        wanted += ((topic_id, name, each.partitions) for topic_id, each in initialized.items()
                   if (name := topics.topic_name(topic_id)) is not None)
    else:
        for topic in request.topics:
            topic_id = topics.topic_id(topic.topic_name)
            if topic_id is None:
                absent.append(DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, topic_id=ZERO_UUID,
                    partitions=[_nothing(index) for index in topic.partitions]))
            else:
                wanted.append((topic_id, topic.topic_name, topic.partitions))
    if not wanted:
        state.shard.reply(answer, DescribeShareGroupOffsetsResponseGroup(group_id=request.group_id, topics=absent))
        return
    names = {topic_id: name for topic_id, name, _ in wanted}
    port = _port(state)

    def summarized(results: list[ReadStateSummaryResult], _now_ms: int) -> None:
        found: dict[UUID, list[PartitionResult]] = {}
        for each in results:
            found.setdefault(each.topic_id, []).extend(each.partitions)
        places = [(names[topic_id], part.partition) for topic_id, parts in found.items() for part in parts
                  if _has_lag(part)]
        if places:
            port.ends(places, lambda ends, _: end(found, ends))
        else:
            end(found, {})

    def end(found: dict[UUID, list[PartitionResult]], ends: Mapping[tuple[str, int], int]) -> None:
        state.shard.reply(answer, DescribeShareGroupOffsetsResponseGroup(group_id=request.group_id, topics=[
            *(DescribeShareGroupOffsetsResponseTopic(
                topic_id=topic_id, topic_name=names[topic_id],
                partitions=[_described(part, ends.get((names[topic_id], part.partition))) for part in parts])
              for topic_id, parts in found.items()), *absent]))

    send_each(port, _summaries(request.group_id, [(topic_id, indexes) for topic_id, _, indexes in wanted]), summarized)


def _summaries(group_id: str, topics: Sequence[tuple[UUID, Sequence[int]]]) -> Iterator[Message]:
    for part in divided(topics):
        yield ReadShareGroupStateSummaryRequest(group_id=group_id, topics=[
            ReadStateSummaryData(topic_id=topic_id, partitions=[
                SummarizedPartition(partition=index, leader_epoch=LEADER_EPOCH) for index in indexes])
            for topic_id, indexes in part])


def _nothing(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET)


def _has_lag(part: PartitionResult) -> bool:
    """Return whether the lag follows from the end of the partition."""
    return not part.error_code and part.start_offset != NO_OFFSET and part.delivery_complete_count != NO_COUNT


def _described(part: PartitionResult, end: int | None) -> DescribeShareGroupOffsetsResponsePartition:
    """Describe a partition with that end. It is an error when the end is unknown and the lag depends on it."""
    if part.error_code:
        return _nothing(part.partition)
    if not _has_lag(part):
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=part.partition, start_offset=part.start_offset, leader_epoch=part.leader_epoch)
    if end is None:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=part.partition, error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            error_message=ErrorCode.LEADER_NOT_AVAILABLE.message)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=part.partition, start_offset=part.start_offset, leader_epoch=part.leader_epoch,
        lag=end - part.start_offset - part.delivery_complete_count)


# -------------------------------------------------------------------- AlterShareGroupOffsets

def alter(state: GroupShard, request: AlterShareGroupOffsetsRequest,
          answer: Answer[AlterShareGroupOffsetsResponse]) -> None:
    """Set start offsets of a group without members, which is created if it is missing. Raises RefusedError for the
    whole request; nothing changed then."""
    group_id = request.group_id
    group = existing(state, group_id) if group_id in state.groups else ShareGroup(group_id)
    group.check_empty()
    _check_free(state, group)
    port = _port(state)
    wanted: dict[UUID, dict[int, int]] = {}
    responses = [_altered(state, topic, wanted) for topic in request.topics]
    if not wanted:
        state.shard.reply(answer, AlterShareGroupOffsetsResponse(responses=responses))
        return
    requested = {topic_id: StatePartitions(state.environment.topics.topic_name(topic_id) or states.UNKNOWN_NAME,
                                           tuple(sorted(offsets))) for topic_id, offsets in wanted.items()}
    # A new epoch: the share coordinators would take the offset of the present one for a repetition.
    state.write_changes(group_id, [
        EpochChange(GroupEpoch(group.epoch + 1, group.metadata_hash)),
        StatesChange(states.begin_initializing(group.states, requested))], kind=ShareGroup)
    altered = existing(state, group_id)
    token = _begin(state, altered)

    def send() -> None:
        port.send(InitializeShareGroupStateRequest(group_id=group_id, topics=[
            InitializeStateData(topic_id=topic_id, partitions=[
                InitializedPartition(partition=index, state_epoch=altered.epoch, start_offset=offset)
                for index, offset in offsets.items()])
            for topic_id, offsets in wanted.items()]), end)

    def end(response: InitializeShareGroupStateResponse, now_ms: int) -> None:
        def done() -> None:
            created = _note_errors(response, responses)
            following = states.end_initializing(altered.states, created, state.environment.topics)
            state.write_changes(group_id, [StatesChange(following)], kind=ShareGroup)
            state.shard.reply(answer, AlterShareGroupOffsetsResponse(responses=responses))

        _end(state, altered, token, answer, now_ms, done)

    state.shard.after_commit(send)


def _altered(state: GroupShard, topic: AlterShareGroupOffsetsRequestTopic,
             wanted: dict[UUID, dict[int, int]]) -> AlterShareGroupOffsetsResponseTopic:
    """Return the result of one topic so far; `wanted` gets its partitions that exist."""
    topics = state.environment.topics
    topic_id = topics.topic_id(topic.topic_name)
    count = topics.partition_count(topic.topic_name) or 0
    partitions = []
    for each in topic.partitions:
        exists = topic_id is not None and 0 <= each.partition_index < count
        error = ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions.append(AlterShareGroupOffsetsResponsePartition(
            partition_index=each.partition_index, error_code=error, error_message=error.message if error else None))
        if topic_id is not None and exists:
            wanted.setdefault(topic_id, {})[each.partition_index] = each.start_offset
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=topic_id or ZERO_UUID, partitions=partitions)


def _note_errors(response: InitializeShareGroupStateResponse,
                 responses: Sequence[AlterShareGroupOffsetsResponseTopic]) -> dict[UUID, tuple[int, ...]]:
    """Put the share coordinators' errors into the results; return the partitions without one."""
    results = {each.topic_id: {part.partition: part for part in each.partitions} for each in response.results}
    for topic in responses:
        for partition in topic.partitions:
            part = results.get(topic.topic_id, {}).get(partition.partition_index)
            if part is not None and not partition.error_code:
                partition.error_code, partition.error_message = part.error_code, part.error_message
    return {each.topic_id: indexes for each in response.results if (indexes := tuple(sorted(
        part.partition for part in each.partitions if not part.error_code)))}


# -------------------------------------------------------------------- DeleteShareGroupOffsets

def delete(state: GroupShard, request: DeleteShareGroupOffsetsRequest,
           answer: Answer[DeleteShareGroupOffsetsResponse]) -> None:
    """Delete the states of topics in a group without members. Raises RefusedError for the whole request; nothing
    changed then."""
    group = existing(state, request.group_id)
    group.check_empty()
    _check_free(state, group)
    port = _port(state)
    wanted: dict[UUID, StatePartitions] = {}
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    for topic in request.topics:
        found = _to_delete(state, group, topic.topic_name)
        if isinstance(found, DeleteShareGroupOffsetsResponseTopic):
            refused.append(found)
        else:
            wanted.update(found)
    if not wanted:
        state.shard.reply(answer, DeleteShareGroupOffsetsResponse(responses=refused))
        return
    names = {topic_id: each.name for topic_id, each in wanted.items()}
    state.write_changes(request.group_id, [StatesChange(states.begin_deleting(group.states, names))], kind=ShareGroup)
    token = _begin(state, group)

    def end(found: list[DeleteStateResult], now_ms: int) -> None:
        def done() -> None:
            results = _deleted(found, names)
            deleted = [each.topic_id for each in results if not each.error_code]
            if deleted:
                following = states.drop(group.states, deleted)
                state.write_changes(request.group_id, [StatesChange(following)], kind=ShareGroup)
            state.shard.reply(answer, DeleteShareGroupOffsetsResponse(responses=[*refused, *results]))

        _end(state, group, token, answer, now_ms, done)

    requests = deletions(request.group_id, [(topic_id, each.partitions) for topic_id, each in wanted.items()])
    state.shard.after_commit(lambda: send_each(port, requests, end))


def _to_delete(state: GroupShard, group: ShareGroup,
               name: str) -> dict[UUID, StatePartitions] | DeleteShareGroupOffsetsResponseTopic:
    """Return the states of a topic that are to be deleted, or the refusal."""
    topics = state.environment.topics
    topic_id = topics.topic_id(name)
    if topic_id is None:
        return _refused(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message)
    if topic_id in group.states.initialized:
        return {topic_id: group.states.initialized[topic_id]._replace(name=name)}
    if topic_id in group.states.deleting:
        return {topic_id: StatePartitions(name, tuple(range(topics.partition_count(name) or 0)))}
    return _refused(name, "There is no offset information to delete.")


def _refused(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=ZERO_UUID, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message)


def _deleted(found: list[DeleteStateResult], names: Mapping[UUID, str]) -> list[DeleteShareGroupOffsetsResponseTopic]:
    """Return the result of each topic: the error of its first partition that has one."""
    results: dict[UUID, DeleteShareGroupOffsetsResponseTopic] = {}
    for each in found:
        result = results.setdefault(each.topic_id, DeleteShareGroupOffsetsResponseTopic(
            topic_id=each.topic_id, topic_name=names[each.topic_id]))
        failed = next((part for part in each.partitions if part.error_code), None)
        if failed is not None and not result.error_code:
            result.error_code, result.error_message = failed.error_code, failed.error_message
    return list(results.values())


# -------------------------------------------------------------------- one request at a time

def _check_free(state: GroupShard, group: ShareGroup) -> None:
    """Refuse with COORDINATOR_LOAD_IN_PROGRESS, which clients retry, while a request about the group's states is under
    way."""
    if group.request is not None and state.now_ms < group.request.until_ms:
        raise RefusedError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _begin(state: GroupShard, group: ShareGroup) -> StateRequest:
    token = group.request = StateRequest(state.now_ms + state.config.share.initialize_retry_ms)
    return token


def _end(state: GroupShard, group: ShareGroup, token: StateRequest, answer: Answer[Any], now_ms: int,
         done: Callable[[], None]) -> None:
    """End a request of an operator. When the group is another one, or the record cannot be written, it is refused:
    the operator has to repeat it."""
    if answer.given:
        return
    if not is_current(state, group, token):
        state.shard.refuse(answer, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    state.shard.now_ms = max(state.shard.now_ms, now_ms)
    group.request = None
    try:
        done()
    except RefusedError as refused:
        state.shard.refuse(answer, refused.error, str(refused))
