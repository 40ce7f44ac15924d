"""Ranges of offsets whose records have one delivery state and count.

A list of them is *canonical* when it is sorted and disjoint, and no two neighbours could be one. `combine` keeps it so.
Where ranges overlap, the one with the higher delivery count is valid, then the one with the higher state, as in Kafka.
So the order in which ranges arrive does not matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

NO_OFFSET: Final = -1
"""Start offset of a share partition whose first offset is not decided yet."""


class StateBatch(NamedTuple):
    """Offsets from the first to the last one, with their delivery state and count. States are Kafka's numbers: 0
    available, 2 acknowledged, 4 archived."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


_FIRST: Final = itemgetter(0)
_LAST: Final = itemgetter(1)


def combine(batches: list[StateBatch], added: Iterable[StateBatch], start_offset: int) -> None:
    """Add ranges to the canonical list `batches`, and remove what is below `start_offset`, if there is one. Empty
    ranges add nothing. Time: that of the added ranges and of those that they touch."""
    prune(batches, start_offset)
    for each in added:
        if each.first_offset < start_offset:
            each = each._replace(first_offset=start_offset)
        if each.first_offset > each.last_offset:
            continue
        if not batches or each.first_offset > batches[-1].last_offset + 1:
            batches.append(each)        # most writes name their ranges in order
        else:
            _add(batches, each)


def combined(added: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the canonical list of these ranges."""
    batches: list[StateBatch] = []
    combine(batches, added, start_offset)
    return batches


def prune(batches: list[StateBatch], start_offset: int) -> None:
    """Remove what is below `start_offset` from a canonical list."""
    del batches[:bisect_left(batches, start_offset, key=_LAST)]
    if batches and batches[0].first_offset < start_offset:
        batches[0] = batches[0]._replace(first_offset=start_offset)


def _add(batches: list[StateBatch], new: StateBatch) -> None:
    begin = bisect_left(batches, new.first_offset - 1, key=_LAST)
    end = bisect_right(batches, new.last_offset + 1, lo=begin, key=_FIRST)
    if end == begin + 1 and batches[begin][:2] == new[:2]:
        batches[begin] = max(batches[begin], new, key=_rank)
    else:
        batches[begin:end] = _overlaid(batches[begin:end], new) if begin < end else (new,)


def _overlaid(touched: Sequence[StateBatch], new: StateBatch) -> list[StateBatch]:
    """Return the ranges that `new` overlaps or adjoins, together with it."""
    found: list[StateBatch] = []
    offset = new.first_offset
    for old in touched:
        if old.first_offset < offset:
            _append(found, old, old.first_offset, min(old.last_offset, offset - 1))
        elif offset < old.first_offset <= new.last_offset + 1:
            _append(found, new, offset, old.first_offset - 1)
            offset = old.first_offset
        overlap_first, overlap_last = max(old.first_offset, offset), min(old.last_offset, new.last_offset)
        if overlap_first <= overlap_last:
            _append(found, max(old, new, key=_rank), overlap_first, overlap_last)
            offset = overlap_last + 1
        if old.last_offset > new.last_offset:
            if offset <= new.last_offset:
                _append(found, new, offset, new.last_offset)
                offset = new.last_offset + 1
            _append(found, old, max(old.first_offset, new.last_offset + 1), old.last_offset)
    if offset <= new.last_offset:
        _append(found, new, offset, new.last_offset)
    return found


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _append(found: list[StateBatch], source: StateBatch, first_offset: int, last_offset: int) -> None:
    """Append a part of `source`, joined with the range before it where both are one."""
    if found:
        before = found[-1]
        if before.last_offset + 1 == first_offset and before[2:] == source[2:]:
            found[-1] = before._replace(last_offset=last_offset)
            return
    found.append(StateBatch(first_offset, last_offset, source.delivery_state, source.delivery_count))
