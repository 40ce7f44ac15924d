"""The gateway as an ASGI application."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kraft.gateway.door import Door, Rates
from kraft.gateway.errors import RequestError, cluster_failure
from kraft.gateway.identity import Guard, Identity
from kraft.gateway.library import Place, range_of
from kraft.gateway.openapi import document, page
from kraft.gateway.producing import Stored
from kraft.gateway.repeats import Repeats
from kraft.gateway.requests import (
    Bodies,
    check_origin,
    filter_of,
    headers_of,
    positions_of_request,
    records_of,
    topic_of,
)
from kraft.gateway.settings import Settings
from kraft.gateway.subscriber import SlowSubscriberError, Subscriber, error_event
from kraft.gateway.text import to_json
from kraft.gateway.users import Users
from kraft_native.base.errors import KraftError

EVENT_TYPE: Final = "text/event-stream; charset=utf-8"
EVENT_HEADERS: Final = [(b"content-type", EVENT_TYPE.encode()), (b"cache-control", b"no-store"),
                        (b"x-accel-buffering", b"no")]
PARTITIONS_AT_ONCE: Final = 32
"""Partitions whose offsets one query reads, so that subscribers get their turn at the readers."""
FULL_SECONDS: Final = 5
"""Time after which a client may try again when a limit of subscribers or connections is reached."""
HEALTHY: Final = "ok\n"
EXPOSED: Final = ("Idempotency-Replayed", "Retry-After")


class JsonResponse(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


class Gateway:
    """State of a gateway's process. Created on the loop's thread; `close` ends subscribers and connections."""

    def __init__(self, settings: Settings, door: Door) -> None:
        self.settings = settings
        self.door = door
        self.guard = Guard(settings)
        self.users = Users(settings)
        self.rates = Rates(settings.limits.requests_per_second)
        self.bodies = Bodies(settings.limits)
        self.repeats: Repeats[list[Stored]] = Repeats(settings.limits.idempotency_keys,
                                                      settings.limits.idempotency_seconds)
        self.subscribers: set[asyncio.Task[None]] = set()
        self.subscriptions = 0
        """Subscribers, those that are not open yet included."""
        self.cut = 0
        self.events = 0
        self._document = document(settings.limits, settings.login)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def produce(self, request: Request) -> Response:
        """Store records, and answer where they are."""
        check_origin(request, self.settings.origins)
        identity, topic = self._identify(request), topic_of(request)
        async with self.bodies.read(request) as body:
            records = records_of(request, body, self.settings.limits)
            key = request.headers.get("idempotency-key")
            with await self.users.of(identity) as user:
                send = partial(user.producing.send, topic, records)
                if key is None:
                    return _stored(await send(), replayed=False)
                found, replayed = await self.repeats.once(
                    (identity.key, topic, key), _content(request, body), lambda: _all_or_error(send), len(records))
                return _stored(found, replayed=replayed)

    async def topic(self, request: Request) -> Response:
        """Answer with the partitions of a topic, and the offsets of each."""
        topic = topic_of(request)
        seconds = self.settings.limits.request_seconds
        with await self.users.of(self._identify(request)) as user:
            partitions = await user.partitions(topic)
            ranges: list[tuple[int, int]] = []
            for first in range(0, len(partitions), PARTITIONS_AT_ONCE):
                places = [(topic, each) for each in partitions[first:first + PARTITIONS_AT_ONCE]]
                ranges += await user.history.query(partial(_ranges, places=places, seconds=seconds))
        return JsonResponse({"topic": topic, "partitions": [
            {"partition": partition, "start_offset": low, "end_offset": high}
            for partition, (low, high) in zip(partitions, ranges, strict=True)]})

    async def subscribe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either side ends. The memory of a subscriber is what it is being sent."""
        request = Request(scope)
        limits, identity, topic = self.settings.limits, self._identify(request), topic_of(request)
        wanted = filter_of(request)
        if self.subscriptions >= limits.subscribers:
            raise RequestError(503, "THROTTLING_QUOTA_EXCEEDED", f"{limits.subscribers} subscribers; the gateway's "
                                                                 "limit is reached", retry_after=FULL_SECONDS)
        self.subscriptions += 1
        try:
            with await self.users.of(identity) as user:
                positions = await positions_of_request(request, user, topic, limits)
                if request.method == "HEAD":        # nothing that is sent would reach the client, or slow the sender
                    await Response(headers={"content-type": EVENT_TYPE, "cache-control": "no-store"})(
                        scope, receive, send)
                    return
                subscriber = Subscriber(user, topic, positions, wanted, limits)
                try:
                    await subscriber.open()
                    await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
                    await self._run(subscriber, scope, receive, send)
                finally:
                    subscriber.close()
                    self.events += subscriber.sent
        finally:
            self.subscriptions -= 1

    async def _run(self, subscriber: Subscriber, scope: Scope, receive: Receive, send: Send) -> None:
        async def deliver(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        running = asyncio.create_task(subscriber.run(deliver))
        ended = asyncio.create_task(_await_end(receive))
        self.subscribers.add(running)
        try:
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
            last = b""
            if running.done() and not running.cancelled():
                error = running.exception()
                if isinstance(error, SlowSubscriberError):
                    self.cut += 1
                    self.door.cut(tuple(scope["client"]))
                elif isinstance(error, KraftError):
                    last = error_event(cluster_failure(error))
                elif error is not None:
                    raise error
            if not ended.done():
                await self._end(send, tuple(scope["client"]), last)
        finally:
            self.subscribers.discard(running)
            for task in (running, ended):
                task.cancel()
            await asyncio.gather(running, ended, return_exceptions=True)

    async def _end(self, send: Send, address: tuple[str, int], last: bytes) -> None:
        """End a stream. A client that does not receive the end in time is cut."""
        try:
            async with asyncio.timeout(self.settings.limits.slow_seconds):
                await send({"type": "http.response.body", "body": last, "more_body": False})
        except TimeoutError:
            self.cut += 1
            self.door.cut(address)

    async def metrics(self, request: Request) -> Response:
        """Answer with the gateway's own metrics, for Prometheus."""
        with await self.users.of(self._identify(request)):     # a user's login is checked, too
            registry = CollectorRegistry()
            registry.register(self)
        return PlainTextResponse(generate_latest(registry), media_type="text/plain; version=0.0.4")

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """Return the metrics, for the library."""
        users = self.users.all()
        gauges = {"subscribers": (len(self.subscribers), "Subscribers that receive events."),
                  "connections": (self.door.connections, "Open connections."),
                  "users": (len(users), "Identities with connections to the cluster."),
                  "feeds": (sum(user.live.count for user in users), "Partitions that are followed.")}
        counters = {"subscribers_cut": (self.cut, "Subscribers that were cut because they did not receive."),
                    "connections_refused": (self.door.refused, "Connections of addresses that had too many."),
                    "connections_turned_away": (self.door.turned_away, "Connections beyond the limit of all."),
                    "events": (self.events, "Events sent to subscribers that have ended."),
                    "records_read": (sum(user.live.records for user in users), "Records put into feeds."),
                    "history_pieces": (sum(user.history.pieces_read for user in users),
                                       "Pieces of older records that were read."),
                    "records_produced": (sum(user.produced for user in users), "Records stored.")}
        return [*(GaugeMetricFamily(f"kraft_gateway_{name}", text, value=value)
                  for name, (value, text) in gauges.items()),
                *(CounterMetricFamily(f"kraft_gateway_{name}", text, value=value)
                  for name, (value, text) in counters.items())]

    async def openapi(self, _request: Request) -> Response:
        """Answer with the OpenAPI document."""
        return JsonResponse(self._document)

    async def index(self, _request: Request) -> Response:
        """Answer with the page of the document."""
        return HTMLResponse(page(self._document), headers={
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})

    async def health(self, _request: Request) -> Response:
        """Answer that the process runs."""
        return PlainTextResponse(HEALTHY)

    def end_subscribers(self) -> None:
        """End all streams; their clients connect again elsewhere."""
        for task in self.subscribers:
            task.cancel()

    async def close(self) -> None:
        """End subscribers, and close the connections to the cluster."""
        self.end_subscribers()
        await self.users.close()

    def _identify(self, request: Request) -> Identity:
        return self.guard.identify(request.headers.get("authorization", ""))

    # --- the application ----------------------------------------------------------------------------------------------

    def app(self) -> Starlette:
        """Return the application."""
        middleware = [Middleware(_Limited, rates=self.rates, door=self.door)]
        if origins := self.settings.origins:
            middleware.append(Middleware(
                CORSMiddleware, allow_origins=list(origins), allow_methods=["GET", "POST"], expose_headers=EXPOSED,
                allow_headers=["authorization", "content-type", "idempotency-key", "last-event-id"]))
        routes = [Route("/", self.index), Route("/openapi.json", self.openapi), Route("/health", self.health),
                  Route("/metrics", self.metrics), Route("/topics/{topic}", self.topic),
                  Route("/topics/{topic}/records", self.produce, methods=["POST"]),
                  Route("/topics/{topic}/events", _Endpoint(self.subscribe), methods=["GET"])]
        return Starlette(routes=routes, middleware=middleware, exception_handlers={
            KraftError: self._refused, ClientDisconnect: _departed})

    async def _refused(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, KraftError)
        failure = cluster_failure(error)
        headers = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
        if failure.status == 401:
            headers["WWW-Authenticate"] = self.guard.challenge
        return JsonResponse(failure.body, failure.status, headers)


class _Endpoint:
    """An endpoint that speaks ASGI itself."""

    def __init__(self, function: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._function = function

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._function(scope, receive, send)


class _Limited:
    """Refuses requests of an address that sends too many, and of connections beyond the limit of all."""

    def __init__(self, app: ASGIApp, rates: Rates, door: Door) -> None:
        self._app = app
        self._rates = rates
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        answer: Response | None = None
        if scope["type"] == "http" and client:
            if self._door.turns_away(tuple(client)):
                answer = self._full(scope["path"])
            elif scope["path"] != "/health" and (seconds := self._rates.take(client[0])):
                answer = _throttled(429, "too many requests from this address", int(seconds) + 1)
        await (answer or self._app)(scope, receive, send)

    def _full(self, path: str) -> Response:
        """Return the only answer of a connection beyond the limit. The process is healthy."""
        answer = (PlainTextResponse(HEALTHY) if path == "/health" else _throttled(
            503, f"{self._door.connections_max} connections; the gateway's limit is reached", FULL_SECONDS))
        answer.headers["Connection"] = "close"
        return answer


def _throttled(status: int, message: str, retry_after: int) -> JsonResponse:
    error = RequestError(status, "THROTTLING_QUOTA_EXCEEDED", message)
    return JsonResponse(error.body, error.status, {"Retry-After": str(retry_after)})


async def _await_end(receive: Receive) -> None:
    """Return when the other side has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _all_or_error(send: Callable[[], Awaitable[list[Stored]]]) -> list[Stored]:
    """Send records, and raise the error when none is stored: the request may then be repeated."""
    found = await send()
    if (error := found[0].error) is not None and all(each.error is not None for each in found):
        raise error
    return found


def _ranges(consumer: Any, places: list[Place], seconds: float) -> list[tuple[int, int]]:
    return [range_of(consumer, place, seconds) for place in places]


def _content(request: Request, body: bytes) -> bytes:
    """Return everything that a request stores."""
    headers = [part for name, value in sorted(headers_of(request)) for part in (name.encode(), value or b"")]
    return b"\0".join((request.headers.get("content-type", "").encode(), request.url.query.encode(), *headers, body))


async def _departed(_request: Request, _error: Exception) -> Response:
    """Answer a client that has closed its connection, which nobody reads."""
    return Response(status_code=400)


def _stored(found: list[Stored], *, replayed: bool) -> Response:
    errors = [each.error for each in found if each.error is not None]
    if len(errors) == len(found):
        raise errors[0]
    headers = {"Idempotency-Replayed": "true"} if replayed else {}
    return JsonResponse({"records": [each.body for each in found]}, 207 if errors else 200, headers)
