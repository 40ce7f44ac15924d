"""Share groups: their members and start offsets, which can be set."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection
from kraft.client.partitions import Partition
from kraft.client.refusals import check
from kraft.client.retries import await_coordinator
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kraft.protocol.messages.describe_share_group_offsets_response import DescribeShareGroupOffsetsResponse
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse

SHARE: Final = "share"


class ShareMember(NamedTuple):
    """Member of a share group with its partitions, which other members may have too."""

    member_id: str
    client_id: str
    client_host: str
    epoch: int
    assigned: tuple[Partition, ...]


class ShareGroup(NamedTuple):
    """A share group with its members."""

    group: str
    state: str
    epoch: int
    assignor: str
    members: tuple[ShareMember, ...]


class StartOffset(NamedTuple):
    """First offset of a partition that the group has yet to process. `lag` is None where it is unknown."""

    offset: int
    lag: int | None


def share_group(coordinator: Connection, group: str) -> ShareGroup | None:
    """Return a share group; None when the group is of another kind or does not exist."""
    if coordinator.versions.get(ShareGroupDescribeRequest.API_KEY, (0, -1))[1] < 0:
        return None
    request = ShareGroupDescribeRequest(group_ids=[group])
    found: DescribedGroup = coordinator.send(request, ShareGroupDescribeResponse).groups[0]
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(f"group {group}", found.error_code, found.error_message)
    return ShareGroup(group, found.group_state, found.group_epoch, found.assignor_name, tuple(sorted(
        ShareMember(each.member_id, each.client_id, each.client_host, each.member_epoch, tuple(sorted(
            (topic.topic_name, index) for topic in each.assignment.topic_partitions for index in topic.partitions)))
        for each in found.members)))


def start_offsets(cluster: Cluster, group: str) -> dict[Partition, StartOffset]:
    """Return the start offsets of a share group, by partition; those that are not set are left out."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)])
    answer = cluster.coordinator(group).send(request, DescribeShareGroupOffsetsResponse).groups[0]
    check(f"group {group}", answer.error_code, answer.error_message)
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(f"group {group}, partition {topic.topic_name}-{each.partition_index}", each.error_code,
                  each.error_message)
            if each.start_offset >= 0:
                found[topic.topic_name, each.partition_index] = StartOffset(
                    each.start_offset, None if each.lag < 0 else each.lag)
    return {partition: found[partition] for partition in sorted(found)}


def set_start_offsets(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Set start offsets of a share group without members. Waits for a coordinator that has just begun. `RefusedError`
    names the first refused partition."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, []).append(
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset))
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=[
        AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
        for name, partitions in topics.items()])
    await_coordinator(cluster.timeout, lambda: _alter(cluster, group, request))


def _alter(cluster: Cluster, group: str, request: AlterShareGroupOffsetsRequest) -> None:
    answer = cluster.coordinator(group).send(request, AlterShareGroupOffsetsResponse)
    check(f"group {group}", answer.error_code, answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            check(f"group {group}, partition {topic.topic_name}-{each.partition_index}", each.error_code,
                  each.error_message)
