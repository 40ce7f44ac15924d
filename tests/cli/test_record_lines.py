"""Records as lines, in and out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.cli.record_lines import LineFormat, LineRecord, name_bytes, read_line, write_line
from kraft_native.base.errors import InvalidArgumentError

PLAIN = LineFormat(as_json=False, key_separator=None, null=None)
KEYED = LineFormat(as_json=False, key_separator=b":", null=b"-")
JSON = LineFormat(as_json=True, key_separator=None, null=None)
FIELD = st.none() | st.binary()


def test_plain_lines() -> None:
    assert read_line(b"a:b", PLAIN) == LineRecord(None, b"a:b", [], 0)
    assert read_line(b"a:b:c", KEYED) == LineRecord(b"a", b"b:c", [], 0)
    assert read_line(b"-:-", KEYED) == LineRecord(None, None, [], 0)
    assert read_line(b":", KEYED) == LineRecord(b"", b"", [], 0)
    assert write_line("t", 0, 1, 2, b"k", b"v", (), PLAIN) == b"v\n"
    assert write_line("t", 0, 1, 2, b"k", None, (), KEYED) == b"k:-\n"
    assert write_line("t", 0, 1, 2, None, None, (), PLAIN) == b"\n"
    with pytest.raises(InvalidArgumentError, match="no key separator ':'"):
        read_line(b"ab", KEYED)


@given(FIELD, FIELD, st.lists(st.tuples(st.text(), FIELD), max_size=3), st.integers(0, 2**63 - 1))
def test_json_holds_everything(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]],
                               timestamp_ms: int) -> None:
    line = write_line("t", 3, 4, timestamp_ms, key, value, headers, JSON)
    assert line.count(b"\n") == 1
    assert read_line(line, JSON) == LineRecord(key, value, headers, timestamp_ms)


@given(st.binary(), FIELD)
def test_a_header_name_of_any_bytes(name: bytes, value: bytes | None) -> None:
    headers = [(name.decode("utf-8", "surrogateescape"), value)]
    line = write_line("t", 3, 4, 5, None, None, headers, JSON)
    assert line.decode("utf-8").count("\n") == 1
    assert read_line(line, JSON) == LineRecord(None, None, headers, 5)
    assert name_bytes(headers[0][0]) == name


@pytest.mark.parametrize(("line", "printed"), [
    (b'{"value": "\\udcff"}', "value has half of a surrogate pair"),
    (b'{"headers": [["\\ud800", null]]}', "header name has half"), (b'{"headers": [[null, "a"]]}', "name is null"),
    (b'{"headers": [[5, "a"]]}', "header name is no text"),
    (b"", "no JSON"), (b"\xff", "no JSON"), (b"[]", "no JSON object"), (b'{"value": 5}', "value is no text"),
    (b'{"key": {"base64": "?"}}', "key is no base64"), (b'{"headers": [["a"]]}', "headers is no list"),
    (b'{"headers": {"a": "b"}}', "headers is no list"), (b'{"timestamp": "x"}', "timestamp is no whole number"),
])
def test_wrong_lines_are_reported(line: bytes, printed: str) -> None:
    with pytest.raises(InvalidArgumentError, match=printed):
        read_line(line, JSON)
