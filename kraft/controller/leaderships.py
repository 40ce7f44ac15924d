"""Partition changes when a broker, or one of its directories, leaves or comes back.

They concern any number of partitions, so they are streams of records (see `decision.Stream`).
"""

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from kraft.controller.decision import UNCLEAN_LEADER_ELECTION, Context, Stream
from kraft.controller.partition_change import Assignment, Election, change
from kraft.metadata.image import NO_LEADER, PartitionRegistration, TopicImage
from kraft.metadata.snapshot import Record


class TopicRules(NamedTuple):
    """Settings of a topic that decide which replica may lead its partitions."""

    election: Election
    min_isr: int
    """min.insync.replicas in force, at most the number of replicas."""


def topic_rules(context: Context, topic: TopicImage) -> TopicRules:
    """Return the rules by the settings in force: online elections, or unclean ones where the topic allows them."""
    return TopicRules(Election.UNCLEAN if allows_unclean(context, topic.name) else Election.ONLINE,
                      context.min_isr(topic.name, len(topic.partitions[0].replicas)))


def leads(context: Context, broker_id: int) -> Generator[None, None, bool]:
    """Return whether the broker leads any partition. Works in steps."""
    for number, (_, _, partition) in enumerate(context.image.partitions(), 1):
        if partition.leader == broker_id:
            return True
        if number % context.settings.visited_step == 0:
            yield
    return False


def can_lead(context: Context, partition: PartitionRegistration, broker_id: int, *, counts: bool = False) -> bool:
    """Return whether the broker takes part, and the directory of its replica is not known to have failed. `counts`: it
    will take part once this decision is carried out."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or broker_id not in partition.replicas or not (counts or broker.active):
        return False
    return broker.has_online_dir(partition.directory_of(broker_id))


def changes(
    context: Context, affected: Callable[[PartitionRegistration], bool], *, without: int = NO_LEADER,
    counting: int = NO_LEADER, lost_by: Sequence[int] = (),
) -> Stream:
    """Yield change records for the affected partitions. Replica `without` leaves the ISR and cannot lead, `counting`
    is treated as active, and replicas `lost_by` may have lost records."""
    count = 0
    rules, rules_of = None, None
    for visited, (topic, index, partition) in enumerate(context.image.partitions(), 1):
        if affected(partition):
            if rules_of is not topic:
                rules, rules_of = topic_rules(context, topic), topic
            record = change_of(
                context, topic, index, rules=rules, without=without, counting=counting, lost_by=lost_by,
                isr=[replica for replica in partition.isr if replica != without and replica not in lost_by])
            if record is not None:
                yield record
            count += 1
            if count % context.settings.step == 0:
                yield None
        if visited % context.settings.visited_step == 0:
            yield None


def change_of(
    context: Context, topic: TopicImage, index: int, *, election: Election | None = None,
    without: int = NO_LEADER, counting: int = NO_LEADER, isr: Sequence[int] | None = None, lost_by: Sequence[int] = (),
    assignment: Assignment | None = None, recovery: int | None = None, directories: Sequence[UUID] | None = None,
    rules: TopicRules | None = None,
) -> Record | None:
    """Return the record of `change` for one partition, by its topic's settings and the current brokers. `election`
    None: that of the topic's rules. For `without` and `counting` see `changes`. `directories`: the new directories of
    the replicas. `rules`: those of the topic, where the caller has them."""
    rules = rules or topic_rules(context, topic)
    partition = topic.partitions[index]
    if directories is not None:
        partition = replace(partition, directories=tuple(directories))
    return change(
        topic.topic_id, index, partition, context.image.metadata_version,
        acceptable=lambda replica: replica != without and can_lead(
            context, partition, replica, counts=replica == counting),
        min_isr=rules.min_isr, elr_enabled=context.image.elr_enabled, isr=isr, election=election or rules.election,
        lost=lost_by, assignment=assignment,
        recovery=recovery, directory_of=lambda broker_id: context.image.brokers[broker_id].default_directory())


def allows_unclean(context: Context, topic: str) -> bool:
    """Return whether a replica that may have lost records may lead."""
    return context.topic_value(topic, UNCLEAN_LEADER_ELECTION).lower() == "true"


def leaves(context: Context, broker_id: int, directories: Collection[UUID] | None = None) -> Stream:
    """Yield records for a broker that stops taking part cleanly: it leaves each ISR and keeps its records. With
    `directories` only its replicas in those."""
    return changes(context, lambda partition: broker_id in partition.isr and (
        directories is None or partition.directory_of(broker_id) in directories), without=broker_id)


def lost(context: Context, broker_id: int) -> Stream:
    """Yield records for a broker that may have lost records: it leaves ISR and ELR, and leads nothing."""
    return changes(context, lambda partition: broker_id in partition.isr or broker_id in partition.elr,
                   without=broker_id, lost_by=(broker_id,))


def returns(context: Context, broker_id: int) -> Stream:
    """Yield records for a broker that takes part again: partitions without a leader may get one."""
    return changes(context, lambda partition: partition.leader == NO_LEADER and broker_id in partition.replicas,
                   counting=broker_id)
