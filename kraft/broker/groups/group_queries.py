"""Requests about several groups, which may be in several shards: split, served, and merged.

ListGroups queries every shard. OffsetFetch, DescribeGroups and DeleteGroups query the shards of the groups that they
name. The response leaves when its last part may leave.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.gather import Gather
from kraft.broker.coordinator.shards import Phase, Shards
from kraft.broker.groups import admin, offset_requests, refusals, topic_checks
from kraft.broker.groups.consumer import describing
from kraft.broker.groups.ports import TopicView
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
)
from kraft.protocol.messages.consumer_group_describe_response import (
    DescribedGroup as DescribedConsumerGroup,
)
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

M = TypeVar("M")
P = TypeVar("P")
S = TypeVar("S", bound=GroupShard)
D = TypeVar("D", bound="Described")
Respond: TypeAlias = Callable[[Any], None]

FIRST_FETCH_VERSION_OF_MANY_GROUPS = 8
FIRST_FETCH_VERSION_WITH_ERROR = 2

# Operations on a group that every client may do without authorization, as bits: READ, DELETE, DESCRIBE,
# DESCRIBE_CONFIGS and ALTER_CONFIGS.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


class Described(Protocol):
    """Description of a group of any kind."""

    error_code: int
    authorized_operations: int


def _serve(shards: Shards[S], partition: int | None, answer: Answer[P], now_ms: int, act: Callable[[S], None]) -> None:
    """Run `act` in the shard of `partition`, or answer with the refusal; None: the topic does not exist."""
    if partition is None:
        answer.give(answer.refusal(ErrorCode.NOT_COORDINATOR))
        return
    shards.run(partition, answer, now_ms, act)


def _in_shard(shards: Shards[S], partition: int | None, answer: Answer[P], now_ms: int, act: Callable[[S], P]) -> None:
    """Answer with what `act` returns in that shard."""
    _serve(shards, partition, answer, now_ms, lambda state: state.shard.reply(answer, act(state)))


def _partition(shards: Shards[S], group_id: str) -> int | None:
    return shards.partition_for(group_id) if shards.partition_count else None


def _by_partition(shards: Shards[S], group_ids: list[str]) -> list[tuple[int | None, list[str]]]:
    """Return the groups of each shard, in the order in which they were named."""
    found: dict[int | None, list[str]] = {}
    for group_id in group_ids:
        found.setdefault(_partition(shards, group_id), []).append(group_id)
    return list(found.items())


# -------------------------------------------------------------------- OffsetFetch

def fetch(shards: Shards[S], topics: TopicView, request: OffsetFetchRequest, context: RequestContext,
          respond: Respond, now_ms: int) -> None:
    """Fetch offsets of several groups; before version 8 of one group, with the response in the old form."""
    version = context.api_version
    groups = request.groups
    if version < FIRST_FETCH_VERSION_OF_MANY_GROUPS:
        requested = None if request.topics is None else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics]
        groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=requested)]

    def done(parts: list[OffsetFetchResponseGroup]) -> None:
        if version < FIRST_FETCH_VERSION_OF_MANY_GROUPS:
            respond(_single_group_response(groups[0], parts[0], version))
        else:
            respond(OffsetFetchResponse(groups=parts))

    gather: Gather[OffsetFetchResponseGroup] = Gather(len(groups), done)
    for index, group in enumerate(groups):
        _fetch_group(shards, topics, group, request.require_stable, context, gather.part(index), now_ms)


def _fetch_group(shards: Shards[S], topics: TopicView, group: OffsetFetchRequestGroup, require_stable: bool,
                 context: RequestContext, take: Callable[[OffsetFetchResponseGroup], None], now_ms: int) -> None:
    known, refused = topic_checks.split_fetch(group, context.api_version, topics)
    answer: Answer[OffsetFetchResponseGroup] = Answer(
        context, lambda part: take(topic_checks.merge_fetch(refused, part, context.api_version, topics)),
        lambda error, _: refusals.offset_fetch(group.group_id, error))
    _in_shard(shards, _partition(shards, group.group_id), answer, now_ms,
              lambda state: offset_requests.fetch(state, known, require_stable))


def _single_group_response(group: OffsetFetchRequestGroup, part: OffsetFetchResponseGroup,
                           api_version: int) -> OffsetFetchResponse:
    """Return the response before version 8. Version 1 has the error of the whole request in every partition."""
    if part.error_code and api_version < FIRST_FETCH_VERSION_WITH_ERROR:
        return OffsetFetchResponse(topics=[
            OffsetFetchResponseTopic(name=topic.name, partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, committed_leader_epoch=-1,
                                             metadata="", error_code=part.error_code)
                for index in topic.partition_indexes])
            for topic in group.topics or ()])
    return OffsetFetchResponse(error_code=part.error_code, topics=[
        OffsetFetchResponseTopic(name=topic.name, partitions=[
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index, committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch, metadata=partition.metadata,
                error_code=partition.error_code)
            for partition in topic.partitions])
        for topic in part.topics])


# -------------------------------------------------------------------- ListGroups

def list_groups(shards: Shards[S], request: ListGroupsRequest, context: RequestContext, respond: Respond,
                now_ms: int) -> None:
    """List all groups that this node coordinates: none before the offsets topic exists. While one of its partitions
    loads, the list would be incomplete, so the answer is an error."""
    serving = [partition for partition in shards.partitions() if shards.phase(partition) is not Phase.FAILED]
    if not serving:
        respond(ListGroupsResponse(groups=[]))
        return

    def done(parts: list[ListGroupsResponse]) -> None:
        error = next((part.error_code for part in parts if part.error_code), 0)
        groups: list[ListedGroup] = [] if error else [group for part in parts for group in part.groups]
        respond(ListGroupsResponse(error_code=error, groups=groups))

    gather: Gather[ListGroupsResponse] = Gather(len(serving), done)
    for index, partition in enumerate(serving):
        answer: Answer[ListGroupsResponse] = Answer(
            context, gather.part(index), lambda error, _: ListGroupsResponse(error_code=error, groups=[]))
        _in_shard(shards, partition, answer, now_ms, lambda state: ListGroupsResponse(
            error_code=ErrorCode.NONE, groups=admin.list_groups(state, request.states_filter, request.types_filter)))


# -------------------------------------------------------------------- DescribeGroups, DeleteGroups

def describe(shards: Shards[S], request: DescribeGroupsRequest, context: RequestContext, respond: Respond,
             now_ms: int) -> None:
    """Describe each group, as one of the classic protocol, from its shard."""
    describe_each(shards, request.groups, request.include_authorized_operations, context, now_ms,
                  refused=lambda group_id, error: DescribedGroup(error_code=error, group_id=group_id, members=[]),
                  describe_one=lambda state, group_id: admin.describe(state, group_id, context.api_version),
                  done=lambda groups: respond(DescribeGroupsResponse(groups=groups)))


def describe_consumer_groups(shards: Shards[S], request: ConsumerGroupDescribeRequest, context: RequestContext,
                             respond: Respond, now_ms: int) -> None:
    """Describe each group, as one of the consumer protocol, from its shard."""
    describe_each(shards, request.group_ids, request.include_authorized_operations, context, now_ms,
                  refused=lambda group_id, error: DescribedConsumerGroup(error_code=error, group_id=group_id),
                  describe_one=describing.describe,
                  done=lambda groups: respond(ConsumerGroupDescribeResponse(groups=groups)))


def describe_each(shards: Shards[S], group_ids: list[str], with_operations: bool, context: RequestContext, now_ms: int,
                  *, refused: Callable[[str, ErrorCode], D], describe_one: Callable[[S, str], D],
                  done: Callable[[list[D]], None]) -> None:
    """Call `done` with the description of each group, or with what `refused` makes of the refusal of its shard."""
    def merge(parts: list[list[D]]) -> None:
        groups = [group for part in parts for group in part]
        for group in groups if with_operations else ():
            if not group.error_code:
                group.authorized_operations = ALL_OPERATIONS
        done(groups)

    def request(partition: int | None, named: list[str], take: Callable[[list[D]], None]) -> None:
        answer: Answer[list[D]] = Answer(context, take, lambda error, _: [refused(each, error) for each in named])
        _in_shard(shards, partition, answer, now_ms, lambda state: [describe_one(state, each) for each in named])

    requested = _by_partition(shards, group_ids)
    gather: Gather[list[D]] = Gather(len(requested), merge)
    for index, (partition, named) in enumerate(requested):
        request(partition, named, gather.part(index))


def delete_groups(shards: Shards[S], request: DeleteGroupsRequest, context: RequestContext, respond: Respond,
                  now_ms: int) -> None:
    """Delete groups without members; a group that is named twice is deleted once."""
    def done(parts: list[list[DeletableGroupResult]]) -> None:
        respond(DeleteGroupsResponse(results=[result for part in parts for result in part]))

    requested = _by_partition(shards, list(dict.fromkeys(request.groups_names)))
    gather: Gather[list[DeletableGroupResult]] = Gather(len(requested), done)
    for index, (partition, group_ids) in enumerate(requested):
        def refusal(error: ErrorCode, _: str | None, group_ids: list[str] = group_ids) -> list[DeletableGroupResult]:
            return [DeletableGroupResult(group_id=group_id, error_code=error) for group_id in group_ids]

        answer = Answer(context, gather.part(index), refusal)
        _serve(shards, partition, answer, now_ms, partial(admin.delete_groups, group_ids=group_ids, answer=answer))
