"""Records in JSON: those of a request, and those of an event.

A value, key or header is text in the field of its name, or any bytes in Base64 in the field whose name ends with
`_base64`. In requests `value_json` and `key_json` are any JSON, which is stored as compact text. An event has the same
fields, so that what was consumed can be produced again; its offset is then of no effect.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kraft.gateway.errors import RequestError, bad_request
from kraft.gateway.text import to_json

RECORD_FIELDS: Final = frozenset({"value", "value_base64", "value_json", "key", "key_base64", "key_json", "headers",
                                  "partition", "timestamp_ms", "offset"})
HEADER_FIELDS: Final = frozenset({"name", "value", "value_base64"})
TIMESTAMP_MIN: Final = 1
TIMESTAMP_MAX: Final = (1 << 63) - 1
NOW: Final = 0
PARTITION_MAX: Final = (1 << 31) - 1
ANY_PARTITION: Final = -1
NO_TIME: Final = -1
"""Time of records whose format has none."""
POSITIONS: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,19}(,[0-9]{1,10}:[0-9]{1,19})*")
POSITIONS_MAX: Final = 32_000
VALUES_PER_RECORD: Final = 25
LINES_PER_RECORD: Final = 2
DIGITS_MAX: Final = 1_000
"""Digits of a whole number; the time to read one grows with their square."""
TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
"""A text of JSON, with its quotes. One without an end matches, too: the search would take quadratic time otherwise."""
NUMBER_SHOWN: Final = 40

Headers = tuple[tuple[str, bytes | None], ...]


class Outgoing(NamedTuple):
    """A record to produce. `partition`: `ANY_PARTITION` means that of its key. `timestamp_ms`: `NOW`, or a time."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int = ANY_PARTITION
    timestamp_ms: int = NOW


def outgoing_of_body(body: bytes, records_max: int) -> list[Outgoing]:
    """Return the records of a JSON body: one record, or an object with the list `records`. Raises `RequestError`."""
    _check_values(body, records_max)
    found = _parsed(body, "body")
    if not isinstance(found, dict):
        raise bad_request('body: not an object; allowed: a record, or {"records": [record, ...]}')
    if "records" not in found:
        return [outgoing(found, "body")]
    if len(found) > 1 or not isinstance(found["records"], list):
        raise bad_request("records: allowed is a list, as the only field")
    if not 1 <= len(found["records"]) <= records_max:
        raise bad_request(f"records: {len(found['records'])} of them; allowed: 1 to {records_max}")
    return [outgoing(each, f"records[{number}]") for number, each in enumerate(found["records"])]


def outgoing_of_lines(body: bytes, records_max: int) -> list[Outgoing]:
    """Return the records of lines of JSON, one record each."""
    if (count := body.count(b"\n")) > records_max * LINES_PER_RECORD:
        raise bad_request(f"body: {count} lines, empty ones included; allowed: {records_max * LINES_PER_RECORD}")
    _check_values(body, records_max)
    lines = [line for line in body.split(b"\n") if line.strip()]
    if not 1 <= len(lines) <= records_max:
        raise bad_request(f"body: {len(lines)} lines with records; allowed: 1 to {records_max}")
    records = []
    for number, line in enumerate(lines, 1):
        records.append(outgoing(_parsed(line, f"line {number}"), f"line {number}"))
    return records


def _check_values(body: bytes, records_max: int) -> None:
    """Refuse a body of far more values than such a number of records needs: reading it would take seconds, in which
    the gateway does nothing else."""
    allowed = records_max * VALUES_PER_RECORD
    if _separators(body) > allowed and (count := _separators(TEXT.sub(b"", body))) > allowed:
        raise bad_request(f"body: {count} values and brackets; allowed: {allowed}")


def _separators(text: bytes) -> int:
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def _parsed(text: bytes, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, parse_int=_whole_number)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"{where}: not JSON: {error}") from error


def _no_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON lacks."""
    raise ValueError(f"{name} is no number of JSON")


def _whole_number(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise ValueError(f"a number of {len(text)} digits; allowed: {DIGITS_MAX}")
    return int(text)


def outgoing(fields: Any, where: str) -> Outgoing:
    """Return the record of a JSON object. `RequestError` names the wrong field and what is allowed."""
    if not isinstance(fields, dict):
        raise bad_request(f"{where}: not an object")
    if unknown := sorted(fields.keys() - RECORD_FIELDS):
        raise bad_request(f"{where}.{unknown[0]}: unknown; allowed: {', '.join(sorted(RECORD_FIELDS))}")
    if not fields.keys() & {"value", "value_base64", "value_json"}:
        raise bad_request(f'{where}: value, value_base64 or value_json is missing; a null value is "value": null')
    return Outgoing(
        _bytes(fields, "value", where), _bytes(fields, "key", where), _headers(fields.get("headers"), where),
        _number(fields, "partition", where, ANY_PARTITION, (0, PARTITION_MAX)), _timestamp(fields, where))


def _bytes(fields: Mapping[str, Any], name: str, where: str) -> bytes | None:
    given = [each for each in (name, f"{name}_base64", f"{name}_json") if each in fields]
    if len(given) > 1:
        raise bad_request(f"{where}: {given[0]} and {given[1]}; allowed is one of them")
    if not given or (fields[given[0]] is None and not given[0].endswith("_json")):
        return None
    value = fields[given[0]]
    try:
        if given[0].endswith("_json"):
            return to_json(value)
        if not isinstance(value, str):
            raise bad_request(f"{where}.{given[0]}: not a text; for other JSON use {name}_json")
        return base64.b64decode(value, validate=True) if given[0].endswith("_base64") else value.encode()
    except (binascii.Error, ValueError, RecursionError) as error:
        raise bad_request(f"{where}.{given[0]}: {error}") from error


def _headers(found: Any, where: str) -> Headers:
    if found is None:
        return ()
    if isinstance(found, dict):
        found = [{"name": name, "value": value} for name, value in found.items()]
    if not isinstance(found, list):
        raise bad_request(f"{where}.headers: allowed is an object of texts, or a list of headers")
    headers = []
    for number, each in enumerate(found):
        place = f"{where}.headers[{number}]"
        if not isinstance(each, dict) or not isinstance(each.get("name"), str) or each.keys() - HEADER_FIELDS:
            raise bad_request(f"{place}: allowed is an object with name, and value or value_base64")
        headers.append((_header_name(each["name"], place), _bytes(each, "value", place)))
    return tuple(headers)


def _header_name(name: str, place: str) -> str:
    """Return the name. The library would cut it at a zero byte, and has UTF-8 only."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise bad_request(f"{place}.name: {error}") from error
    if "\0" in name:
        raise bad_request(f"{place}.name: {name[:40]!r} has a zero byte")
    return name


def _number(fields: Mapping[str, Any], name: str, where: str, default: int, allowed: tuple[int, int]) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not allowed[0] <= value <= allowed[1]:
        raise bad_request(f"{where}.{name}: {repr(value)[:NUMBER_SHOWN]}; allowed: {allowed[0]} to {allowed[1]}")
    return value


def _timestamp(fields: Mapping[str, Any], where: str) -> int:
    """Return the time, `NOW` without one. 0 is refused: for the library it would mean now."""
    if fields.get("timestamp_ms") == NO_TIME:
        return NOW
    return _number(fields, "timestamp_ms", where, NOW, (TIMESTAMP_MIN, TIMESTAMP_MAX))


# --- records that were read -------------------------------------------------------------------------------------------


def _field(name: str, value: bytes | None) -> tuple[str, str | None]:
    if value is None:
        return name, None
    try:
        return name, value.decode()
    except UnicodeDecodeError:
        return f"{name}_base64", base64.b64encode(value).decode()


def record_json(partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None,
                headers: Iterable[tuple[str, bytes | None]]) -> dict[str, Any]:
    """Return the fields of a record that was read."""
    found: dict[str, Any] = {"partition": partition, "offset": offset, "timestamp_ms": timestamp_ms}
    if key is not None:
        found |= (_field("key", key),)
    found |= (_field("value", value),)
    if pairs := [{"name": name, **dict((_field("value", each),))} for name, each in headers]:
        found["headers"] = pairs
    return found


# --- filters ----------------------------------------------------------------------------------------------------------

Filter = Callable[[bytes | None], bool]


def key_filter(keys: Iterable[str], prefixes: Iterable[str]) -> Filter | None:
    """Return the filter for records whose key is one of `keys` or begins with one of `prefixes`; None for all records.
    """
    exact, beginnings = frozenset(key.encode() for key in keys), tuple(prefix.encode() for prefix in prefixes)
    if not exact and not beginnings:
        return None
    return lambda key: key is not None and (key in exact or key.startswith(beginnings))


# --- positions --------------------------------------------------------------------------------------------------------


def positions_text(positions: Mapping[int, int]) -> str:
    """Return the id of an event: the next offset of each partition, such as `0:15,3:20`."""
    return ",".join(f"{partition}:{offset}" for partition, offset in positions.items())


def positions_of(text: str, name: str = "Last-Event-ID") -> dict[int, int]:
    """Return the positions of an id. Raises `RequestError` for any other text."""
    if len(text) > POSITIONS_MAX or not POSITIONS.fullmatch(text):
        raise positions_error(name, text)
    pairs = [part.split(":") for part in text.split(",")]
    found = {int(partition): int(offset) for partition, offset in pairs}
    if len(found) != text.count(",") + 1 or max(found) > PARTITION_MAX or max(found.values()) > TIMESTAMP_MAX:
        raise positions_error(name, text)
    return found


def positions_error(name: str, text: str) -> RequestError:
    """Return the error of an id that this gateway has not sent."""
    return bad_request(f"{name}: {text[:100]!r} is not PARTITION:OFFSET[,...], each partition once")
