"""Seconds of a run, and sums over several generators."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Self

from kraft_native.bench.load_generator import Load, LoadResult

INTERVAL_SECONDS: Final = 1.0

Pairs = list[tuple[int, int]]
NOTHING: Final = LoadResult(0, 0, 0, 0, 0, 0, 0, 0, [], [], [])


class Interval(NamedTuple):
    """Part of a run: its number from 0, when it began in seconds since 1970, its length, and what was done in it.
    Counts of requests in progress belong to the interval of their answer."""

    number: int
    begin: float
    seconds: float
    done: LoadResult


def total(results: Sequence[LoadResult]) -> LoadResult:
    """Sum of what several generators did at the same time: the longest of their times, and all else added."""
    if not results:
        return NOTHING
    slots = max(len(each.slot_requests) for each in results)
    return LoadResult(
        sum(each.requests for each in results), sum(each.errors for each in results),
        next((each.first_error for each in results if each.first_error), 0),
        sum(each.records_bytes for each in results), sum(each.records for each in results),
        sum(each.bytes_sent for each in results), sum(each.bytes_received for each in results),
        max(each.elapsed_ns for each in results), added(each.latency for each in results),
        added(each.end_to_end for each in results),
        [sum(each.slot_requests[slot] for each in results if slot < len(each.slot_requests)) for slot in range(slots)],
        sum(each.accepted_records for each in results), sum(each.accepted_bytes for each in results))


def added(parts: Iterable[Pairs]) -> Pairs:
    """Pairs (nanoseconds, count) of all parts together."""
    counts: Counter[int] = Counter()
    for part in parts:
        counts.update(dict(part))
    return sorted(counts.items())


def difference(now: LoadResult, before: LoadResult) -> LoadResult:
    """Return what was done between two moments of one run, without slots."""
    return LoadResult(
        now.requests - before.requests, now.errors - before.errors,
        now.first_error if now.errors > before.errors else 0, now.records_bytes - before.records_bytes,
        now.records - before.records, now.bytes_sent - before.bytes_sent, now.bytes_received - before.bytes_received,
        max(0, now.elapsed_ns - before.elapsed_ns), _without(now.latency, before.latency),
        _without(now.end_to_end, before.end_to_end), [], now.accepted_records - before.accepted_records,
        now.accepted_bytes - before.accepted_bytes)


def _without(now: Pairs, before: Pairs) -> Pairs:
    known = dict(before)
    return [(value, count - known.get(value, 0)) for value, count in now if count > known.get(value, 0)]


class Watch:
    """Thread that reports each second of a run while its context is open; `finish` reports the rest. The callback runs
    in that thread, except for the last interval; an `OSError` of it is raised by `finish`."""

    def __init__(self, loads: Sequence[Load], report: Callable[[Interval], None], seconds: float = INTERVAL_SECONDS,
                 *, before: LoadResult = NOTHING) -> None:
        self._loads, self._report, self._seconds = loads, report, seconds
        self._number, self._before, self._results = 0, before, [NOTHING] * len(loads)
        self._over = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="kraft-bench-watch", daemon=True)

    def __enter__(self) -> Self:
        self._epoch = time.time() - time.monotonic()
        self._began = self._last = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def finish(self, result: LoadResult) -> None:
        """Report the last interval, which ends with the run."""
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        self._step(result)

    def _run(self) -> None:
        try:
            while not self._over.wait(max(0.0, self._began + (self._number + 1) * self._seconds - time.monotonic())):
                # A generator that has ended keeps its last counts.
                self._results = [each.progress() or known for each, known in
                                 zip(self._loads, self._results, strict=True)]
                self._step(total(self._results))
        except OSError as error:              # the file that the seconds are written to
            self._failure = error

    def _step(self, now: LoadResult) -> None:
        at = time.monotonic()
        self._report(Interval(self._number, self._epoch + self._last, at - self._last, difference(now, self._before)))
        self._before, self._last = now, at
        self._number += 1
