"""Percentiles, and only those that the samples can show."""

import pytest

from kraft.load.percentiles import curve_of, figures_of, histogram_of, samples_needed


@pytest.mark.parametrize(("samples", "shown"), [
    (0, []), (1, []), (2, ["50"]), (9, ["50"]), (10, ["50", "90"]), (999, ["50", "90", "99"]),
    (1000, ["50", "90", "99", "99.9"]), (10_000, ["50", "90", "99", "99.9", "99.99"]),
])
def test_percentiles_need_samples(samples: int, shown: list[str]) -> None:
    found = figures_of(histogram_of([(1000 * number, 1) for number in range(1, samples + 1)]))
    assert list(found) == ([*shown, "max", "mean"] if samples else [])
    if samples:
        assert found["max"] == pytest.approx(samples, rel=0.01)


def test_a_percentile_needs_one_sample_beyond_it() -> None:
    assert [samples_needed(percentile) for percentile in (50.0, 90.0, 99.0, 99.9, 99.99)] == [2, 10, 100, 1000, 10_000]


def test_a_curve_ends_where_the_samples_do() -> None:
    curve = curve_of(histogram_of([(1000, 900), (5000, 100)]))
    assert curve[0] == (0.0, pytest.approx(1.0, rel=0.01))
    assert curve[-1] == (100.0, pytest.approx(5.0, rel=0.01))
    assert curve[-2][0] == pytest.approx(99.9)
    assert [value for percentile, value in curve if percentile > 91] == pytest.approx([5.0] * 41, rel=0.01)
    assert [value for _, value in curve] == sorted(value for _, value in curve)
    assert curve_of(histogram_of([])) == []
