"""Compaction beside the least that its input and output cost: reading the log once, and writing what stays.

`measure` returns the figures of one log, for other benchmarks too. Both sides work in the page cache and flush what
they wrote. The bare side has no keys to look at: it reads all segments by pread, computes CRC-32C over every byte,
writes as many bytes as compaction kept by pwrite, and flushes; the median of three counts, since compaction has one
try. Compaction reads the dirty part, here all of it, a second time, and removes its sources; that is on its account,
but for the end of freeing the last one's blocks, which a thread does after `compact` has returned (`seconds_close`: how
long closing the log took).
`seconds_flush` is how much of the bare side was the flush, which says how far the disk rules; the ratio of processor
times is less disturbed by others.

    python bench/micro/bench_cleaner.py [MiB]      the two variants at that size, 1024 MiB unless said otherwise
"""

import os
import random
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kraft_native import crc
from kraft_native.config import LogConfig
from kraft_native.log import Log
from kraft_native.records import BatchBuilder

CHUNK_BYTES = 1 << 20
BATCH_BYTES = 16 << 10
START_MS = 1_700_000_000_000


def fill(directory: Path, records: int, keys: int, value_bytes: int) -> None:
    """`records` records with random keys of `keys`, in batches of 16 KiB, and an empty active segment."""
    source = random.Random(1)
    config = LogConfig(cleanup_policy="compact", segment_bytes=256 << 20, segment_ms=1 << 50)
    value = source.randbytes(value_bytes)
    per_batch = max(1, BATCH_BYTES // (value_bytes + 30))
    builder = BatchBuilder()
    with Log(directory, config) as log:
        while records > 0:
            for _ in range(min(per_batch, records)):
                builder.append(value, b"key-%012d" % source.randrange(keys), START_MS)
            records -= per_batch
            log.append(builder.build(), now_ms=START_MS)
            builder.clear()
        log.roll()


def bare(paths: list[Path], kept_bytes: int, target: Path) -> tuple[float, float, float]:
    """Seconds to read and check the files and write and flush `kept_bytes`; of the processor; of the flush alone."""
    buffer = bytearray(CHUNK_BYTES)
    view = memoryview(buffer)
    # What others left to be written would be flushed with ours.
    os.sync()
    started, cpu = time.perf_counter(), time.process_time()
    written = 0
    fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for path in paths:
        source = os.open(path, os.O_RDONLY)
        position = 0
        while count := os.preadv(source, [buffer], position):
            crc.checksum(view[:count])
            position += count
            keep = min(count, kept_bytes - written)
            if keep > 0:
                os.pwrite(fd, view[:keep], written)
                written += keep
        os.close(source)
    flushing = time.perf_counter()
    os.fsync(fd)
    os.close(fd)
    ended, cpu = time.perf_counter(), time.process_time() - cpu
    os.unlink(target)
    return ended - started, cpu, ended - flushing


def measure(directory: Path, records: int, keys: int, value_bytes: int,
            buffer_bytes: int = 128 << 20) -> dict[str, float]:
    """Fills a log below `directory`, compacts it once, and gives the figures; removes it again."""
    path, copy = directory / "log", directory / "copy"
    try:
        # Two logs alike: a copy of one would lie in the page cache in larger pieces, which are cheaper to read.
        for each in (copy, path):
            fill(each, records, keys, value_bytes)
        with Log(path) as log:
            log.reconfigure(LogConfig(cleanup_policy="compact", segment_bytes=256 << 20, segment_ms=1 << 50))
            names = [Path(os.fsdecode(segment.path)) for segment in log.segments]
            kept = path.parent / "kept"
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            copies = [copy / name.name for name in names]
            # In a virtual machine the first use of a page costs more than all else here: both sides get used ones.
            bare(copies, log.size_bytes, kept)
            cpu = time.process_time()
            stats = log.compact(START_MS, buffer_bytes=buffer_bytes, force=True)
            cpu = time.process_time() - cpu
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
            closing = time.perf_counter()
        closing = time.perf_counter() - closing
        seconds_bare, cpu_bare, seconds_flush = sorted(bare(copies, stats.bytes_written, kept) for _ in range(3))[1]
        return {
            "records": stats.records_read, "records_kept": stats.records_kept, "map_keys": stats.map_keys,
            "rounds": stats.rounds, "bytes_before": stats.bytes_before, "bytes_written": stats.bytes_written,
            "resident_growth_bytes": resident * 1024, "seconds": round(stats.seconds, 3),
            "seconds_close": round(closing, 3),
            "seconds_bare": round(seconds_bare, 3), "seconds_flush": round(seconds_flush, 3),
            "ratio": round(stats.seconds / seconds_bare, 2), "cpu_seconds": round(cpu, 3),
            "cpu_seconds_bare": round(cpu_bare, 3), "cpu_ratio": round(cpu / cpu_bare, 2),
            "mb_per_second": round(stats.bytes_before / 1e6 / stats.seconds),
            "records_per_second": round(stats.records_read / stats.seconds),
        }
    finally:
        for each in (copy, path):
            shutil.rmtree(each, ignore_errors=True)


# Values and keys at a size of 1 GiB; smaller logs have fewer of both.
VARIANTS = {"1 KiB values": (1 << 20, 1_000_000, 990), "100 B values": (10_000_000, 1_000_000, 75)}


def variant(directory: Path, name: str, mib: int) -> dict[str, float]:
    records, keys, value_bytes = VARIANTS[name]
    return measure(directory, records * mib // 1024, max(1, keys * mib // 1024), value_bytes)


@pytest.mark.parametrize("name", VARIANTS)
def test_compaction(benchmark, tmp_path, name):
    figures = variant(tmp_path, name, 64)
    benchmark.extra_info.update(figures)
    benchmark.pedantic(lambda: None)


def main() -> None:
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    for name in VARIANTS:
        with tempfile.TemporaryDirectory() as directory:
            print(name, variant(Path(directory), name, mib))


if __name__ == "__main__":
    main()
