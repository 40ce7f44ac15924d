"""Records of share groups in `__consumer_offsets`, byte for byte as Kafka 4.3 writes them, and what each changes.

| type | key | value |
|---|---|---|
| 10 | group, member | properties of the member |
| 11 | group | epoch of the group, hash of the metadata of its topics |
| 12 | group | epoch of the target assignment, time of its computation |
| 13 | group, member | target of the member |
| 14 | group, member | assignment of the member |
| 15 | group | partitions whose state is to be created, exists, or is to be deleted |

The value None deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kraft.broker.groups.consumer.member import Partitions, sorted_partitions
from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.broker.groups.share.group import ShareGroup, StatePartitions, States, StateTopics
from kraft.broker.groups.share.member import Current, Subscription
from kraft.protocol.message import Message
from kraft.protocol.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kraft.protocol.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kraft.protocol.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kraft.protocol.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kraft.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey
from kraft.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue
from kraft.protocol.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from kraft.protocol.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kraft.protocol.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from kraft.protocol.messages.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kraft.protocol.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kraft.protocol.messages.share_group_target_assignment_metadata_value import ShareGroupTargetAssignmentMetadataValue

# -------------------------------------------------------------------- changes

class SubscriptionChange(NamedTuple):
    """Properties of a member, type 10."""

    member_id: str
    subscription: Subscription | None

    def apply(self, group: ShareGroup) -> None:
        group.set_subscription(self.member_id, self.subscription)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=self.member_id)
        return key, None if self.subscription is None else ShareGroupMemberMetadataValue(
            rack_id=self.subscription.rack_id, client_id=self.subscription.client_id,
            client_host=self.subscription.client_host, subscribed_topic_names=self.subscription.topic_names)


class EpochChange(NamedTuple):
    """Epoch of the group, type 11."""

    epoch: GroupEpoch | None

    def apply(self, group: ShareGroup) -> None:
        group.set_epoch(self.epoch)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        return ShareGroupMetadataKey(group_id=group_id), None if self.epoch is None else ShareGroupMetadataValue(
            epoch=self.epoch.epoch, metadata_hash=self.epoch.metadata_hash)


class TargetEpochChange(NamedTuple):
    """Epoch of the target, type 12."""

    epoch: TargetEpoch | None

    def apply(self, group: ShareGroup) -> None:
        group.set_target_epoch(self.epoch)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
        return key, None if self.epoch is None else ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch.epoch, assignment_timestamp=self.epoch.computed_ms)


class TargetChange(NamedTuple):
    """Target of a member, type 13."""

    member_id: str
    partitions: Partitions | None

    def apply(self, group: ShareGroup) -> None:
        group.set_target(self.member_id, self.partitions)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=self.member_id)
        return key, None if self.partitions is None else ShareGroupTargetAssignmentMemberValue(topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in self.partitions.items()])


class CurrentChange(NamedTuple):
    """Assignment of a member, type 14."""

    member_id: str
    current: Current | None

    def apply(self, group: ShareGroup) -> None:
        group.set_current(self.member_id, self.current)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=self.member_id)
        return key, None if self.current is None else ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.current.epoch, previous_member_epoch=self.current.previous_epoch,
            state=self.current.state, assigned_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in self.current.assigned.items()])


class StatesChange(NamedTuple):
    """States of the group's partitions, type 15."""

    states: States | None

    def apply(self, group: ShareGroup) -> None:
        group.set_states(self.states)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ShareGroupStatePartitionMetadataKey(group_id=group_id)
        return key, None if self.states is None else ShareGroupStatePartitionMetadataValue(
            initializing_topics=_topics_value(self.states.initializing),
            initialized_topics=_topics_value(self.states.initialized),
            deleting_topics=[TopicInfo(topic_id=topic_id, topic_name=name)
                             for topic_id, name in self.states.deleting.items()])


Change: TypeAlias = SubscriptionChange | EpochChange | TargetEpochChange | TargetChange | CurrentChange | StatesChange


def deletion(group: ShareGroup) -> list[Change]:
    """Return the changes that delete all records of a group, in Kafka's order; what it does not have is left out."""
    changes: list[Change] = []
    changes += (CurrentChange(each, None) for each in group.currents)
    changes += (TargetChange(each, None) for each in group.targets)
    if group.has_target_epoch:
        changes.append(TargetEpochChange(None))
    changes += (SubscriptionChange(each, None) for each in group.subscriptions)
    if group.has_states:
        changes.append(StatesChange(None))
    if group.has_epoch:
        changes.append(EpochChange(None))
    return changes


def _topics_value(topics: StateTopics) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic_id=topic_id, topic_name=each.name, partitions=each.partitions)
            for topic_id, each in topics.items()]


# -------------------------------------------------------------------- reading

def decode_change(key: Message, value: Any) -> Change:
    """Return the change of a record, decoded; its type is one of `TYPES`."""
    return _READERS[type(key)](key, value)


def _subscription(key: Any, value: Any) -> Change:
    return SubscriptionChange(key.member_id, None if value is None else Subscription(
        value.rack_id, value.client_id, value.client_host, tuple(value.subscribed_topic_names)))


def _epoch(_key: Any, value: Any) -> Change:
    return EpochChange(None if value is None else GroupEpoch(value.epoch, value.metadata_hash))


def _target_epoch(_key: Any, value: Any) -> Change:
    return TargetEpochChange(
        None if value is None else TargetEpoch(value.assignment_epoch, value.assignment_timestamp))


def _target(key: Any, value: Any) -> Change:
    return TargetChange(key.member_id, None if value is None else sorted_partitions(
        (each.topic_id, each.partitions) for each in value.topic_partitions))


def _current(key: Any, value: Any) -> Change:
    if value is None:
        return CurrentChange(key.member_id, None)
    return CurrentChange(key.member_id, Current(
        value.member_epoch, value.previous_member_epoch, value.state,
        sorted_partitions((each.topic_id, each.partitions) for each in value.assigned_partitions)))


def _states(_key: Any, value: Any) -> Change:
    if value is None:
        return StatesChange(None)
    return StatesChange(States(
        _topics(value.initializing_topics), _topics(value.initialized_topics),
        {each.topic_id: each.topic_name for each in value.deleting_topics}))


def _topics(listed: Sequence[TopicPartitionsInfo]) -> Mapping[UUID, StatePartitions]:
    names = {each.topic_id: each.topic_name for each in listed}
    found = sorted_partitions((each.topic_id, each.partitions) for each in listed)
    return {topic_id: StatePartitions(names[topic_id], partitions) for topic_id, partitions in found.items()}


_READERS: Final = {
    ShareGroupMemberMetadataKey: _subscription,
    ShareGroupMetadataKey: _epoch,
    ShareGroupTargetAssignmentMetadataKey: _target_epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupStatePartitionMetadataKey: _states,
}
