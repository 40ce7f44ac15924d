"""Lines of JSON: a sound line is one that Python's parser accepts, and the fields are those that it returns."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.columns.json_lines import FIELD_ABSENT, FIELD_ESCAPED_TEXT, FIELD_TEXT, REASONS, gather, scan_lines

Line = tuple[bytes, int, str, list[bytes | None]]


def scan(data: bytes, *names: str) -> list[Line]:
    """Return each line's number, its error, and the fields."""
    room = data.count(b"\n") + 1
    lines, fields = np.zeros((room, 5), np.int64), np.zeros((room, len(names), 3), np.int64)
    count, _ = scan_lines(data, tuple(name.encode() for name in names), lines, fields)
    found = []
    for line, places in zip(lines[:count], fields[:count], strict=True):
        texts = []
        for start, end, kind in places if not line[3] else []:
            spans = [np.array([each]) for each in (start, end, kind)]
            text = gather(data, spans[0], spans[1], spans[2], np.empty(2, np.int32))
            texts.append(None if kind == FIELD_ABSENT else bytes(text))
        found.append((data[line[0]:line[1]], int(line[2]), REASONS[line[3]], texts))
    return found


def test_lines_and_their_fields() -> None:
    data = (b'{"a": 1e-12, "b": "x"}\r\n\n  {"b":"\\u00e9\\n\\ud83d\\ude00","a":null}\n{}\n'
            b'{"\\u0061": [1, {"b": 2}], "b": true, "a": "01"}')
    assert scan(data, "a", "b") == [
        (b'{"a": 1e-12, "b": "x"}', 0, "", [b"1e-12", b"x"]),
        (b'  {"b":"\\u00e9\\n\\ud83d\\ude00","a":null}', 2, "", [None, "é\n😀".encode()]),
        (b"{}", 3, "", [None, None]),
        (b'{"\\u0061": [1, {"b": 2}], "b": true, "a": "01"}', 4, "", [b"01", b"true"]),
    ]


@pytest.mark.parametrize(("line", "reason"), [
    (b"[1]", "a JSON object is expected"), (b'{"a":1}x', "text after the object"), (b'{"a":}', "a value is expected"),
    (b'{"a":01}', "',' or the end"), (b'{"a":-}', "not a number"), (b'{"a":1.}', "not a number"),
    (b'{"a":"', "a text without an end"), (b'{"a":"\x01"}', "a control character"), (b'{"a":"\\x"}', "not an escape"),
    (b'{"a":"\\u00g0"}', "not an escape"), (b'{"a":"\xff"}', "not UTF-8"), (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
    (b"{a:1}", "the name of a field"), (b'{"a" 1}', "':' is expected"), (b'{"a":[1}', "',' or the end"),
    (b'{"a":' + b"[" * 300, "more than 256 levels"), (b'{"a":nul}', "a value is expected"), (b'{"a":1', "',' or the"),
    (b'{"a":1,}', "the name of a field"), (b'{"a":NaN}', "a value is expected"),
])
def test_errors_name_the_fault(line: bytes, reason: str) -> None:
    (_, number, found, _), (_, after, sound, _) = scan(line + b'\n{"b":1}\n')
    assert reason in found
    assert (number, after, sound) == (0, 1, "")


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
                      | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "é\n"]), VALUES), max_size=5), st.booleans())
def test_fields_are_those_of_another_parser(objects: list[dict[str, Any]], ascii_only: bool) -> None:
    data = "".join(json.dumps(each, ensure_ascii=ascii_only) + "\n" for each in objects).encode(errors="surrogatepass")
    for wanted, (line, _, reason, fields) in zip(objects, scan(data, "a", "é\n"), strict=True):
        if reason:
            with pytest.raises(UnicodeDecodeError):
                line.decode()
            continue
        for name, field in zip(("a", "é\n"), fields, strict=True):
            value = wanted.get(name)
            if isinstance(value, str):
                assert field == value.encode(errors="surrogatepass")
            else:
                assert field is None if value is None else json.loads(field or b"") == value


@given(st.binary(max_size=60) | st.text('{}[]":,\\u0123abtn.-eE+ ', max_size=40).map(str.encode))
def test_sound_is_what_another_parser_takes(junk: bytes) -> None:
    for data in (junk, b'{"a":' + junk + b"}", b'{"a":"' + junk + b'"}'):
        for line, _, reason, _ in scan(data):
            try:
                sound = isinstance(json.loads(line.decode(), parse_constant=lambda _: 1 / 0), dict)
            except (ValueError, ZeroDivisionError, UnicodeDecodeError):
                sound = False
            assert sound == (not reason), line


def test_arguments_that_do_not_fit_are_refused() -> None:
    lines, fields = np.zeros((1, 5), np.int64), np.zeros((1, 1, 3), np.int64)
    for data, names, kept in ((b"{}\n{}", (b"a",), lines), (b"{}", (), lines), (b"{}", (b"a",), lines[:, :4].copy())):
        with pytest.raises(InvalidArgumentError):
            scan_lines(data, names, kept, fields)
    for start, end in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(InvalidArgumentError, match="of 2 bytes"):
            gather(b"ab", np.array([start]), np.array([end]), np.array([FIELD_TEXT]), np.empty(2, np.int32))
    assert FIELD_ESCAPED_TEXT != FIELD_TEXT
