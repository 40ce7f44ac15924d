"""Partitions of members with an endpoint, for interactive queries: a client queries the process that has a key."""

from __future__ import annotations

from kraft.broker.groups.consumer.cluster import Topics
from kraft.broker.groups.streams.configuring import Configured
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.broker.groups.streams.tasks import Tasks
from kraft.protocol.messages.streams_group_heartbeat_response import Endpoint, EndpointToPartitions, TopicPartition


def of_members(group: StreamsGroup, topics: Topics) -> list[EndpointToPartitions]:
    """Return the partitions of each member with an endpoint; none while the topology is not configured. What was
    computed stays until the member's tasks change."""
    configured = group.configured
    if configured is None or not configured.subtopologies:
        return []
    found = []
    for member_id, properties in group.members.items():
        if properties.endpoint is None:
            continue
        known = group.endpoints.get(member_id)
        if known is None:
            tasks = group.current(member_id).assigned.tasks
            known = group.endpoints[member_id] = EndpointToPartitions(
                user_endpoint=Endpoint(host=properties.endpoint.host, port=properties.endpoint.port),
                active_partitions=_partitions(tasks.active, configured, topics),
                standby_partitions=_partitions(tasks.standby, configured, topics))
        found.append(known)
    return found


def _partitions(tasks: Tasks, configured: Configured, topics: Topics) -> list[TopicPartition]:
    """Return the partitions that tasks read. A topic may have fewer than its subtopology has tasks."""
    found: list[TopicPartition] = []
    for subtopology, indexes in tasks.items():
        known = configured.subtopologies.get(subtopology)
        for name in () if known is None else known.subtopology.inputs:
            count = topics.partition_count(name)
            if count is not None:
                found.append(TopicPartition(topic=name, partitions=[index for index in indexes if index < count]))
    return found
