"""Conditions on records: keys and headers as bytes."""

import pytest

from kraft.cli.record_filter import Filter
from kraft.cli.record_lines import Headers

HEADERS: Headers = [("trace", b"7"), ("trace", b"8"), ("empty", b""), ("null", None), ("caf\u00e9", b"\xff")]


@pytest.mark.parametrize(("key", "headers", "expected"), [
    (None, (), True), ("a", (), True), ("b", (), False), ("", (), False),
    (None, ("trace",), True), (None, ("trace=8",), True), (None, ("trace=9",), False), (None, ("none",), False),
    (None, ("trace=7", "empty="), True), (None, ("trace=7", "none"), False), (None, ("null",), True),
    (None, ("null=",), False), (None, ("caf\u00e9=\udcff",), True), ("b", ("trace",), False),
])
def test_a_condition(key: str | None, headers: tuple[str, ...], expected: bool) -> None:
    assert Filter.of(key, headers).accepts(b"a", lambda: HEADERS) is expected


def test_a_record_without_a_key_has_no_key() -> None:
    assert not Filter.of("", ()).accepts(None, lambda: HEADERS)


def test_headers_are_read_only_when_they_are_needed() -> None:
    assert Filter.of("a", ()).accepts(b"a", pytest.fail)
    assert not Filter.of("b", ("trace",)).accepts(b"a", pytest.fail)
