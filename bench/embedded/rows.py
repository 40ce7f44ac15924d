"""Rows of the comparison: one load, measured on every store that can do it, alternately."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench.embedded.stores import MODULES, NEVER_DURABLE, ONE_BY_ONE, STORES, WITHOUT_NUMBERS, SqliteStore, Store
from bench.table import seconds
from kraft import Appender, Log

VALUE_BYTES = 100
BATCH = 256
THREADS = 16
DISK = "fdatasync"
"""Name of the disk's own figure: a write of the same bytes to a growing file, and a flush."""


@dataclass
class Row:
    """One load. `runs`: for each store the figures of all turns, in `unit`."""

    name: str
    unit: str
    runs: dict[str, list[float]] = field(default_factory=dict)
    better: str = "more"

    def value(self, store: str) -> float | None:
        """Return the median of a store, None where it cannot do this."""
        return median(self.runs[store]) if self.runs.get(store) else None


@dataclass(frozen=True)
class Run:
    """Settings of all rows: the directory, a factor of all counts, and the turns."""

    home: Path
    scale: float
    turns: int

    def count(self, full: int) -> int:
        return max(BATCH, int(full * self.scale) // BATCH * BATCH)

    def fresh(self) -> Path:
        """Return an empty directory."""
        path = self.home / "store"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def measure(self, name: str, unit: str, sides: dict[str, Callable[[], float]], better: str = "more") -> Row:
        """Measure all sides once uncounted, then alternately."""
        row = Row(name, unit, {side: [] for side in sides}, better)
        for turn in range(self.turns + 1):
            for side, action in sides.items():
                figure = action()
                if turn:
                    row.runs[side].append(figure)
        return row


def installed() -> list[str]:
    """Names of the stores whose modules are installed."""
    return [name for name in STORES if name not in MODULES or find_spec(MODULES[name]) is not None]


def values(count: int) -> list[bytes]:
    source = random.Random(1)
    return [source.randbytes(VALUE_BYTES) for _ in range(count)]


def filled(run: Run, name: str, data: list[bytes]) -> Store:
    """Return a new store with all values, appended in batches and not durable."""
    store = STORES[name](run.fresh() / name, durable=False)
    for at in range(0, len(data), 10_000):
        store.append_all(data[at:at + 10_000])
    return store


def rows(run: Run) -> Iterator[Row]:
    names = installed()
    yield appends(run, [name for name in names if name not in NEVER_DURABLE], durable=True)
    yield batches(run, [name for name in names if name not in (*NEVER_DURABLE, *ONE_BY_ONE)])
    yield threads(run)
    yield appends(run, names, durable=False)
    yield scans(run, names)
    yield gets(run, [name for name in names if name not in WITHOUT_NUMBERS])
    yield sizes(run, names)


def appends(run: Run, names: list[str], *, durable: bool) -> Row:
    count = run.count(1_500 if durable else 40_000)
    data = values(count)

    def measured(name: str) -> float:
        store = STORES[name](run.fresh() / name, durable=durable)
        taken = seconds(lambda: deque(map(store.append, data), maxlen=0))
        store.close()
        return count / taken

    sides: dict[str, Callable[[], float]] = {name: partial(measured, name) for name in names}
    if durable:
        sides[DISK] = lambda: flushes(run, data, 1)
    what = "each durable when its call returns" if durable else "in the page cache"
    return run.measure(f"append one by one, {what}", "values/s", sides)


def batches(run: Run, names: list[str]) -> Row:
    data = values(run.count(100_000))
    parts = [data[at:at + BATCH] for at in range(0, len(data), BATCH)]

    def measured(name: str) -> float:
        store = STORES[name](run.fresh() / name, durable=True)
        taken = seconds(lambda: deque(map(store.append_all, parts), maxlen=0))
        store.close()
        return len(data) / taken

    sides: dict[str, Callable[[], float]] = {name: partial(measured, name) for name in names}
    sides[DISK] = lambda: flushes(run, data, BATCH)
    return run.measure(f"append {BATCH} at a time, durable when the call returns", "values/s", sides)


def flushes(run: Run, data: list[bytes], together: int) -> float:
    """Write values to a new file, with one flush for so many of them; return values per second."""
    descriptor = os.open(run.fresh() / "plain", os.O_WRONLY | os.O_CREAT)

    def work() -> None:
        for at in range(0, len(data), together):
            os.write(descriptor, b"".join(data[at:at + together]))
            os.fdatasync(descriptor)

    taken = seconds(work)
    os.close(descriptor)
    return len(data) / taken


def threads(run: Run) -> Row:
    """Measure threads that append one value each and wait until it is durable: an `Appender`, and a connection of
    SQLite for each thread."""
    each = run.count(3_000) // THREADS
    data = values(each)

    def together(work: Callable[[], object]) -> float:
        workers = [threading.Thread(target=work) for _ in range(THREADS)]
        taken = seconds(lambda: [*map(threading.Thread.start, workers), *map(threading.Thread.join, workers)])
        return each * THREADS / taken

    def ours() -> float:
        with Appender(run.fresh() / "kraft", durability="group-commit") as log:
            return together(lambda: deque(map(Future.result, map(log.append, data)), maxlen=0))

    def sqlite() -> float:
        path = run.fresh() / "SQLite"
        SqliteStore(path, durable=True).close()

        def work() -> None:
            store = SqliteStore(path, durable=True)
            store.connection.execute("PRAGMA busy_timeout=60000")
            for value in data:
                store.append(value)
            store.close()

        return together(work)

    return run.measure(f"{THREADS} threads, each waits until its value is durable", "values/s",
                       {"kraft": ours, "SQLite": sqlite})


def scans(run: Run, names: list[str]) -> Row:
    data = values(run.count(100_000))

    def measured(name: str) -> float:
        store = filled(run, name, data)
        taken = seconds(lambda: deque(store.values(), maxlen=0))
        store.close()
        return len(data) / taken

    def columns() -> float:
        with Log(run.fresh() / "kraft") as log:
            log.append_records(data)
            return len(data) / seconds(lambda: deque(log.arrow(columns=["value"]), maxlen=0))

    sides: dict[str, Callable[[], float]] = {name: partial(measured, name) for name in names}
    sides["kraft, as Arrow columns"] = columns
    return run.measure("read all in their order, from the page cache", "values/s", sides)


def gets(run: Run, names: list[str]) -> Row:
    data = values(run.count(100_000))
    wanted = random.Random(2).choices(range(len(data)), k=run.count(10_000))

    def measured(name: str) -> float:
        store = filled(run, name, data)
        assert store.get(7) == data[7]
        taken = seconds(lambda: deque(map(store.get, wanted), maxlen=0))
        store.close()
        return len(wanted) / taken

    return run.measure("read one by its number, at random", "values/s",
                       {name: partial(measured, name) for name in names})


def sizes(run: Run, names: list[str]) -> Row:
    data = values(run.count(100_000))

    def measured(name: str) -> float:
        filled(run, name, data).close()
        files = [path.stat() for path in run.home.rglob("*") if path.is_file()]
        return sum(each.st_blocks * 512 for each in files) / len(data)

    row = Row(f"disk space of a value of {VALUE_BYTES} bytes", "bytes", better="less")
    row.runs = {name: [measured(name)] for name in names}
    return row
