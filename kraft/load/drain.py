"""Drain of a backlog: producers append until so much is unread, then readers catch up with them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kraft.client import Cluster, Connection
from kraft.client.partitions import LATEST
from kraft.load.generate import Generated, producer_specs, reader_specs
from kraft.load.intervals import Interval, Watch, difference, total
from kraft.load.measure import Measurement, Sampler
from kraft.load.places import WHOLE
from kraft.load.relay import for_core
from kraft.load.runner import POLL_SECONDS, Runner
from kraft.load.workload import Workload
from kraft_native.base.errors import OperationError
from kraft_native.bench.load_generator import Load, LoadResult

SECONDS_MAX: Final = 86_400.0


class Backlog(NamedTuple):
    """A backlog to build. It is drained when at most 1 - `ratio` of it is unread. Building it may take
    `build_seconds`, draining it `drain_seconds`."""

    data_bytes: int
    ratio: float = 1.0
    build_seconds: float = 600.0
    drain_seconds: float = 600.0


def drain(workload: Workload, cluster: Cluster, backlog: Backlog, *, pids: Sequence[int] = (),
          report: Callable[[Interval], None] | None = None) -> Measurement:
    """Measure the drain of a backlog by an end-to-end workload, whose producers send all the time. Latencies and rates
    are those since the readers began, and end to end those of batches that were due since then. `Measurement.backlog`
    has bytes and records of the backlog, the seconds of both parts, and the records that were unread at the end.

    Raises `OperationError` when the backlog is not built in time.
    """
    sampler = Sampler(workload, cluster, pids)
    connections: list[Connection] = []
    try:
        # The readers' offsets are the current ends: all that is appended from here on is unread.
        read = reader_specs(workload, cluster, WHOLE, connections, LATEST)
        sent = producer_specs(workload, cluster, WHOLE, connections, stamped=True)
        with for_core([*read, *sent], connections) as (loaded, _):
            readers, producers = (Runner(Load(each), SECONDS_MAX) for each in (loaded[:len(read)], loaded[len(read):]))
            return _run(workload, backlog, sampler, producers, readers, report)
    finally:
        for each in connections:
            each.close()


def _run(workload: Workload, backlog: Backlog, sampler: Sampler, producers: Runner, readers: Runner,
         report: Callable[[Interval], None] | None) -> Measurement:
    began = time.monotonic()
    producers.start()
    try:
        before = _built(backlog, producers)
        build_seconds = time.monotonic() - began
        sampler.begin()
        readers.start()
        began = time.monotonic()
        with Watch([producers.load, readers.load], report or _unseen, before=before) as watch:
            left = _drained(workload, backlog, before.accepted_records, producers, readers, began)
            drain_seconds = time.monotonic() - began
            found = total([producers.end(), readers.end()])
            watch.finish(found)
    finally:
        for each in (producers, readers):
            if each.is_running:
                each.stop()
    result = difference(found, before)._replace(elapsed_ns=round(drain_seconds * 1e9))
    busy = max(producers.computed, readers.computed) / (build_seconds + drain_seconds)
    measured = sampler.measurement(Generated(result, busy))
    return replace(measured, backlog={
        "bytes": before.accepted_bytes, "records": before.accepted_records, "build_seconds": build_seconds,
        "drain_seconds": drain_seconds, "limit_seconds": backlog.drain_seconds, "records_left": left})


def _unseen(interval: Interval) -> None:
    """Do nothing with a second."""


def _built(backlog: Backlog, producers: Runner) -> LoadResult:
    """Wait until the producers have appended the backlog; return their counts then."""
    deadline = time.monotonic() + backlog.build_seconds
    while True:
        found = producers.progress()
        if found is not None and found.accepted_bytes >= backlog.data_bytes:
            return found
        if time.monotonic() > deadline:
            done = found.accepted_bytes if found is not None else 0
            raise OperationError(f"the backlog was not built in {backlog.build_seconds:g} s: {done:,} of "
                                 f"{backlog.data_bytes:,} bytes were accepted")
        time.sleep(POLL_SECONDS)


def _drained(workload: Workload, backlog: Backlog, records: int, producers: Runner, readers: Runner,
             began: float) -> int:
    """Wait until the readers have caught up, or for the whole time; return the records that are unread."""
    deadline = began + backlog.drain_seconds
    allowed = round((1 - backlog.ratio) * records) * workload.groups
    sent = producers.progress()
    while True:
        time.sleep(POLL_SECONDS)
        read = readers.progress()           # all that was sent before the pause: what is under way is no backlog
        if sent is not None and read is not None:
            left = max(0, sent.accepted_records * workload.groups - read.records)
            if left <= allowed or time.monotonic() >= deadline:
                return left
        sent = producers.progress()
