"""Seconds of a run, and sums of several generators."""

import threading
from itertools import pairwise
from typing import Any

import pytest

from kraft.load.intervals import NOTHING, Interval, Watch, difference, total
from kraft.load.processes import Merged
from kraft_native.bench.load_generator import LoadResult


def result(requests: int, latency: dict[int, int], *, errors: int = 0, code: int = 0, slots: tuple[int, ...] = (),
           elapsed_ns: int = 0) -> LoadResult:
    return LoadResult(requests, errors, code, requests * 2, requests * 3, requests * 4, requests * 5, elapsed_ns,
                      sorted(latency.items()), [(7, requests)], list(slots), requests * 6, requests * 7)


def test_a_total_adds_all_but_the_time() -> None:
    one = result(10, {5: 4, 9: 6}, slots=(3, 4), elapsed_ns=100)
    other = result(1, {5: 1}, errors=1, code=7, slots=(1,), elapsed_ns=90)
    assert total([one, other]) == LoadResult(11, 1, 7, 22, 33, 44, 55, 100, [(5, 5), (9, 6)], [(7, 11)], [4, 4], 66, 77)
    assert total([]) == NOTHING


def test_a_difference_is_what_was_added() -> None:
    before, later = result(10, {5: 4, 9: 6}), result(15, {5: 4, 8: 1, 9: 10}, errors=2, code=3)
    found = difference(later, before)
    assert (found.requests, found.errors, found.first_error, found.accepted_bytes) == (5, 2, 3, 35)
    assert (found.latency, found.end_to_end) == ([(8, 1), (9, 4)], [(7, 5)])
    assert total([before, found]).latency == later.latency
    assert difference(later, later).first_error == 0


class Counting:
    """A load that has answered one more request each time that its progress is read; none when it has ended."""

    def __init__(self, last: int) -> None:
        self.requests, self.last = 0, last
        self.ended = threading.Event()

    def progress(self) -> LoadResult | None:
        self.requests += 1
        if self.requests > self.last:
            self.ended.set()
            return None
        return result(self.requests, {5: self.requests})


def test_the_seconds_of_a_run_add_up() -> None:
    """One of two generators ends early: what it did counts once."""
    seen: list[Interval] = []
    loads: Any = [Counting(2), Counting(5)]
    with Watch(loads, seen.append, 0.01) as watch:
        assert loads[1].ended.wait(30)
        watch.finish(result(9, {5: 8, 6: 1}))
    assert [each.number for each in seen] == list(range(len(seen)))
    assert total([each.done for each in seen]).requests == 9
    assert total([each.done for each in seen]).latency == [(5, 8), (6, 1)]
    assert all(later.begin == pytest.approx(each.begin + each.seconds) for each, later in pairwise(seen))


def test_a_second_that_cannot_be_written_ends_the_run() -> None:
    def fails(interval: Interval) -> None:
        raise OSError("no space left")

    load: Any = Counting(10**9)
    with pytest.raises(OSError, match="no space left"), Watch([load], fails, 0.001) as watch:
        watch._thread.join(30)
        watch.finish(NOTHING)


def test_seconds_of_processes_are_merged_when_all_have_sent_them() -> None:
    seen: list[Interval] = []
    merged = Merged(2, seen.append)
    for number, begin in ((0, 10.0), (1, 11.0), (0, 10.1)):
        merged.add(Interval(number, begin, 1.0, result(1, {5: 1})))
    assert [(each.number, each.begin, each.done.requests) for each in seen] == [(0, 10.0, 2)]
    merged.finish()
    assert [(each.number, each.done.requests) for each in seen] == [(0, 2), (1, 1)]
