"""Compaction beside the least cost of its input and output, and its memory beside its bound.

`bench/micro/bench_cleaner.py` defines that bound and the equal conditions of the two sides.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.micro.bench_cleaner import VARIANTS, variant_turns
from bench.table import Bench, Row

MIB = 1 << 20


def rows(bench: Bench) -> Iterator[Row]:
    mib = bench.count(1024)
    for name in VARIANTS:
        title = f"compaction of {mib:,} MiB, 1 M keys per GiB, {name}"
        if not bench.wants(title):
            continue
        # The promise is for the larger records; the small ones show the keys' share of the work. The number of turns is
        # even: each side goes first in half of them.
        promised = name == "1 KiB values"
        done = variant_turns(bench.home, name, mib, 1 if bench.scale < 1 else 6 if promised else 2)
        row = Row.of_runs(title, "s", [(figures["seconds"], figures["seconds_bare"]) for figures in done],
                          limit_name="read with CRC + write what stays", target=1.5 if promised else None,
                          better="less")
        row.note = (f"{done[0]['records']:,} records, {done[0]['map_keys']:,} different keys among them; ratios "
                    + ", ".join(f"{ours / limit:.2f}" for ours, limit in row.runs))
        yield row
        yield Row.of_runs(f"memory of that compaction, {name}", "MiB",
                          [(figures["resident_growth_bytes"] / MIB, figures["resident_bound_bytes"] / MIB)
                           for figures in done],
                          limit_name="buffer_bytes + 12 MiB", target=1.0, better="less")
