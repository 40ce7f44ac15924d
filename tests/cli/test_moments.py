"""Offsets and points in time on the command line."""

import pytest

from kraft.cli.moments import time_ms, time_text, whole_number
from kraft.config.errors import InvalidConfigError


@pytest.mark.parametrize(("text", "number"), [
    ("0", 0), ("17", 17), ("", None), ("-1", None), ("+1", None), ("1_0", None), ("\u0661", None), (" 1", None)])
def test_whole_numbers_are_plain_digits(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(("text", "found_ms"), [
    ("1970-01-01", 0), ("1970-01-01T00:00:01", 1000), ("1970-01-01T02:00:01+02:00", 1000),
    ("1969-12-31T21:00:01-03:00", 1000), ("1970-01-01T00:00:01Z", 1000), ("1969-12-31T23:59:59.999", -1),
    ("2026-11-21T10:59:41.806", 1795258781806), ("0001-01-01", -62_135_596_800_000),
    ("0001-01-01T00:00:00+14:00", -62_135_647_200_000), ("9999-12-31T23:59:59.999-14:00", 253_402_351_199_999),
])
def test_times_to_the_millisecond(text: str, found_ms: int) -> None:
    assert time_ms("--at", text) == found_ms
    assert time_text(found_ms)


@pytest.mark.parametrize("text", ["", "x", "-5", "2026-13-01", "1970-01-01T00:00:01+25:00"])
def test_no_times(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"--at: '{text}' is not an offset or a time such as 2026-01-31T09"
                       .replace("+", r"\+")):
        time_ms("--at", text)
