"""Committed records of each partition, and whether the replicas agree with them. No node in the cluster knows this.

A contradiction is a violation with a name. The names are those of the TLA+ models of KIP-966 and of hazards B4.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from kraft.broker.isr import Key
from kraft.metadata.image import PartitionRegistration
from kraft.testing.brokers.disk import BrokerDisk
from kraft.testing.brokers.log_view import Batch, LogView
from kraft.testing.brokers.node import BrokerJudge
from kraft.testing.brokers.replica import Replica
from kraft.testing.history import code_of
from kraft.testing.sim.violation import ViolationError


class PartitionTruth:
    """Committed records of one partition.

    `committed` has every batch that a leader ever considered committed, in order. `is_lossy`: an unclean election took
    place, as an operator allows. Then anything may be lost, and only independent properties are judged.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.committed: list[Batch] = []
        self._ends: list[int] = []
        self.leaders: dict[int, int] = {}
        self.acknowledged_by: dict[int, int] = {}
        self.chains: dict[tuple[int, int], int] = {}
        self.is_lossy = False

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def chain(self) -> int | None:
        return self.committed[-1].chain if self.committed else 0

    def chain_at(self, offset: int) -> int | None:
        if offset == 0:
            return 0
        index = bisect_left(self._ends, offset)
        return self.committed[index].chain if index < len(self._ends) and self._ends[index] == offset else None

    def agrees(self, log: LogView, offset: int) -> bool:
        """Return whether everything before `offset` is the same in the log. `offset` is not above the committed end."""
        if offset < log.start_offset:
            return True                # deletion will reach all replicas
        if not log.has_boundary(offset):
            return False
        chain = log.chain_at(offset)
        return chain is None or chain == self.chain_at(offset)

    def has_everything(self, log: LogView | None) -> bool:
        if self.end_offset == 0:
            return True
        return log is not None and log.end_offset >= self.end_offset and self.agrees(log, self.end_offset)

    def codes(self) -> list[int]:
        """Code of the committed record at each offset, as histories write it."""
        return [code_of(batch.producer, batch.value + number) for batch in self.committed
                for number in range(batch.end_offset - batch.base_offset)]

    def extend(self, batch: Batch) -> None:
        self.committed.append(batch)
        self._ends.append(batch.end_offset)


class Truth(BrokerJudge):
    """Committed records of all partitions, and the checks against them.

    `disks`: by broker id. `registration_of`: a partition in the metadata log, None when it has none. `leader_in`: the
    leader that the log names for an epoch. `is_exempt`: whether a broker has lost records and the controller does not
    know it yet.
    """

    def __init__(self, disks: Mapping[int, BrokerDisk], registration_of: Callable[[Key], PartitionRegistration | None],
                 leader_in: Callable[[Key, int], int | None], is_exempt: Callable[[int], bool],
                 trace: Callable[[str], None]) -> None:
        self.partitions: dict[Key, PartitionTruth] = {}
        self._disks = disks
        self._registration_of = registration_of
        self._leader_in = leader_in
        self._is_exempt = is_exempt
        self._trace = trace
        self.exposures = 0

    def of(self, key: Key, topic: str) -> PartitionTruth:
        known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = PartitionTruth(topic)
        return known

    # --- actions of replicas ------------------------------------------------------------------------------------------

    def leads(self, replica: Replica) -> None:
        """Check ElectionSafety: an epoch has one leader, the one that the controller named. Check LeaderCompleteness:
        it has everything that was committed, unless an unclean election was allowed."""
        self._trace(f"{replica} leads at {replica.log.end_offset}")
        truth = self.of(replica.key, replica.topic)
        epoch, broker_id = replica.leader_epoch, replica.broker_id
        if (truth.leaders.setdefault(epoch, broker_id) != broker_id
                or self._leader_in(replica.key, epoch) != broker_id):
            raise ViolationError("ElectionSafety", f"{replica} leads, and so does broker {truth.leaders[epoch]}; the "
                                                   f"controller named {self._leader_in(replica.key, epoch)}")
        is_overtaken = epoch < max(truth.leaders)
        if not (is_overtaken or truth.is_lossy or truth.has_everything(replica.log)):
            raise ViolationError("LeaderCompleteness", f"{replica} leads with a log up to "
                                                       f"{replica.log.end_offset}, committed is {truth.end_offset}")

    def appended(self, replica: Replica, batch: Batch) -> None:
        """Check LogMatching: two logs with a record of the same offset and epoch are the same up to there."""
        truth = self.of(replica.key, replica.topic)
        at = batch.end_offset, batch.epoch
        if batch.chain is not None and truth.chains.setdefault(at, batch.chain) != batch.chain:
            raise ViolationError("LogMatching", f"{replica}: another log up to {at} than somebody had before")

    def cut(self, replica: Replica) -> None:
        """Check NoCommittedRecordLost: a replica that may lead drops nothing that is committed."""
        self._trace(f"{replica} is cut to {replica.log.end_offset}")
        registration = self._registration_of(replica.key)
        if registration is not None and replica.broker_id in registration.isr + registration.elr:
            self.candidate_has_everything(replica.key, replica.broker_id)

    def exposed(self, replica: Replica) -> None:
        """Check ConsistentRead: records that one replica shows as committed are the same on all replicas,
        indefinitely."""
        self.exposures += 1
        truth = self.of(replica.key, replica.topic)
        log, high_watermark = replica.log, replica.high_watermark
        if truth.is_lossy:
            return
        if replica.is_leader and high_watermark > truth.end_offset:
            # An overtaken leader may learn late that all replicas had a record. Then its successor has the record too.
            for batch in log.between(truth.end_offset, high_watermark):
                if batch.base_offset != truth.end_offset or batch.before not in (None, truth.chain):
                    raise ViolationError("ConsistentRead", f"{replica} commits {batch}, committed is "
                                                           f"{truth.end_offset} with another log before")
                truth.extend(batch)
            self.candidates_have_everything(replica.key)
        if high_watermark > truth.end_offset:
            raise ViolationError("ConsistentRead", f"{replica} shows {high_watermark}, committed is "
                                                   f"{truth.end_offset}")
        if not truth.agrees(log, high_watermark):
            raise ViolationError("ConsistentRead", f"{replica} shows {high_watermark}, and has another log before")

    def acknowledges(self, replica: Replica, leader_epoch: int | None, end_offset: int) -> None:
        """Check OneLeaderAcknowledges: in an epoch one broker acknowledges acks=all, and only committed records.
        `leader_epoch` None: it does not lead any more."""
        truth = self.of(replica.key, replica.topic)
        broker_id = replica.broker_id
        if leader_epoch is not None and truth.acknowledged_by.setdefault(leader_epoch, broker_id) != broker_id:
            raise ViolationError("OneLeaderAcknowledges", f"{replica} acknowledges in epoch {leader_epoch}, so did "
                                                          f"broker {truth.acknowledged_by[leader_epoch]}")
        if end_offset > truth.end_offset and not truth.is_lossy:
            raise ViolationError("OneLeaderAcknowledges", f"{replica} acknowledges {end_offset}, committed is "
                                                          f"{truth.end_offset}")

    # --- the metadata -------------------------------------------------------------------------------------------------

    def candidates_have_everything(self, key: Key) -> None:
        """Check LeaderCandidateCompleteness: every replica in sync, or eligible to lead, has everything that is
        committed."""
        registration = self._registration_of(key)
        if registration is not None:
            for broker_id in (*registration.isr, *registration.elr):
                self.candidate_has_everything(key, broker_id)

    def candidate_has_everything(self, key: Key, broker_id: int) -> None:
        truth = self.partitions.get(key)
        if truth is None or truth.is_lossy or self._is_exempt(broker_id):
            return
        log = self._disks[broker_id].found((truth.topic, key[1]))
        if log is not None and log.topic_id != key[0]:
            log = None
        if not truth.has_everything(log):
            end = None if log is None else log.end_offset
            raise ViolationError("LeaderCandidateCompleteness",
                                 f"{truth.topic}-{key[1]}: broker {broker_id} may lead and has a log up to {end}, "
                                 f"committed is {truth.end_offset}: {self._registration_of(key)}")

    def somebody_has_everything(self, keys: Iterable[Key]) -> None:
        """Check NoCommittedRecordLostGlobally: for each partition, at least one replica has everything that is
        committed."""
        for key in keys:
            truth, registration = self.partitions.get(key), self._registration_of(key)
            if truth is None or registration is None or truth.is_lossy or truth.end_offset == 0:
                continue
            logs = [self._disks[broker_id].found((truth.topic, key[1])) for broker_id in registration.replicas]
            if not any(log is not None and log.topic_id == key[0] and truth.has_everything(log) for log in logs):
                raise ViolationError("NoCommittedRecordLostGlobally",
                                     f"{truth.topic}-{key[1]}: nobody has what is committed up to {truth.end_offset}")
