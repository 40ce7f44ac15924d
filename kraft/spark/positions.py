"""Where a read starts and ends: bounds as the user gave them, turned into offsets. Asks the log, decides nothing else.

`Origin` is what is read: a cluster or log directories.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from kraft.log_dir import TopicPartition
from kraft.spark.errors import DataLossError
from kraft.spark.options import EARLIEST, LATEST, Bound, ReadOptions
from kraft.spark.splits import Range
from kraft_native.errors import InvalidArgumentError, KraftError

LOG: Final = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


class RecordColumns(Protocol):
    """Records as columns: what `kraft_native.columns` makes, or any Arrow record batch of the same shape."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class Origin(Protocol):
    """A place that topics are read from. Offsets are those that the read's isolation level may see."""

    def partitions(self) -> list[TopicPartition]:
        """Those that the subscription asks for and that exist, sorted."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The log starts."""

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The ends, exclusive."""

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset with that time or a later one; None where there is none."""

    def ranges(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
        """What is to be read between two offsets, in pieces whose size in bytes is about known."""

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        """Ids of their topics, where they have some: another id is another topic of the same name."""

    def read(self, piece: Range, columns: Sequence[str]) -> Iterator[RecordColumns]:
        """The records of a range, in a task."""

    def refresh(self) -> None:
        """Forgets what was found out about the topics: they are looked at anew."""

    def close(self) -> None:
        """Lets go of connections and files. May be called again."""


def batch_spans(origin: Origin, options: ReadOptions) -> dict[TopicPartition, tuple[int, int]]:
    """(start, end) of each partition that a batch query reads; the ones that are empty too.

    `InvalidArgumentError` for bounds that do not fit the partitions or each other, `DataLossError` for offsets that the
    log does not have, unless that is allowed: then what is there is read.
    """
    partitions = origin.partitions()
    earliest, latest = origin.earliest(partitions), origin.latest(partitions)
    starts = start_offsets(origin, options, partitions, earliest, latest)
    ends = end_offsets(origin, options.end, partitions, latest)
    spans = {}
    lost = []
    for each in partitions:
        start, end = starts[each], ends[each]
        if start > end and not (options.end.kind == "latest" and options.start.kind != "offsets"):
            raise InvalidArgumentError(f"{each.topic}-{each.partition}: the starting offset {start} is greater than "
                                       f"the ending offset {end}")
        if start < earliest[each]:
            lost.append(Range(each.topic, each.partition, start, min(earliest[each], end)))
        if end > latest[each]:
            lost.append(Range(each.topic, each.partition, max(start, latest[each]), end))
        start = max(start, earliest[each])
        spans[each] = (start, max(min(end, latest[each]), start))
    check_loss(lost, options.fail_on_data_loss)
    return spans


def check_loss(lost: Sequence[Range], fail: bool) -> None:
    """Raises `DataLossError` with the lost ranges, if losing some is to fail the query."""
    if lost and fail:
        raise DataLossError(f"{', '.join(map(str, lost))}: these offsets are not in the log. They were deleted (by "
                            "retention, or with their topic) or never written. To read what there is, set the option "
                            "failOnDataLoss to false")


def check_missing(option: str, missing: Sequence[str], fail: bool, error: KraftError) -> None:
    """Raises `error` for topics or partitions that the option names and that do not exist, if losing some is to fail
    the query; else it continues without them, with a warning."""
    if fail:
        raise error
    LOG.warning("option %s: %s: deleted, or never created; the query continues without (failOnDataLoss is false)",
                option, ", ".join(missing))


def resume_after_loss(piece: Range, offset: int, log_start: int, fail: bool) -> int:
    """The log does not have `offset` of a range any more: where it goes on, the log's start or the range's end. Raises
    `DataLossError` with what is lost, if that is to fail the query."""
    resumed = min(log_start, piece.end) if log_start > offset else piece.end
    check_loss([piece.part(offset, resumed)], fail)
    return resumed


def start_offsets(origin: Origin, options: ReadOptions, partitions: Sequence[TopicPartition],
                  earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """Where each partition is read from; where no record has the wanted time, as the user decided."""
    bound = options.start
    if bound.kind == "earliest":
        return dict(earliest)
    if bound.kind == "latest":
        return dict(latest)
    if bound.kind == "offsets":
        return _given_offsets(bound, partitions, earliest, latest)
    found = {}
    for each, offset in _at_times(origin, bound, partitions).items():
        if offset is None and options.missing_time == "error":
            raise InvalidArgumentError(
                f"option {bound.option}: {each.topic}-{each.partition} has no record of that time or later; with "
                "startingOffsetsByTimestampStrategy=latest it would be read from its end")
        found[each] = latest[each] if offset is None else offset
    return found


def end_offsets(origin: Origin, bound: Bound, partitions: Sequence[TopicPartition],
                latest: Mapping[TopicPartition, int]) -> Offsets:
    """Where each partition is read to, exclusive; to its end where no record has the wanted time."""
    if bound.kind == "offsets":
        return _given_offsets(bound, partitions, {}, latest)
    if bound.kind in ("time", "times"):
        found = _at_times(origin, bound, partitions)
        return {each: latest[each] if offset is None else offset for each, offset in found.items()}
    return dict(latest)


def _given_offsets(bound: Bound, partitions: Sequence[TopicPartition], earliest: Mapping[TopicPartition, int],
                   latest: Mapping[TopicPartition, int]) -> Offsets:
    _check_same(bound, partitions)
    given = bound.by_partition
    return {each: earliest[each] if given[each] == EARLIEST else latest[each] if given[each] == LATEST else given[each]
            for each in partitions}


def _at_times(origin: Origin, bound: Bound,
              partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
    if bound.kind == "time":
        return origin.at_times(dict.fromkeys(partitions, bound.time_ms))
    _check_same(bound, partitions)
    return origin.at_times(bound.by_partition)


def _check_same(bound: Bound, partitions: Sequence[TopicPartition]) -> None:
    """The connector wants a number for each partition, and none for others."""
    wanted, given = sorted(partitions), sorted(bound.by_partition)
    if wanted != given:
        raise InvalidArgumentError(f"option {bound.option}: it must name exactly the partitions that are read. Named: "
                                   f"{_listed(given)}; read: {_listed(wanted)}")


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions) or "none"
