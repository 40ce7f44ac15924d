"""Ranges of partitions that the tasks of one job read. They are cut and gathered so that each task has about as many
bytes.

A task of Spark costs tens of milliseconds (24 of two cores' time each, measured). So small ranges share a task and
large ones are cut. Pure functions of the known facts about the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

TASK_BYTES: Final = 128 << 20
# Below this size a job has one task per range, or fewer: more would cost more than they gain.
SMALL_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of one partition. `size_bytes` is their approximate size in the log.

    `directory` is the log directory of the range, if it is read from files. `aborted` are the transactions that
    read_committed skips, as (producer id, first offset, last offset).
    """

    topic: str
    partition: int
    start: int
    end: int
    size_bytes: int = 0
    directory: str | None = None
    aborted: tuple[tuple[int, int, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"

    def part(self, start: int, end: int) -> Range:
        """Return the part of the range with the offsets [start, end)."""
        share = (end - start) / max(self.end - self.start, 1)
        return replace(self, start=start, end=end, size_bytes=int(self.size_bytes * share))


Task = tuple[Range, ...]


def cut_to_records(ranges: Iterable[Range], records_max: int) -> list[Range]:
    """Cut the ranges into pieces of nearly equal length, none with more than `records_max` offsets."""
    cut = []
    for each in ranges:
        cut += _in_parts(each, -(-(each.end - each.start) // records_max))
    return cut


def cut_to_count(ranges: Sequence[Range], count: int) -> list[Range]:
    """Cut the ranges into at least `count` pieces, if there are as many offsets. A longer range gets more pieces."""
    total = sum(each.end - each.start for each in ranges)
    if len(ranges) >= count or not total:
        return list(ranges)
    cut = []
    for each in ranges:
        # Rounded up: Kafka's connector may return fewer than requested here.
        cut += _in_parts(each, max(-(-(each.end - each.start) * count // total), 1))
    return cut


def _in_parts(each: Range, parts: int) -> list[Range]:
    length = each.end - each.start
    parts = max(min(parts, length), 1)
    bounds = [each.start + length * number // parts for number in range(parts + 1)]
    return [each.part(start, end) for start, end in pairwise(bounds)]


def balance(ranges: Iterable[Range], bytes_max: int = TASK_BYTES, parallel: int | None = None) -> list[Task]:
    """Return tasks of about equal size, at most about `bytes_max`. Ranges keep their order and are cut where a task is
    full.

    There are `parallel` of them (default: the number of processors), or a multiple of that, when there is enough to do.
    So no processor waits for the last task.
    """
    kept = [each for each in ranges if each.end > each.start]
    total = sum(each.size_bytes for each in kept)
    parallel = len(os.sched_getaffinity(0)) if parallel is None else parallel
    count = max(-(-total // bytes_max), 1)
    if total > SMALL_BYTES:
        count = -(-count // parallel) * parallel
    share = max(-(-total // count), 1)
    sliver = share // 8
    tasks: list[Task] = []
    current: list[Range] = []
    room = share
    for each in kept:
        while each.size_bytes > room + sliver:
            middle = each.start + (each.end - each.start) * room // each.size_bytes
            if room > sliver and each.start < middle < each.end:
                current.append(each.part(each.start, middle))
                each = each.part(middle, each.end)
            elif not current:
                break
            tasks.append(_joined(current))
            current, room = [], share
        current.append(each)
        room -= each.size_bytes
    if current:
        tasks.append(_joined(current))
    return tasks


def _joined(ranges: Iterable[Range]) -> Task:
    """Join neighbours that follow each other in one partition."""
    joined: list[Range] = []
    for each in ranges:
        last = joined[-1] if joined else None
        if last is not None and last.end == each.start and replace(last, start=each.start, end=each.end,
                                                                   size_bytes=each.size_bytes) == each:
            joined[-1] = replace(last, end=each.end, size_bytes=last.size_bytes + each.size_bytes)
        else:
            joined.append(each)
    return tuple(joined)
