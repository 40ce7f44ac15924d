"""Look-ups of offsets and times in an index of 1.3 million entries, one at a time and many in one call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.machine import native
from bench.table import Bench, Row, absolute, seconds
from kraft_native.segment.index import OffsetIndex, TimeIndex

ENTRIES = 1_300_000
LOOKUPS = 500_000
START_MS = 1_700_000_000_000

Int64s = NDArray[np.int64]


def rows(bench: Bench) -> Iterator[Row]:
    entries = bench.count(ENTRIES)
    source = np.random.default_rng(1)
    # Uneven, as in real batches; otherwise interpolation would find each at once.
    keys = np.cumsum(source.integers(1, 300, entries)).astype(np.int64)
    wanted = source.integers(0, keys[-1], bench.count(LOOKUPS))
    one_by_one = native("lookups")
    title = f"find a random offset in {entries:,} index entries"
    if bench.wants(title):
        offsets = OffsetIndex.open_sealed(offset_file(bench.fresh("offset.index"), keys), 0)
        yield row(bench, f"{title}, one a call", functools.partial(one_by_one.find_offsets, offsets, wanted), 100.0)
        yield row(bench, f"{title}, each after the answer before",
                  functools.partial(one_by_one.find_offsets_in_turn, offsets, wanted))
        yield row(bench, f"{title}, many in one call",
                  functools.partial(offsets.find_many, wanted, np.empty_like(wanted)), 100.0)
    title = f"find a random time in {entries:,} index entries"
    if bench.wants(title):
        times = TimeIndex.open_sealed(time_file(bench.fresh("time.index"), keys), 0)
        wanted += START_MS
        yield row(bench, f"{title}, each after the answer before",
                  functools.partial(one_by_one.find_times_in_turn, times, wanted), 1000.0)
        yield row(bench, f"{title}, many in one call",
                  functools.partial(times.find_many, wanted, np.empty_like(wanted)), 1000.0)


def row(bench: Bench, name: str, look_up: Callable[[], object], target_ns: float | None = None) -> Row:
    return absolute(name, "ns", lambda: seconds(look_up) / bench.count(LOOKUPS) * 1e9, target=target_ns,
                    repeats=bench.turns + 4, better="less")


def offset_file(path: Path, keys: Int64s) -> Path:
    path.write_bytes(np.stack([keys, np.arange(len(keys)) * 1600], axis=1).astype(">i4").tobytes())
    return path


def time_file(path: Path, keys: Int64s) -> Path:
    table = np.zeros(len(keys), np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
    table["timestamp"] = START_MS + keys
    table["offset"] = keys
    path.write_bytes(table.tobytes())
    return path
