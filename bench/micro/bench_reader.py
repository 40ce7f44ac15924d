"""Attaching to a log with a live owner, and reading its visible part. `extra_info` has GB/s in the median round."""

import os

import pytest

from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.facade.reader import LogReader
from kraft_native.segment.config import LogConfig

LOG_BYTES = 64 << 20


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    builder = BatchBuilder()
    for _ in range(150):
        builder.append(os.urandom(100))
    batch = builder.build()
    with Log(tmp_path_factory.mktemp("reader") / "log", LogConfig(segment_bytes=16 << 20)) as made:
        for _ in range(LOG_BYTES // len(batch)):
            made.append(batch)
        yield made


def test_attach(benchmark, log):
    def attach():
        with LogReader(log.directory) as reader:
            return reader.log_end_offset

    assert benchmark(attach) == log.log_end_offset


def test_read(benchmark, log):
    with LogReader(log.directory) as reader:
        def read():
            size = offset = 0
            while offset < log.log_end_offset:
                piece = reader.read(offset, 1 << 20)
                size, offset = size + len(piece), piece.next_offset
            return size

        size = benchmark(read)
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(size / benchmark.stats.stats.median / 1e9, 1)
