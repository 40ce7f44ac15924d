"""StreamsGroupDescribe, for the groups of one partition."""

from __future__ import annotations

from collections.abc import Iterable

from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.broker.groups.streams.tasks import Tasks, TaskSet
from kraft.broker.groups.streams.topology import InternalTopic, Subtopology
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import streams_group_describe_response as described
from kraft.protocol.messages.streams_group_describe_response import Assignment, DescribedGroup, TaskIds


def describe(state: GroupShard, group_id: str) -> DescribedGroup:
    """Describe one group, the newest member first; GROUP_ID_NOT_FOUND for one that is missing or of another kind."""
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    group = state.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=what, group_id=group_id)
    return DescribedGroup(
        error_code=ErrorCode.NONE, group_id=group_id, group_state=group.state.value, group_epoch=group.epoch,
        assignment_epoch=group.target_epoch, topology=_topology(group),
        members=[_member(group, member_id) for member_id in reversed(group.members)])


def _topology(group: StreamsGroup) -> described.Topology | None:
    """Describe the topology, with the numbers of partitions of internal topics once these exist."""
    if group.topology is None:
        return None
    subtopologies: Iterable[Subtopology] = group.topology.subtopologies
    if group.configured is not None and group.configured.is_ready:
        subtopologies = [each.subtopology for each in group.configured.subtopologies.values()]
    return described.Topology(epoch=group.topology.epoch, subtopologies=[
        described.Subtopology(
            subtopology_id=each.id, source_topics=sorted(each.source_topics),
            repartition_sink_topics=sorted(each.repartition_sink_topics),
            state_changelog_topics=[_described_topic(topic) for topic in sorted(each.state_changelog_topics)],
            repartition_source_topics=[_described_topic(topic) for topic in sorted(each.repartition_source_topics)])
        for each in sorted(subtopologies, key=lambda each: each.id)])


def _described_topic(topic: InternalTopic) -> described.TopicInfo:
    return described.TopicInfo(
        name=topic.name, partitions=topic.partitions, replication_factor=topic.replication_factor,
        topic_configs=[described.KeyValue(key=key, value=value) for key, value in sorted(topic.configs)])


def _member(group: StreamsGroup, member_id: str) -> described.Member:
    properties, current = group.members[member_id], group.current(member_id)
    endpoint = properties.endpoint
    return described.Member(
        member_id=member_id, member_epoch=current.epoch, instance_id=properties.instance_id,
        rack_id=properties.rack_id, client_id=properties.client_id, client_host=properties.client_host,
        topology_epoch=properties.topology_epoch, process_id=properties.process_id,
        user_endpoint=None if endpoint is None else described.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[described.KeyValue(key=key, value=value) for key, value in properties.client_tags],
        assignment=_assignment(current.assigned.tasks),
        target_assignment=_assignment(group.targets.get(member_id, TaskSet())))


def _assignment(tasks: TaskSet) -> Assignment:
    active, standby, warmup = map(_task_ids, tasks)
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=partitions) for each, partitions in tasks.items()]
