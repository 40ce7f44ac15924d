"""Ratios, their intervals, and the report of them."""

from dataclasses import replace

import pytest

from kraft.load.compare import RATIO_NOTE, compare, interval, workload_differences
from kraft.load.measure import Measurement
from kraft.load.report import html_report, place_of, tick_text


def run(rate, p50, cpu=None):
    return Measurement(
        workload={"kind": "produce"}, server="here:1", seconds=10, requests=int(rate * 10), errors=0, first_error=None,
        requests_per_second=rate, records_per_second=rate, megabytes_per_second=rate / 1000,
        latency_us={"50": p50, "99": p50 * 3}, end_to_end_us=None, cpu_us_per_request=cpu,
        cpu_seconds_per_gigabyte=None, resident_megabytes=None, requests_per_slot=[1, 2, 3],
        histogram=[(0.0, 1.0), (50.0, p50), (100.0, 9.0)])


def test_ratios_are_of_pairs_not_of_medians():
    """The machine gets slower from pair to pair, both sides equally, so the ratio of each pair is exact."""
    pairs = [(run(200 / drift, 10.0 * drift), run(100 / drift, 20.0 * drift)) for drift in (1, 2, 3, 4, 5)]
    found = {ratio.figure: ratio for ratio in compare(pairs)}
    assert found["requests/s"].ratio == pytest.approx(2)
    assert (found["requests/s"].low, found["requests/s"].high) == (pytest.approx(2), pytest.approx(2))
    assert found["p50 us"].ratio == pytest.approx(0.5)
    assert found["requests/s"].a == pytest.approx(200 / 3)


def test_a_ratio_is_the_median_of_the_ratios():
    pairs = [(run(100, 1), run(100, 1)), (run(300, 1), run(100, 1)), (run(200, 1), run(50, 1))]
    found = {ratio.figure: ratio for ratio in compare(pairs)}["requests/s"]
    assert (found.a, found.b, found.ratio) == (200, 100, 3)


def test_a_figure_that_one_side_lacks_is_left_out():
    names = [ratio.figure for ratio in compare([(run(2, 1, cpu=5), run(1, 2))])]
    assert "CPU us/request" not in names
    assert "CPU s/GB" not in names


def test_one_pair_has_no_interval():
    found = {ratio.figure: ratio for ratio in compare([(run(2, 1), run(1, 2))])}
    assert (found["requests/s"].ratio, found["requests/s"].low, found["requests/s"].high) == (2, None, None)
    assert found["requests/s"].interval_text == "none: one pair"
    found = {ratio.figure: ratio for ratio in compare([(run(2, 1), run(1, 2))] * 2)}
    assert (found["requests/s"].low, found["requests/s"].pairs) == (2, 2)


def test_workloads_that_measure_something_else():
    one = {"kind": "produce", "acks": 1, "topic": "a", "seed": 1}
    assert workload_differences(one, one | {"topic": "b", "seed": 2}) == []
    assert workload_differences(one, one | {"acks": -1, "rate": 5}) == [("acks", 1, -1), ("rate", None, 5)]


def test_an_interval_covers_the_spread():
    low, high = interval([0.9, 1.0, 1.1, 1.0, 0.95, 1.05])
    assert 0.9 <= low < 1.0 < high <= 1.1


def test_each_nine_has_the_same_room():
    assert [round(place_of(percentile, 5000)) for percentile in (0, 90, 99, 99.9, 100)] == [1, 10, 100, 1000, 5000]
    assert [tick_text(10**power) for power in range(6)] == ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]


@pytest.fixture(scope="module")
def fonts():
    """matplotlib keeps the font files open that it drew with once."""
    pytest.importorskip("matplotlib")
    html_report("warm", [("A", run(1, 1))])


@pytest.mark.usefixtures("fonts")
def test_a_report_needs_no_other_file():
    a = replace(run(2, 1), date="2026-01-31T09:00:00+00:00", host="here-host", version="9.9", samples=1000,
                end_to_end_us={"50": 123.0, "max": 456.0}, end_to_end_samples=777,
                end_to_end_histogram=[(50.0, 123.0), (100.0, 456.0)])
    page = html_report("a <b> title", [("A", a), ("B", run(1, 2))], compare([(a, run(1, 2))]))
    for part in ("123.00", "456.00", "2026-01-31T09:00:00+00:00", "here-host", "kraft 9.9", "closed: 1 open", "1,000",
                 "777", "A, end to end", "99 %", "none: one pair", RATIO_NOTE):
        assert part.replace("'", "&#x27;") in page, part
    assert page.startswith("<!doctype html>")
    assert "a &lt;b&gt; title" in page
    assert page.count("<svg") == 2
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://creativecommons.org", "").replace(
        "http://purl.org", "").replace("https://matplotlib.org", "")


@pytest.mark.usefixtures("fonts")
def test_a_report_of_a_drain_has_its_backlog_and_no_rate_over_time():
    drained = replace(run(100, 1), requests_per_slot=[], durability="page-cache", metadata_version="30", brokers=3,
                      backlog={"bytes": 2e6, "records": 1500, "build_seconds": 1.5, "drain_seconds": 0.25,
                               "limit_seconds": 9.0, "records_left": 7})
    page = html_report("drain", [("A", drained), ("B", replace(run(1, 2), requests_per_slot=[]))])
    assert page.count("<svg") == 1
    row = "".join(f"<td>{cell}</td>" for cell in ("A", "2.0", "1,500", "1.50", "0.25", "7"))
    assert row in page
    assert "<td>page-cache</td>" in page and "<td>here:1, 3 broker(s)</td>" in page
