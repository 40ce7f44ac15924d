"""Content of requests: bodies within their limit, records, and where a subscriber begins."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request

from kraft.gateway.errors import RequestError, bad_request
from kraft.gateway.library import offsets_at, range_of
from kraft.gateway.records import (
    PARTITION_MAX,
    TIMESTAMP_MAX,
    Filter,
    Headers,
    Outgoing,
    key_filter,
    outgoing_of_body,
    outgoing_of_lines,
    positions_of,
)
from kraft.gateway.settings import Limits
from kraft.gateway.subscriber import AT_END
from kraft.gateway.users import User

JSON: Final = "application/json"
LINES: Final = ("application/x-ndjson", "application/jsonl")
HEADER_PREFIX: Final = "kafka-header-"
TOPIC_CHARACTERS_MAX: Final = 249
TOPIC_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
QUERY_OF_EVENTS: Final = frozenset({"partition", "from", "key", "key_prefix", "last_event_id"})


def topic_of(request: Request) -> str:
    """Return the topic of the path. Raises `RequestError` for a name that no topic can have."""
    topic: str = request.path_params["topic"]
    if not 1 <= len(topic) <= TOPIC_CHARACTERS_MAX or not TOPIC_CHARACTERS.issuperset(topic) or topic in (".", ".."):
        raise bad_request(f"topic: {topic[:TOPIC_CHARACTERS_MAX]!r}; allowed: 1 to {TOPIC_CHARACTERS_MAX} of the "
                          "characters a-z, A-Z, 0-9, '.', '_' and '-'")
    return topic


async def body_of(request: Request, limits: Limits) -> bytes:
    """Return the body. Raises `RequestError` as soon as it is larger than allowed."""
    parts, size = [], 0
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limits.body_bytes:
        raise _too_large(int(declared), limits)
    async for part in request.stream():
        size += len(part)
        if size > limits.body_bytes:
            raise _too_large(size, limits)
        parts.append(part)
    return b"".join(parts)


def _too_large(size: int, limits: Limits) -> RequestError:
    return RequestError(413, "MESSAGE_TOO_LARGE", f"body: {size} bytes or more; allowed: {limits.body_bytes}")


def records_of(request: Request, body: bytes, limits: Limits) -> list[Outgoing]:
    """Return the records of a POST, by its content type: JSON, lines of JSON, or else the body as one value."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        return outgoing_of_body(body, limits.records)
    if kind in LINES:
        return outgoing_of_lines(body, limits.records)
    query = request.query_params
    key = query.get("key")
    return [Outgoing(body, None if key is None else key.encode(), _headers_of(request),
                     _number("partition", query.get("partition"), PARTITION_MAX, -1),
                     _number("timestamp_ms", query.get("timestamp_ms"), TIMESTAMP_MAX, 0))]


def _headers_of(request: Request) -> Headers:
    return tuple((name[len(HEADER_PREFIX):], value.encode("latin-1")) for name, value in request.headers.items()
                 if name.startswith(HEADER_PREFIX))


def _number(name: str, text: str | None, largest: int, default: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > largest:
        raise bad_request(f"{name}: {text[:40]!r}; allowed: 0 to {largest}")
    return int(text)


def filter_of(request: Request) -> Filter | None:
    """Return the filter by keys of a subscriber."""
    if unknown := sorted(request.query_params.keys() - QUERY_OF_EVENTS):
        raise bad_request(f"{unknown[0][:40]}: unknown; allowed: {', '.join(sorted(QUERY_OF_EVENTS))}")
    return key_filter(request.query_params.getlist("key"), request.query_params.getlist("key_prefix"))


async def positions_of_request(request: Request, user: User, topic: str, limits: Limits) -> dict[int, int]:
    """Return where a subscriber begins in each partition: after its last event, or where it says. Raises
    `RequestError`.
    """
    query = request.query_params
    last = request.headers.get("last-event-id") or query.get("last_event_id")
    positions = positions_of(last) if last else {}
    wanted = [_number("partition", text, PARTITION_MAX, 0) for text in query.getlist("partition")]
    seconds = limits.request_seconds
    existing = await user.partitions(topic)
    if missing := sorted({*wanted, *positions} - set(existing)):
        raise RequestError(404, "UNKNOWN_TOPIC_OR_PARTITION", f"partition {topic}-{missing[0]} does not exist")
    partitions = list(dict.fromkeys(wanted)) or existing
    _check_count(len(partitions), limits)
    if positions:       # a partition without one was created since
        return {each: positions.get(each, 0) for each in partitions}
    return await _start(query.get("from", "end"), user, topic, partitions, seconds)


async def _start(start: str, user: User, topic: str, partitions: list[int], seconds: float) -> dict[int, int]:
    if start == "end":
        return dict.fromkeys(partitions, AT_END)
    if start == "beginning":
        lows: Mapping[int, int] = await user.history.query(
            lambda consumer: {each: range_of(consumer, (topic, each), seconds)[0] for each in partitions})
        return dict(lows)
    if start.startswith("time:"):
        times = dict.fromkeys(partitions, _number("from", start.removeprefix("time:"), TIMESTAMP_MAX, 0))
        found: dict[int, int] = await user.history.query(lambda consumer: offsets_at(consumer, topic, times, seconds))
        return found
    if not (start.isascii() and start.isdecimal()):
        raise bad_request(f"from: {start[:40]!r}; allowed: beginning, end, an offset, or time: and milliseconds since "
                          "1970")
    return dict.fromkeys(partitions, _number("from", start, TIMESTAMP_MAX, 0))


def _check_count(count: int, limits: Limits) -> None:
    if count > limits.partitions:
        raise bad_request(f"partition: {count} of them; allowed: {limits.partitions} in one subscription")
