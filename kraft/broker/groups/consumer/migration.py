"""Conversion of a group between the classic and the consumer protocol while it has members (KIP-848).

The decisions are here; nothing is changed. A classic group becomes a consumer group when the first member of the
consumer protocol joins, and a classic one again when the last such member has left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.consumer import subscribing
from kraft.broker.groups.consumer.classic_form import (
    CustomAssignorError,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from kraft.broker.groups.consumer.cluster import Cluster, Topics
from kraft.broker.groups.consumer.group import CONSUMER_TYPE, ConsumerGroup
from kraft.broker.groups.consumer.member import ClassicPart, Current, Partitions, Subscription
from kraft.broker.groups.consumer.records import (
    Change,
    CurrentChange,
    EpochChange,
    SubscriptionChange,
    TargetChange,
    TargetEpochChange,
)
from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata

# -------------------------------------------------------------------- classic to consumer

def may_upgrade(group: ClassicGroup, cluster: Cluster) -> bool:
    """Return whether a classic group with members may become a consumer group."""
    return (cluster.config.may_upgrade and group.is_consumer_type
            and len(group.members) <= cluster.config.max_size)


def upgrade(group: ClassicGroup, cluster: Cluster) -> list[Change]:
    """Return the changes that make a consumer group of a classic one. Every member keeps what it was assigned last.
    Refuses with GROUP_ID_NOT_FOUND where members do not use the form of Kafka's consumers."""
    members: dict[str, Subscription] = {}
    targets: dict[str, Partitions] = {}
    try:
        for member in group.members.values():
            name = group.protocol_name
            known = dict(member.protocols)
            said = read_subscription(known[name] if name in known else next(iter(known.values())))
            members[member.member_id] = Subscription(
                instance_id=member.group_instance_id, rack_id=said.rack_id, client_id=member.client_id,
                client_host=member.client_host, topic_names=tuple(sorted(dict.fromkeys(said.topics))),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                classic=ClassicPart(member.session_timeout_ms, member.protocols))
            targets[member.member_id] = read_assignment(member.assignment, cluster.topics)
    except CustomAssignorError:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group.group_id} to consumer "
                           "group because an unsupported custom assignor is in use. Please refer to the documentation "
                           "or switch to a default assignor before re-attempting the upgrade.") from None
    except RefusedError as refused:
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND,
                           f"Cannot upgrade the classic group {group.group_id} to consumer group: {refused}") from None
    epoch = group.generation_id
    changes: list[Change] = [SubscriptionChange(*each) for each in members.items()]
    digest = subscribing.metadata_hash(
        sorted(dict.fromkeys(name for each in members.values() for name in each.topic_names)), cluster.topics)
    changes.append(EpochChange(GroupEpoch(epoch, digest)))
    changes += (TargetChange(*each) for each in targets.items())
    changes.append(TargetEpochChange(TargetEpoch(epoch)))
    changes += (CurrentChange(member_id, Current(epoch, epoch, assigned={
        topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items()}))
        for member_id, partitions in targets.items())
    return changes


def scratch(group_id: str, changes: list[Change]) -> ConsumerGroup:
    """Return the group after changes that are not written yet."""
    group = ConsumerGroup(group_id)
    for change in changes:
        change.apply(group)
    return group


# -------------------------------------------------------------------- consumer to classic

def may_downgrade(group: ConsumerGroup, leaving: Collection[str], cluster: Cluster, classic_max_size: int) -> bool:
    """Return whether the group becomes a classic one when these members leave: all others use the classic protocol,
    and there are some."""
    staying = len(group.subscriptions) - len(leaving)
    classic = group.classic_count - sum(group.subscriptions[each].classic is not None for each in leaving)
    return (cluster.config.may_downgrade and 0 < staying == classic and staying <= classic_max_size
            and common_protocol(_without(group, leaving)) is not None)


def downgrade(group: ConsumerGroup, leaving: Collection[str], topics: Topics, now_ms: int) -> GroupMetadataValue:
    """Return the record of the classic group that the group becomes without the members that leave. Every member has
    its target, as the bytes of its protocol."""
    staying = _without(group, leaving)
    protocol = common_protocol(staying)
    assert protocol is not None, "a group whose members have no common protocol was not to become classic"
    members = []
    for member_id, subscription in staying.items():
        assert subscription.classic is not None, "a member of the consumer protocol stays in a classic group"
        metadata = dict(subscription.classic.protocols).get(protocol, b"")
        members.append(MemberMetadata(
            member_id=member_id, group_instance_id=subscription.instance_id, client_id=subscription.client_id,
            client_host=subscription.client_host, rebalance_timeout=subscription.rebalance_timeout_ms,
            session_timeout=subscription.classic.session_timeout_ms, subscription=metadata,
            assignment=write_assignment(group.targets.get(member_id, {}), _version(metadata), topics)))
    return GroupMetadataValue(protocol_type=CONSUMER_TYPE, generation=group.epoch, protocol=protocol,
                              leader=next(iter(staying)), current_state_timestamp=now_ms, members=members)


def _without(group: ConsumerGroup, leaving: Collection[str]) -> dict[str, Subscription]:
    return {member_id: each for member_id, each in group.subscriptions.items() if member_id not in leaving}


def _version(metadata: bytes) -> int:
    """Return the version in which a member reads its assignment; the oldest one where its subscription has none."""
    try:
        return version_of(metadata)
    except RefusedError:
        return 0


def common_protocol(members: Mapping[str, Subscription]) -> str | None:
    """Return the protocol that all classic members support and most prefer; None without one. Between equals the first
    vote decides."""
    offers = [[name for name, _ in each.classic.protocols] for each in members.values() if each.classic is not None]
    common = [name for name in offers[0] if all(name in offered for offered in offers)]
    votes: dict[str, int] = {}
    for offered in offers:
        chosen = next((name for name in offered if name in common), None)
        if chosen is not None:
            votes[chosen] = votes.get(chosen, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else None


def supports(group: ConsumerGroup, protocol_type: str, names: Collection[str], member_id: str) -> bool:
    """Return whether a classic member with these protocols is compatible with the other classic members."""
    if protocol_type != CONSUMER_TYPE or not names:
        return False
    others = [dict(each.classic.protocols) for other_id, each in group.subscriptions.items()
              if each.classic is not None and other_id != member_id]
    return any(all(name in other for other in others) for name in names)
