"""Target assignment of a group: computed in steps, written as the changes against the previous one."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final
from uuid import UUID

from kraft.broker.groups.consumer.assignors import ASSIGNORS
from kraft.broker.groups.consumer.assignors.spec import STEP, AssignedMember, Spec
from kraft.broker.groups.consumer.cluster import Cluster, Topics
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.member import Partitions, Subscription
from kraft.broker.groups.consumer.records import TargetChange
from kraft.broker.groups.consumer.subscribing import Replaced, topic_ids

AT_ONCE: Final = 256
"""Members and partitions of a group whose target a heartbeat computes itself."""


def is_due(group: ConsumerGroup, cluster: Cluster) -> bool:
    """Return whether the next target may be computed: `group.consumer.assignment.interval.ms` after the last one."""
    return cluster.now_ms >= due_ms(group, cluster)


def due_ms(group: ConsumerGroup, cluster: Cluster) -> int:
    """Return the time from which the next target may be computed."""
    return group.target_due_ms(cluster.now_ms, cluster.settings.assignment_interval_ms)


def is_small(group: ConsumerGroup, names: list[str], topics: Topics) -> bool:
    """Return whether a target for these topics takes so little time that a request may wait for it."""
    return len(group.subscriptions) + sum(topics.partition_count(name) or 0 for name in names) <= AT_ONCE


def assignor_of(group: ConsumerGroup, cluster: Cluster, replaced: Replaced) -> str:
    """Return the name of the assignor for the group: the one that most members prefer, or the default."""
    preferred = group.preferred_assignor(dict(replaced))
    return preferred if preferred in cluster.config.assignors else cluster.config.assignors[0]


def target_steps(group: ConsumerGroup, cluster: Cluster, replaced: Replaced, previous: Mapping[str, Partitions]
                 ) -> Generator[None, None, list[TargetChange]]:
    """Return the changes of the members' targets, in steps. What the group is now counts, not what it becomes
    meanwhile. `replaced` are members that change with the same batch; `previous` has the targets that they are given
    by it."""
    assign = ASSIGNORS[assignor_of(group, cluster, replaced)]
    members: dict[str, Subscription] = {
        member_id: subscription for member_id, subscription in {**group.subscriptions, **replaced}.items()
        if subscription is not None}
    targets = {**group.targets, **previous}
    spec = yield from _spec(group, cluster.topics, members, targets)
    found = yield from assign(spec)
    return [TargetChange(member_id, partitions) for member_id, partitions in found.items()
            if targets.get(member_id) != partitions]


def _spec(group: ConsumerGroup, topics: Topics, members: Mapping[str, Subscription],
          targets: Mapping[str, Partitions]) -> Generator[None, None, Spec]:
    assigned: dict[str, AssignedMember] = {}
    counts: dict[UUID, int] = {}
    known: dict[tuple[tuple[str, ...], str], dict[UUID, None]] = {}      # most members subscribe to the same
    for number, (member_id, subscription) in enumerate(members.items()):
        said = subscription.topic_names, subscription.topic_regex
        if said not in known:
            known[said] = topic_ids(group, subscription, topics)
            for topic_id in known[said]:
                name = topics.topic_name(topic_id)
                counts[topic_id] = 0 if name is None else topics.partition_count(name) or 0
        assigned[member_id] = AssignedMember(subscription.instance_id, known[said], targets.get(member_id, {}))
        if number % STEP == STEP - 1:
            yield
    return Spec(assigned, counts)
