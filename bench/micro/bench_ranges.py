"""The set of checked byte ranges: one that grows at its end, as with reads in order, and one with gaps."""

import pytest

from kraft_native.segment.ranges import RangeSet

RANGES = 10_000
BYTES = 16_384


def in_order():
    made = RangeSet()
    for number in range(RANGES):
        made.insert(number * BYTES, (number + 1) * BYTES)
    return made


def with_gaps():
    made = RangeSet()
    for number in range(RANGES):
        made.insert((number * 7_919) % RANGES * 2 * BYTES, ((number * 7_919) % RANGES * 2 + 1) * BYTES)
    return made


@pytest.mark.parametrize(("fill", "count"), [(in_order, 1), (with_gaps, RANGES)])
def test_insert(benchmark, fill, count):
    assert len(benchmark(fill).as_list()) == count


@pytest.mark.parametrize("fill", [in_order, with_gaps])
def test_contains(benchmark, fill):
    made = fill()
    assert benchmark(lambda: sum(number * BYTES in made for number in range(RANGES))) >= RANGES // 2
