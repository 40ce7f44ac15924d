"""Search of 8 MB of batches of 1 KiB records: for bytes that no record has, and for bytes that each has. `extra_info`
has megabytes a second."""

import random

import pytest

from kraft_native.batch.records import BatchBuilder
from kraft_native.columns.search import find_records

RECORDS, RECORD_BYTES, IN_BATCH = 8_000, 1_000, 16


def batches(codec: str = "none") -> bytes:
    source, found = random.Random(1), b""
    letters = "".join(source.choices("abcdefghijklmnopqrstuvwxyz ", k=RECORD_BYTES * 4))
    parts = []
    for base in range(0, RECORDS, IN_BATCH):
        builder = BatchBuilder(codec)
        for _ in range(IN_BATCH):
            at = source.randrange(RECORD_BYTES * 3)
            builder.append(f"the {letters[at:at + RECORD_BYTES - 4]}".encode(), timestamp_ms=1_700_000_000_000)
        parts.append(builder.build(base))
    return found.join(parts)


@pytest.mark.parametrize(("needle", "codec"), [(b"customer-4711", "none"), (b"the customer-4711", "none"),
                                               (b"customer-4711", "lz4")])
def test_bytes_that_no_record_has(benchmark, needle, codec):
    data = batches(codec)
    assert benchmark(find_records, data, needle).records == []
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["MB/s"] = round(RECORDS * RECORD_BYTES / benchmark.stats.stats.median / 1e6)


def test_walk_of_every_record(benchmark):
    """The bytes are in every batch, but never in a key."""
    data = batches()
    assert benchmark(find_records, data, b"the ", where=1).records == []
    if benchmark.stats:
        benchmark.extra_info["MB/s"] = round(len(data) / benchmark.stats.stats.median / 1e6)
