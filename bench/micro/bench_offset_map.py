"""The map of a compaction: 200,000 keys inserted and found. `extra_info` has ns a key in the median round."""

import statistics

import pytest

from kraft_native.compact.offset_map import OffsetMap

KEYS = 200_000


@pytest.fixture(scope="module")
def keys():
    return [b"key-%012d" % number for number in range(KEYS)]


def filled(keys):
    made = OffsetMap(KEYS * 48)
    for offset, key in enumerate(keys):
        made[key] = offset
    return made


def per_key_ns(benchmark):
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["ns"] = round(statistics.median(benchmark.stats.stats.data) / KEYS * 1e9, 1)


def test_put(benchmark, keys):
    assert len(benchmark(filled, keys)) == KEYS
    per_key_ns(benchmark)


def test_get(benchmark, keys):
    made = filled(keys)
    assert benchmark(lambda: sum(map(made.__getitem__, keys))) == KEYS * (KEYS - 1) // 2
    per_key_ns(benchmark)
