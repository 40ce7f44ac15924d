"""Sets of ranges against sets of numbers."""

from itertools import groupby

from hypothesis import example, given
from hypothesis import strategies as st

from kraft_native.segment.ranges import RangeSet

END = 30
POSITIONS = st.integers(0, END)


def runs(numbers: set[int]) -> list[tuple[int, int]]:
    """Return (start, end) of each run of numbers without a hole."""
    grouped = groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    found = [[number for _, number in run] for _, run in grouped]
    return [(run[0], run[-1] + 1) for run in found]


@example([(5, 9), (20, 25), (3, 5), (9, 12), (11, 20), 10, (0, 0), (1, 2), (12, 7)])
@given(st.lists(st.one_of(st.tuples(POSITIONS, POSITIONS), st.tuples(POSITIONS, POSITIONS), POSITIONS), max_size=30))
def test_ranges_are_a_set(steps: list[tuple[int, int] | int]) -> None:
    """A pair is inserted, its numbers in any order; a single number is where the set is truncated."""
    ranges, model = RangeSet(), set[int]()
    for step in steps:
        if isinstance(step, int):
            ranges.truncate(step)
            model = {number for number in model if number < step}
        else:
            ranges.insert(*step)
            model |= set(range(*step))
        assert ranges.as_list() == runs(model)
        assert [position for position in range(END + 2) if position in ranges] == sorted(model)
