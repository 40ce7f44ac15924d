"""The metadata of a cluster at a moment, and the difference to now."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.client import Cluster
from kraft.console.clock import parse_time
from kraft.console.sources import Difference, Moment, Sources
from kraft.console.why.finding import count_of
from kraft.metadata.image import RESOURCE_NAMES, MetadataImage
from kraft.protocol.message import Struct
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft_native.base.errors import InvalidArgumentError

CHANGES_MAX: Final = 200
DIFFERENCES_MAX: Final = 500
SHOWN_FIELDS: Final = ("name", "topic_id", "partition_id", "broker_id", "id", "leader", "isr", "replicas", "fenced",
                       "in_controlled_shutdown", "feature_level", "principal", "entity", "key", "value")
MUTE: Final = ("NoOpRecord",)


class Shown(NamedTuple):
    """One record of the metadata log in words."""

    offset: int
    time_ms: int
    kind: str
    text: str


@dataclass(slots=True)
class Changes:
    """Listener that keeps the last records of a metadata log in words. `first` is the offset where the log begins."""

    shown: deque[Shown] = field(default_factory=lambda: deque(maxlen=CHANGES_MAX))
    first: int = 0
    first_ms: int = -1
    _names: dict[UUID, str] = field(default_factory=dict)

    def starts(self, image: MetadataImage) -> None:
        """Start with the state of a snapshot."""
        self.first, self.first_ms = max(0, image.offset), image.timestamp_ms
        self._names = {topic_id: topic.name for topic_id, topic in image.topics.items()}

    def apply(self, timestamp_ms: int, record: object, offset: int) -> None:
        """Receive the next record."""
        if self.first_ms < 0:
            self.first, self.first_ms = offset, timestamp_ms
        kind = type(record).__name__
        if kind in MUTE:
            return
        if isinstance(record, TopicRecord):
            self._names[record.topic_id] = record.name
        self.shown.append(Shown(offset, timestamp_ms, kind.removesuffix("Record"), self._text(record)))

    def _text(self, record: object) -> str:
        if isinstance(record, ConfigRecord):
            kind = RESOURCE_NAMES.get(record.resource_type, str(record.resource_type))
            return f"{kind} {record.resource_name or 'all'}: {record.name} = {record.value}"
        if not isinstance(record, Struct):
            return ""
        texts = []
        for name in record.__slots__:
            value = getattr(record, name)
            if name not in SHOWN_FIELDS or value is None or value in ([], ""):
                continue
            if isinstance(value, UUID):
                value = self._names.get(value, value)
            texts.append(f"{name.removesuffix('_id')} {_plain(value)}")
        return ", ".join(texts)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class Past(NamedTuple):
    """State at a moment. `then` and `now` are positions of the log; `differences` are those from then to now, at most
    `DIFFERENCES_MAX` of `difference_count`. `summary` counts the things of both."""

    moment: Moment
    then: MetadataImage
    now: MetadataImage
    changes: Changes
    differences: list[Difference]
    difference_count: int
    summary: list[tuple[str, int, int]]


def parse_moment(text: str) -> Moment:
    """Parse an offset, or a time. Empty means now. Raises `InvalidArgumentError` for other texts."""
    text = text.strip()
    if not text:
        return Moment()
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return Moment(offset=int(text))
    time_ms = parse_time(text)
    if time_ms is None:
        raise InvalidArgumentError(f"at: {text[:60]!r} is not an offset or a time such as 2026-01-31T09:00:00")
    return Moment(time_ms=time_ms)


def past(cluster: Cluster, sources: Sources, moment: Moment) -> Past:
    """Read the metadata at a moment and now. Raises what `Sources.image` raises."""
    changes = Changes()
    now = sources.image(cluster, Moment(), changes)
    then = now if moment == Moment() else sources.image(cluster, moment)
    found = [] if then is now else summarized([
        each for each in sources.differences(then, now) if not each.path.startswith("/image/")], then, now)
    return Past(moment, then, now, changes, found[:DIFFERENCES_MAX], len(found), summary_of(then, now))


def summarized(found: Iterable[Difference], then: MetadataImage, now: MetadataImage) -> list[Difference]:
    """Return the differences with one for each whole thing that came or went: a broker, a topic, a partition."""
    before, after = things_of(then), things_of(now)
    kept: list[Difference] = []
    whole: set[str] = set()
    for each in found:
        parts = each.path.split("/")
        paths = ["/".join(parts[:count]) for count in range(3, min(len(parts), 4) + 1)]
        changed = next((path for path in paths if (path in before) != (path in after)), None)
        if changed is None:
            kept.append(each)
        elif changed not in whole:
            whole.add(changed)
            kept.append(Difference(changed, before.get(changed), after.get(changed)))
    return kept


def things_of(image: MetadataImage) -> dict[str, str]:
    """Return brokers, topics and partitions in words, by the path of their values."""
    found = {f"/brokers/{node_id}": "registered" for node_id in image.brokers}
    for topic in image.topics.values():
        found[f"/topics/{topic.name}"] = f"exists with {count_of(len(topic.partitions), 'partition')}"
        for index, each in topic.partitions.items():
            found[f"/topics/{topic.name}/{index}"] = (f"leader {each.leader}, replicas {_plain(list(each.replicas))}, "
                                                      f"in sync {_plain(list(each.isr))}")
    return found


def summary_of(then: MetadataImage, now: MetadataImage) -> list[tuple[str, int, int]]:
    """Return the number of things in both states."""
    return [(name, count(then), count(now)) for name, count in _COUNTS]


def _red(image: MetadataImage) -> int:
    return sum(each.leader < 0 or len(each.isr) < len(each.replicas) for _, _, each in image.partitions())


_COUNTS: Final[Iterable[tuple[str, Any]]] = (
    ("brokers", lambda image: len(image.brokers)),
    ("fenced brokers", lambda image: sum(each.fenced for each in image.brokers.values())),
    ("topics", lambda image: len(image.topics)),
    ("partitions", lambda image: sum(len(topic.partitions) for topic in image.topics.values())),
    ("partitions that are not in sync", _red),
    ("settings", lambda image: sum(map(len, image.configs.values()))),
    ("quotas", lambda image: len(image.quotas)),
    ("ACLs", lambda image: len(image.acls)),
    ("SCRAM credentials", lambda image: len(image.scram)),
)
