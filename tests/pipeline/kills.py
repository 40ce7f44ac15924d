"""Exactly once under fire: an export is killed again and again while its topic grows.

In the end the table has every record once.

`python -m tests.pipeline export` is the long form: kills at random moments, with a seed. The quick form is
`test_kills.py`, which kills at every step that changes a file.
"""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kraft import Log, LogConfig, LogDir
from kraft.pipeline import export, merge, parquet, table
from kraft.pipeline.origins import origin_of
from kraft.pipeline.parquet import FileSettings
from kraft.pipeline.table import Table, covered, live_files
from kraft.pipeline.workers import Threads
from kraft_native.batch.control import marker
from kraft_native.batch.records import BatchBuilder
from kraft_native.file import file_io

# Processes are forked from one that has imported everything and runs nothing.
PROCESSES: Final = multiprocessing.get_context("forkserver")
MODULES: Final = ["tests.pipeline.kills", "pyarrow.dataset", "pyarrow.parquet", "pyarrow.compute"]
PARTITIONS: Final = 2
SETTINGS: Final = FileSettings()


def run_export(logs: Path, target: Path, records_max: int, merge_below: int = 0) -> None:
    """Export batches until none is left, then merge small files."""
    source = {"path": str(logs), "kafka.isolation.level": "read_committed"}
    origin = origin_of(source)
    with Table(target, {"by": "hour"}) as opened:
        while (batch := export.plan_batch(origin, target, opened.last(), records_max=records_max)).spans:
            export.run_batch(opened, source, SETTINGS, Threads(2), batch)
        if merge_below:
            merge.merge_small(opened, SETTINGS, merge_below)


def run_until_step(logs: Path, target: Path, records_max: int, merge_below: int, step: int) -> None:
    """Do as `run_export`; the process kills itself just before its `step`-th change of a file."""
    left = step

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return function(*arguments, **named)
        return changed

    class Files:
        """`file_io` as the table sees it."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(file_io, name)
            return counted(found) if name in ("write_atomic", "rename", "unlink", "sync_directory") else found

    table.file_io = Files()  # type: ignore[assignment, attr-defined]
    os.link = counted(os.link)
    for module in (parquet, merge):
        module.make_durable = counted(parquet.make_durable)  # type: ignore[attr-defined]
    run_export(logs, target, records_max, merge_below)


def rows_of(target: Path) -> Counter[tuple[int, int, bytes]]:
    """Count how often each row is in the table, for a reader that does not know commits."""
    import pyarrow.dataset as ds

    found = ds.dataset(target, format="parquet", partitioning="hive").to_table(["partition", "offset", "value"])
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


def check(target: Path, ends: dict[int, int], committed: Mapping[int, Iterable[int]] | None = None) -> list[str]:
    """Faults of the table; the value of a record is its offset. `committed`: the offsets of the records to export, all
    of them by default."""
    records = {partition: range(end) for partition, end in ends.items()} if committed is None else committed
    wanted = Counter((partition, offset, b"%d" % offset) for partition in ends for offset in records[partition])
    found = rows_of(target)
    wrong = [f"{row}: {found[row]} times, not {wanted[row]}" for row in (wanted | found) if found[row] != wanted[row]]
    if sum(file.rows for file in live_files(target)) != wanted.total():
        wrong.append("the commits count other rows")
    spans = {name.partition: (span.start, span.end) for name, span in covered(target).items()}
    if spans != {partition: (0, end) for partition, end in ends.items()}:
        wrong.append(f"the commits cover {spans}")
    return wrong


def append(logs: Path, counts: dict[int, int]) -> dict[int, int]:
    """Append so many records to each partition; return where they end."""
    ends = {}
    with LogDir(logs, node_id=1, config=LogConfig(segment_bytes=200_000)) as opened:
        for partition, count in counts.items():
            log = opened.log("orders", partition)
            first = log.log_end_offset
            log.append_records((b"%d" % offset, None, 1_700_000_000_000 + offset * 60_000, ())
                               for offset in range(first, first + count))
            ends[partition] = log.log_end_offset
    return ends


class Transactions:
    """Transactions that are appended to the partitions of a topic. Some are aborted. The last one of each `append`
    stays open until the next. `committed` has the offsets of the committed records."""

    def __init__(self, chance: random.Random) -> None:
        self.committed: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self._chance = chance
        self._open: dict[int, range] = {}
        self._sequences = dict.fromkeys(range(PARTITIONS), 0)

    def append(self, logs: Path, counts: dict[int, int]) -> dict[int, int]:
        """Append so many records to each partition; return where the committed ones end."""
        with LogDir(logs, node_id=1, config=LogConfig(segment_bytes=200_000)) as opened:
            for partition, count in counts.items():
                log = opened.log("orders", partition)
                while count > 0:
                    self._end(log, partition)
                    size = min(count, self._chance.randint(1, 700))
                    self._begin(log, partition, size)
                    count -= size
        return {partition: found.start for partition, found in self._open.items()}

    def _begin(self, log: Log, partition: int, count: int) -> None:
        first = log.log_end_offset
        builder = BatchBuilder(transactional=True)
        for offset in range(first, first + count):
            builder.append(b"%d" % offset, None, 1_700_000_000_000 + offset * 60_000)
        log.append(builder.build(producer_id=1 + partition, producer_epoch=0, base_sequence=self._sequences[partition]))
        self._sequences[partition] += count
        self._open[partition] = range(first, first + count)

    def _end(self, log: Log, partition: int) -> None:
        if (records := self._open.pop(partition, None)) is None:
            return
        is_committed = self._chance.random() < 0.7
        log.append(marker(commit=is_committed, producer_id=1 + partition, producer_epoch=0, coordinator_epoch=0,
                          timestamp_ms=1_700_000_000_000), origin="coordinator")
        if is_committed:
            self.committed[partition] += records


def in_process(function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> int:
    """Run it in a process of its own, which is killed after so many seconds; return the exit code."""
    process = PROCESSES.Process(target=function, args=arguments)
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
    code = process.exitcode
    process.close()
    return -1 if code is None else code


def one_run(seed: int, top: Path, *, transactions: bool) -> tuple[int, list[str]]:
    """Grow a topic and kill its export at random moments; return (kills, faults in the end)."""
    chance = random.Random(seed)
    written = Transactions(chance) if transactions else None
    grow = append if written is None else written.append
    logs, target, kills = top / "logs", top / "table", 0
    ends: dict[int, int] = {}
    whole = 1.0
    for _ in range(chance.randint(2, 4)):
        ends = grow(logs, {partition: chance.randint(1, 6_000) for partition in range(PARTITIONS)})
        for _ in range(chance.randint(1, 4)):
            records, below = chance.choice([500, 3_000, 100_000]), chance.choice([0, 1 << 20])
            begin = time.monotonic()
            if in_process(run_export, logs, target, records, below, seconds=chance.uniform(0, whole)) == 0:
                whole = max(time.monotonic() - begin, 0.1)
            else:
                kills += 1
    code = in_process(run_export, logs, target, 100_000)
    if code:
        return kills, [f"the last export ended with {code}"]
    return kills, check(target, ends, None if written is None else written.committed)
