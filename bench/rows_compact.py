"""Compaction beside the least that its input and its output cost (`bench/micro/bench_cleaner.py` says what that is)."""

from __future__ import annotations

from collections.abc import Iterator

from bench.micro.bench_cleaner import VARIANTS, variant
from bench.table import Bench, Row


def rows(bench: Bench) -> Iterator[Row]:
    for name in VARIANTS:
        if not bench.wants("compaction"):
            continue
        mib = bench.count(1024)
        done = [variant(bench.home, name, mib) for _ in range(1 if bench.scale < 1 else 3)]
        runs = [(figures["seconds"], figures["seconds_bare"]) for figures in done]
        target = 1.5 if name == "1 KiB values" else None
        yield Row.of_runs(f"compaction of {mib:,} MiB, 1 M keys per GiB, {name}", "s", runs,
                          limit_name="read with CRC + write what stays", target=target, better="less")
