"""Appends to a log, beside plain writes of the same bytes. `extra_info` has GB/s or thousands per second, in the
median round; compare within one run. Every append validates each record, checks the CRC, assigns offsets and updates
the indexes.
"""

import os
import random
import statistics

import pytest

from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

BYTES_PER_ROUND = 32 << 20
RECORDS_PER_ROUND = 20_000
SIZES = {"16 KiB": 16 << 10, "1 MiB": 1 << 20}


def batch_of(size):
    """Return one batch of about `size` bytes with distinct records of 100 bytes."""
    generator = random.Random(1)
    builder = BatchBuilder()
    while builder.size_in_bytes < size - 120:
        builder.append(generator.randbytes(88), timestamp_ms=1_700_000_000_000)
    return builder.build()


def rate(benchmark, unit, amount, scale):
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info[unit] = round(amount / statistics.median(benchmark.stats.stats.data) / scale, 2)


@pytest.fixture
def log(tmp_path):
    with Log(tmp_path / "log", LogConfig()) as opened:
        yield opened


@pytest.mark.parametrize("size", SIZES)
def test_append(benchmark, log, size):
    benchmark.group = f"append, batches of {size}"
    data = batch_of(SIZES[size])

    def append():
        for _ in range(BYTES_PER_ROUND // len(data)):
            log.append(data)

    benchmark.pedantic(append, rounds=10, warmup_rounds=1)
    rate(benchmark, "GB/s", BYTES_PER_ROUND, 1e9)


@pytest.mark.parametrize("size", SIZES)
def test_plain_pwrite(benchmark, tmp_path, size):
    benchmark.group = f"append, batches of {size}"
    data = batch_of(SIZES[size])
    fd = os.open(tmp_path / "plain", os.O_RDWR | os.O_CREAT)
    position = 0

    def write():
        nonlocal position
        for _ in range(BYTES_PER_ROUND // len(data)):
            position += os.pwrite(fd, data, position)

    benchmark.pedantic(write, rounds=10, warmup_rounds=1)
    rate(benchmark, "GB/s", BYTES_PER_ROUND, 1e9)
    os.close(fd)


def test_append_one_record(benchmark, log):
    benchmark.group = "append, one record of 100 bytes"
    value = bytes(100)

    def append():
        for _ in range(RECORDS_PER_ROUND):
            log.append_record(value)

    benchmark.pedantic(append, rounds=20, warmup_rounds=1)
    rate(benchmark, "k/s", RECORDS_PER_ROUND, 1e3)


def test_append_as_follower(benchmark, tmp_path, log):
    benchmark.group = "append, batches of 16 KiB"
    size = 0
    with Log(tmp_path / "leader", LogConfig()) as leader:
        data = batch_of(SIZES["16 KiB"])
        for _ in range(11 * BYTES_PER_ROUND // len(data)):
            leader.append(data)
        pieces = []
        offset = 0
        while offset < leader.log_end_offset:
            piece = leader.read(offset, BYTES_PER_ROUND)
            pieces.append(piece)
            offset = piece.next_offset
            size = max(size, len(piece))
        waiting = iter(pieces[:11])
        benchmark.pedantic(lambda: log.append_as_follower(next(waiting)), rounds=10, warmup_rounds=1)
    rate(benchmark, "GB/s", size, 1e9)


def test_open_many_segments(benchmark, tmp_path):
    benchmark.group = "open, 2,000 segments"
    data = batch_of(1000)
    with Log(tmp_path / "log", LogConfig(segment_bytes=1100)) as log:
        for _ in range(2000):
            log.append(data)
    benchmark.pedantic(lambda: Log(tmp_path / "log").close(), rounds=5, warmup_rounds=1)
