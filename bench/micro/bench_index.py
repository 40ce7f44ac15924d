"""Look-ups in full indexes: `extra_info` has ns of one look-up, in the median round.

1,310,720 entries are 10 MiB of offset index, `segment.index.bytes` by default; a time index of that size has 873,813.
Targets are random over the whole segment, as for a cold consumer or a seek by time. Or they are in the tail, the last
1 %, as for followers and consumers that keep up.
"""

import statistics

import numpy as np
import pytest

from kraft_native.segment.index import OffsetIndex, TimeIndex

ENTRIES = {"offset": 1_310_720, "time": 873_813}
TARGETS = 100_000


def per_item_ns(benchmark, items):
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["ns"] = round(statistics.median(benchmark.stats.stats.data) / items * 1e9, 1)


@pytest.fixture(scope="module")
def entries():
    """Return entries, one for about 4 KiB of log, with gaps that vary as those of real batches do."""
    generator = np.random.default_rng(5)
    return np.cumsum(generator.integers(1, 200, ENTRIES["offset"])).astype(np.int64)


@pytest.fixture(scope="module")
def offset_index(entries, tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "0.index"
    path.write_bytes(np.stack([entries, np.arange(len(entries)) * 1600], axis=1).astype(">i4").tobytes())
    return OffsetIndex.open_sealed(path, 0)


@pytest.fixture(scope="module")
def time_index(entries, tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "0.timeindex"
    table = np.zeros(ENTRIES["time"], np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
    table["timestamp"] = table["offset"] = entries[: ENTRIES["time"]]
    path.write_bytes(table.tobytes())
    return TimeIndex.open_sealed(path, 0)


def targets(last, where):
    low = 0 if where == "random" else last - last // 100
    return np.random.default_rng(9).integers(low, last, TARGETS)


@pytest.mark.parametrize("where", ["random", "tail"])
@pytest.mark.parametrize("kind", ["offset", "time"])
def test_look_up(benchmark, request, kind, where, entries):
    """Measure look-ups in compiled code: one call from Python for all targets."""
    benchmark.group = "index look-up, native"
    index = request.getfixturevalue(f"{kind}_index")
    wanted = targets(int(entries[ENTRIES[kind] - 1]), where)
    found = np.empty_like(wanted)
    benchmark.pedantic(index.find_many, (wanted, found), rounds=50, warmup_rounds=2)
    per_item_ns(benchmark, TARGETS)


def test_look_up_through_python(benchmark, offset_index):
    benchmark.group = "index look-up, through Python"
    benchmark(offset_index.find, 60_000_000)


def test_load(benchmark, offset_index):
    """Measure the first use of a sealed index of 10 MiB in the page cache: map it and sample it."""
    benchmark.group = "index load"
    benchmark.pedantic(lambda: len(OffsetIndex.open_sealed(offset_index.path, 0)), rounds=30)


def test_check(benchmark, offset_index):
    benchmark.group = "index check, per entry"
    benchmark.pedantic(offset_index.check, (1 << 62,), rounds=20)
    per_item_ns(benchmark, ENTRIES["offset"])


def test_append(benchmark, tmp_path):
    """Measure appends through Python, with a write to the file for every 1,000 entries."""
    benchmark.group = "index append, per entry"

    def append():
        index = OffsetIndex.create(tmp_path / "0.index", 0, 1 << 20)
        for i in range(1, 10_001):
            index.append(i, i)
            if i % 1_000 == 0:
                index.flush(False)

    benchmark.pedantic(append, rounds=20)
    per_item_ns(benchmark, 10_000)
