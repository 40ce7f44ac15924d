"""Search for the highest rate within a limit, on clusters of a known capacity."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.load.errors import InvalidWorkloadError
from kraft.load.measure import Measurement
from kraft.load.search import Limit, RateSearch
from tests.load.test_compare import run

LIMIT = Limit(99, 10.0)


def found(search: RateSearch, bears: Callable[[float], bool]) -> float | None:
    while (rate := search.next_rate()) is not None:
        search.note(rate, is_good=bears(rate))
    return search.best


@given(capacity=st.floats(1, 1e7), first=st.floats(1, 1e6), precision=st.floats(0.01, 0.5))
def test_the_answer_is_below_the_capacity_by_less_than_the_precision(capacity: float, first: float,
                                                                     precision: float) -> None:
    search = RateSearch(first, precision, probes_max=100)
    best = found(search, lambda rate: rate <= capacity)
    if best is None:
        assert capacity < 2
    else:
        assert best <= capacity <= best * (1 + precision) * 1.000001


def test_a_cluster_that_bears_nothing_has_no_answer() -> None:
    search = RateSearch(100)
    assert found(search, lambda _: False) is None
    assert min(search.bad) < 2


def test_a_good_rate_that_fails_later_is_no_answer() -> None:
    search = RateSearch(100, 0.05)
    best = found(search, lambda rate: rate <= 1_000)
    assert best is not None
    search.note(best, is_good=False)
    lower = found(search, lambda rate: rate <= 900)
    assert lower is not None and 800 <= lower < best


def test_the_number_of_measurements_is_bounded() -> None:
    search = RateSearch(1, 0.001, probes_max=7)
    found(search, lambda rate: rate < 1e9)
    assert len(search.good) == 7


@pytest.mark.parametrize(("first", "precision", "names"), [(0.0, 0.05, "from: 0"), (1.0, 0.0, "precision: 0"),
                                                           (1.0, 2.0, "precision: 2")])
def test_settings_that_make_no_sense_are_named(first: float, precision: float, names: str) -> None:
    with pytest.raises(InvalidWorkloadError, match=names):
        RateSearch(first, precision)


def made(**fields: object) -> Measurement:
    """A run of 10 s at 100 requests/s, with a p99 of 6 ms."""
    good: Measurement = run(100, 2_000.0)
    workload = {"kind": "produce", "rate": 100.0, "connections": 2}
    return replace(good, workload=workload, **fields)


def test_a_run_meets_the_limit_or_does_not() -> None:
    assert LIMIT.is_met(made())
    assert not LIMIT.is_met(made(errors=1))
    assert not LIMIT.is_met(made(requests=900))
    assert not LIMIT.is_met(made(latency_us={"50": 1.0, "99": 10_001.0}))
    assert not LIMIT.is_met(made(latency_us={}))
    assert not LIMIT.is_met(made(latency_us={"50": 1.0, "max": 10_001.0}))     # too few samples for a p99
    assert not LIMIT.is_met(made(end_to_end_us={"99": 10_001.0}))
    assert LIMIT.value_ms(made(end_to_end_us={"99": 4_000.0})) == 4.0
