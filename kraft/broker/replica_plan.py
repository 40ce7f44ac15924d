"""Plan of what a metadata change means for this broker's replicas; another module carries it out. Pure."""

from collections.abc import Generator, Iterable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple
from uuid import UUID

from kraft.metadata.delta import MetadataDelta, PartitionChange
from kraft.metadata.image import MetadataImage, PartitionRegistration

PLANNED_STEP: Final = 256
"""Partitions that one step plans."""


class Action(Enum):
    """Action on one replica."""

    LEAD = auto()
    FOLLOW = auto()
    REMOVE = auto()


class Step(NamedTuple):
    """One replica's new state. `partition` is None for REMOVE. `recorded`: the metadata log has a record that removes
    the replica; without it the replica is only missing from a snapshot."""

    action: Action
    topic: str
    topic_id: UUID
    number: int
    partition: PartitionRegistration | None
    recorded: bool = False


def plan_all(image: MetadataImage, node_id: int) -> list[Step]:
    """Plan every replica of this broker at its start."""
    return [plan_one(topic.name, topic.topic_id, index, partition, node_id)
            for topic, index, partition in image.partitions() if node_id in partition.replicas]


def plan_change(delta: MetadataDelta, node_id: int) -> list[Step]:
    """Plan the replicas of this broker that a committed change affects. Removals come first: one change may delete a
    topic and create another one of the same name."""
    changes = list(delta.partition_changes())
    return [*_removed(changes, delta, node_id), *_kept(changes, node_id)]


def plan_steps(changes: Sequence[PartitionChange], delta: MetadataDelta, node_id: int
               ) -> Generator[None, None, list[Step]]:
    """Do the same as `plan_change` in steps, for the changes of the delta."""
    plan: list[Step] = []
    parts = [changes[start:start + PLANNED_STEP] for start in range(0, len(changes), PLANNED_STEP)]
    for part in parts:
        plan += _removed(part, delta, node_id)
        yield
    for part in parts:
        plan += _kept(part, node_id)
        yield
    return plan


def recorded_removals(delta: MetadataDelta, node_id: int) -> list[Step]:
    """Return the replicas that records of a committed change removed from this broker; some may have come back
    since."""
    return [Step(Action.REMOVE, name, topic_id, index, None, recorded=True)
            for (topic_id, index), (name, brokers) in delta.dropped.items() if node_id in brokers]


def _removed(changes: Iterable[PartitionChange], delta: MetadataDelta, node_id: int) -> Iterable[Step]:
    for change in changes:
        if _was_here(change, node_id) and not _is_here(change, node_id):
            _, brokers = delta.dropped.get((change.topic.topic_id, change.index), ("", ()))
            yield Step(Action.REMOVE, change.topic.name, change.topic.topic_id, change.index, None, node_id in brokers)


def _kept(changes: Iterable[PartitionChange], node_id: int) -> Iterable[Step]:
    for change in changes:
        if change.after is not None and _is_here(change, node_id):
            yield plan_one(change.topic.name, change.topic.topic_id, change.index, change.after, node_id)


def plan_one(topic: str, topic_id: UUID, index: int, partition: PartitionRegistration, node_id: int) -> Step:
    """Plan the present state of one replica of this broker."""
    action = Action.LEAD if partition.leader == node_id else Action.FOLLOW
    return Step(action, topic, topic_id, index, partition)


def _was_here(change: PartitionChange, node_id: int) -> bool:
    return change.before is not None and node_id in change.before.replicas


def _is_here(change: PartitionChange, node_id: int) -> bool:
    return change.after is not None and node_id in change.after.replicas
