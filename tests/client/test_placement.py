"""Plans of reassignments: every partition is placed, evenly, and few replicas move."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.client.placement import Placement, changes
from kraft_native.base.errors import InvalidArgumentError


def plan(now: dict[int, list[int]], brokers: list[int], count: int | None = None,
         racks: dict[int, str] | None = None) -> dict[int, list[int]]:
    found = Placement({each: (racks or {}).get(each) for each in brokers}).plan(
        {("t", index): replicas for index, replicas in now.items()}, count)
    return {index: found["t", index] for index in now}


def test_an_even_placement_stays() -> None:
    now = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    assert plan(now, [1, 2, 3]) == now
    assert changes({("t", 0): [1, 2]}, {("t", 0): [1, 2]}) == {}


def test_a_stopping_broker_gives_up_every_leadership_and_others_none() -> None:
    now = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    then = plan(now, [1, 2])
    assert [sorted(then[each]) for each in then] == [[1, 2]] * 3
    assert then[0] == [1, 2]


def test_a_broker_that_comes_gets_its_share() -> None:
    then = plan({each: [1, 2] for each in range(6)}, [1, 2, 3])
    assert Counter(each for replicas in then.values() for each in replicas) == {1: 4, 2: 4, 3: 4}


def test_more_and_fewer_replicas() -> None:
    assert sorted(plan({0: [1]}, [1, 2, 3], 3)[0]) == [1, 2, 3]
    assert plan({0: [2, 1, 3]}, [1, 2, 3], 1) == {0: [2]}
    with pytest.raises(InvalidArgumentError, match=r"t/0: 2 replicas need as many brokers; allowed are 1"):
        plan({0: [1, 2]}, [1])


def test_racks_are_kept_apart() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    assert sorted(plan({0: [1]}, [1, 2, 3], 2, racks)[0]) == [1, 3]
    assert sorted(plan({0: [1, 3], 1: [1, 3]}, [1, 2, 3], None, racks)[0]) != [1, 2]


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), max_size=12),
       st.lists(st.integers(1, 6), min_size=3, max_size=6, unique=True))
def test_any_plan_is_whole_and_even(now: list[list[int]], brokers: list[int]) -> None:
    before = dict(enumerate(now))
    then = plan(before, brokers)
    for index, replicas in then.items():
        assert len(replicas) == len(before[index]) == len(set(replicas))
        assert set(replicas) <= set(brokers)
    counts = Counter(dict.fromkeys(brokers, 0))
    counts.update(each for replicas in then.values() for each in replicas)
    if counts:
        # The fullest broker has at most one more than any broker that could hold one of its replicas.
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[most] - counts[least] > 1:
            assert all(least in replicas for replicas in then.values() if most in replicas)
    assert plan(then, brokers) == then, "a plan that was carried out is a plan of nothing"
