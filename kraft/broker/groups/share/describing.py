"""ShareGroupDescribe, for the groups of one partition."""

from __future__ import annotations

from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share.assigning import ASSIGNOR
from kraft.broker.groups.share.group import ShareGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_describe_response import Assignment, DescribedGroup, Member, TopicPartitions


def describe(state: GroupShard, group_id: str) -> DescribedGroup:
    """Describe one group, the newest member first; GROUP_ID_NOT_FOUND for one that is missing or of another kind."""
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=what, group_id=group_id)
    return DescribedGroup(
        error_code=ErrorCode.NONE, group_id=group_id, group_state=group.state.value, group_epoch=group.epoch,
        assignment_epoch=group.target_epoch, assignor_name=ASSIGNOR,
        members=[_member(state, group, member_id) for member_id in reversed(group.subscriptions)])


def _member(state: GroupShard, group: ShareGroup, member_id: str) -> Member:
    """Describe one member; deleted topics are left out."""
    subscription, current = group.subscriptions[member_id], group.current(member_id)
    return Member(
        member_id=member_id, rack_id=subscription.rack_id, member_epoch=current.epoch,
        client_id=subscription.client_id, client_host=subscription.client_host,
        subscribed_topic_names=subscription.topic_names,
        assignment=Assignment(topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, indexes in current.assigned.items()
            if (name := state.environment.topics.topic_name(topic_id)) is not None]))
