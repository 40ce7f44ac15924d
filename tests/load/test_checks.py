"""Verdicts on runs of named loads."""

from dataclasses import replace

import pytest

from kraft.load.checks import LOADS, verdicts
from tests.load.test_compare import run

SMALL = LOADS["small"]
GOOD = replace(run(SMALL.rate, 1_000.0), latency_us={"50": 1_000.0, "99": 3_000.0, "max": 9_000.0})


@pytest.mark.parametrize(("fields", "failed"), [
    ({}, []), ({"errors": 3, "first_error": "NOT_ENOUGH_REPLICAS"}, [0]), ({"requests": 1_900}, [1]),
    ({"latency_us": {"99": 51_000.0, "max": 90_000.0}}, [2]), ({"latency_us": {"99": 1.0, "max": 501_000.0}}, [3]),
    ({"latency_us": {"50": 1.0, "max": 1.0}}, [2]), ({"requests": 0, "latency_us": {}}, [1, 2, 3]),
])
def test_each_criterion_fails_alone(fields: dict[str, object], failed: list[int]) -> None:
    found = verdicts(SMALL, replace(GOOD, **fields))
    assert [place for place, each in enumerate(found) if not each.passed] == failed


def test_a_refusal_is_named() -> None:
    assert verdicts(SMALL, replace(GOOD, errors=3, first_error="NOT_ENOUGH_REPLICAS"))[0].text == (
        "3 of 2,000 requests were refused (NOT_ENOUGH_REPLICAS)")


def test_loads_grow() -> None:
    rates = [load.megabytes_per_second for load in LOADS.values()]
    assert rates == sorted(rates) and 0.5 < rates[0] < 2 and 150 < rates[-1] < 250
