"""Partition changes when a broker, or one of its directories, leaves or comes back.

They concern any number of partitions, so they are streams of records (see `decision.Stream`).
"""

from collections.abc import Callable, Collection, Generator, Sequence
from typing import NamedTuple
from uuid import UUID

from kraft.controller.decision import UNCLEAN_LEADER_ELECTION, Context, Stream
from kraft.controller.partition_change import Assignment, Election, change
from kraft.metadata.image import NO_LEADER, UNASSIGNED_DIRECTORY, BrokerRegistration, PartitionRegistration, TopicImage
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


def can_lead(partition: PartitionRegistration, broker: BrokerRegistration | None) -> bool:
    """Return whether the broker takes part, and the directory of its replica is not known to have failed."""
    return (broker is not None and broker.broker_id in partition.replicas and broker.active
            and broker.has_online_dir(partition.directory_of(broker.broker_id)))


def changes(
    context: Context, affected: Callable[[PartitionRegistration], bool], *, without: int = NO_LEADER,
    becomes: BrokerRegistration | None = None, lost_by: Sequence[int] = (),
    emptied: Callable[[PartitionRegistration], Sequence[int]] = lambda _partition: (),
) -> Stream:
    """Yield change records for the affected partitions. Replica `without` leaves the ISR and cannot lead, and replicas
    `lost_by` may have lost records. `becomes`: a broker as it is once the whole decision is carried out. `emptied`
    returns the replicas of a partition whose logs were replaced by empty ones."""
    count = 0
    rules, rules_of = None, None
    for visited, (topic, index, partition) in enumerate(context.image.partitions(), 1):
        if affected(partition):
            deciding = context.image.topic_config(topic.name), len(topic.partitions[0].replicas)
            if rules_of != deciding:       # all that `topic_rules` reads of a topic; many in a row have the same
                rules, rules_of = topic_rules(context, topic), deciding
            record = change_of(
                context, topic, index, rules=rules, without=without, becomes=becomes, lost_by=lost_by,
                emptied=emptied(partition),
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
    without: int = NO_LEADER, becomes: BrokerRegistration | None = None, isr: Sequence[int] | None = None,
    lost_by: Sequence[int] = (), emptied: Sequence[int] = (), assignment: Assignment | None = None,
    recovery: int | None = None, partition: PartitionRegistration | None = None, rules: TopicRules | None = None,
) -> Record | None:
    """Return the record of `change` for one partition, by its topic's settings and the current brokers. `election`
    None: that of the topic's rules. For `without` and `becomes` see `changes`, for `emptied` `change`. `partition`: its
    state before the change, where this decision has changed it already. `rules`: those of the topic, where the caller
    has them."""
    rules = rules or topic_rules(context, topic)
    before = topic.partitions[index] if partition is None else partition

    def acceptable(replica: int) -> bool:
        is_changed = becomes is not None and replica == becomes.broker_id
        return replica != without and can_lead(before, becomes if is_changed else context.image.brokers.get(replica))

    return change(
        topic.topic_id, index, before, context.image.metadata_version, acceptable=acceptable,
        min_isr=rules.min_isr, elr_enabled=context.image.elr_enabled, isr=isr, election=election or rules.election,
        lost=lost_by, emptied=emptied, assignment=assignment,
        recovery=recovery, directory_of=lambda broker_id: context.image.brokers[broker_id].default_directory())


def allows_unclean(context: Context, topic: str) -> bool:
    """Return whether a replica that may have lost records may lead."""
    return context.topic_value(topic, UNCLEAN_LEADER_ELECTION).lower() == "true"


def leaves(context: Context, broker_id: int, directories: Collection[UUID] | None = None) -> Stream:
    """Yield records for a broker that stops taking part cleanly: it leaves each ISR and keeps its records. With
    `directories` only its replicas in those."""
    return changes(context, lambda partition: broker_id in partition.isr and (
        directories is None or partition.directory_of(broker_id) in directories), without=broker_id)


def lost(context: Context, broker_id: int, *, directories_changed: bool = False) -> Stream:
    """Yield records for a broker that may have lost records: it leaves ISR and ELR, and leads nothing.
    `directories_changed`: it does not have all of its previous directories. A replica whose directory was not recorded
    may have been in a missing one, so its log may be empty."""
    def emptied(partition: PartitionRegistration) -> Sequence[int]:
        is_unknown = (directories_changed and broker_id in partition.replicas
                      and partition.directory_of(broker_id) == UNASSIGNED_DIRECTORY)
        return (broker_id,) if is_unknown else ()

    def affected(partition: PartitionRegistration) -> bool:
        return (broker_id in partition.isr or broker_id in partition.elr
                or (broker_id in partition.last_known_elr and len(emptied(partition)) > 0))

    return changes(context, affected, without=broker_id, lost_by=(broker_id,), emptied=emptied)


def returns(context: Context, broker: BrokerRegistration) -> Stream:
    """Yield records for a broker that takes part again, in the state that it has then: partitions without a leader may
    get one."""
    return changes(context, lambda partition: partition.leader == NO_LEADER and broker.broker_id in partition.replicas,
                   becomes=broker)
