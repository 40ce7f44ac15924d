"""Writing: appends by size, appends of one record at a time, group commit. Also opening, recovery and compaction."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from statistics import median

from bench.machine import HERE, OUT, compiler, limit
from bench.payload import batch_of
from bench.table import Bench, Row, absolute, paired, seconds
from kraft import Log, LogConfig
from kraft_native.facade.log import Log as NativeLog
from kraft_native.log.flusher import Flusher

GB = 1e9
RECORD = bytes(100)
IN_FLIGHT = 256
GROUP_COMMIT_RECORD_BYTES = 1024
NATIVE = HERE.parent / "kraft_native" / "_c"


def rows(bench: Bench) -> Iterator[Row]:
    for size, name, target in ((16 << 10, "16 KiB", 0.5), (1 << 20, "1 MiB", 0.75)):
        if bench.wants(f"append {name} batches"):
            yield append_batches(bench, size, name, target)
    if bench.wants("append one record"):
        yield from append_records(bench)
    if bench.wants("group commit"):
        yield group_commit(bench)
    if bench.wants("open a clean log"):
        yield open_clean(bench)
    if bench.wants("recovery scan"):
        yield recovery(bench)


def append_batches(bench: Bench, size: int, name: str, target: float) -> Row:
    """Measure validated, checked, assigned and indexed batches, beside plain writes of the same size to a new file."""
    batch = batch_of(size)
    count = bench.count((1 << 30) // len(batch))

    def ours() -> float:
        with NativeLog(bench.fresh("log"), LogConfig(max_message_bytes=2 << 20)) as log:
            taken = seconds(lambda: deque(map(log.append, repeat(batch, count)), maxlen=0))
        shutil.rmtree(bench.home / "log")
        return len(batch) * count / taken / GB

    def plain() -> float:
        path = bench.fresh("plain")
        measured = limit("write", path, len(batch), len(batch) * count, "new")
        path.unlink()
        return measured["bytes_per_s"] / GB

    return paired(f"append {name} batches of 100 B records, page cache", "GB/s", ours, plain,
                  limit_name="pwrite, new file", target=target, repeats=bench.turns)


def append_records(bench: Bench) -> Iterator[Row]:
    count = bench.count(1_000_000)

    def native() -> float:
        with NativeLog(bench.fresh("log")) as log:
            return count / seconds(lambda: deque(map(log.append_record, repeat(RECORD, count)), maxlen=0)) / 1e6

    def through_python() -> float:
        with Log(bench.fresh("log")) as log:
            def loop() -> None:
                for _ in range(count):
                    log.append_record(RECORD, b"key")

            return count / seconds(loop) / 1e6

    def plain() -> float:
        measured = limit("write", bench.fresh("plain"), 170, 170 * count, "new")
        return measured["bytes_per_s"] / 170 / 1e6

    name = "append one record of 100 B"
    bound = plain()
    yield absolute(f"{name}, native call", "M/s", native, target=1.0, repeats=bench.turns, limit=bound,
                   limit_name="pwrite of 170 B in C")
    yield absolute(f"{name} with a key, Python API in a for loop", "M/s", through_python, target=0.4,
                   repeats=bench.turns, limit=bound, limit_name="pwrite of 170 B in C")


def group_commit_program() -> Path:
    program = OUT / "group_commit"
    OUT.mkdir(exist_ok=True)
    subprocess.run([compiler(), "-O2", "-std=c11", f"-I{NATIVE}", "-o", program, HERE / "c" / "group_commit.c",
                    NATIVE / "log/flusher.c", NATIVE / "file/file_io.c", "-lpthread"], check=True)
    return program


def group_commit(bench: Bench) -> Row:
    """Measure durable records through the whole log, beside a minimal C program that does the same. Both files grow.
    Both sides write the next record as soon as less than the window is not durable."""
    program = group_commit_program()
    count = bench.count(200_000)
    record = os.urandom(GROUP_COMMIT_RECORD_BYTES - 80)
    riders: tuple[list[float], list[float]] = [], []

    def ours() -> float:
        config = LogConfig(durability="group-commit")
        with Flusher() as flusher, NativeLog(bench.fresh("log"), config, flusher=flusher) as log:
            def run() -> None:
                durable = 0
                for n in range(count):
                    if n - durable >= IN_FLIGHT:
                        log.wait_durable(n - IN_FLIGHT + 1)
                        durable = log.durable_end_offset
                    log.append_record(record)
                log.wait_durable(count)

            taken = seconds(run)
            riders[0].append(count / flusher.statistics()["flushes"])
        return count / taken / 1e3

    def plain() -> float:
        done = subprocess.run([program, "plain", "append", bench.fresh("plain"), str(count),
                               str(GROUP_COMMIT_RECORD_BYTES), str(IN_FLIGHT)], check=True, capture_output=True)
        found = json.loads(done.stdout)
        riders[1].append(found["records_per_flush"])
        return float(found["records_per_s"]) / 1e3

    row = paired("group commit of 1 KiB records, 256 in flight", "k/s", ours, plain,
                 limit_name="the same pattern in C", target=0.8, repeats=bench.turns + 2)
    row.note = f"records per flush: {median(riders[0]):.0f}, in C {median(riders[1]):.0f}"
    return row


def open_clean(bench: Bench) -> Row:
    count = bench.count(10_000)
    path = bench.fresh("many")
    batch = batch_of(1000)
    with NativeLog(path, LogConfig(segment_bytes=1100)) as log:
        deque(map(log.append, repeat(batch, count)), maxlen=0)
    row = absolute(f"open a clean log of {count:,} segments", "s", lambda: seconds(lambda: NativeLog(path).close()),
                   target=1.0, repeats=bench.turns, better="less")
    shutil.rmtree(path)
    return row


def recovery(bench: Bench) -> Row:
    """Measure the open of a log whose owner was killed before its first checkpoint: every batch is checked, every index
    rewritten.

    The log is on the disk and in the page cache. Otherwise the scan would wait for its flush and measure the disk.
    """
    size = bench.count(1 << 30)
    batch = batch_of(16 << 10)
    path = bench.fresh("crashed")

    def crash() -> None:
        shutil.rmtree(path, ignore_errors=True)
        child = os.fork()
        if child == 0:
            log = NativeLog(path, LogConfig(segment_bytes=256 << 20))
            deque(map(log.append, repeat(batch, size // len(batch))), maxlen=0)
            os._exit(0)
        os.waitpid(child, 0)
        os.sync()

    def ours() -> float:
        crash()
        opened: list[NativeLog] = []
        taken = seconds(lambda: opened.append(NativeLog(path, LogConfig(segment_bytes=256 << 20))))
        assert opened[0].log_end_offset > 0
        opened[0].close()
        return size / taken / GB

    row = absolute("recovery scan after a crash, from page cache", "GB/s", ours, target=2.0, repeats=bench.turns)
    shutil.rmtree(path)
    return row
