"""The machine itself: memory copy, CRC kernel, page cache, direct I/O, flush."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.machine import kernel, limit
from bench.table import Bench, Row, absolute
from kraft_native.base import crc

GB = 1e9
SIZES = ((4 << 10, "4 KiB"), (16 << 10, "16 KiB"), (1 << 20, "1 MiB"))


def rows(bench: Bench) -> Iterator[Row]:
    if not bench.wants("machine"):
        return
    for size, name in SIZES[1:]:
        yield absolute(f"machine: memcpy, {name}", "GB/s",
                       partial(_copy, size), repeats=bench.turns)
        yield absolute(f"machine: CRC kernel {crc.kernel_name()}, {name}", "GB/s",
                       partial(_crc, size), repeats=bench.turns)
    total = bench.count(1 << 30)
    for size, name in SIZES:
        for how, words in (("new", "new file"), ("over", "recycled file")):
            yield absolute(f"machine: write {name} blocks to page cache, {words}", "GB/s",
                           partial(write, bench, size, total, how), repeats=bench.turns)
    path = bench.fresh("direct")
    yield absolute("machine: direct I/O, 1 MiB blocks, preallocated", "GB/s",
                   lambda: limit("direct", path, 1 << 20, total)["bytes_per_s"] / GB, repeats=bench.turns)
    path.unlink()
    for how, words in (("append", "appended"), ("over", "written before")):
        path = bench.fresh("sync")
        yield absolute(f"machine: 4 KiB + fdatasync, {words}, median", "us",
                       partial(_sync, path, bench.count(1000), how),
                       repeats=bench.turns, better="less")


def _copy(size: int) -> float:
    return limit("memcpy", size, 0.2)["bytes_per_s"] / GB


def _crc(size: int) -> float:
    return kernel(bytes(size))


def _sync(path: Path, times: int, how: str) -> float:
    return limit("sync", path, 4096, times, how)["p50_us"]


def write(bench: Bench, size: int, total: int, how: str) -> float:
    path = bench.home / "write"
    if how == "new":
        path.unlink(missing_ok=True)
    elif not path.exists():
        limit("write", path, 1 << 20, total, "new")
    return limit("write", path, size, total, how)["bytes_per_s"] / GB
