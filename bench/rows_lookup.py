"""Looking up: offsets and times in an index of 1.3 million entries, many in one call, without the interpreter."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from bench.table import Bench, Row, absolute, seconds
from kraft_native.index import OffsetIndex, TimeIndex

ENTRIES = 1_300_000
LOOKUPS = 500_000


def rows(bench: Bench) -> Iterator[Row]:
    entries, lookups = bench.count(ENTRIES), bench.count(LOOKUPS)
    source = np.random.default_rng(1)
    for kind, name, target_ns in ((OffsetIndex, "offset", 100.0), (TimeIndex, "time", 1000.0)):
        title = f"look up a random {name} in {entries:,} index entries"
        if not bench.wants(title):
            continue
        path = bench.fresh(f"{name}.index")
        index = kind.create(path, 0, 12 * entries + 24)
        if isinstance(index, OffsetIndex):
            for i in range(entries):
                index.append(150 * i + 149, 1600 * i + 1600)
            top = 150 * entries
        else:
            for i in range(entries):
                index.maybe_append(1_700_000_000_000 + 10 * i, 150 * i + 149)
            top = 10 * entries
        index.seal()
        sealed = kind.open_sealed(path, 0)
        targets = source.integers(0, top, lookups)
        if name == "time":
            targets += 1_700_000_000_000
        found = np.empty(lookups, np.int64)
        sealed.find_many(targets, found)
        look_up = functools.partial(sealed.find_many, targets, found)
        yield absolute(title, "ns", lambda call=look_up: seconds(call) / lookups * 1e9, target=target_ns,
                       repeats=bench.turns + 4, better="less")
