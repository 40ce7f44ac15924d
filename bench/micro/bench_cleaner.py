"""Compaction beside the least cost of its input and output: reading the log once, and writing what stays.

`measure` returns the figures of one log, for other benchmarks too. Both sides work in the page cache and flush what
they wrote. The bare side has no keys to process. It reads all segments by pread, computes CRC-32C over every byte,
writes as many bytes as compaction kept by pwrite, and flushes. Compaction reads the dirty part, here all of it, a
second time, and removes its sources. Its time includes that, except the end of freeing the last source's blocks. A
thread does that after `compact` has returned (`seconds_close` is the time of closing the log). `seconds_flush` is the
bare side's flush, which shows the disk's share. The ratio of processor times is less disturbed by other processes.

Equal conditions. Both sides get a log of their own, filled alike and not read before. The log that compaction reads
does not exist afterwards. A copy of a file would lie in the page cache in larger pieces, which are cheaper to read.
In a virtual machine that returns free memory to its host, the first use of a page costs more than all else here. It
costs up to two seconds for the written bytes, and the second side finds the pages that the first one freed. So before
each side everything is synced, and several times the memory that it needs is touched (`settle`). Measurements of more
than one log alternate the side that goes first (`kept_bytes`), and use the median of the ratios.

Memory is the largest growth of the resident set while `compact` ran (`resident_growth_bytes`). It stands beside the
map's `buffer_bytes` and the rest according to docs/internals/compaction.md (`resident_bound_bytes`). `buffer_bytes` is
just enough for the keys, so that the map fills it.

    python -m bench.micro.bench_cleaner [MiB]      the two variants with logs of MiB, 1024 MiB by default
"""

import ctypes
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from bench.machine import settle
from kraft_native.base import crc
from kraft_native.batch.records import BatchBuilder
from kraft_native.compact.cleaner import CleanerStats
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

CHUNK_BYTES = 1 << 20
BATCH_BYTES = 16 << 10
START_MS = 1_700_000_000_000
CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=256 << 20, segment_ms=1 << 50)
# Room for 1.2 M keys.
MAP_BYTES = 32 << 20
# Read buffer; write buffer; indexes of the output, threads' stacks, a batch being rebuilt.
OTHER_BYTES = (8 << 20) + (1 << 20) + (3 << 20)
# The system first hands out small pieces of free memory, up to two gigabytes of them; then those last freed.
TOUCHED_PER_LOG = 6


def fill(directory: Path, records: int, keys: int, value_bytes: int) -> None:
    """Write `records` records in batches of 16 KiB, each of `keys` keys at least once, in random order, and an empty
    active segment."""
    source = np.random.default_rng(1)
    value = source.bytes(value_bytes)
    numbers = iter(source.permutation(np.append(np.arange(keys), source.integers(keys, size=records - keys))).tolist())
    per_batch = max(1, BATCH_BYTES // (value_bytes + 30))
    builder = BatchBuilder()
    with Log(directory, CONFIG) as log:
        while records > 0:
            for _ in range(min(per_batch, records)):
                builder.append(value, b"key-%012d" % next(numbers), START_MS)
            records -= per_batch
            log.append(builder.build(), now_ms=START_MS)
            builder.clear()
        log.roll()


def bare(paths: list[Path], kept_bytes: int, target: Path) -> tuple[float, float, float]:
    """Return the seconds to read and check the files and write and flush `kept_bytes`; the processor's; the flush's."""
    buffer = bytearray(CHUNK_BYTES)
    view = memoryview(buffer)
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


def resident_bytes(which: str) -> int:
    """Return `VmRSS`, the current resident set, or `VmHWM`, its largest since `clear_resident_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == which:
            return int(value.split()[0]) * 1024
    raise LookupError(which)


def clear_resident_peak() -> None:
    """Reset the peak. Memory that the allocator kept from earlier use must not hide the current use."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def compacted(path: Path, buffer_bytes: int) -> tuple[CleanerStats, dict[str, float]]:
    """Open the log, settle, and compact it once."""
    with Log(path) as log:
        log.reconfigure(CONFIG)
        settle(TOUCHED_PER_LOG * log.size_bytes)
        clear_resident_peak()
        resident, cpu = resident_bytes("VmRSS"), time.process_time()
        stats = log.compact(START_MS, buffer_bytes=buffer_bytes, force=True)
        cpu = time.process_time() - cpu
        growth = resident_bytes("VmHWM") - resident
        closing = time.perf_counter()
    closing = time.perf_counter() - closing
    return stats, {
        "records": stats.records_read, "records_kept": stats.records_kept, "map_keys": stats.map_keys,
        "rounds": stats.rounds, "bytes_before": stats.bytes_before, "bytes_written": stats.bytes_written,
        "resident_growth_bytes": growth, "resident_bound_bytes": buffer_bytes + OTHER_BYTES,
        "seconds": round(stats.seconds, 3), "seconds_close": round(closing, 3), "cpu_seconds": round(cpu, 3),
        "mb_per_second": round(stats.bytes_before / 1e6 / stats.seconds),
        "records_per_second": round(stats.records_read / stats.seconds),
    }


def measure(directory: Path, records: int, keys: int, value_bytes: int, *, buffer_bytes: int = MAP_BYTES,
            kept_bytes: int | None = None) -> dict[str, float]:
    """Fill two logs below `directory`, compact one, read the other and write as much; remove both again.

    `kept_bytes` is the size that compaction keeps of such a log, known from an earlier measurement. With it the bare
    side goes first, otherwise compaction.
    """
    path, copy, kept = directory / "log", directory / "copy", directory / "kept"
    try:
        for each in (copy, path):
            fill(each, records, keys, value_bytes)
        copies = sorted(copy.glob("*.log"))
        copied_bytes = sum(each.stat().st_size for each in copies)
        if kept_bytes is not None:
            settle(TOUCHED_PER_LOG * copied_bytes)
            seconds_bare, cpu_bare, seconds_flush = bare(copies, kept_bytes, kept)
        stats, figures = compacted(path, buffer_bytes)
        if kept_bytes is None:
            settle(TOUCHED_PER_LOG * copied_bytes)
            seconds_bare, cpu_bare, seconds_flush = bare(copies, stats.bytes_written, kept)
        elif kept_bytes != stats.bytes_written:
            raise AssertionError(f"compaction kept {stats.bytes_written} bytes, the bare side wrote {kept_bytes}")
        return figures | {
            "seconds_bare": round(seconds_bare, 3), "seconds_flush": round(seconds_flush, 3),
            "ratio": round(stats.seconds / seconds_bare, 2),
            "cpu_seconds_bare": round(cpu_bare, 3), "cpu_ratio": round(figures["cpu_seconds"] / cpu_bare, 2),
        }
    finally:
        for each in (copy, path):
            shutil.rmtree(each, ignore_errors=True)


# Values and keys at a size of 1 GiB; smaller logs have fewer of both.
VARIANTS = {"1 KiB values": (1 << 20, 1_000_000, 990), "100 B values": (10_000_000, 1_000_000, 75)}


def variant(directory: Path, name: str, mib: int, kept_bytes: int | None = None) -> dict[str, float]:
    records, keys, value_bytes = VARIANTS[name]
    return measure(directory, records * mib // 1024, max(1, keys * mib // 1024), value_bytes, kept_bytes=kept_bytes)


def variant_turns(directory: Path, name: str, mib: int, turns: int) -> list[dict[str, float]]:
    """Return `turns` measurements; compaction goes first in the first one, the bare side in the second, and so on."""
    done: list[dict[str, float]] = []
    for turn in range(turns):
        kept_bytes = int(done[0]["bytes_written"]) if turn % 2 else None
        done.append(variant(directory, name, mib, kept_bytes))
    return done


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
