"""Streams groups: their members and tasks."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kraft.client.connection import Connection
from kraft.client.partitions import Partition
from kraft.client.refusals import check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
    TaskIds,
)

STREAMS: Final = "streams"
ASSIGNOR: Final = "sticky"

Task = tuple[str, int]
"""A task by its subtopology and partition."""


class StreamsMember(NamedTuple):
    """Member of a streams group with its tasks. `target` are the active tasks that it is to have."""

    member_id: str
    client_id: str
    client_host: str
    epoch: int
    process_id: str
    active: tuple[Task, ...]
    standby: tuple[Task, ...]
    warmup: tuple[Task, ...]
    target: tuple[Task, ...]


class StreamsGroup(NamedTuple):
    """A streams group with its members. `inputs` are the topics that each subtopology reads."""

    group: str
    state: str
    epoch: int
    target_epoch: int
    topology_epoch: int
    inputs: Mapping[str, tuple[str, ...]]
    members: tuple[StreamsMember, ...]

    def partitions(self, tasks: Iterable[Task]) -> tuple[Partition, ...]:
        """Return the partitions that tasks read."""
        read = ((topic, index) for subtopology, index in tasks for topic in self.inputs.get(subtopology, ()))
        return tuple(sorted(read))


def streams_group(coordinator: Connection, group: str) -> StreamsGroup | None:
    """Return a streams group; None when the group is of another kind or does not exist."""
    if coordinator.versions.get(StreamsGroupDescribeRequest.API_KEY, (0, -1))[1] < 0:
        return None
    request = StreamsGroupDescribeRequest(group_ids=[group])
    found: DescribedGroup = coordinator.send(request, StreamsGroupDescribeResponse).groups[0]
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(f"group {group}", found.error_code, found.error_message)
    topology = found.topology
    subtopologies = (topology.subtopologies or ()) if topology is not None else ()
    return StreamsGroup(
        group, found.group_state, found.group_epoch, found.assignment_epoch,
        -1 if topology is None else topology.epoch,
        {each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
         for each in subtopologies},
        tuple(sorted(StreamsMember(
            each.member_id, each.client_id, each.client_host, each.member_epoch, each.process_id,
            _tasks(each.assignment.active_tasks), _tasks(each.assignment.standby_tasks),
            _tasks(each.assignment.warmup_tasks), _tasks(each.target_assignment.active_tasks))
            for each in found.members)))


def _tasks(listed: Iterable[TaskIds]) -> tuple[Task, ...]:
    return tuple(sorted((each.subtopology_id, index) for each in listed for index in each.partitions))
