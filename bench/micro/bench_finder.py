"""Single records by their offsets at random, of batches that fit into what is kept. `extra_info` has thousands per
second."""

import random

import pytest

from kraft import Log
from kraft_native.batch.finder import RecordFinder
from kraft_native.batch.records import BatchBuilder

RECORDS, LOOKUPS = 50_000, 5_000
OFFSETS = random.Random(2).choices(range(RECORDS), k=LOOKUPS)


def rate(benchmark):
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["thousand/s"] = round(LOOKUPS / benchmark.stats.stats.median / 1e3)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_find(benchmark, codec):
    """Batches of 1,000 records, without a log."""
    benchmark.group = "one record by its offset"
    source, batches = random.Random(1), []
    for base in range(0, RECORDS, 1_000):
        builder = BatchBuilder(codec)
        for _ in range(1_000):
            builder.append(source.randbytes(50), timestamp_ms=1_700_000_000_000)
        batches.append(builder.build(base))
    finder = RecordFinder()

    def find():
        for offset in OFFSETS:
            finder.find(batches[offset // 1_000], offset)

    benchmark(find)
    rate(benchmark)


@pytest.mark.parametrize("in_batch", [1, 100, 10_000])
def test_get(benchmark, tmp_path, in_batch):
    """The same from a log."""
    benchmark.group = "one record by its offset"
    source = random.Random(1)
    with Log.open(tmp_path / "log", durability="page-cache") as log:
        for _ in range(0, RECORDS, in_batch):
            log.append_records([source.randbytes(100) for _ in range(in_batch)])

        def get():
            for offset in OFFSETS:
                log.get(offset)

        benchmark(get)
    rate(benchmark)
