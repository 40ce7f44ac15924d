"""Conditions that come true in a group when everything is healed: GroupsBecomeStable."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.classic.group import GroupState as ClassicState
from kraft.broker.groups.consumer.group import ConsumerGroup, GroupState
from kraft.broker.groups.shard import GroupShard
from kraft.metadata.image import MetadataImage
from kraft.testing.brokers.groups.classic import ClassicMember
from kraft.testing.brokers.groups.consumers import ConsumerMember
from kraft.testing.brokers.groups.members import Place
from kraft.testing.brokers.groups.population import AnyMember
from kraft.testing.sim.violation import ViolationError

NAME = "GroupsBecomeStable"


def unmet(group_id: str, members: Sequence[AnyMember], state: GroupShard | None,
          image: MetadataImage) -> ViolationError | None:
    """Return what a group lacks; None when it is stable: every partition of its subscriptions has one member, and the
    coordinator and the members agree about that."""
    for member in members:
        if not member.is_joined or member.leaves:
            return ViolationError(NAME, f"{member.name} is not in its group, or still has to leave")
    if state is None:
        return ViolationError(NAME, f"{group_id} has no coordinator")
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        missing = _consumer(group, members)
    elif isinstance(group, ClassicGroup):
        missing = _classic(group, members)
    else:
        missing = f"{group_id} does not exist"
    missing = missing or _partitions(members, image)
    return None if missing is None else ViolationError(NAME, f"{group_id}: {missing}")


def _consumer(group: ConsumerGroup, members: Sequence[AnyMember]) -> str | None:
    if group.state is not GroupState.STABLE or group.epoch != group.target_epoch:
        return f"{group.state} in epoch {group.epoch}, target {group.target_epoch}"
    if sorted(group.subscriptions) != sorted(each.member_id for each in members):
        return f"its members are {list(group.subscriptions)}, {[each.member_id for each in members]} live"
    for member in members:
        current = group.current(member.member_id)
        assigned = sorted((topic_id, index) for topic_id, parts in current.assigned.items() for index in parts)
        target = sorted((topic_id, index) for topic_id, parts in group.targets.get(member.member_id, {}).items()
                        for index in parts)
        if not current.epoch == member.epoch == group.epoch or not sorted(member.owned) == assigned == target:
            return (f"{member.name} has {list(member.owned)} in epoch {member.epoch}; it is assigned {current}, its "
                    f"target is {target} in epoch {group.epoch}")
    return None


def _classic(group: ClassicGroup, members: Sequence[AnyMember]) -> str | None:
    if group.state is not ClassicState.STABLE:
        return f"{group.state} in generation {group.generation_id}"
    if sorted(group.members) != sorted(each.member_id for each in members):
        return f"its members are {list(group.members)}, {[each.member_id for each in members]} live"
    for member in members:
        if isinstance(member, ConsumerMember):
            return f"{member.name} is in a classic group"
        assigned = member.places(group.members[member.member_id].assignment)
        if member.epoch != group.generation_id or sorted(member.owned) != sorted(assigned):
            return (f"{member.name} has {list(member.owned)} in generation {member.epoch}; it is assigned {assigned} "
                    f"in generation {group.generation_id}")
    return None


def _partitions(members: Sequence[AnyMember], image: MetadataImage) -> str | None:
    """Return a partition that has no member, or several, or one that did not subscribe to it."""
    wanted: dict[Place, list[AnyMember]] = {}
    for member in members:
        for topic_id, index in _subscribed(member, image):
            wanted.setdefault((topic_id, index), []).append(member)
    for place, subscribers in wanted.items():
        owners = [each for each in members if place in each.owned]
        if len(owners) != 1 or owners[0] not in subscribers:
            return f"partition {place} is owned by {[each.name for each in owners]}"
    extra = [place for member in members for place in member.owned if place not in wanted]
    return f"partition {extra[0]} is owned by a member that does not subscribe to it" if extra else None


def _subscribed(member: ConsumerMember | ClassicMember, image: MetadataImage) -> Iterable[tuple[UUID, int]]:
    for name in member.subscribed:
        topic = image.topic(name)
        if topic is not None:
            for index in topic.partitions:
                yield topic.topic_id, index
