"""Start and end of a read: bounds given by the user, converted to offsets. The log is only queried for this.

`Origin` is the source that is read: a cluster or log directories.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from kraft.log_dir import TopicPartition
from kraft.spark.errors import DataLossError
from kraft.spark.options import EARLIEST, LATEST, Bound, ReadOptions
from kraft.spark.splits import Range
from kraft_native.base.errors import InvalidArgumentError, KraftError

LOG: Final = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


class RecordColumns(Protocol):
    """Records as columns: the result of `kraft_native.columns.reader`, or any Arrow record batch of the same shape."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class Origin(Protocol):
    """A place that topics are read from. Offsets are those visible at the read's isolation level."""

    def partitions(self) -> list[TopicPartition]:
        """Return the subscribed partitions that exist, sorted."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the log starts."""

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the log ends, exclusive."""

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset with that time or a later one; None when it does not exist."""

    def ranges(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
        """Return the ranges to read between two offsets, in pieces of roughly known size in bytes."""

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        """Return the ids of their topics, as far as they have one. Another id is another topic of the same name."""

    def read(self, piece: Range, columns: Sequence[str]) -> Iterator[RecordColumns]:
        """Yield the records of a range, in a task."""

    def refresh(self) -> None:
        """Discard cached facts about the topics, so that they are read again."""

    def close(self) -> None:
        """Close connections and files. May be called again."""


def batch_spans(origin: Origin, options: ReadOptions) -> dict[TopicPartition, tuple[int, int]]:
    """Return (start, end) of each partition that a batch query reads, including the empty ones.

    Raise `InvalidArgumentError` for bounds that do not fit the partitions or each other. Raise `DataLossError` for
    offsets that the log does not have, unless that is allowed: then the existing ones are read.
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
    """Raise `DataLossError` with the lost ranges, if any exist and a loss must fail the query."""
    if lost and fail:
        raise DataLossError(f"{', '.join(map(str, lost))}: these offsets are not in the log. They were deleted (by "
                            "retention, or with their topic) or never written. To read what there is, set the option "
                            "failOnDataLoss to false")


def check_missing(option: str, missing: Sequence[str], fail: bool, error: KraftError) -> None:
    """Raise `error` for missing topics or partitions that the option names, if a loss must fail the query. Otherwise
    warn, and let the query continue without them."""
    if fail:
        raise error
    LOG.warning("option %s: %s: deleted, or never created; the query continues without (failOnDataLoss is false)",
                option, ", ".join(missing))


def resume_after_loss(piece: Range, offset: int, log_start: int, fail: bool) -> int:
    """Return where a range continues whose `offset` is missing in the log: at the log's start, or at the range's end.
    Raise `DataLossError` with the lost offsets, if a loss must fail the query."""
    resumed = min(log_start, piece.end) if log_start > offset else piece.end
    check_loss([piece.part(offset, resumed)], fail)
    return resumed


def start_offsets(origin: Origin, options: ReadOptions, partitions: Sequence[TopicPartition],
                  earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """Return the start offset of each partition. If no record has the wanted time, the user's strategy applies."""
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
    """Return the end offset of each partition, exclusive; the log's end where no record has the wanted time."""
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
    """Check that the bound names exactly the partitions that are read. The connector requires it."""
    wanted, given = sorted(partitions), sorted(bound.by_partition)
    if wanted != given:
        raise InvalidArgumentError(f"option {bound.option}: it must name exactly the partitions that are read. Named: "
                                   f"{_listed(given)}; read: {_listed(wanted)}")


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions) or "none"
