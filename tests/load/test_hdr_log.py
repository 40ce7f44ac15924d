"""The log of HdrHistograms, read back by a reader of our own from the description of the format."""

from pathlib import Path

import pytest

from kraft.load.hdr_log import HdrLog
from kraft.load.intervals import NOTHING, Interval, Pairs
from tests.oracle.hdr_log import read_log


def interval(number: int, latency: Pairs, end_to_end: Pairs = ()) -> Interval:  # type: ignore[assignment]
    return Interval(number, 1_700_000_000.25 + number, 1.0, NOTHING._replace(latency=latency,
                                                                             end_to_end=list(end_to_end)))


def test_each_interval_is_read_back(tmp_path: Path) -> None:
    given = [[(1, 3), (999, 1), (1_234_567, 70_000), (59_000_000_000, 2)], [], [(2047, 1), (2048, 1), (2049, 5)]]
    path = tmp_path / "a.hlog"
    with HdrLog(path, "a comment") as log:
        for number, latency in enumerate(given):
            log.add(interval(number, latency, latency[:1]))
    comments, lines = read_log(path.read_text("ascii"))
    assert comments == ["#[a comment]", "#[Histogram log format version 1.3]",
                        "#[StartTime: 1700000000.250 (seconds since epoch), Tue Nov 14 22:13:20 UTC 2023]"]
    assert [(line.tag, line.start, line.length) for line in lines] == [
        ("", 0.0, 1.0), ("end-to-end", 0.0, 1.0), ("", 1.0, 1.0), ("", 2.0, 1.0), ("end-to-end", 2.0, 1.0)]
    for latency, line in zip(given, [each for each in lines if not each.tag], strict=True):
        assert sum(count for _, count in line.counts) == sum(count for _, count in latency)
        for value, count in latency:
            [found] = [found for low, found in line.counts if low <= value < low + line.bucket_of[low]
                       if found == count or value in (2048, 2049)]
            assert found >= count
        assert line.most == pytest.approx(max((value for value, _ in latency), default=0) / 1e6, rel=0.001, abs=0.001)


def test_a_bucket_is_at_most_a_thousandth_wide(tmp_path: Path) -> None:
    path = tmp_path / "a.hlog"
    values = [7 ** power for power in range(14)]
    with HdrLog(path, "") as log:
        log.add(interval(0, [(value, 1) for value in values]))
    [line] = read_log(path.read_text())[1]
    for value in values:
        assert any(low <= value < low + line.bucket_of[low] and line.bucket_of[low] <= max(1, value / 1000)
                   for low, _ in line.counts)


def test_a_line_is_in_the_file_before_the_log_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.hlog"
    with HdrLog(path, "") as log:
        log.add(interval(0, [(5, 1)]))
        assert len(read_log(path.read_text())[1]) == 1
