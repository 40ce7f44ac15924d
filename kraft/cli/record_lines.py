"""Records as lines of input and output: `value`, or `key<separator>value`, or one JSON object each.

The JSON form is the same in `kraft consume --json`, `kraft log dump --json` and `kraft produce --json`, and represents
every record exactly. A key, a value, a header's name or a header's value is a text if its bytes are UTF-8, else
`{"base64": "..."}`. As plain lines, a value with a line end in it looks like two.

Header names are `str` here. Bytes of a name that are not UTF-8 are lone surrogates (`surrogateescape`), as in
`kraft_native.batch.records`.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kraft_native.base.errors import InvalidArgumentError

Headers = Sequence[tuple[str, bytes | None]]
NAME_ERRORS: Final = "surrogateescape"


class LineFormat(NamedTuple):
    """Format of lines. `null` is the text that represents a null value; None means that no text does."""

    as_json: bool
    key_separator: bytes | None
    null: bytes | None


class LineRecord(NamedTuple):
    """Record of a line to produce. `timestamp_ms` 0 means now."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


def read_line(line: bytes, form: LineFormat) -> LineRecord:
    """Parse a line without its end. `InvalidArgumentError` describes an error in it."""
    if form.as_json:
        return _read_json(line)
    key: bytes | None = None
    if form.key_separator is not None:
        key, separator, line = line.partition(form.key_separator)
        if not separator:
            raise InvalidArgumentError(f"no key separator {form.key_separator.decode()!r}")
    return LineRecord(_null(key, form), _null(line, form), [], 0)


def write_line(topic: str, partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None,
               headers: Headers, form: LineFormat) -> bytes:
    """Format a record as a line, with its end."""
    if form.as_json:
        fields = {"topic": topic, "partition": partition, **record_fields(offset, timestamp_ms, key, value, headers)}
        return json_line(fields).encode() + b"\n"
    null = form.null or b""
    shown = null if value is None else value
    if form.key_separator is None:
        return shown + b"\n"
    return (null if key is None else key) + form.key_separator + shown + b"\n"


def record_fields(offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None,
                  headers: Headers) -> dict[str, object]:
    """Return the fields of a record in the JSON form."""
    return {"offset": offset, "timestamp": timestamp_ms, "key": _field(key), "value": _field(value),
            "headers": [[_field(name_bytes(name)), _field(content)] for name, content in headers]}


def json_line(fields: Mapping[str, object]) -> str:
    """Format a JSON object as one line, without its end."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def name_bytes(name: str) -> bytes:
    """Return the bytes of a header's name."""
    return name.encode("utf-8", NAME_ERRORS)


def _null(field: bytes | None, form: LineFormat) -> bytes | None:
    return None if field == form.null else field


def _read_json(line: bytes) -> LineRecord:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise InvalidArgumentError(f"no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidArgumentError("no JSON object")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(each, list) and len(each) == 2 for each in headers):
        raise InvalidArgumentError("headers is no list of [name, value]")
    timestamp_ms = fields.get("timestamp", 0)
    if not isinstance(timestamp_ms, int) or isinstance(timestamp_ms, bool):
        raise InvalidArgumentError("timestamp is no whole number of milliseconds")
    return LineRecord(_bytes("key", fields.get("key")), _bytes("value", fields.get("value")),
                      [_header(name, content) for name, content in headers], timestamp_ms)


def _header(name: Any, content: Any) -> tuple[str, bytes | None]:
    data = _bytes("header name", name)
    if data is None:
        raise InvalidArgumentError("header name is null")
    text = data.decode("utf-8", NAME_ERRORS)
    return text, _bytes(f"header {text!r}", content)


def _bytes(name: str, field: Any) -> bytes | None:
    match field:
        case None:
            return None
        case str():
            try:
                return field.encode()
            except UnicodeEncodeError as error:
                raise InvalidArgumentError(f"{name} has half of a surrogate pair: write bytes that are no text as "
                                           '{"base64": text}') from error
        case {"base64": str() as text}:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise InvalidArgumentError(f"{name} is no base64: {error}") from error
        case _:
            raise InvalidArgumentError(f'{name} is no text, no {{"base64": text}} and not null')


def _field(content: bytes | None) -> str | dict[str, str] | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
