"""ConsumerGroupDescribe, for the groups of one partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from kraft.broker.groups.consumer import assigning
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.member import sorted_partitions
from kraft.broker.groups.consumer.serving import cluster_of
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(state: GroupShard, group_id: str) -> DescribedGroup:
    """Describe one group, the newest member first; GROUP_ID_NOT_FOUND for one that is missing or of another kind."""
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=what, group_id=group_id)
    return DescribedGroup(
        error_code=ErrorCode.NONE, group_id=group_id, group_state=group.state.value, group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assigning.assignor_of(group, cluster_of(state, group_id), {}),
        members=[_member(state, group, member_id) for member_id in reversed(group.subscriptions)])


def _member(state: GroupShard, group: ConsumerGroup, member_id: str) -> Member:
    """Describe one member; its assignment has the partitions that it has yet to give up."""
    subscription, current = group.subscriptions[member_id], group.current(member_id)
    return Member(
        member_id=member_id, instance_id=subscription.instance_id, rack_id=subscription.rack_id,
        member_epoch=current.epoch, client_id=subscription.client_id, client_host=subscription.client_host,
        subscribed_topic_names=subscription.topic_names, subscribed_topic_regex=subscription.topic_regex,
        assignment=_assignment(state, sorted_partitions(
            (*current.assigned.items(), *current.revoking.items())).items()),
        target_assignment=_assignment(state, group.targets.get(member_id, {}).items()),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER)


def _assignment(state: GroupShard, partitions: Iterable[tuple[UUID, tuple[int, ...]]]) -> Assignment:
    """Return the partitions by topic; deleted topics are left out."""
    return Assignment(topic_partitions=[
        TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes) for topic_id, indexes in partitions
        if (name := state.environment.topics.topic_name(topic_id)) is not None])
