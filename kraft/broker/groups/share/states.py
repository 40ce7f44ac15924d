"""States of a group's partitions: which ones the share coordinator is to create, and what its answers change.

The record of type 15 has three kinds of partitions:

1. A partition that a member subscribes to is *initializing* before the share coordinator creates its state.
2. Once it has, the partition is *initialized*. Only such partitions are assigned.
3. A topic whose states are to be removed is *deleting* until the share coordinator has removed them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from kraft.broker.groups.consumer.cluster import Topics
from kraft.broker.groups.consumer.member import Partitions
from kraft.broker.groups.share.group import NO_TOPICS, ShareGroup, StatePartitions, States, StateTopics

INITIALIZED_AT_ONCE: Final = 1_000
"""Limit of the partitions whose states one request creates."""
UNKNOWN_NAME: Final = "<UNKNOWN>"
"""Name of a topic that no longer exists, in records."""


def topics_of(names: Iterable[str], topics: Topics) -> dict[UUID, str]:
    """Return the ids of the existing topics among `names`, with their names."""
    return {topic_id: name for name in names if (topic_id := topics.topic_id(name)) is not None}


def assignable(group: ShareGroup, topic_ids: Iterable[UUID], topics: Topics) -> dict[UUID, tuple[int, ...]]:
    """Return the partitions of topics that may be assigned: those that exist and have a state."""
    found = {}
    for topic_id in topic_ids:
        known = group.states.initialized.get(topic_id)
        if known is not None:
            name = topics.topic_name(topic_id)
            count = 0 if name is None else topics.partition_count(name) or 0
            found[topic_id] = tuple(index for index in known.partitions if index < count)
    return found


def has_unassigned(group: ShareGroup, topic_ids: Iterable[UUID], topics: Topics) -> bool:
    """Return whether a partition that may be assigned is in no member's target."""
    assigned: dict[UUID, dict[int, None]] = {}
    for target in group.targets.values():
        for topic_id, indexes in target.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(indexes))
    return any(index not in assigned.get(topic_id, {})
               for topic_id, indexes in assignable(group, topic_ids, topics).items() for index in indexes)


def uninitialized(group: ShareGroup, names: Iterable[str], topics: Topics) -> dict[UUID, StatePartitions]:
    """Return partitions of the topics without a state, at most `INITIALIZED_AT_ONCE`."""
    found: dict[UUID, StatePartitions] = {}
    room = INITIALIZED_AT_ONCE
    for topic_id, name in topics_of(names, topics).items():
        count = topics.partition_count(name) or 0
        known = group.states.initialized.get(topic_id)
        if known is not None and len(known.partitions) >= count:
            continue
        has = dict.fromkeys(() if known is None else known.partitions)
        missing = tuple(islice((index for index in range(count) if index not in has), room))
        if missing:
            found[topic_id] = StatePartitions(name, missing)
            room -= len(missing)
        if not room:
            break
    return found


def joined(first: StateTopics, second: StateTopics) -> dict[UUID, StatePartitions]:
    """Return the partitions of both."""
    found = dict(first)
    for topic_id, each in second.items():
        before = found.get(topic_id)
        indexes = each.partitions if before is None else tuple(sorted(dict.fromkeys(
            (*before.partitions, *each.partitions))))
        found[topic_id] = StatePartitions(each.name, indexes)
    return found


def without(topics: StateTopics, removed: Mapping[UUID, Collection[int]]) -> dict[UUID, StatePartitions]:
    """Return the partitions that are not among the `removed` ones."""
    found = {}
    for topic_id, each in topics.items():
        dropped = dict.fromkeys(removed.get(topic_id, ()))
        indexes = tuple(index for index in each.partitions if index not in dropped)
        if indexes:
            found[topic_id] = StatePartitions(each.name, indexes)
    return found


def begin_initializing(states: States, requested: StateTopics) -> States:
    """Return the states once the `requested` partitions are to be created. A topic among them is no longer deleted."""
    return States(
        joined(states.initializing, requested), states.initialized,
        {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in requested})


def end_initializing(states: States, created: Partitions, topics: Topics) -> States:
    """Return the states once the share coordinators have `created` some. Others that have none stay initializing. A
    topic whose states were removed meanwhile stays without."""
    done = {topic_id: StatePartitions(topics.topic_name(topic_id) or UNKNOWN_NAME, indexes)
            for topic_id, indexes in created.items() if topic_id in states.initializing}
    initialized = joined(states.initialized, done)
    has_state = {topic_id: each.partitions for topic_id, each in initialized.items()}
    return States(without(states.initializing, has_state), initialized, states.deleting)


def begin_deleting(states: States, removed: Mapping[UUID, str]) -> States:
    """Return the states once those of the `removed` topics are to be deleted."""
    return States(_except(states.initializing, removed), _except(states.initialized, removed),
                  {**states.deleting, **removed})


def drop(states: States, topic_ids: Collection[UUID]) -> States:
    """Return the states without those of the topics: they are deleted."""
    return States(_except(states.initializing, topic_ids), _except(states.initialized, topic_ids),
                  {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in topic_ids})


def to_delete(states: States, topics: Topics) -> dict[UUID, StatePartitions]:
    """Return all partitions whose states a deleted group may have, also those whose deletion failed before. A topic
    that is being deleted and does not exist has none left."""
    found = joined(states.initialized, states.initializing)
    for topic_id in states.deleting:
        name = topics.topic_name(topic_id)
        if name is not None:
            whole = {topic_id: StatePartitions(name, tuple(range(topics.partition_count(name) or 0)))}
            found = joined(found, whole if whole[topic_id].partitions else NO_TOPICS)
    return found


def _except(topics: StateTopics, topic_ids: Collection[UUID]) -> dict[UUID, StatePartitions]:
    return {topic_id: each for topic_id, each in topics.items() if topic_id not in topic_ids}
