"""Metadata checks of requests about offsets: which topics and partitions exist.

Missing topics are answered here, before the group is checked; the rest goes to the group's shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar, cast

from kraft.broker.groups.offsets import ZERO_UUID
from kraft.broker.groups.ports import TopicView
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
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
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from kraft.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST_COMMIT_VERSION_BY_ID = 10
FIRST_FETCH_VERSION_BY_ID = 10


class _HasIndex(Protocol):
    partition_index: int


_Part = TypeVar("_Part", bound=_HasIndex)
_Topic = TypeVar("_Topic")


def _parted(topics: TopicView, name: str, partitions: Iterable[_Part]) -> tuple[list[_Part], list[_Part]]:
    """Split partitions into those that exist and those that do not."""
    present: list[_Part] = []
    absent: list[_Part] = []
    for each in partitions:
        (present if topics.has_partition(name, each.partition_index) else absent).append(each)
    return present, absent


# -------------------------------------------------------------------- OffsetCommit

def split_commit(request: OffsetCommitRequest, api_version: int, topics: TopicView) -> \
        tuple[OffsetCommitRequest, list[OffsetCommitResponseTopic]]:
    """Return the request with the existing partitions, every topic named, and the answers for the missing ones."""
    known = []
    refused = []
    for topic in request.topics:
        name: str | None = topic.name
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if api_version >= FIRST_COMMIT_VERSION_BY_ID:
            name = topics.topic_name(topic.topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        if name is None or topics.topic_id(name) is None:
            present: list[OffsetCommitRequestPartition] = []
            absent, error = topic.partitions, missing
        else:
            present, absent = _parted(topics, name, topic.partitions)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if absent:
            refused.append(OffsetCommitResponseTopic(name=name or "", topic_id=topic.topic_id, partitions=[
                OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in absent]))
        if present:
            known.append(OffsetCommitRequestTopic(name=name or "", topic_id=topic.topic_id, partitions=present))
    return request.replace(topics=known), refused


def merge_commit(refused: list[OffsetCommitResponseTopic], response: OffsetCommitResponse) -> OffsetCommitResponse:
    """Merge both answers; each topic occurs once, with its refused partitions first."""
    return response.replace(topics=_merged(refused, response.topics, lambda topic: (topic.name, topic.topic_id)))


def _merged(refused: list[_Topic], served: list[_Topic], key: Callable[[_Topic], object]) -> list[_Topic]:
    """Return the topics of both lists; each occurs once, with its refused partitions first."""
    if not refused:
        return served
    merged: dict[object, Any] = {key(topic): topic for topic in refused}
    for topic in served:
        before, more = merged.get(key(topic)), cast("Any", topic)
        merged[key(topic)] = more if before is None else before.replace(
            partitions=[*before.partitions, *more.partitions])
    return list(merged.values())


# -------------------------------------------------------------------- TxnOffsetCommit

def split_txn_commit(request: TxnOffsetCommitRequest, topics: TopicView) -> \
        tuple[TxnOffsetCommitRequest, list[TxnOffsetCommitResponseTopic]]:
    """Return the request with the existing partitions, and the answers for the missing ones."""
    known = []
    refused = []
    for topic in request.topics:
        present, absent = _parted(topics, topic.name, topic.partitions)
        if absent:
            refused.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=[
                TxnOffsetCommitResponsePartition(partition_index=p.partition_index,
                                                 error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for p in absent]))
        if present:
            known.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=present))
    return request.replace(topics=known), refused


def merge_txn_commit(refused: list[TxnOffsetCommitResponseTopic],
                     response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """Merge both answers."""
    return response.replace(topics=_merged(refused, response.topics, lambda topic: topic.name))


# -------------------------------------------------------------------- OffsetFetch

def split_fetch(request: OffsetFetchRequestGroup, api_version: int, topics: TopicView) -> \
        tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """Return the request with its topics named, and the answers for ids that no topic has."""
    if request.topics is None or api_version < FIRST_FETCH_VERSION_BY_ID:
        return request, []
    known = []
    refused = []
    for topic in request.topics:
        name = topics.topic_name(topic.topic_id)
        if name is not None:
            known.append(OffsetFetchRequestTopics(name=name, topic_id=topic.topic_id,
                                                  partition_indexes=topic.partition_indexes))
        else:
            refused.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=[
                OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, committed_leader_epoch=-1,
                                              metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                for index in topic.partition_indexes]))
    return request.replace(topics=known), refused


def merge_fetch(refused: list[OffsetFetchResponseTopics], response: OffsetFetchResponseGroup, api_version: int,
                topics: TopicView) -> OffsetFetchResponseGroup:
    """Merge both answers. By id, topics without one (they were deleted) are left out."""
    if response.error_code or api_version < FIRST_FETCH_VERSION_BY_ID:
        return response
    named = []
    for topic in response.topics:
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else topics.topic_id(topic.name)
        if topic_id is not None:
            named.append(topic.replace(topic_id=topic_id))
    return response.replace(topics=[*named, *refused])


# -------------------------------------------------------------------- OffsetDelete

def split_delete(request: OffsetDeleteRequest, topics: TopicView) -> \
        tuple[OffsetDeleteRequest, list[OffsetDeleteResponseTopic]]:
    """Return the request with the existing partitions, and the answers for the missing ones."""
    known = []
    refused = []
    for topic in request.topics:
        present, absent = _parted(topics, topic.name, topic.partitions)
        if absent:
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=[
                OffsetDeleteResponsePartition(partition_index=p.partition_index,
                                              error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for p in absent]))
        if present:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=present))
    return request.replace(topics=known), refused


def merge_delete(refused: list[OffsetDeleteResponseTopic], response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """Merge both answers; an error of the whole request stands alone."""
    if response.error_code:
        return response
    return response.replace(topics=_merged(refused, response.topics, lambda topic: topic.name))
