"""Partitions of a column of keys by the default partitioner. `extra_info` has million keys a second."""

import numpy as np

from kraft_native.base.murmur import murmur2_partitions

KEYS = 1_000_000
KEY_BYTES = 16


def test_partitions(benchmark):
    data = np.random.default_rng(1).integers(97, 123, KEYS * KEY_BYTES, np.uint8)
    offsets = np.arange(0, KEYS * KEY_BYTES + 1, KEY_BYTES, np.int32)
    found = np.empty(KEYS, np.int32)
    benchmark(murmur2_partitions, offsets, data, 100, found)
    assert found.min() == 0
    assert found.max() == 99
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["M keys/s"] = round(KEYS / benchmark.stats.stats.median / 1e6, 1)
