"""Consumer groups: their list, members and committed offsets, which can be set."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection
from kraft.client.partitions import Partition
from kraft.client.refusals import check
from kraft.client.retries import await_coordinator
from kraft.client.share_groups import SHARE, share_group
from kraft.client.streams_groups import ASSIGNOR, STREAMS, streams_group
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import Assignment, ConsumerGroupDescribeResponse
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeleteGroupsResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroupMember, DescribeGroupsResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListGroupsResponse
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kraft_native.base.errors import MalformedMessageError

# From version 10 on offsets are requested and returned by topic id.
OFFSETS_BY_NAME_VERSION: Final = 9
OFFSETS_OF_GROUPS_VERSION: Final = 8
CONSUMER: Final = "consumer"


class ListedGroup(NamedTuple):
    """One group as its coordinator lists it. `kind` is classic, consumer and so on; empty from old servers."""

    group: str
    kind: str
    state: str
    protocol_type: str
    coordinator: int


class Member(NamedTuple):
    """One member; `partitions` is None when its assignment is not a list of partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[Partition, ...] | None


class DescribedGroup(NamedTuple):
    """A group with its members. `protocol` is the assignor."""

    group: str
    kind: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[Member, ...]


class MemberProgress(NamedTuple):
    """Member of a consumer group on the way to its target."""

    member_id: str
    client_id: str
    client_host: str
    epoch: int
    assigned: tuple[Partition, ...]
    target: tuple[Partition, ...]


class Progress(NamedTuple):
    """Progress of a consumer group towards its target."""

    group: str
    state: str
    epoch: int
    target_epoch: int
    members: tuple[MemberProgress, ...]


class Committed(NamedTuple):
    """Committed offset of a group for one partition."""

    offset: int
    leader_epoch: int
    metadata: str


def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """Return the groups of every broker, sorted by name."""
    found = []
    for node in cluster.nodes():
        answer = cluster.node(node.node_id).send(ListGroupsRequest(), ListGroupsResponse)
        check(f"groups of node {node.node_id}", answer.error_code)
        found += [ListedGroup(each.group_id, each.group_type, each.group_state, each.protocol_type, node.node_id)
                  for each in answer.groups]
    return sorted(found)


def describe_group(cluster: Cluster, group: str) -> DescribedGroup:
    """Return the group. Raises `RefusedError` when there is none of that name."""
    coordinator = cluster.coordinator(group)
    if _version(coordinator, ConsumerGroupDescribeRequest.API_KEY) >= 0:
        found = _describe_consumer_group(coordinator, group)
        if found is not None:
            return found
    shared = share_group(coordinator, group)
    if shared is not None:
        return DescribedGroup(group, SHARE, shared.state, SHARE, shared.assignor, tuple(
            Member(each.member_id, None, each.client_id, each.client_host, each.assigned) for each in shared.members))
    streams = streams_group(coordinator, group)
    if streams is not None:
        return DescribedGroup(group, STREAMS, streams.state, STREAMS, ASSIGNOR, tuple(
            Member(each.member_id, None, each.client_id, each.client_host, streams.partitions(each.active))
            for each in streams.members))
    answer = coordinator.send(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse).groups[0]
    check(f"group {group}", answer.error_code, answer.error_message)
    if answer.group_state == "Dead":  # reported by older servers for a missing group
        check(f"group {group}", ErrorCode.GROUP_ID_NOT_FOUND)
    return DescribedGroup(group, "classic", answer.group_state, answer.protocol_type, answer.protocol_data,
                          tuple(sorted(map(_classic_member, answer.members))))


def describe_progress(cluster: Cluster, group: str) -> Progress:
    """Return where the members of a consumer group are. Raises `RefusedError` when there is none of that name."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    found = cluster.coordinator(group).send(request, ConsumerGroupDescribeResponse).groups[0]
    check(f"group {group}", found.error_code, found.error_message)
    return Progress(group, found.group_state, found.group_epoch, found.assignment_epoch, tuple(sorted(
        MemberProgress(each.member_id, each.client_id, each.client_host, each.member_epoch,
                       _assigned_to(each.assignment), _assigned_to(each.target_assignment))
        for each in found.members)))


def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a group that has no members, with its offsets."""
    coordinator = cluster.coordinator(group)
    for answer in coordinator.send(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse).results:
        check(f"group {group}", answer.error_code)


def committed_offsets(cluster: Cluster, group: str, *, stable: bool = False) -> dict[Partition, Committed]:
    """Return all committed offsets of the group, by partition. With `stable`, raises `RefusedError` while an open
    transaction may change one."""
    coordinator = cluster.coordinator(group)
    version = coordinator.version(OffsetFetchRequest.API_KEY, OFFSETS_BY_NAME_VERSION)
    topics: Sequence[OffsetFetchResponseTopic | OffsetFetchResponseTopics]
    if version < OFFSETS_OF_GROUPS_VERSION:
        request = OffsetFetchRequest(group_id=group, topics=None, require_stable=stable)
        old = coordinator.send(request, OffsetFetchResponse, version=version)
        code, topics = old.error_code, old.topics
    else:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)],
                                     require_stable=stable)
        answer = coordinator.send(request, OffsetFetchResponse, version=version).groups[0]
        code, topics = answer.error_code, answer.topics
    check(f"group {group}", code)
    found = {}
    for topic in topics:
        for each in topic.partitions:
            check(f"group {group}, partition {topic.name}-{each.partition_index}", each.error_code)
            found[topic.name, each.partition_index] = Committed(
                each.committed_offset, each.committed_leader_epoch, each.metadata or "")
    return {partition: found[partition] for partition in sorted(found) if found[partition].offset >= 0}


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Set the committed offsets of a group without members. Waits for a coordinator that has just begun. `RefusedError`
    names the first refused partition."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset))
    request = OffsetCommitRequest(group_id=group, topics=[
        OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()])
    await_coordinator(cluster.timeout, lambda: _commit(cluster, group, request))


def _commit(cluster: Cluster, group: str, request: OffsetCommitRequest) -> None:
    coordinator = cluster.coordinator(group)
    version = coordinator.version(OffsetCommitRequest.API_KEY, OFFSETS_BY_NAME_VERSION)
    for answer in coordinator.send(request, OffsetCommitResponse, version=version).topics:
        for each in answer.partitions:
            check(f"group {group}, partition {answer.name}-{each.partition_index}", each.error_code)


def _version(connection: Connection, api_key: int) -> int:
    """Return the newest version that the server offers; -1 when it does not know the API."""
    return connection.versions.get(api_key, (0, -1))[1]


def _describe_consumer_group(coordinator: Connection, group: str) -> DescribedGroup | None:
    """Return a group of KIP-848; None when the group is of another kind or does not exist."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    found = coordinator.send(request, ConsumerGroupDescribeResponse).groups[0]
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(f"group {group}", found.error_code, found.error_message)
    members = [Member(each.member_id, each.instance_id, each.client_id, each.client_host, _assigned_to(each.assignment))
               for each in found.members]
    return DescribedGroup(group, CONSUMER, found.group_state, CONSUMER, found.assignor_name, tuple(sorted(members)))


def _assigned_to(assignment: Assignment) -> tuple[Partition, ...]:
    return _sorted((topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions)


def _classic_member(member: DescribedGroupMember) -> Member:
    return Member(member.member_id, member.group_instance_id, member.client_id, member.client_host,
                  _assigned(member.member_assignment))


def _assigned(assignment: bytes) -> tuple[Partition, ...] | None:
    """Return the partitions of a consumer's assignment, which begins with its version."""
    if not assignment:
        return ()
    version = int.from_bytes(assignment[:2], "big", signed=True)
    if version not in ConsumerProtocolAssignment.VERSIONS:
        return None
    try:
        found = ConsumerProtocolAssignment.decode(assignment[2:], version)
    except MalformedMessageError:
        return None
    return _sorted((each.topic, index) for each in found.assigned_partitions for index in each.partitions)


def _sorted(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    return tuple(sorted(partitions))
