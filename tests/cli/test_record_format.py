"""`--format`: each field, each escape, and what is no field."""

import pytest

from kraft.cli.record_format import RecordFormat, Shown
from kraft_native.base.errors import InvalidArgumentError

RECORD = Shown("orders", 3, 17, 1_700_000_000_123, b"table \xff", b"two coffees",
               lambda: [("from", b"test"), ("none", None)])


@pytest.mark.parametrize(("text", "expected"), [
    (r"%k=%v\n", b"table \xff=two coffees\n"), ("%t/%p@%o %T", b"orders/3@17 1700000000123"),
    ("%h", b"from=test,none="), ("%K %V %S", b"7 11 11"), ("%s", b"two coffees"),
    (r"\t\r\0\\\x41%%", b"\t\r\0\\A%"), ("", b""), ("caf\u00e9", b"caf\xc3\xa9"),
])
def test_a_record(text: str, expected: bytes) -> None:
    assert RecordFormat(text).write(RECORD) == expected


def test_null() -> None:
    without = RECORD._replace(key=None, value=None)
    assert RecordFormat("%k|%v|%K|%V").write(without) == b"||-1|-1"
    assert RecordFormat("%k|%v|%h", b"NULL").write(without) == b"NULL|NULL|from=test,none=NULL"


def test_headers_are_read_only_where_they_are_shown() -> None:
    assert RecordFormat("%v").write(RECORD._replace(headers=pytest.fail)) == b"two coffees"


@pytest.mark.parametrize("text", ["%x", "%", "a\\", r"\q", r"\x4", "%\n"])
def test_what_is_no_field(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"--format: .* is no field"):
        RecordFormat(text)
