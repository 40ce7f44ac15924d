"""`kraft why topic`: changes of the topic, and the users that requested them.

The metadata log has each change with its offset, and an audit event has the offsets that its request caused. A change
that no event names is one of a controller itself, or older than the audit; it is not shown.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from kraft.cli.audit_source import file_sources, merged, topic_sources
from kraft.cli.partition_story import NOBODY, UNCHANGED
from kraft.client.refusals import RefusedError
from kraft.metadata.image import TOPIC_RESOURCE, MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.remove_topic_record import RemoveTopicRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.recorder.timeline import clock_text
from kraft.recorder.why import Answer
from kraft.security.audit.reading import Seen

KEPT: Final = 1_000
"""Last changes of one topic that are searched for in the audit."""
SHOWN: Final = 5
"""Last changes of one topic that are shown."""
CLOCKS_MS: Final = 60_000
"""Difference of two nodes' clocks that is allowed for."""
CREATED: Final = "The topic "


class Change(NamedTuple):
    """A record about a topic; `text` is the beginning of a sentence."""

    offset: int
    time_ms: int
    text: str


class TopicChanges:
    """Changes of some topics. It receives every record of the metadata log in order (`apply`)."""

    def __init__(self, names: Iterable[str]) -> None:
        self.by_topic: dict[str, deque[Change]] = {name: deque(maxlen=KEPT) for name in names}
        self._ids: dict[UUID, str] = {}

    def starts(self, image: MetadataImage) -> None:
        """Start with the state of a snapshot, whose changes are unknown."""
        self._ids = {image.topic_ids[name]: name for name in self.by_topic if name in image.topic_ids}

    def apply(self, timestamp_ms: int, record: object, offset: int) -> None:
        """Note what a record changes."""
        found = self._change_of(record)
        if found is not None:
            topic, text = found
            self.by_topic[topic].append(Change(offset, timestamp_ms, text))

    def _change_of(self, record: object) -> tuple[str, str] | None:
        """Return the topic and a text; None for a record that is not about one of the topics."""
        if isinstance(record, TopicRecord) and record.name in self.by_topic:
            self._ids[record.topic_id] = record.name
            self.by_topic[record.name].clear()
            return record.name, f"{CREATED}{record.name} was created"
        if isinstance(record, RemoveTopicRecord):
            self._ids.pop(record.topic_id, None)
        elif isinstance(record, ConfigRecord):
            if record.resource_type == TOPIC_RESOURCE and record.resource_name in self.by_topic:
                value = "reset to its default" if record.value is None else f"set to {record.value}"
                return record.resource_name, f"{record.name} of {record.resource_name} was {value}"
        elif isinstance(record, PartitionRecord | PartitionChangeRecord) and record.topic_id in self._ids:
            topic = self._ids[record.topic_id]
            text = _partition_text(f"{topic}/{record.partition_id}", record)
            return None if text is None else (topic, text)
        return None


def _partition_text(name: str, record: PartitionRecord | PartitionChangeRecord) -> str | None:
    if isinstance(record, PartitionRecord):
        return f"The partition {name} was added"
    if record.adding_replicas or record.removing_replicas:
        return f"A reassignment of {name} began"
    return None if record.leader in (UNCHANGED, NOBODY) else f"Broker {record.leader} became the leader of {name}"


def change_answers(changes: TopicChanges, files: Sequence[Path], bootstrap: str | None, timeout: float) -> list[Answer]:
    """Explain the last changes that an audit event names. The audit is in the files, or else in the cluster's topic; a
    cluster without that topic has none."""
    times = [each.time_ms for found in changes.by_topic.values() for each in found]
    if not times or not (files or bootstrap):
        return []
    with ExitStack() as opened:
        try:
            sources = (file_sources(opened, files) if files
                       else topic_sources(opened, bootstrap or "", timeout, min(times) - CLOCKS_MS))
            events = [each for each in merged(sources) if each.offsets]
        except RefusedError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return []
            return [Answer("change", -1, True, f"The audit cannot be read: {error}.")]
    return [answer for found in changes.by_topic.values() for answer in _last(found, events)]


def _last(changes: Iterable[Change], events: Sequence[Seen]) -> list[Answer]:
    by_offset = {each.offset: each for each in changes}
    named = [(by_offset[offset], event) for event in events for offset in _within(event, by_offset)]
    named.sort(key=lambda pair: pair[0].offset)
    return [Answer("change", -1, True, _sentence(*each)) for each in named[-SHOWN:]]


def _within(event: Seen, by_offset: dict[int, Change]) -> list[int]:
    """Return the changes of an event; of a creation, only that of the topic itself."""
    found = [offset for offset in by_offset if event.caused(offset)]
    created = [offset for offset in found if by_offset[offset].text.startswith(CREATED)]
    return created or found


def _sentence(change: Change, event: Seen) -> str:
    return (f"{change.text} at {clock_text(change.time_ms)} by {event.principal} from {event.address} ({event.api}, "
            f"audit event {event.uid}).")
