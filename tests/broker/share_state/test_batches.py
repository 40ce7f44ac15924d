"""Combination of state batches, against a model with one entry per offset."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kraft.broker.share_state.batches import StateBatch, combine, combined

OFFSETS = st.integers(0, 12)
BATCHES = st.lists(st.builds(StateBatch, OFFSETS, OFFSETS, st.sampled_from((0, 2, 4)), st.integers(1, 3)), max_size=8)
STARTS = st.integers(-1, 13)


def by_offset(batches: list[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """Return count and state of each offset: the higher ones win."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(max(first, start_offset), last + 1):
            found[offset] = max(found.get(offset, (0, 0)), (count, state))
    return found


def is_canonical(batches: list[StateBatch]) -> bool:
    return all(each.first_offset <= each.last_offset for each in batches) and all(
        one.last_offset < other.first_offset
        and (one.last_offset + 1 < other.first_offset or one[2:] != other[2:])
        for one, other in pairwise(batches))


@given(BATCHES, BATCHES, STARTS, STARTS)
def test_combined_batches_are_those_of_each_offset(first: list[StateBatch], second: list[StateBatch], start_offset: int,
                                                   next_offset: int) -> None:
    batches = combined(first, start_offset)
    assert is_canonical(batches)
    assert by_offset(batches, -1) == by_offset(first, start_offset)
    combine(batches, second, next_offset)
    assert is_canonical(batches)
    assert by_offset(batches, -1) == by_offset([*combined(first, start_offset), *second], next_offset)


@given(st.permutations([StateBatch(0, 9, 0, 1), StateBatch(3, 5, 2, 1), StateBatch(5, 12, 4, 2), StateBatch(1, 2, 0, 3),
                        StateBatch(13, 13, 4, 2)]))
def test_the_order_of_arrival_does_not_matter(batches: list[StateBatch]) -> None:
    assert combined(batches, 1) == [StateBatch(1, 2, 0, 3), StateBatch(3, 4, 2, 1), StateBatch(5, 13, 4, 2)]


def test_a_range_between_others_touches_only_them() -> None:
    """Many ranges are not visited for one more."""
    batches = combined([StateBatch(3 * n, 3 * n, 2, 1) for n in range(1_000)], -1)
    untouched = batches[:400], batches[500:]
    combine(batches, [StateBatch(1_300, 1_300, 2, 1)], -1)
    assert all(a is b for a, b in zip(untouched[0], batches, strict=False))
    assert batches[-1] is untouched[1][-1]
    assert len(batches) == 1_000, "it was joined with the one before it"
