"""Events of brokers, and unclean elections, collected while a metadata log is read."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kraft.client.partitions import Partition
from kraft.metadata.image import RECOVERING, MetadataImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

FENCED: Final = "was fenced"
STOPPED: Final = "was stopped cleanly"
REGISTERED: Final = "registered"
RETURNED: Final = "was unfenced"


class BrokerEvent(NamedTuple):
    """Last event of a broker that says why it serves, or why not."""

    time_ms: int
    what: str


@dataclass(slots=True)
class History:
    """Listener of a metadata log. `unclean` has the time of the last unclean election by partition."""

    brokers: dict[int, BrokerEvent] = field(default_factory=dict)
    unclean: dict[Partition, int] = field(default_factory=dict)
    _names: dict[UUID, str] = field(default_factory=dict)

    def starts(self, image: MetadataImage) -> None:
        """Start with the state of a snapshot, whose events are not known."""
        self._names = {topic_id: topic.name for topic_id, topic in image.topics.items()}

    def apply(self, timestamp_ms: int, record: object, offset: int) -> None:  # noqa: ARG002 - of every listener
        """Receive the next record."""
        match record:
            case TopicRecord():
                self._names[record.topic_id] = record.name
            case PartitionChangeRecord() if record.leader_recovery_state == RECOVERING:
                self.unclean[self._names.get(record.topic_id, "?"), record.partition_id] = timestamp_ms
            case RegisterBrokerRecord():
                self.brokers[record.broker_id] = BrokerEvent(timestamp_ms, REGISTERED)
            case FenceBrokerRecord():
                self._fences(record.id, timestamp_ms)
            case UnfenceBrokerRecord():
                self.brokers[record.id] = BrokerEvent(timestamp_ms, RETURNED)
            case UnregisterBrokerRecord():
                self.brokers.pop(record.broker_id, None)
            case BrokerRegistrationChangeRecord():
                self._changes(record, timestamp_ms)

    def _changes(self, record: BrokerRegistrationChangeRecord, timestamp_ms: int) -> None:
        if record.in_controlled_shutdown == 1:
            self.brokers[record.broker_id] = BrokerEvent(timestamp_ms, STOPPED)
        elif record.fenced == 1:
            self._fences(record.broker_id, timestamp_ms)
        elif record.fenced == -1:
            self.brokers[record.broker_id] = BrokerEvent(timestamp_ms, RETURNED)

    def _fences(self, broker: int, timestamp_ms: int) -> None:
        """A broker is fenced after its controlled shutdown, too: the shutdown is the cause."""
        known = self.brokers.get(broker)
        if known is None or known.what != STOPPED:
            self.brokers[broker] = BrokerEvent(timestamp_ms, FENCED)
