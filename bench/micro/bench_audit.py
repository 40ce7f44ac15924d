"""Audit of a segment file, every batch and index entry. `extra_info` has GB/s in the median round."""

import os

import pytest

from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.segment.audit import SegmentAudit

FILE_BYTES = 64 << 20


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("audit") / "log"
    builder = BatchBuilder()
    for _ in range(150):
        builder.append(os.urandom(100))
    batch = builder.build()
    with Log(directory) as log:
        for _ in range(FILE_BYTES // len(batch)):
            log.append(batch)
    return next(directory.glob("*.log"))


@pytest.mark.parametrize("crc", [True, False], ids=["crc", "no-crc"])
def test_walk(benchmark, path, crc):
    def walk():
        with SegmentAudit(path, 0, check_crc=crc) as audit:
            while audit.step():
                pass
            return audit.sound_bytes

    size = benchmark(walk)
    assert size == path.stat().st_size
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(size / benchmark.stats.stats.median / 1e9, 1)
