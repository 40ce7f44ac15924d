"""One time line of elections and in-sync replicas: flight recorders of all nodes, and the metadata log."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kraft.metadata.image import RECOVERING, MetadataImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from kraft.recorder.entry import STATE, Entry
from kraft.recorder.timeline import sentence

UNCHANGED: Final = -2
EVENTS_MAX: Final = 2_000
LOG: Final = "metadata log"


class Event(NamedTuple):
    """One event. `source` is the node that recorded it, or the metadata log with its offset. `topic` is empty and
    `partition` -1 for events of whole nodes and of the quorum."""

    time_ms: float
    source: str
    text: str
    topic: str = ""
    partition: int = -1


@dataclass(slots=True)
class Elections:
    """Listener of a metadata log that keeps the last changes of leaders, in-sync replicas and brokers."""

    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    _names: dict[UUID, str] = field(default_factory=dict)
    _leaders: dict[tuple[UUID, int], int] = field(default_factory=dict)

    def starts(self, image: MetadataImage) -> None:
        """Start with the state of a snapshot."""
        self._names = {topic_id: topic.name for topic_id, topic in image.topics.items()}
        self._leaders = {(topic.topic_id, index): each.leader for topic, index, each in image.partitions()}

    def apply(self, timestamp_ms: int, record: object, offset: int) -> None:
        """Receive the next record."""
        match record:
            case TopicRecord():
                self._names[record.topic_id] = record.name
            case PartitionRecord():
                self._leaders[record.topic_id, record.partition_id] = record.leader
                self._add(timestamp_ms, offset, f"is created, leader {record.leader}, in sync "
                          f"{_listed(record.isr)}", record.topic_id, record.partition_id)
            case PartitionChangeRecord():
                self._change(timestamp_ms, offset, record)
            case FenceBrokerRecord():
                self._add(timestamp_ms, offset, f"broker {record.id} is fenced")
            case UnregisterBrokerRecord():
                self._add(timestamp_ms, offset, f"broker {record.broker_id} is unregistered")
            case RegisterBrokerRecord():
                self._add(timestamp_ms, offset, f"broker {record.broker_id} registers")
            case BrokerRegistrationChangeRecord():
                self._add(timestamp_ms, offset, _broker_text(record))

    def _change(self, timestamp_ms: int, offset: int, record: PartitionChangeRecord) -> None:
        key = (record.topic_id, record.partition_id)
        texts = []
        if record.leader != UNCHANGED:
            before = self._leaders.get(key, -1)
            unclean = ", by an unclean election" if record.leader_recovery_state == RECOVERING else ""
            texts.append(f"leader {_node(before)} to {_node(record.leader)}{unclean}" if before != record.leader
                         else f"leader {_node(record.leader)} again")
            self._leaders[key] = record.leader
        if record.isr is not None:
            texts.append(f"in sync {_listed(record.isr)}")
        if record.replicas is not None:
            texts.append(f"replicas {_listed(record.replicas)}")
        if texts:
            self._add(timestamp_ms, offset, "; ".join(texts), *key)

    def _add(self, timestamp_ms: int, offset: int, text: str, topic_id: UUID | None = None,
             partition: int = -1) -> None:
        topic = "" if topic_id is None else self._names.get(topic_id, str(topic_id))
        self.events.append(Event(timestamp_ms, f"{LOG} {offset:,}", text, topic, partition))


def _broker_text(record: BrokerRegistrationChangeRecord) -> str:
    name = f"broker {record.broker_id}"
    if record.in_controlled_shutdown == 1:
        return f"{name} begins its controlled shutdown"
    if record.fenced:
        return f"{name} is {'fenced' if record.fenced == 1 else 'unfenced'}"
    return f"{name} changes its registration"


def _node(node_id: int) -> str:
    return "nobody" if node_id < 0 else str(node_id)


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def event_of(entry: Entry) -> Event:
    """Return an entry of a flight recorder as an event."""
    topic, partition = entry.values.get("topic", ""), entry.values.get("partition", -1)
    is_partition = isinstance(topic, str) and isinstance(partition, int)
    return Event(entry.time_ms, f"node {entry.node_id}", sentence(entry), topic if is_partition else "",
                 partition if is_partition else -1)


def merged(entries: Iterable[Entry], logged: Iterable[Event], *, topic: str = "", source: str = "",
           count: int = 200) -> list[Event]:
    """Return the newest `count` events, newest first. `topic`: only of this topic, or of `TOPIC/PARTITION`. `source`:
    only of this node, or of the metadata log."""
    name, _, index = topic.rpartition("/") if "/" in topic else (topic, "", "")
    events = [*(event_of(entry) for entry in entries if entry.what != STATE), *logged]
    wanted = [each for each in events
              if (not name or (each.topic == name and (not index or str(each.partition) == index)))
              and (not source or each.source == source or each.source.startswith(f"{source} "))]
    # Both sources are in the order of time, so that events of one moment keep their order.
    return sorted(wanted, key=lambda each: each.time_ms)[::-1][:count]
