"""Walking batches: in compiled code with and without the CRC, and as Python views. `extra_info` has GB/s of batches."""

import pytest

from kraft_native.batch.batch import count_batches, walk
from kraft_native.batch.records import BatchBuilder

LOG_BYTES = 16 << 20


def log_of(batch_bytes):
    builder = BatchBuilder()
    while builder.size_in_bytes < batch_bytes - 110:
        builder.append(bytes(100), timestamp_ms=1_700_000_000_000)
    batch = builder.build()
    return batch * (LOG_BYTES // len(batch))


def gigabytes(benchmark, size):
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(size / benchmark.stats.stats.min / 1e9, 2)


@pytest.mark.parametrize("check_crc", [False, True], ids=["structure", "crc"])
@pytest.mark.parametrize("batch_bytes", [1024, 16384, 1 << 20])
def test_count(benchmark, batch_bytes, check_crc):
    benchmark.group = "walk, compiled"
    data = log_of(batch_bytes)
    assert benchmark(count_batches, data, check_crc=check_crc)[1] == len(data)
    gigabytes(benchmark, len(data))


def test_views(benchmark):
    benchmark.group = "walk, Python views of 16 KiB batches"
    data = log_of(16384)
    benchmark(lambda: sum(batch.record_count for batch in walk(data, check_crc=False)))
    gigabytes(benchmark, len(data))
