"""The metadata log, record by record as it is committed, and whether a controller may write each change. No node sees
the log in such small steps."""

from collections.abc import Callable, Sequence
from uuid import UUID

from kraft.broker.isr import Key
from kraft.controller.config_rules import TableRules
from kraft.controller.decision import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from kraft.metadata.delta import PartitionChange
from kraft.metadata.image import (
    CLUSTER_DEFAULT,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    RECOVERING,
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
)
from kraft.metadata.replay import Replayer
from kraft.testing.brokers.machine import committed_records
from kraft.testing.sim.batches import Batch
from kraft.testing.sim.violation import ViolationError


class MetadataTruth:
    """Committed metadata. `image`: the latest state. `on_change(key, change, is_unclean)` is called for each change of
    a partition."""

    def __init__(self, on_change: Callable[[Key, PartitionChange, bool], None]) -> None:
        self._replayer = Replayer()
        self._rules = TableRules({})
        self._on_change = on_change
        self._leaders: dict[tuple[Key, int], int] = {}
        self.unclean_requested: dict[Key, None] = {}
        """Partitions for which an unclean election was requested."""
        self.elections = 0
        self.unclean_elections = 0
        self.isr_changes = 0
        self.reassignments = 0

    @property
    def image(self) -> MetadataImage:
        return self._replayer.image

    def registration_of(self, key: Key) -> PartitionRegistration | None:
        topic = self.image.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def leader_in(self, key: Key, epoch: int) -> int | None:
        """Return the leader that the log names for that epoch."""
        return self._leaders.get((key, epoch))

    def committed(self, batches: Sequence[Batch]) -> None:
        """Replay newly committed batches, and judge each change."""
        for batch in batches:
            before = self.image
            for offset, epoch, timestamp_ms, message, _ in committed_records(batch):
                if message is None:
                    self._replayer.advance(offset, epoch, timestamp_ms)
                else:
                    self._replayer.replay(message, offset, epoch, timestamp_ms)
                    for delta, _image in self._replayer.take():
                        for change in delta.partition_changes():
                            self._judge(change)
            if self.image.topics is not before.topics or self.image.brokers is not before.brokers:
                self.valid_controller_state()

    # --- one change ---------------------------------------------------------------------------------------------------

    def _judge(self, change: PartitionChange) -> None:
        key = change.topic.topic_id, change.index
        before, after = change.before, change.after
        is_unclean = False
        if after is not None:
            self._note_leader(key, after)
        if before is not None and after is not None:
            self._epochs_grow(key, before, after)
            self.isr_changes += before.isr != after.isr
            if after.leader not in (NO_LEADER, before.leader):
                self.elections += 1
                is_unclean = self._judge_election(key, change.topic.name, before, after)
            self._judge_reassignment(key, before, after)
            self._judge_last_known(key, before, after)
        self._on_change(key, change, is_unclean)

    def _note_leader(self, key: Key, after: PartitionRegistration) -> None:
        """Check OneLeaderPerEpoch: an epoch has one leader, or none."""
        if after.leader != NO_LEADER and self._leaders.setdefault((key, after.leader_epoch), after.leader) != (
                after.leader):
            raise ViolationError("OneLeaderPerEpoch", f"{key}: {after}, and before it was "
                                                      f"{self._leaders[key, after.leader_epoch]}")

    @staticmethod
    def _epochs_grow(key: Key, before: PartitionRegistration, after: PartitionRegistration) -> None:
        """Check PartitionEpochsGrow: leader epochs never fall, and each change raises the partition epoch."""
        if after.leader_epoch < before.leader_epoch or after.partition_epoch <= before.partition_epoch:
            raise ViolationError("PartitionEpochsGrow", f"{key}: {after} after {before}")

    def _judge_election(self, key: Key, topic: str, before: PartitionRegistration,
                        after: PartitionRegistration) -> bool:
        """Check NoUncleanElection, and return whether the election was unclean.

        A new leader must be one of these:

        - A replica that was in the ISR or eligible.
        - The replica that led last, when no other is known (KIP-966).
        - Any replica, where the topic or an operator allows it.
        """
        said = (*before.isr, *before.elr)
        # A leader that is removed at the end of a reassignment hands over to a member of the ISR that it has just
        # proposed.
        handed = before.leader != NO_LEADER and before.leader not in after.replicas and after.leader in after.isr
        if after.leader in said or handed:
            return False
        configured = self._rules.topic_value(UNCLEAN_LEADER_ELECTION, self.image.topic_config(topic), {},
                                             self.image.config(CLUSTER_DEFAULT)).lower() == "true"
        is_allowed = configured or key in self.unclean_requested
        # An eligible replica that may have lost records in this very change is removed from the ELR. If any replica may
        # lead, the last leader can be elected although an eligible replica is only fenced.
        if before.last_known_elr == (after.leader,) and not before.isr and not (before.elr and is_allowed):
            return False
        self.unclean_elections += 1
        if not is_allowed:
            raise ViolationError("NoUncleanElection", f"{key}: {after} after {before}")
        if after.leader_recovery_state != RECOVERING:
            raise ViolationError("UncleanElectionIsSaid", f"{key}: {after} after {before}")
        return True

    def _judge_reassignment(self, key: Key, before: PartitionRegistration, after: PartitionRegistration) -> None:
        """Check ReassignmentAwaitsIsr: a reassignment ends when all added replicas are in sync (KAFKA-15665)."""
        if after.reassigning:
            return
        if any(replica not in before.replicas for replica in after.replicas):
            raise ViolationError("ReassignmentAwaitsIsr", f"{key}: {after} at once after {before}")
        if not before.reassigning:
            return
        self.reassignments += 1
        stay = [replica for replica in before.replicas if replica not in before.removing_replicas]
        if list(after.replicas) == stay and not all(added in after.isr for added in before.adding_replicas):
            raise ViolationError("ReassignmentAwaitsIsr", f"{key}: {after} after {before}")

    @staticmethod
    def _judge_last_known(key: Key, before: PartitionRegistration, after: PartitionRegistration) -> None:
        """Check LastLeaderStaysKnown: while no replica leads, a last known leader is replaced only for a reason. Its
        log is in another directory now, its directory was never known, or it is no replica any more."""
        if before.leader != NO_LEADER or after.leader != NO_LEADER or before.isr or not before.last_known_elr:
            return
        kept = [replica for replica in before.last_known_elr if replica in after.replicas
                and before.directory_of(replica) not in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
                and before.directory_of(replica) == after.directory_of(replica)]
        if not all(replica in after.last_known_elr for replica in kept):
            raise ViolationError("LastLeaderStaysKnown", f"{key}: {after} after {before}")

    # --- the whole state ----------------------------------------------------------------------------------------------

    def valid_controller_state(self) -> None:
        """Check ValidControllerState: a broker that is fenced, or shutting down, neither leads nor is in sync, nor does
        a replica in a directory that failed. Without ELR the last replica in sync stays in the ISR, alive or not. The
        replica sets fit together."""
        image = self.image
        for topic, index, partition in image.partitions():
            isr, elr = partition.isr, partition.elr
            active = [replica for replica in partition.replicas
                      if (broker := image.brokers.get(replica)) is not None and broker.active
                      and not _has_failed(broker, partition.directory_of(replica))]
            wrong = None
            if partition.leader != NO_LEADER and partition.leader not in isr:
                wrong = "the leader is not in sync"
            elif partition.leader != NO_LEADER and partition.leader not in active:
                wrong = "the leader is not active"
            elif not all(replica in active for replica in isr) and (image.elr_enabled or len(isr) > 1):
                wrong = "a broker that does not take part is in sync"
            elif not all(replica in partition.replicas for replica in (*isr, *elr)):
                wrong = "an id that is no replica is in sync"
            elif any(replica in elr for replica in isr):
                wrong = "a replica is in sync and eligible"
            elif elr and len(isr) >= self._min_isr(topic.name, partition):
                wrong = "replicas are eligible although there are enough in sync"
            if wrong is not None:
                raise ViolationError("ValidControllerState", f"{topic.name}-{index}: {wrong}: {partition}; active are "
                                                             f"{active}")
            self._recovery_quorum(f"{topic.name}-{index}", partition)

    def _recovery_quorum(self, name: str, partition: PartitionRegistration) -> None:
        """Check MinIsrRecoveryQuorum: if no replica is in sync or eligible, the last leader is known, or the replicas
        that may have its records when its log was lost. This is KIP-966 as it was released; the model keeps
        `min.insync.replicas` of them."""
        known = partition.last_known_elr
        if self.image.elr_enabled and not partition.isr and not partition.elr and not (
                known and all(replica in self.image.brokers for replica in known)):
            raise ViolationError("MinIsrRecoveryQuorum", f"{name}: {partition}")

    def _min_isr(self, topic: str, partition: PartitionRegistration) -> int:
        configured = int(self._rules.topic_value(MIN_INSYNC_REPLICAS, self.image.topic_config(topic), {},
                                                 self.image.config(CLUSTER_DEFAULT)))
        return min(configured, len(partition.replicas))


def _has_failed(broker: BrokerRegistration, directory: UUID) -> bool:
    """Return whether the directory is not among those that the broker has. This does not use the controller's own
    rule, which is what is checked."""
    placeholders = (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
    return bool(broker.log_dirs) and directory not in placeholders and directory not in broker.log_dirs
