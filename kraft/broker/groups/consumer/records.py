"""Records of consumer groups in `__consumer_offsets`, byte for byte as Kafka 4.3 writes them, and what each changes.

| type | key | value |
|---|---|---|
| 3 | group | epoch of the group, hash of the metadata of its topics |
| 4 | group | metadata of its topics; only earlier versions of Kafka wrote it |
| 5 | group, member | properties of the member |
| 6 | group | epoch of the target assignment, time of its computation |
| 7 | group, member | target of the member |
| 8 | group, member | assignment of the member |
| 16 | group, regular expression | topics that match |

The value None deletes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kraft.broker.groups.consumer.group import ConsumerGroup, Resolved
from kraft.broker.groups.consumer.member import (
    ClassicPart,
    Current,
    MemberState,
    Owned,
    Partitions,
    Subscription,
    sorted_partitions,
)
from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.protocol.message import Message
from kraft.protocol.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kraft.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kraft.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kraft.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kraft.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kraft.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kraft.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kraft.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kraft.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kraft.protocol.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kraft.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kraft.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kraft.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

# -------------------------------------------------------------------- changes

class EpochChange(NamedTuple):
    """Epoch of the group, type 3."""

    epoch: GroupEpoch | None

    def apply(self, group: ConsumerGroup) -> None:
        group.set_epoch(self.epoch)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        return ConsumerGroupMetadataKey(group_id=group_id), None if self.epoch is None else ConsumerGroupMetadataValue(
            epoch=self.epoch.epoch, metadata_hash=self.epoch.metadata_hash)


class PartitionMetadataChange(NamedTuple):
    """Metadata of the topics, type 4. It is only ever deleted; `present`: the log still has it."""

    present: bool

    def apply(self, group: ConsumerGroup) -> None:
        group.has_partition_metadata = self.present

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        assert not self.present, "records of type 4 are no longer written"
        return ConsumerGroupPartitionMetadataKey(group_id=group_id), None


class SubscriptionChange(NamedTuple):
    """Properties of a member, type 5."""

    member_id: str
    subscription: Subscription | None

    def apply(self, group: ConsumerGroup) -> None:
        group.set_subscription(self.member_id, self.subscription)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=self.member_id)
        return key, None if self.subscription is None else _subscription_value(self.subscription)


class TargetEpochChange(NamedTuple):
    """Epoch of the target, type 6."""

    epoch: TargetEpoch | None

    def apply(self, group: ConsumerGroup) -> None:
        group.set_target_epoch(self.epoch)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
        return key, None if self.epoch is None else ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch.epoch, assignment_timestamp=self.epoch.computed_ms)


class TargetChange(NamedTuple):
    """Target of a member, type 7."""

    member_id: str
    partitions: Partitions | None

    def apply(self, group: ConsumerGroup) -> None:
        group.set_target(self.member_id, self.partitions)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=self.member_id)
        return key, None if self.partitions is None else ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in self.partitions.items()])


class CurrentChange(NamedTuple):
    """Assignment of a member, type 8."""

    member_id: str
    current: Current | None

    def apply(self, group: ConsumerGroup) -> None:
        group.set_current(self.member_id, self.current)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=self.member_id)
        return key, None if self.current is None else ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.current.epoch, previous_member_epoch=self.current.previous_epoch,
            state=self.current.state, assigned_partitions=_owned_value(self.current.assigned),
            partitions_pending_revocation=_owned_value(self.current.revoking))


class RegexChange(NamedTuple):
    """Topics of a regular expression, type 16."""

    regex: str
    resolved: Resolved | None

    def apply(self, group: ConsumerGroup) -> None:
        group.set_regex(self.regex, self.resolved)

    def frame(self, group_id: str) -> tuple[Message, Message | None]:
        key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=self.regex)
        return key, None if self.resolved is None else ConsumerGroupRegularExpressionValue(
            topics=self.resolved.topics, version=self.resolved.version, timestamp=self.resolved.timestamp_ms)


Change: TypeAlias = (EpochChange | PartitionMetadataChange | SubscriptionChange | TargetEpochChange | TargetChange
                     | CurrentChange | RegexChange)


def deletion(group: ConsumerGroup) -> list[Change]:
    """Return the changes that delete all records of a group, in Kafka's order; what it does not have is left out."""
    changes: list[Change] = []
    changes += (CurrentChange(each, None) for each in group.currents)
    changes += (TargetChange(each, None) for each in group.targets)
    if group.has_target_epoch:
        changes.append(TargetEpochChange(None))
    changes += (SubscriptionChange(each, None) for each in group.subscriptions)
    changes += (RegexChange(each, None) for each in group.regexes)
    if group.has_partition_metadata:
        changes.append(PartitionMetadataChange(False))
    if group.has_epoch:
        changes.append(EpochChange(None))
    return changes


def _subscription_value(subscription: Subscription) -> ConsumerGroupMemberMetadataValue:
    classic = subscription.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=subscription.instance_id, rack_id=subscription.rack_id, client_id=subscription.client_id,
        client_host=subscription.client_host, subscribed_topic_names=subscription.topic_names,
        subscribed_topic_regex=subscription.topic_regex, rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.server_assignor,
        classic_member_metadata=None if classic is None else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols]))


def _owned_value(owned: Owned) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(partitions),
                            assignment_epochs=[partitions[index] for index in sorted(partitions)])
            for topic_id, partitions in owned.items()]


# -------------------------------------------------------------------- reading

def decode_change(key: Message, value: Any) -> Change | None:
    """Return the change of a record, decoded; None for the key of another kind of group."""
    reader = _READERS.get(type(key))
    return None if reader is None else reader(key, value)


def _epoch(_key: Any, value: Any) -> Change:
    return EpochChange(None if value is None else GroupEpoch(value.epoch, value.metadata_hash))


def _target_epoch(_key: Any, value: Any) -> Change:
    return TargetEpochChange(
        None if value is None else TargetEpoch(value.assignment_epoch, value.assignment_timestamp))


def _subscription(key: Any, value: Any) -> Change:
    if value is None:
        return SubscriptionChange(key.member_id, None)
    classic = value.classic_member_metadata
    return SubscriptionChange(key.member_id, Subscription(
        instance_id=value.instance_id, rack_id=value.rack_id, client_id=value.client_id, client_host=value.client_host,
        topic_names=tuple(value.subscribed_topic_names), topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms, server_assignor=value.server_assignor,
        classic=None if classic is None else ClassicPart(classic.session_timeout_ms, tuple(
            (each.name, each.metadata) for each in classic.supported_protocols))))


def _target(key: Any, value: Any) -> Change:
    return TargetChange(key.member_id, None if value is None else sorted_partitions(
        (each.topic_id, each.partitions) for each in value.topic_partitions))


def _current(key: Any, value: Any) -> Change:
    if value is None:
        return CurrentChange(key.member_id, None)
    return CurrentChange(key.member_id, Current(
        value.member_epoch, value.previous_member_epoch, MemberState.of(value.state),
        _owned(value.assigned_partitions, value.member_epoch),
        _owned(value.partitions_pending_revocation, value.member_epoch)))


def _owned(listed: Iterable[TopicPartitions], member_epoch: int) -> Mapping[UUID, Mapping[int, int]]:
    """Return partitions with their epochs. Earlier versions of Kafka wrote none: then it is the member's."""
    found: dict[UUID, dict[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs or ()
        if len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        found.setdefault(each.topic_id, {}).update(zip(each.partitions, epochs, strict=True))
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}


def _regex(key: Any, value: Any) -> Change:
    return RegexChange(key.regular_expression, None if value is None else Resolved(
        tuple(value.topics), value.version, value.timestamp))


def _partition_metadata(_key: Any, value: Any) -> Change:
    return PartitionMetadataChange(value is not None)


_READERS: Final = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _subscription,
    ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupRegularExpressionKey: _regex,
}
TYPES: Final = tuple(key.API_KEY for key in _READERS)
"""Types of the records of consumer groups."""
