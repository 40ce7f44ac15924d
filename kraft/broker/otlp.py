"""Decoder of client metrics: OpenTelemetry's `MetricsData` in protobuf, as far as Kafka's clients use it (KIP-714).

Data points of gauges, sums and histograms are read. A histogram becomes single values, as in Prometheus: `.count`,
`.sum`, and one `.bucket` for each bound with the number of values up to it. Summaries and exponential histograms, which
clients do not push, are skipped like all unknown fields. A payload chooses its own nesting and length, so decoding
pauses: it yields None between two parts.
"""

import struct
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from kraft_native.base.errors import MalformedMessageError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX: Final = 10
DELTA: Final = 1
"""AggregationTemporality of a sum whose points have the change since the previous push."""
TEXT_MAX: Final = 200
ATTRIBUTES_MAX: Final = 16
BUCKETS_MAX: Final = 64
"""A histogram of more is skipped: each bucket is a value of its own."""
NUMBER_BYTES: Final = 8
INFINITE: Final = "+Inf"
FIELDS_AT_ONCE: Final = 16
"""Fields of a point, an attribute or a value that are decoded without a pause; the usual ones have fewer."""

# Numbers of the fields.
RESOURCE_METRICS: Final = 1
RESOURCE, SCOPE_METRICS = 1, 2
ATTRIBUTES_OF_RESOURCE: Final = 1
METRICS_OF_SCOPE: Final = 2
NAME, GAUGE, SUM, HISTOGRAM = 1, 5, 7, 9
POINTS, TEMPORALITY = 1, 2
AS_DOUBLE, AS_INT, ATTRIBUTES_OF_POINT = 4, 6, 7
COUNT, TOTAL, BUCKET_COUNTS, BOUNDS, ATTRIBUTES_OF_HISTOGRAM = 4, 5, 6, 7, 9
KEY, VALUE = 1, 2
STRING, BOOL, INT, DOUBLE = 1, 2, 3, 4

Attributes = tuple[tuple[str, str], ...]
Field = tuple[int, int, int, int]
"""Number, wire type, and the span of the value; of a varint its value instead of the start."""


class Point(NamedTuple):
    """One value. `is_delta`: the change of a counter since the previous push. `resource`: attributes of the client."""

    name: str
    attributes: Attributes
    value: float
    is_delta: bool
    resource: Attributes


def points(data: bytes) -> Iterator[Point | None]:
    """Yield the values of a payload, and None between parts without any. Raises `MalformedMessageError`."""
    for number, wire, start, end in _fields(data, 0, len(data)):
        if (number, wire) == (RESOURCE_METRICS, BYTES):
            yield from _of_resource(data, start, end)
        yield None


def _of_resource(data: bytes, start: int, end: int) -> Iterator[Point | None]:
    resource: list[tuple[str, str]] = []
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (RESOURCE, BYTES):
            for each in _fields(data, first, last):
                if each[:2] == (ATTRIBUTES_OF_RESOURCE, BYTES) and len(resource) < ATTRIBUTES_MAX:
                    resource.append((yield from _attribute(data, each[2], each[3])))
                yield None
        yield None
    for scope, wire, first, last in _fields(data, start, end):      # again: a list of them may be longer than the data
        if (scope, wire) == (SCOPE_METRICS, BYTES):
            for number, kind, metric_start, metric_end in _fields(data, first, last):
                if (number, kind) == (METRICS_OF_SCOPE, BYTES):
                    yield from _of_metric(data, metric_start, metric_end, tuple(resource))
                yield None
        yield None


def _of_metric(data: bytes, start: int, end: int, resource: Attributes) -> Iterator[Point | None]:
    name, values, kind = "", None, 0
    for number, wire, first, last in _fields(data, start, end):
        if (number, wire) == (NAME, BYTES):
            name = _text(data, first, last)
        elif number in (GAUGE, SUM, HISTOGRAM) and wire == BYTES:
            values, kind = (first, last), number
        yield None
    if values is None:
        return
    is_delta = False
    for number, wire, first, _ in _fields(data, *values):           # it may stand behind the points
        if kind != GAUGE and (number, wire) == (TEMPORALITY, VARINT):
            is_delta = first == DELTA
        yield None
    for number, wire, first, last in _fields(data, *values):
        if (number, wire) == (POINTS, BYTES):
            read = _histogram if kind == HISTOGRAM else _point
            yield from read(data, first, last, name, resource, is_delta=is_delta)
        yield None


def _point(data: bytes, start: int, end: int, name: str, resource: Attributes, *,
           is_delta: bool) -> Iterator[Point | None]:
    value = None
    attributes: list[tuple[str, str]] = []
    for count, (number, wire, first, last) in enumerate(_fields(data, start, end)):
        if (number, wire) == (AS_DOUBLE, FIXED64):
            value, = struct.unpack_from("<d", data, first)
        elif (number, wire) == (AS_INT, FIXED64):
            value = float(struct.unpack_from("<q", data, first)[0])
        elif (number, wire) == (ATTRIBUTES_OF_POINT, BYTES) and len(attributes) < ATTRIBUTES_MAX:
            attributes.append((yield from _attribute(data, first, last)))
        if count % FIELDS_AT_ONCE == FIELDS_AT_ONCE - 1:
            yield None
    if value is not None:
        yield Point(name, tuple(attributes), value, is_delta, resource)


def _histogram(data: bytes, start: int, end: int, name: str, resource: Attributes, *,
               is_delta: bool) -> Iterator[Point | None]:
    """Yield the values of one histogram. A producer may send its numbers packed or one by one."""
    single: dict[int, float] = {}
    numbers: dict[int, list[float]] = {BUCKET_COUNTS: [], BOUNDS: []}
    attributes: list[tuple[str, str]] = []
    for at, (number, wire, first, last) in enumerate(_fields(data, start, end)):
        if number in (COUNT, TOTAL) and wire == FIXED64:
            single[number] = _number(data, first, is_double=number == TOTAL)
        elif number in numbers and wire in (BYTES, FIXED64):
            room = BUCKETS_MAX + 1 - len(numbers[number])
            numbers[number] += [_number(data, each, is_double=number == BOUNDS)
                                for each in range(first, last - NUMBER_BYTES + 1, NUMBER_BYTES)[:room]]
        elif (number, wire) == (ATTRIBUTES_OF_HISTOGRAM, BYTES) and len(attributes) < ATTRIBUTES_MAX:
            attributes.append((yield from _attribute(data, first, last)))
        if at % FIELDS_AT_ONCE == FIELDS_AT_ONCE - 1:
            yield None
    for field, suffix in ((COUNT, "count"), (TOTAL, "sum")):
        if field in single:
            yield Point(f"{name}.{suffix}", tuple(attributes), single[field], is_delta, resource)
    counts, bounds = numbers[BUCKET_COUNTS], numbers[BOUNDS]
    if len(counts) != len(bounds) + 1 or len(counts) > BUCKETS_MAX:
        return
    total = 0.0
    for count, bound in zip(counts, [*(f"{each:g}" for each in bounds), INFINITE], strict=True):
        total += count
        yield Point(f"{name}.bucket", (("le", bound), *attributes), total, is_delta, resource)


def _number(data: bytes, at: int, *, is_double: bool) -> float:
    return float(struct.unpack_from("<d" if is_double else "<Q", data, at)[0])


def _attribute(data: bytes, start: int, end: int) -> Generator[None, None, tuple[str, str]]:
    key = value = ""
    for count, (number, wire, first, last) in enumerate(_fields(data, start, end)):
        if (number, wire) == (KEY, BYTES):
            key = _text(data, first, last)
        elif (number, wire) == (VALUE, BYTES):
            value = yield from _any_value(data, first, last)
        if count % FIELDS_AT_ONCE == FIELDS_AT_ONCE - 1:
            yield None
    return key, value


def _any_value(data: bytes, start: int, end: int) -> Generator[None, None, str]:
    value = ""
    for count, (number, wire, first, last) in enumerate(_fields(data, start, end)):
        if (number, wire) == (STRING, BYTES):
            value = _text(data, first, last)
        elif (number, wire) == (BOOL, VARINT):
            value = "true" if first else "false"
        elif (number, wire) == (INT, VARINT):
            value = str(first - (first >> 63 << 64))
        elif (number, wire) == (DOUBLE, FIXED64):
            value = str(struct.unpack_from("<d", data, first)[0])
        if count % FIELDS_AT_ONCE == FIELDS_AT_ONCE - 1:
            yield None
    return value


def _text(data: bytes, start: int, end: int) -> str:
    return data[start:min(end, start + TEXT_MAX)].decode("utf-8", "replace")


def _fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message. Raises `MalformedMessageError` for a field that does not fit into it."""
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(data, at, end)
            yield number, wire, value, at
            continue
        if wire == BYTES:
            size, at = _varint(data, at, end)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise MalformedMessageError(f"client metrics: wire type {wire} of field {number}")
        if size > end - at:
            raise MalformedMessageError(f"client metrics: field {number} of {size} bytes, {end - at} are left")
        yield number, wire, at, at + size
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(VARINT_BYTES_MAX):
        if at >= end:
            raise MalformedMessageError("client metrics: a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise MalformedMessageError(f"client metrics: a number of more than {VARINT_BYTES_MAX} bytes")
