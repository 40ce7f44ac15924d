"""Changes of one partition when replicas join and leave: leader, ISR and eligible leader replicas (KIP-966).

`change` returns the record that takes the partition from its present state to the wanted one, or None. The rules, in
order:

1. When a replica leaves an ISR that is then smaller than min.insync.replicas, it stays eligible (ELR), because it has
   every committed record. The exception is a replica that stopped uncleanly and may have lost some.
2. A leader must be in the ISR or, when the ISR is empty, in the ELR. It must be acceptable (alive, its directory too).
3. When both are empty, the replica that led last may lead again if it is the only one known. This is an unclean
   election, safe as long as its disk kept its records. `unclean` allows any acceptable replica.
4. An unclean leader is alone in the ISR, and the partition is recovering until its leader reports otherwise.
5. Each named leader raises the leader epoch at replay, even if it is the same one. It is named when the ISR shrinks
   (where the metadata version requires it) and when a replica is removed, so that the removed replicas are fenced.
6. A reassignment is complete when every replica that is to stay is in the ISR. The replicas to be removed are removed
   then (KIP-455, KAFKA-15665), and are not eligible any more.
7. A replica whose log was replaced by an empty one leaves ISR and ELR. It is not the last known leader any more: an
   eligible replica is, or all other replicas that may have its records. Kafka elects the empty one, and the other
   replicas follow it and lose their records. A replica without others comes back empty.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from uuid import UUID

from kraft.metadata.delta import LEADER_UNCHANGED, RECOVERY_UNCHANGED
from kraft.metadata.image import NO_LEADER, RECOVERING, UNASSIGNED_DIRECTORY, PartitionRegistration
from kraft.metadata.snapshot import Record
from kraft.metadata.versions import MetadataVersion
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.structs import immutable


class Election(Enum):
    """Kind of election. PREFERRED moves leadership to the first replica, ONLINE keeps a leader that can stay, UNCLEAN
    also accepts replicas that may have lost records."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


@immutable
class Assignment:
    """Wanted replicas of a partition: all of them, and which of them are added or removed on the way."""

    replicas: tuple[int, ...]
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()


def assignment_of(partition: PartitionRegistration) -> Assignment:
    return Assignment(partition.replicas, partition.removing_replicas, partition.adding_replicas)


class Change:
    """One partition in transition to a new state. Used once, by `change`."""

    def __init__(
        self, partition: PartitionRegistration, isr: Sequence[int], election: Election,
        acceptable: Callable[[int], bool], version: MetadataVersion, assignment: Assignment, *, elr_enabled: bool,
        emptied: Sequence[int] = (),
    ):
        self.partition = partition
        self.isr = tuple(isr)
        self.assignment = assignment
        self.elr = partition.elr
        self.election = election
        self.acceptable = acceptable
        self.version = version
        self.elr_enabled = elr_enabled
        self.emptied = emptied if elr_enabled and len(partition.replicas) > 1 else ()

    def record(self, topic_id: UUID, index: int, min_isr: int, lost: Sequence[int]) -> PartitionChangeRecord:
        """Return the change record, with empty fields when nothing changes."""
        partition = self.partition
        record = PartitionChangeRecord(topic_id=topic_id, partition_id=index)
        self.complete_reassignment()
        if self.elr_enabled:
            self.fill_elr(min_isr, lost)
        self.elect(record)
        if record.isr is not None or not self.elr_enabled:
            self.elr = ()
        if self.elr != partition.elr:
            record.eligible_leader_replicas = list(self.elr)
        # Without ELR an ISR is never empty: the last in-sync replica stays in it, alive or not.
        if record.isr is None and self.isr != partition.isr and (self.isr or self.elr_enabled):
            record.isr = list(self.isr)
        elif record.isr is None and partition.isr and not any(
                replica in self.assignment.replicas for replica in partition.isr):
            self.take_back_uncleanly(record)
        shrunk = record.isr is not None and any(replica not in record.isr for replica in partition.isr)
        went = any(replica not in self.assignment.replicas for replica in partition.replicas)
        if record.leader == LEADER_UNCHANGED and (went or (shrunk and self.version.epoch_bump_on_isr_shrink)):
            record.leader = partition.leader
        self.assign(record)
        if self.elr_enabled:
            self.note_last_leader(record)
        return record

    def take_back_uncleanly(self, record: PartitionChangeRecord) -> None:
        """Cancel a reassignment when only added replicas were in sync and no other replica can lead. As in Kafka, the
        first of the others becomes the leader, and reports then that it has recovered."""
        record.isr = [self.assignment.replicas[0]]
        if self.partition.leader_recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING

    def complete_reassignment(self) -> None:
        """Apply rule 6."""
        wanted = self.assignment
        if not (wanted.adding or wanted.removing):
            return
        stay = tuple(replica for replica in wanted.replicas if replica not in wanted.removing)
        isr = tuple(replica for replica in self.isr if replica not in wanted.removing)
        if isr and all(replica in isr for replica in stay):
            self.isr = isr
            self.assignment = Assignment(stay)

    def assign(self, record: PartitionChangeRecord) -> None:
        """Record the differences of the assignment. `change` fills in the directories of new replicas."""
        before = assignment_of(self.partition)
        if self.assignment.replicas != before.replicas:
            record.replicas = list(self.assignment.replicas)
        if self.assignment.removing != before.removing:
            record.removing_replicas = list(self.assignment.removing)
        if self.assignment.adding != before.adding:
            record.adding_replicas = list(self.assignment.adding)

    def fill_elr(self, min_isr: int, lost: Sequence[int]) -> None:
        """Apply rule 1."""
        if len(self.isr) >= min_isr:
            self.elr = ()
            return
        candidates = sorted(dict.fromkeys((*self.elr, *self.partition.isr)))
        self.elr = tuple(replica for replica in candidates if replica in self.assignment.replicas
                         and replica not in self.isr and replica not in lost)

    def can_lead(self, replica: int) -> bool:
        """Apply rule 2."""
        return replica in (self.isr or self.elr) and self.acceptable(replica)

    def last_known_leader(self) -> int:
        """Apply rule 3: return the replica that may lead because no other is known; NO_LEADER when the rule does not
        apply. A replica that this record makes the last known one is elected by a later record, so that the metadata
        log shows the reason."""
        known = self.last_known(self.partition.last_known_elr)
        if (self.elr_enabled and not self.isr and not self.elr and len(known) == 1
                and known == self.partition.last_known_elr and self.acceptable(known[0])):
            return known[0]
        return NO_LEADER

    def last_known(self, known: tuple[int, ...]) -> tuple[int, ...]:
        """Apply rule 7: return the last known leader, or the replicas that take its place when its log was lost or it
        is no replica any more. `known`: those known before, or the leader of this moment. Replicas that are being added
        come last: they are the least likely to have the records."""
        remaining = sorted((replica for replica in self.assignment.replicas if replica not in self.emptied),
                           key=self.assignment.adding.__contains__)
        kept = tuple(replica for replica in known if replica in remaining)
        if kept or not known:
            return kept
        return self.elr[:1] or tuple(remaining) or known

    def best(self) -> tuple[int, bool]:
        """Return the leader to elect, and whether its election is unclean."""
        replicas = self.assignment.replicas
        wishes = [self.partition.leader, *replicas]
        if self.election is Election.PREFERRED:
            wishes.insert(0, replicas[0])
        for replica in wishes:
            if self.can_lead(replica):
                return replica, False
        last = self.last_known_leader()
        if last != NO_LEADER:
            return last, True
        if self.election is Election.UNCLEAN:
            for replica in (*self.last_known(self.partition.last_known_elr), *replicas):
                if self.acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def elect(self, record: PartitionChangeRecord) -> None:
        """Apply rules 2 to 5."""
        leader, unclean = self.best()
        if leader == self.partition.leader:
            return
        record.leader = leader
        if leader in self.elr:
            self.isr = (leader,)
            self.elr = tuple(replica for replica in self.elr if replica != leader)
        elif unclean:
            record.isr = [leader]
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def note_last_leader(self, record: PartitionChangeRecord) -> None:
        """Keep the leader of the time when the ISR became empty, and forget it when a replica leads again. If no
        replica led then, the last one in sync is kept."""
        partition = self.partition
        leader = partition.leader if record.leader == LEADER_UNCHANGED else record.leader
        known = partition.last_known_elr
        if record.isr == []:
            known = partition.isr[:1] if partition.leader == NO_LEADER else (partition.leader,)
        elif leader != NO_LEADER:
            known = ()
        known = self.last_known(known)
        if known != partition.last_known_elr:
            record.last_known_elr = list(known)


def change(
    topic_id: UUID, index: int, partition: PartitionRegistration, version: MetadataVersion, *,
    acceptable: Callable[[int], bool], min_isr: int, elr_enabled: bool,
    isr: Sequence[int] | None = None, election: Election = Election.ONLINE, lost: Sequence[int] = (),
    assignment: Assignment | None = None, recovery: int | None = None,
    directory_of: Callable[[int], UUID] = lambda _broker_id: UNASSIGNED_DIRECTORY, emptied: Sequence[int] = (),
) -> Record | None:
    """Return the record that brings the partition up to date, None when nothing changes.

    - `isr`: the wanted in-sync replicas (None: unchanged).
    - `lost`: replicas that stopped uncleanly.
    - `emptied`: replicas whose log was replaced by an empty one. Without eligible leader replicas, and for the only
      replica, this changes nothing.
    - `min_isr`: min.insync.replicas in force, at most the number of replicas.
    - `assignment`: the wanted replicas (None: unchanged).
    - `directory_of`: the directory of a broker that gets a replica.
    - `recovery`: the recovery state that the leader reports.
    """
    wanted = Change(partition, partition.isr if isr is None else isr, election, acceptable, version,
                    assignment or assignment_of(partition), elr_enabled=elr_enabled, emptied=emptied)
    record = wanted.record(topic_id, index, min_isr, (*lost, *wanted.emptied))
    if record.replicas is not None and version.directories:
        record.directories = [partition.directory_of(replica) if replica in partition.replicas
                              else directory_of(replica) for replica in record.replicas]
    if recovery is not None and record.leader_recovery_state == RECOVERY_UNCHANGED != recovery != (
            partition.leader_recovery_state):
        record.leader_recovery_state = recovery
    if record == PartitionChangeRecord(topic_id=topic_id, partition_id=index):
        return None
    return Record(record, version.partition_change_record)
