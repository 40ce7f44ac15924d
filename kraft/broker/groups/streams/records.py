"""Records of streams groups in `__consumer_offsets`, byte for byte as Kafka 4.3 writes them, and what each changes.

| type | key | value |
|---|---|---|
| 17 | group | epoch of the group, hash of the metadata of its topics, epoch of the topology that they fit, settings |
| 19 | group, member | properties of the member |
| 20 | group | epoch of the target, time of its computation |
| 21 | group, member | target of the member |
| 22 | group, member | tasks of the member |
| 23 | group | topology |

The value None deletes. Type 18 was never released with a value that still exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.broker.groups.streams.group import NOT_VALIDATED, StreamsGroup
from kraft.broker.groups.streams.member import Current, Endpoint, MemberState, Properties
from kraft.broker.groups.streams.tasks import Held, Owned, Tasks, TaskSet, sorted_tasks
from kraft.broker.groups.streams.topology import InternalTopic, Topology, topology_of
from kraft.protocol.message import Message
from kraft.protocol.messages import streams_group_current_member_assignment_value as current_value
from kraft.protocol.messages import streams_group_member_metadata_value as member_value
from kraft.protocol.messages import streams_group_target_assignment_member_value as target_value
from kraft.protocol.messages import streams_group_topology_value as stored
from kraft.protocol.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from kraft.protocol.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kraft.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kraft.protocol.messages.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from kraft.protocol.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from kraft.protocol.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from kraft.protocol.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from kraft.protocol.messages.streams_group_topology_key import StreamsGroupTopologyKey

# -------------------------------------------------------------------- changes

class MemberChange(NamedTuple):
    """Properties of a member, type 19."""

    member_id: str
    properties: Properties | None

    def apply(self, group: StreamsGroup) -> None:
        group.set_member(self.member_id, self.properties)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=self.member_id)
        each = self.properties
        return key, None if each is None else member_value.StreamsGroupMemberMetadataValue(
            instance_id=each.instance_id, rack_id=each.rack_id, client_id=each.client_id, client_host=each.client_host,
            rebalance_timeout_ms=each.rebalance_timeout_ms, topology_epoch=each.topology_epoch,
            process_id=each.process_id,
            user_endpoint=None if each.endpoint is None else member_value.Endpoint(
                host=each.endpoint.host, port=each.endpoint.port),
            client_tags=[member_value.KeyValue(key=name, value=value) for name, value in each.client_tags])


class EpochChange(NamedTuple):
    """Epoch of the group, type 17."""

    validated_topology_epoch: int
    configs: tuple[tuple[str, str], ...]
    epoch: GroupEpoch | None

    def apply(self, group: StreamsGroup) -> None:
        group.set_epoch(self.epoch)
        group.set_validation(self.validated_topology_epoch, self.configs)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        return StreamsGroupMetadataKey(group_id=group_id), None if self.epoch is None else StreamsGroupMetadataValue(
            epoch=self.epoch.epoch, metadata_hash=self.epoch.metadata_hash,
            validated_topology_epoch=self.validated_topology_epoch,
            last_assignment_configs=[LastAssignmentConfig(key=name, value=value) for name, value in self.configs])


class TargetEpochChange(NamedTuple):
    """Epoch of the target, type 20."""

    epoch: TargetEpoch | None

    def apply(self, group: StreamsGroup) -> None:
        group.set_target_epoch(self.epoch)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)
        return key, None if self.epoch is None else StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch.epoch, assignment_timestamp=self.epoch.computed_ms)


class TargetChange(NamedTuple):
    """Target of a member, type 21."""

    member_id: str
    tasks: TaskSet | None

    def apply(self, group: StreamsGroup) -> None:
        group.set_target(self.member_id, self.tasks)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=self.member_id)
        return key, None if self.tasks is None else target_value.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_target_ids(self.tasks.active), standby_tasks=_target_ids(self.tasks.standby),
            warmup_tasks=_target_ids(self.tasks.warmup))


class CurrentChange(NamedTuple):
    """Tasks of a member, type 22."""

    member_id: str
    current: Current | None

    def apply(self, group: StreamsGroup) -> None:
        group.set_current(self.member_id, self.current)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=self.member_id)
        each = self.current
        return key, None if each is None else current_value.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=each.epoch, previous_member_epoch=each.previous_epoch, state=each.state,
            active_tasks=_active_ids(each.assigned.active), standby_tasks=_passive_ids(each.assigned.standby),
            warmup_tasks=_passive_ids(each.assigned.warmup),
            active_tasks_pending_revocation=_active_ids(each.revoking.active),
            standby_tasks_pending_revocation=_passive_ids(each.revoking.standby),
            warmup_tasks_pending_revocation=_passive_ids(each.revoking.warmup))


class TopologyChange(NamedTuple):
    """Topology of the group, type 23."""

    topology: Topology | None

    def apply(self, group: StreamsGroup) -> None:
        group.set_topology(self.topology)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        return (StreamsGroupTopologyKey(group_id=group_id),
                None if self.topology is None else _topology_value(self.topology))


Change: TypeAlias = (
    MemberChange | EpochChange | TargetEpochChange | TargetChange | CurrentChange | TopologyChange)


def deletion(group: StreamsGroup) -> list[Change]:
    """Return the changes that delete all records of a group, in Kafka's order; what it does not have is left out."""
    changes: list[Change] = []
    changes += (CurrentChange(each, None) for each in group.currents)
    changes += (TargetChange(each, None) for each in group.targets)
    if group.has_target_epoch:
        changes.append(TargetEpochChange(None))
    changes += (MemberChange(each, None) for each in group.members)
    if group.has_epoch:
        changes.append(EpochChange(NOT_VALIDATED, (), None))
    if group.topology is not None:
        changes.append(TopologyChange(None))
    return changes


def _target_ids(tasks: Tasks) -> list[target_value.TaskIds]:
    return [target_value.TaskIds(subtopology_id=each, partitions=partitions) for each, partitions in tasks.items()]


def _passive_ids(tasks: Tasks) -> list[current_value.TaskIds]:
    return [current_value.TaskIds(subtopology_id=each, partitions=partitions) for each, partitions in tasks.items()]


def _active_ids(owned: Owned) -> list[current_value.TaskIds]:
    return [current_value.TaskIds(subtopology_id=each, partitions=sorted(since),
                                  assignment_epochs=[since[index] for index in sorted(since)])
            for each, since in owned.items()]


def _topology_value(topology: Topology) -> stored.StreamsGroupTopologyValue:
    return stored.StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=[
        stored.Subtopology(
            subtopology_id=each.id, source_topics=each.source_topics, source_topic_regex=each.source_topic_regex,
            state_changelog_topics=[_stored_topic(topic) for topic in each.state_changelog_topics],
            repartition_sink_topics=each.repartition_sink_topics,
            repartition_source_topics=[_stored_topic(topic) for topic in each.repartition_source_topics],
            copartition_groups=[stored.CopartitionGroup(
                source_topics=group.source_topics, source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics) for group in each.copartition_groups])
        for each in topology.subtopologies])


def _stored_topic(topic: InternalTopic) -> stored.TopicInfo:
    return stored.TopicInfo(
        name=topic.name, partitions=topic.partitions, replication_factor=topic.replication_factor,
        topic_configs=[stored.TopicConfig(key=key, value=value) for key, value in topic.configs])


# -------------------------------------------------------------------- reading

def decode_change(key: Message, value: Any) -> Change:
    """Return the change of a record, decoded; its type is one of the table above."""
    return _READERS[type(key)](key, value)


def _member(key: Any, value: Any) -> Change:
    if value is None:
        return MemberChange(key.member_id, None)
    endpoint = value.user_endpoint
    return MemberChange(key.member_id, Properties(
        value.instance_id, value.rack_id, value.client_id, value.client_host, value.rebalance_timeout_ms,
        value.topology_epoch, value.process_id, None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tuple((each.key, each.value) for each in value.client_tags)))


def _epoch(_key: Any, value: Any) -> Change:
    if value is None:
        return EpochChange(NOT_VALIDATED, (), None)
    return EpochChange(
        value.validated_topology_epoch,
        tuple((each.key, each.value) for each in value.last_assignment_configs or ()),
        GroupEpoch(value.epoch, value.metadata_hash))


def _target_epoch(_key: Any, value: Any) -> Change:
    return TargetEpochChange(
        None if value is None else TargetEpoch(value.assignment_epoch, value.assignment_timestamp))


def _target(key: Any, value: Any) -> Change:
    return TargetChange(key.member_id, None if value is None else TaskSet(
        _tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)))


def _current(key: Any, value: Any) -> Change:
    if value is None:
        return CurrentChange(key.member_id, None)
    epoch = value.member_epoch
    return CurrentChange(key.member_id, Current(
        epoch, value.previous_member_epoch, MemberState.of(value.state),
        Held(_owned(value.active_tasks, epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)),
        Held(_owned(value.active_tasks_pending_revocation, epoch), _tasks(value.standby_tasks_pending_revocation),
             _tasks(value.warmup_tasks_pending_revocation))))


def _topology(_key: Any, value: Any) -> Change:
    return TopologyChange(None if value is None else topology_of(value))


def _tasks(listed: Sequence[Any]) -> Tasks:
    return sorted_tasks((each.subtopology_id, each.partitions) for each in listed)


def _owned(listed: Sequence[Any], epoch: int) -> Mapping[str, Mapping[int, int]]:
    """Return active tasks. Those whose epochs are not in the record count as got in the member's."""
    found: dict[str, dict[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs or ()
        if len(epochs) != len(each.partitions):
            epochs = [epoch] * len(each.partitions)
        found.setdefault(each.subtopology_id, {}).update(zip(each.partitions, epochs, strict=True))
    return {subtopology: dict(sorted(found[subtopology].items())) for subtopology in sorted(found)
            if found[subtopology]}


_READERS: Final = {
    StreamsGroupMemberMetadataKey: _member,
    StreamsGroupMetadataKey: _epoch,
    StreamsGroupTargetAssignmentMetadataKey: _target_epoch,
    StreamsGroupTargetAssignmentMemberKey: _target,
    StreamsGroupCurrentMemberAssignmentKey: _current,
    StreamsGroupTopologyKey: _topology,
}
