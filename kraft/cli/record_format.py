r"""Output format of `kraft consume --format`: a text with a place for each field of a record, in kcat's letters.

    %k %K  key, and its size in bytes          %t  topic        %T  timestamp in milliseconds
    %v %V  value, and its size (also %s, %S)   %p  partition    %h  headers, as NAME=VALUE,...
    %o     offset                              %%  a percent sign

`\n`, `\r`, `\t`, `\0`, `\\` and `\xHH` are characters. A null key or value has the size -1, and the text of `--null`,
else nothing. Nothing is added to the format, not even a line end. Keys and values are written as the bytes that they
are.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kraft.cli.record_lines import Headers, name_bytes
from kraft_native.base.errors import InvalidArgumentError


class Shown(NamedTuple):
    """One record. `headers` is called only by formats that show them."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Callable[[], Headers]


Part = Callable[[Shown], bytes]
_PARTS: Final = re.compile(
    rb"%(?P<field>.)|\\(?P<escape>x[0-9A-Fa-f]{2}|.)|(?P<text>[^%\\]+)|(?P<end>[%\\])", re.DOTALL)
_ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}
FIELDS: Final = "%k %K %v %V %s %S %t %p %o %T %h %%"


class RecordFormat:
    """A parsed format. Raises `InvalidArgumentError` for an unknown field or escape."""

    def __init__(self, text: str, null: bytes | None = None) -> None:
        self._null = null or b""
        fields: dict[bytes, Part] = {
            b"k": lambda record: self._field(record.key), b"K": lambda record: _size(record.key),
            b"v": lambda record: self._field(record.value), b"V": lambda record: _size(record.value),
            b"t": lambda record: record.topic.encode(), b"p": lambda record: b"%d" % record.partition,
            b"o": lambda record: b"%d" % record.offset, b"T": lambda record: b"%d" % record.timestamp_ms,
            b"h": self._headers,
        }
        fields |= {b"s": fields[b"v"], b"S": fields[b"V"]}
        self._parts: list[bytes | Part] = []
        for found in _PARTS.finditer(text.encode("utf-8", "surrogateescape")):
            field, escape = found["field"], found["escape"]
            if field in fields:
                self._parts.append(fields[field])
            elif field == b"%":
                self._parts.append(b"%")
            elif escape is not None and escape in _ESCAPES:
                self._parts.append(_ESCAPES[escape])
            elif escape is not None and len(escape) == 3:
                self._parts.append(bytes((int(escape[1:], 16),)))
            elif found["text"] is not None:
                self._parts.append(found["text"])
            else:
                raise InvalidArgumentError(f"--format: {found[0].decode('utf-8', 'replace')!r} is no field ({FIELDS}) "
                                           r"and no character (\n \r \t \0 \\ \xHH)")

    def write(self, record: Shown) -> bytes:
        """Return the text of a record."""
        return b"".join(part if isinstance(part, bytes) else part(record) for part in self._parts)

    def _field(self, content: bytes | None) -> bytes:
        return self._null if content is None else content

    def _headers(self, record: Shown) -> bytes:
        return b",".join(name_bytes(name) + b"=" + self._field(content) for name, content in record.headers())


def _size(content: bytes | None) -> bytes:
    return b"-1" if content is None else b"%d" % len(content)
