"""Content of requests: bodies within their limit, records, and where a subscriber begins."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from kraft.gateway.errors import RequestError, bad_request
from kraft.gateway.library import offsets_at, range_of
from kraft.gateway.records import (
    ANY_PARTITION,
    NOW,
    PARTITION_MAX,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
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
BODY_SECONDS: Final = 120.0
"""Time until a body is complete."""
FILTERS_MAX: Final = 256
QUERY_OF_EVENTS: Final = frozenset({"partition", "from", "key", "key_prefix", "last_event_id"})


def topic_of(request: Request) -> str:
    """Return the topic of the path. Raises `RequestError` for a name that no topic can have."""
    topic: str = request.path_params["topic"]
    if not 1 <= len(topic) <= TOPIC_CHARACTERS_MAX or not TOPIC_CHARACTERS.issuperset(topic) or topic in (".", ".."):
        raise bad_request(f"topic: {topic[:TOPIC_CHARACTERS_MAX]!r}; allowed: 1 to {TOPIC_CHARACTERS_MAX} of the "
                          "characters a-z, A-Z, 0-9, '.', '_' and '-'")
    return topic


def check_origin(request: Request, origins: Collection[str]) -> None:
    """Raise `RequestError` for a request that a page of another origin sends. Browsers send some kinds without a check,
    also to a gateway on the visitor's own machine."""
    origin = request.headers.get("origin")
    if origin is None or "*" in origins or origin in origins or request.headers.get("sec-fetch-site") == "same-origin":
        return
    try:
        place = urlsplit(origin).netloc.lower()
    except ValueError:
        place = ""
    if not place or place != request.headers.get("host", "").lower():
        raise RequestError(403, "POLICY_VIOLATION", f"Origin: {origin[:200]!r} is another site (--cors-origin)")


class Bodies:
    """Bodies of all requests in progress; `size` is the sum of their bytes."""

    def __init__(self, limits: Limits) -> None:
        self.size = 0
        self._limits = limits

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body, which counts until the block ends. Raises `RequestError` as soon as it is larger than
        allowed, all of them together are, or it does not come in time."""
        parts, size, limits = [], 0, self._limits
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > limits.body_bytes):
            raise _too_large(declared[:18], limits)
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    async for part in request.stream():
                        size += len(part)
                        self.size += len(part)
                        self._check(size)
                        parts.append(part)
            except TimeoutError as error:
                raise RequestError(408, "REQUEST_TIMED_OUT", f"body: not complete after {BODY_SECONDS:g} s") from error
            yield b"".join(parts)
        finally:
            self.size -= size

    def _check(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise _too_large(str(size), self._limits)
        if self.size > self._limits.bodies_bytes:
            raise RequestError(503, "THROTTLING_QUOTA_EXCEEDED", "the bodies of all requests reach the gateway's limit",
                               retry_after=1)


def _too_large(size: str, limits: Limits) -> RequestError:
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
    return [Outgoing(body, None if key is None else key.encode(), headers_of(request),
                     _number("partition", query.get("partition"), PARTITION_MAX, ANY_PARTITION),
                     _number("timestamp_ms", query.get("timestamp_ms"), TIMESTAMP_MAX, NOW, TIMESTAMP_MIN))]


def headers_of(request: Request) -> Headers:
    """Return the headers of a raw body's record."""
    return tuple((name[len(HEADER_PREFIX):], value.encode("latin-1")) for name, value in request.headers.items()
                 if name.startswith(HEADER_PREFIX))


def _number(name: str, text: str | None, largest: int, default: int, smallest: int = 0) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or not smallest <= int(text) <= largest:
        raise bad_request(f"{name}: {text[:40]!r}; allowed: {smallest} to {largest}")
    return int(text)


def filter_of(request: Request) -> Filter | None:
    """Return the filter by keys of a subscriber."""
    if unknown := sorted(request.query_params.keys() - QUERY_OF_EVENTS):
        raise bad_request(f"{unknown[0][:40]}: unknown; allowed: {', '.join(sorted(QUERY_OF_EVENTS))}")
    keys, prefixes = request.query_params.getlist("key"), request.query_params.getlist("key_prefix")
    if len(keys) + len(prefixes) > FILTERS_MAX:
        raise bad_request(f"key, key_prefix: {len(keys) + len(prefixes)} of them; allowed: {FILTERS_MAX}")
    return key_filter(keys, prefixes)


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
