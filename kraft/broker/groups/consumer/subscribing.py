"""Subscriptions of a group's members: names, and the topics that match regular expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from kraft.broker.groups.consumer.cluster import Topics
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.hashing import group_hash
from kraft.broker.groups.consumer.member import Subscription

Replaced = Mapping[str, Subscription | None]
"""Members that a decision changes, with their next properties; None for one that leaves."""


def subscribed_names(group: ConsumerGroup, replaced: Replaced, found: Mapping[str, tuple[str, ...]] = {}) -> list[str]:
    """Return the names of all topics that the group subscribes to after a change of members, in order. `found` are
    topics of regular expressions that the group does not have yet."""
    counts, regexes = group.topic_counts(), group.regex_counts()
    for member_id, after in replaced.items():
        before = group.subscriptions.get(member_id)
        for subscription, change in ((before, -1), (after, 1)):
            if subscription is None:
                continue
            for name in subscription.topic_names:
                counts[name] = counts.get(name, 0) + change
            if subscription.topic_regex:
                regexes[subscription.topic_regex] = regexes.get(subscription.topic_regex, 0) + change
    names = {name: None for name, count in counts.items() if count > 0}
    for regex, count in regexes.items():
        if count > 0 and (regex in found or regex in group.regexes):
            names.update(dict.fromkeys(found[regex] if regex in found else group.regexes[regex].topics))
    return sorted(names)


def unused_regexes(group: ConsumerGroup, replaced: Replaced) -> list[str]:
    """Return the resolved regular expressions that no member uses after a change of members."""
    counts = group.regex_counts()
    for member_id, after in replaced.items():
        before = group.subscriptions.get(member_id)
        for subscription, change in ((before, -1), (after, 1)):
            if subscription is not None and subscription.topic_regex:
                counts[subscription.topic_regex] = counts.get(subscription.topic_regex, 0) + change
    return [regex for regex in group.regexes if counts.get(regex, 0) <= 0]


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return the hash of the existing topics among `names`, which are in order; 0 for none. A change of it begins a
    rebalance."""
    return group_hash([found for name in names if (found := topics.topic_hash(name)) is not None])


def topic_ids(group: ConsumerGroup, subscription: Subscription, topics: Topics) -> dict[UUID, None]:
    """Return the ids of the existing topics that a member subscribes to."""
    names = subscription.topic_names
    if subscription.topic_regex in group.regexes:
        names = (*names, *group.regexes[subscription.topic_regex].topics)
    return {topic_id: None for name in names if (topic_id := topics.topic_id(name)) is not None}
