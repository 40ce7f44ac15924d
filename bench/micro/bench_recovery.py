"""Opens: a scan of 1 GiB after a crash beside the CRC kernel on the same bytes, and a clean log of 10,000 segments.

`extra_info` has GB/s of the median round; for the clean open also milliseconds, microseconds and bytes of memory per
segment. The files are in the page cache: they were just written.
"""

import mmap
import os
from pathlib import Path

import pytest

from kraft_native.base import crc
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.segment.checkpoints import LogState, write_log_state
from kraft_native.segment.config import LogConfig

SEGMENTS = 4
SEGMENT_BYTES = 256 << 20
SMALL_SEGMENTS = 10_000
START_MS = 1_700_000_000_000


def batch_of(records: int, base_offset: int) -> bytes:
    builder = BatchBuilder("none")
    for number in range(records):
        builder.append(bytes(100), None, START_MS + base_offset + number)
    return builder.build(base_offset, leader_epoch=0)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """Log of 1 GiB of 16 KiB batches (147 records of 100 bytes) in four segments, all flushed."""
    directory = tmp_path_factory.mktemp("recovery") / "log"
    with Log(directory, LogConfig(segment_bytes=SEGMENT_BYTES, segment_ms=1 << 60)) as log:
        data = batch_of(147, 0)
        for _ in range(SEGMENTS * (SEGMENT_BYTES // len(data))):
            log.append(data)
    return directory


def forget(directory: Path, logs: list[Log]) -> None:
    """Close the log of the previous round, and remove all records of that clean close."""
    if logs:
        logs.pop().close()
    (directory / "kraft-log-state").unlink()
    for path in directory.glob("*.snapshot"):
        path.unlink()


def test_scan(benchmark, large):
    """Measure a scan of structure, CRC, indexes, epochs and producers, with a flush of the rebuilt files."""
    benchmark.group = "recovery 1 GiB"
    logs: list[Log] = []

    def scan() -> None:
        logs.append(Log(large, LogConfig(segment_bytes=SEGMENT_BYTES)))

    benchmark.pedantic(scan, setup=lambda: forget(large, logs), rounds=7, warmup_rounds=1)
    report = logs[0].recovery
    assert report.segments_scanned == SEGMENTS
    assert report.intact
    logs.pop().close()
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(report.bytes_scanned / benchmark.stats.stats.median / 1e9, 2)


def test_crc_kernel(benchmark, large):
    """Measure the checksum alone, 16 KiB at a time, over fresh mappings of the same files."""
    benchmark.group = "recovery 1 GiB"
    paths = sorted(large.glob("*.log"))
    size = sum(path.stat().st_size for path in paths)

    def run() -> None:
        for path in paths:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                view = memoryview(mapped)
                for at in range(0, len(view), 16384):
                    piece = view[at:at + 16384]
                    crc.checksum(piece)
                    piece.release()
                view.release()

    benchmark.pedantic(run, rounds=7, warmup_rounds=1)
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(size / benchmark.stats.stats.median / 1e9, 2)


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """Log of 10,000 segments of one batch, as a clean stop leaves it."""
    directory = tmp_path_factory.mktemp("recovery") / "many"
    directory.mkdir()
    for base in range(SMALL_SEGMENTS):
        stem = directory / f"{base:020d}"
        stem.with_suffix(".log").write_bytes(batch_of(1, base))
        stem.with_suffix(".index").write_bytes(b"")
        stem.with_suffix(".timeindex").write_bytes((START_MS + base).to_bytes(8, "big") + bytes(4))
        stem.with_suffix(".snapshot").write_bytes(b"")
    with Log(directory) as log:                    # checks it, writes epochs and snapshot
        assert log.log_end_offset == SMALL_SEGMENTS
    write_log_state(directory, LogState(0, SMALL_SEGMENTS, SMALL_SEGMENTS, True))
    return directory


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_clean_open(benchmark, many):
    def run() -> Log:
        log = Log(many)
        assert log.recovery.clean
        return log

    logs: list[Log] = []
    before = resident_bytes()
    logs.append(run())
    memory = resident_bytes() - before
    logs.pop().close()
    benchmark.pedantic(lambda: logs.append(run()), setup=lambda: logs and logs.pop().close(), rounds=7)
    logs.pop().close()
    benchmark.extra_info["bytes per segment"] = memory // SMALL_SEGMENTS
    if benchmark.stats:             # not with --benchmark-disable
        seconds = benchmark.stats.stats.median
        benchmark.extra_info |= {"ms": round(seconds * 1e3, 1),
                                 "us per segment": round(seconds * 1e6 / SMALL_SEGMENTS, 2)}
