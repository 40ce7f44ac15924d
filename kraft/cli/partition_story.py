"""History of a partition's leadership, with causes, from the metadata log.

In the log every cause stands beside its effect. It stands before the effect or, when a broker is fenced, restarts or
loses a log directory, behind it in the same batch. The reason for a fence is in the controller's flight recorder, at
the time of the fencing record.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kraft.metadata.image import LOST_DIRECTORY, RECOVERING, MetadataImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

NOBODY: Final = -1
UNCHANGED: Final = -2
FENCED: Final = "was fenced"
STOPPED: Final = "was being stopped"

BrokerRecord = FenceBrokerRecord | UnregisterBrokerRecord | BrokerRegistrationChangeRecord | RegisterBrokerRecord


class Left(NamedTuple):
    """An event of a broker that ends its leaderships. `because` is the reason of a fence, if a flight recorder has it.
    `at_ms` is the time of an event that counts only then; -1 means that it counts until the broker returns."""

    text: str
    because: str = ""
    at_ms: int = -1

    def __str__(self) -> str:
        return f"{self.text} ({self.because})" if self.because else self.text


class Moment(NamedTuple):
    """An election: its time, the previous and the new leader, whether the new one may lack records (`recovers`), and
    the replicas after it. `isr`, `elr` and `last_known` are those before it."""

    time_ms: int
    before: int
    leader: int
    recovers: bool
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known: tuple[int, ...]


class Changes(Protocol):
    """Receiver of all records with their offsets."""

    def starts(self, image: MetadataImage) -> None:
        """Start with the state of a snapshot."""

    def apply(self, timestamp_ms: int, record: object, offset: int) -> None:
        """Receive the next record."""


class Stories:
    """Stories of several partitions, read from the log together. `changes` receives the same records."""

    def __init__(self, stories: "Iterable[PartitionStory]", changes: Changes | None = None) -> None:
        self.all = tuple(stories)
        self._changes = changes

    def starts(self, image: MetadataImage) -> None:
        """Start every story; see `PartitionStory.starts`."""
        for story in self.all:
            story.starts(image)
        if self._changes is not None:
            self._changes.starts(image)

    def apply(self, timestamp_ms: int, record: object, offset: int) -> None:
        """Pass a record to every story; see `PartitionStory.apply`."""
        for story in self.all:
            story.apply(timestamp_ms, record)
        if self._changes is not None:
            self._changes.apply(timestamp_ms, record, offset)


@dataclass(slots=True)
class PartitionStory:
    """Story of one partition, which receives every record of the log in order (`apply`). `since_ms` and `because`
    describe the current leader; -1 and empty when its election is older than the log. `causes` are the reasons of
    fences, by broker and time (`fencings`)."""

    topic: str
    index: int
    causes: Mapping[tuple[int, int], str] = field(default_factory=dict)
    since_ms: int = -1
    because: str = ""
    leader: int = NOBODY
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    left: dict[int, Left] = field(default_factory=dict)
    """Events by broker, since it last led or returned."""
    log_was_lost: bool = False
    """The last known leader came back with an empty log."""
    _topic_id: UUID | None = None
    _epochs: dict[int, int] = field(default_factory=dict)
    _last: "Moment | None" = None

    def starts(self, image: MetadataImage) -> None:
        """Start with the state of a snapshot, whose causes are unknown."""
        self._epochs = {broker.broker_id: broker.epoch for broker in image.brokers.values()}
        known = image.partition(self.topic, self.index)
        if known is not None:
            self._topic_id = image.topic_ids[self.topic]
            self.leader, self.replicas, self.isr = known.leader, known.replicas, known.isr
            self.elr, self.last_known = known.elr, known.last_known_elr

    def apply(self, timestamp_ms: int, record: object) -> None:
        if isinstance(record, TopicRecord) and record.name == self.topic:
            self._topic_id = record.topic_id
        elif isinstance(record, BrokerRecord):
            self._broker_changes(record, timestamp_ms)
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

    def _broker_changes(self, record: BrokerRecord, timestamp_ms: int) -> None:
        if isinstance(record, FenceBrokerRecord):
            self._fences(record.id, timestamp_ms)
        elif isinstance(record, UnregisterBrokerRecord):
            self.left[record.broker_id] = Left("was unregistered")
        elif isinstance(record, RegisterBrokerRecord):
            if self._epochs.get(record.broker_id) != record.broker_epoch:       # one process may register again
                self.left[record.broker_id] = Left("registered again, as another process")
            self._epochs[record.broker_id] = record.broker_epoch
        elif record.fenced == 1:
            self._fences(record.broker_id, timestamp_ms)
        elif record.in_controlled_shutdown == 1:
            self.left[record.broker_id] = Left(STOPPED)
        elif record.fenced == NOBODY:
            self.left.pop(record.broker_id, None)       # -1: it is unfenced
        elif record.log_dirs and self.left.get(record.broker_id, Left("", at_ms=0)).at_ms >= 0:
            self.left[record.broker_id] = Left("lost the log directory of its replica", at_ms=timestamp_ms)

    def _fences(self, broker: int, timestamp_ms: int) -> None:
        """Record a fence. A broker after a controlled shutdown is fenced too, but the shutdown is the cause."""
        if broker not in self.left or self.left[broker].text != STOPPED:
            self.left[broker] = Left(FENCED, self.causes.get((broker, timestamp_ms), ""))

    def _partition_changes(self, record: PartitionChangeRecord, timestamp_ms: int) -> None:
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        for replica, directory in zip(replicas, record.directories or (), strict=False):
            if directory == LOST_DIRECTORY:
                self.left[replica] = Left("could not open the log of its replica", at_ms=timestamp_ms)
        if record.leader not in (UNCHANGED, self.leader):
            self._last = Moment(timestamp_ms, self.leader, record.leader, record.leader_recovery_state == RECOVERING,
                                replicas, self.isr, self.elr, self.last_known)
            self._leads(record.leader, timestamp_ms, self._why(self._last))
        self.replicas = replicas
        self.isr = self.isr if record.isr is None else tuple(record.isr)
        if record.eligible_leader_replicas is not None:
            self.elr = tuple(record.eligible_leader_replicas)
        if record.last_known_elr is not None:
            # Other replicas take the place of the last leader only when its log was replaced by an empty one.
            self.log_was_lost = bool(self.last_known and record.last_known_elr)
            self.last_known = tuple(record.last_known_elr)

    def _why(self, moment: "Moment") -> str:
        before, leader = moment.before, moment.leader
        left = self.left.get(before)
        if left is not None and left.at_ms not in (-1, moment.time_ms):
            left = None
        if leader == NOBODY:
            return f"broker {before} {left or 'left'}, and no other replica was in sync and up"
        if leader not in moment.isr and leader in moment.elr:
            return "it was not in sync, but eligible: it has all that was acknowledged (KIP-966)"
        if leader not in moment.isr and moment.last_known == (leader,) and self.log_was_lost:
            return ("nobody in sync or eligible was left, and the last leader came back with an empty log: what only "
                    "it had is lost")
        if leader not in moment.isr and moment.last_known == (leader,):
            return ("nobody in sync or eligible was left, and it was the last to lead: what its disk did not keep is "
                    "lost (KIP-966)")
        # The end of a reassignment removes a leader that has just proposed its successor for the ISR.
        hands_over = before not in (NOBODY, *moment.replicas) and not moment.recovers
        if leader not in moment.isr and not hands_over:
            return "nobody in sync was left, and the election was unclean: it may lack acknowledged records"
        if before == NOBODY:
            return "it was the first in-sync replica to come back"
        if before not in moment.replicas:
            return f"a reassignment took broker {before} away"
        if left is not None:
            return f"broker {before} {left}"
        return "it is the preferred replica" if leader == moment.replicas[0] else "the metadata log does not say why"

    def _leads(self, leader: int, timestamp_ms: int, because: str) -> None:
        self.leader, self.since_ms, self.because = leader, timestamp_ms, because
        self.left.pop(leader, None)
