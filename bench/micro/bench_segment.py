"""Reading a segment: walking checked bytes, checking unchecked ones, finding one offset. `extra_info` has GB/s or ns,
in the median round. The bytes are in the page cache."""

import random
import statistics

import pytest

from kraft_native.base.crc import checksum
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

SEGMENT_BYTES = 64 << 20
LOOKUPS = 2_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Log directory with one sealed segment of 16 KiB batches and an active one behind it."""
    path = tmp_path_factory.mktemp("segment") / "log"
    builder = BatchBuilder()
    for _ in range(150):
        builder.append(random.Random(1).randbytes(88), timestamp_ms=1_700_000_000_000)
    data = builder.build()
    with Log(path, LogConfig(segment_bytes=SEGMENT_BYTES)) as log:
        while len(log.segments) == 1:
            log.append(data)
    return path


def walk(log):
    total = offset = 0
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20)
        total += len(piece)
        offset = piece.next_offset
    return total


def speed(benchmark):
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(SEGMENT_BYTES / statistics.median(benchmark.stats.stats.data) / 1e9, 2)


def test_first_read_with_check(benchmark, directory):
    benchmark.group = "read, 64 MiB in 1 MiB slices of 16 KiB batches"

    def fresh():
        return (Log(directory),), {}

    def read(log):
        walk(log)
        log.close()

    benchmark.pedantic(read, setup=fresh, rounds=10)
    speed(benchmark)


def test_read_again(benchmark, directory):
    benchmark.group = "read, 64 MiB in 1 MiB slices of 16 KiB batches"
    with Log(directory) as log:
        walk(log)
        benchmark.pedantic(walk, (log,), rounds=20)
    speed(benchmark)


def test_crc_alone(benchmark, directory):
    benchmark.group = "read, 64 MiB in 1 MiB slices of 16 KiB batches"
    data = next(iter(sorted(directory.glob("*.log")))).read_bytes()
    pieces = [memoryview(data)[at:at + 16384] for at in range(0, len(data), 16384)]
    benchmark.pedantic(lambda: [checksum(piece) for piece in pieces], rounds=20, warmup_rounds=1)
    speed(benchmark)


@pytest.mark.parametrize("what", ["offset", "time"])
def test_find(benchmark, directory, what):
    benchmark.group = f"find one {what}, called from Python"
    with Log(directory) as log:
        walk(log)
        generator = random.Random(2)
        wanted = [generator.randrange(log.log_end_offset) for _ in range(LOOKUPS)]

        def by_offset():
            for offset in wanted:
                log.read(offset, 0)

        def by_time():
            for _ in wanted:
                log.offset_for_time(1_700_000_000_000)

        benchmark.pedantic(by_offset if what == "offset" else by_time, rounds=20, warmup_rounds=1)
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["ns"] = round(statistics.median(benchmark.stats.stats.data) / LOOKUPS * 1e9)
