"""Target assignment of a share group: computed in steps, written as the changes against the previous one."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final
from uuid import UUID

from kraft.broker.groups.consumer.cluster import Topics
from kraft.broker.groups.share import states
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.share.member import NO_PARTITIONS, Subscription
from kraft.broker.groups.share.records import TargetChange
from kraft.broker.groups.share.simple import STEP, SharingMember, Spec, assign_simply

AT_ONCE: Final = 256
"""Members and partitions of a group whose target a heartbeat computes itself."""
ASSIGNOR: Final = "simple"


def is_small(group: ShareGroup, names: list[str], topics: Topics) -> bool:
    """Return whether a target for these topics takes so little time that a request may wait for it."""
    return len(group.subscriptions) + sum(topics.partition_count(name) or 0 for name in names) <= AT_ONCE


def target_steps(group: ShareGroup, topics: Topics, replaced: Mapping[str, Subscription | None]
                 ) -> Generator[None, None, list[TargetChange]]:
    """Return the changes of the members' targets, in steps. What the group is now counts, not what it becomes
    meanwhile. `replaced` are members that change with the same batch; None for one that leaves."""
    members = {member_id: subscription for member_id, subscription in {**group.subscriptions, **replaced}.items()
               if subscription is not None}
    targets = dict(group.targets)
    sharing: dict[str, SharingMember] = {}
    known: dict[tuple[str, ...], dict[UUID, None]] = {}     # most members subscribe to the same
    for number, (member_id, subscription) in enumerate(members.items()):
        names = subscription.topic_names
        if names not in known:
            known[names] = dict.fromkeys(states.topics_of(names, topics))
        sharing[member_id] = SharingMember(known[names], targets.get(member_id, NO_PARTITIONS))
        if number % STEP == STEP - 1:
            yield
    topic_ids = dict.fromkeys(topic_id for each in known.values() for topic_id in each)
    found = yield from assign_simply(Spec(sharing, states.assignable(group, topic_ids, topics)))
    return [TargetChange(member_id, partitions) for member_id, partitions in found.items()
            if targets.get(member_id) != partitions]
