"""Progress of a stream: offsets in a checkpoint, new offsets, lost offsets, and the size of one batch.

Pure functions of marks. A lost range is reported by its offsets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraft.log_dir import TopicPartition
from kraft.spark.errors import DataLossError
from kraft.spark.positions import check_loss
from kraft.spark.splits import Range
from kraft_native.base.errors import InvalidArgumentError

VERSION: Final = 2
OWN: Final = "#kraft"

Spans = dict[TopicPartition, tuple[int, int]]


@dataclass(frozen=True)
class Mark:
    """End of the read offsets of each partition, exclusive, and the ids of the topics: a name may be used again."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the form in a checkpoint: `{topic: {partition: offset}}`, as in Spark's Kafka connector. The ids of
        the topics are under a name that no topic can have. The order is always the same, because Spark compares
        texts."""
        found: dict[str, Any] = {}
        for each in sorted(self.offsets):
            found.setdefault(each.topic, {})[str(each.partition)] = self.offsets[each]
        ids = {topic: self.topic_ids[topic] for topic in sorted(found) if topic in self.topic_ids}
        return {**found, OWN: {"version": VERSION, "topicIds": ids}} if ids else found

    @classmethod
    def from_json(cls, text: Mapping[str, Any]) -> Mark:
        """Parse a checkpoint of this source in any version, or of Spark's Kafka connector. Raise `InvalidArgumentError`
        for a checkpoint of a later version or of another source."""
        try:
            if isinstance(text.get("version"), int):
                version, topics, ids = text["version"], text["offsets"], text.get("topicIds", {})
            else:
                own = text.get(OWN, {"version": VERSION})
                version, ids = own["version"], own.get("topicIds", {})
                topics = {topic: offsets for topic, offsets in text.items() if topic != OWN}
            offsets = {TopicPartition(topic, int(partition)): int(offset)
                       for topic, partitions in topics.items() for partition, offset in partitions.items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            version = None
        if not isinstance(version, int) or version > VERSION:
            raise InvalidArgumentError(f"checkpoint: the offsets {dict(text)!r} are not ones that this version of the "
                                       f"source wrote (it writes version {VERSION}); use a new checkpointLocation or "
                                       "a newer kraft")
        return cls(offsets, dict(ids))

    def ahead_of(self, other: Mark) -> int:
        """Return the number of offsets that this mark is ahead. All offsets of a new partition count."""
        return sum(max(end - other.offsets.get(each, 0), 0) for each, end in self.offsets.items())


def source_metrics(source: Mapping[str, Any]) -> dict[str, str]:
    """Return how far a stream is behind, by the names of Spark's Kafka connector (`avgOffsetsBehindLatest`, `max...`,
    `min...`).

    `source` is one source of a query's progress (`query.lastProgress["sources"][0]`): Spark accepts no metrics from a
    source in Python. The result is empty before the first batch.
    """
    if not source.get("latestOffset") or not source.get("endOffset"):
        return {}
    latest, end = (Mark.from_json(json.loads(found) if isinstance(found, str) else found)
                   for found in (source["latestOffset"], source["endOffset"]))
    behind = [max(offset - _start_of(end, latest, each), 0) for each, offset in latest.offsets.items()]
    if not behind:
        return {}
    return {"avgOffsetsBehindLatest": str(sum(behind) / len(behind)), "maxOffsetsBehindLatest": str(max(behind)),
            "minOffsetsBehindLatest": str(min(behind))}


def changes(start: Mark, now: Mark, target: Mark | None, fail_on_data_loss: bool) -> Mark:
    """Return the mark up to which a batch that begins at `start` may read: the log's end, or `target`. A query with a
    `target` reads what exists, and ends there.

    Raise `DataLossError` for lost offsets. If loss is allowed, topics that were created again are read from their
    front, and removed partitions are dropped.
    """
    if fail_on_data_loss:
        _check_same_topics(start, now)
        _check_exist(start, now.offsets)
        if target is not None:
            _check_exist(target, now.offsets)
    end = {}
    for each, latest in now.offsets.items():
        if target is None:
            reachable = latest
        elif each in target.offsets:
            reachable = min(target.offsets[each], latest)
        else:
            reachable = start.offsets.get(each, -1)  # it was created after the query began
        if each in start.offsets and _same_topic(start, now, each):
            reachable = max(reachable, start.offsets[each])
        if reachable >= 0:
            end[each] = reachable
    return Mark(end, {topic: name for topic, name in now.topic_ids.items()
                      if any(each.topic == topic for each in end)})


def limited(start: Mark, end: Mark, offsets_max: int) -> Mark:
    """Return `end` with at most about `offsets_max` new offsets, in proportion to the new offsets of each partition.
    Each of those gets at least one, so that no partition waits indefinitely."""
    new = {each: last - _start_of(start, end, each) for each, last in end.offsets.items()}
    total = sum(count for count in new.values() if count > 0)
    if total <= offsets_max:
        return end
    offsets = {}
    for each, last in end.offsets.items():
        share = offsets_max * new[each] / total
        count = math.ceil(share) if share < 1 else math.floor(share)
        offsets[each] = min(_start_of(start, end, each) + count, last) if new[each] > 0 else last
    return Mark(offsets, end.topic_ids)


def spans_between(start: Mark, end: Mark, earliest: Mapping[TopicPartition, int],
                  latest: Mapping[TopicPartition, int], topic_ids: Mapping[str, str],
                  fail_on_data_loss: bool) -> Spans:
    """Return (start, end) of each partition that a batch reads, as far as the log still has it. New partitions are read
    from their front.

    `earliest` and `latest` are the current bounds of the logs. Raise `DataLossError` for lost offsets, if a loss must
    fail the query.
    """
    if fail_on_data_loss:
        _check_same_topics(end, Mark(latest, topic_ids))
    spans = {}
    lost = []
    for each, last in sorted(end.offsets.items()):
        first = _start_of(start, end, each)
        log_start, log_end = earliest.get(each, last), latest.get(each, first)
        if first < min(log_start, last):
            lost.append(Range(each.topic, each.partition, first, min(log_start, last)))
        if max(first, log_end) < last and each in latest:
            lost.append(Range(each.topic, each.partition, max(first, log_end), last))
        first, last = max(first, log_start), min(last, log_end)
        if first < last:
            spans[each] = (first, last)
    check_loss(lost, fail_on_data_loss)
    return spans


def _start_of(start: Mark, end: Mark, partition: TopicPartition) -> int:
    """Return where a batch begins in a partition: at its front when the partition or its topic is new."""
    return start.offsets.get(partition, 0) if _same_topic(start, end, partition) else 0


def _same_topic(one: Mark, other: Mark, partition: TopicPartition) -> bool:
    ids = one.topic_ids.get(partition.topic), other.topic_ids.get(partition.topic)
    return None in ids or ids[0] == ids[1]


def _check_same_topics(before: Mark, now: Mark) -> None:
    for topic, name in before.topic_ids.items():
        other = now.topic_ids.get(topic, name)
        if other != name:
            raise DataLossError(f"topic {topic} was deleted and created again (its id was {name} and is {other}): the "
                                "records that the query had not read of the old one are lost. To continue with the "
                                "new one, set the option failOnDataLoss to false")


def _check_exist(before: Mark, latest: Mapping[TopicPartition, int]) -> None:
    """Check that the read or planned offsets still exist: no partition is removed, and none ends before its mark."""
    missing = sorted(each.directory_name for each in before.offsets if each not in latest)
    if missing:
        raise DataLossError(f"{', '.join(missing)}: these partitions are deleted, with the records that the query had "
                            "not read of them. To continue without them, set the option failOnDataLoss to false")
    for each, offset in before.offsets.items():
        if latest[each] < offset:
            raise DataLossError(f"{each.directory_name}: the log's end was changed from {offset} to {latest[each]}: "
                                "its topic was created again or its log was truncated. To continue, set the option "
                                "failOnDataLoss to false")
