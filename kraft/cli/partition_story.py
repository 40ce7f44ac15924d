"""Who leads a partition since when, and why: read from the metadata log, where every cause stands beside its effect:
before it or, when a broker is fenced, behind it in the same batch."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

NOBODY: Final = -1
UNCHANGED: Final = -2


class Moment(NamedTuple):
    """An election: who led and who leads, the replicas after it, and who was in sync and eligible before."""

    before: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]


@dataclass(slots=True)
class PartitionStory:
    """Told every record of the log in order (`heard`). `since_ms`, `because`: of the leader that there is now; -1 and
    empty when that was before the log begins."""

    topic: str
    index: int
    since_ms: int = -1
    because: str = ""
    leader: int = NOBODY
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    _topic_id: UUID | None = None
    _left: dict[int, str] = field(default_factory=dict)
    """What happened to brokers, of what ends a leadership, since they last led or came."""
    _last: "Moment | None" = None

    def starts(self, topic_id: UUID, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...],
               elr: tuple[int, ...]) -> None:
        """What a snapshot says; how it came to that is not known."""
        self._topic_id, self.leader, self.replicas, self.isr, self.elr = topic_id, leader, replicas, isr, elr

    def heard(self, timestamp_ms: int, record: object) -> None:
        if isinstance(record, TopicRecord) and record.name == self.topic:
            self._topic_id = record.topic_id
        elif isinstance(record, FenceBrokerRecord | UnregisterBrokerRecord | BrokerRegistrationChangeRecord):
            self._broker_changes(record)
            if self._last is not None and timestamp_ms == self.since_ms:
                self.because = self._why(self._last)
        elif (isinstance(record, PartitionRecord | PartitionChangeRecord) and record.topic_id == self._topic_id
              and record.partition_id == self.index):
            if isinstance(record, PartitionRecord):
                self.replicas, self.isr = tuple(record.replicas), tuple(record.isr)
                self.elr = tuple(record.eligible_leader_replicas or ())
                self._leads(record.leader, timestamp_ms, "the topic was created with it as the preferred replica")
            else:
                self._partition_changes(record, timestamp_ms)

    def _broker_changes(
            self, record: FenceBrokerRecord | UnregisterBrokerRecord | BrokerRegistrationChangeRecord) -> None:
        if isinstance(record, FenceBrokerRecord):
            self._left[record.id] = "was fenced"
        elif isinstance(record, UnregisterBrokerRecord):
            self._left[record.broker_id] = "was unregistered"
        elif record.fenced == 1:
            self._left[record.broker_id] = "was fenced"
        elif record.in_controlled_shutdown == 1:
            self._left[record.broker_id] = "was being stopped"
        elif record.fenced == NOBODY:
            self._left.pop(record.broker_id, None)      # -1: it is unfenced

    def _partition_changes(self, record: PartitionChangeRecord, timestamp_ms: int) -> None:
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        if record.leader not in (UNCHANGED, self.leader):
            self._last = Moment(self.leader, record.leader, replicas, self.isr, self.elr)
            self._leads(record.leader, timestamp_ms, self._why(self._last))
        self.replicas = replicas
        self.isr = self.isr if record.isr is None else tuple(record.isr)
        if record.eligible_leader_replicas is not None:
            self.elr = tuple(record.eligible_leader_replicas)

    def _why(self, moment: "Moment") -> str:
        before, leader, replicas, isr, elr = moment
        if leader == NOBODY:
            return f"broker {before} {self._left.get(before, 'left')}, and no other replica was in sync and up"
        if leader not in isr and leader in elr:
            return "it was not in sync, but eligible: it has all that was acknowledged (KIP-966)"
        if leader not in isr:
            return "nobody in sync was left, and the election was unclean: it may lack acknowledged records"
        if before == NOBODY:
            return "it was the first in-sync replica to come back"
        if before not in replicas:
            return f"a reassignment took broker {before} away"
        if before in self._left:
            return f"broker {before} {self._left[before]}"
        return "it is the preferred replica" if leader == replicas[0] else "an election was asked for"

    def _leads(self, leader: int, timestamp_ms: int, because: str) -> None:
        self.leader, self.since_ms, self.because = leader, timestamp_ms, because
        self._left.pop(leader, None)
