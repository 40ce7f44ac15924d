"""Path of a request from its bytes to the handler of its API, and of the answer back to bytes."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from functools import cache, partial
from inspect import isgeneratorfunction
from typing import Final

from kraft.broker.api import Handler, RequestContext, Steps
from kraft.broker.apis import handler_of
from kraft.broker.broker import Broker
from kraft.broker.request_parts import PLANS
from kraft.protocol.api import Api
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.message import BYTES_MAX, Message, MessageSizeError
from kraft.protocol.response_errors import count_errors
from kraft.security.principal import ANONYMOUS
from kraft_native.base.errors import KraftError, ProtocolError
from kraft_native.base.wire_steps import free_steps
from kraft_native.net.channel import RequestChannel
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.request.reply import Reply, RequestHandler
from kraft_native.request.slices import SliceQueue

log = logging.getLogger(__name__)

NEVER_FLEXIBLE: Final = 0x7FFF
ELEMENTS_MAX: Final = 131_072
"""Array elements and tags, at all levels together, of a request that is served in steps. One with more is malformed."""
ELEMENTS_AT_ONCE_MAX: Final = 2_000
"""The same limit for a request that is served in one step."""
SMALL_BYTES: Final = 2 * 1024
"""Size up to which a body is decoded in one step: that takes less than a millisecond, whatever the body holds."""


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@cache
def _runs_in_steps(handler: Handler) -> bool:
    return isgeneratorfunction(handler)


def serve_api(channel: RequestChannel, api: Api, versions: range, handler: RequestHandler | None = None) -> None:
    """Serve these versions of an API on a listener; `handler` None: by the channel's `on_request`."""
    channel.serve(api.key, versions.start, versions.stop - 1, min(api.flexible_from, NEVER_FLEXIBLE), handler)


def decoded(api: Api, version: int, body: bytes, *, in_steps: bool = False) -> Generator[None, None, Message]:
    """Decode the request in `body`, in steps when it is large. Raises `ProtocolError` for a malformed one.

    `in_steps`: its handler works in steps. Requests that are passed to the controller or to coordinators in parts do,
    too.
    """
    kind = api.request
    if len(body) <= SMALL_BYTES:
        return kind.decode(body, version)
    return (yield from kind.decode_steps(
        body, version, ELEMENTS_MAX if in_steps or api.key in PLANS else ELEMENTS_AT_ONCE_MAX))


def answer_steps(reply: Reply, response: Message, bytes_max: int, failed: Callable[[KraftError], None]) -> Steps:
    """Encode a response in steps, answer with it, and free a large one in steps. An answer above `bytes_max` closes the
    connection; `failed` is called for one that cannot be encoded."""
    try:
        parts = yield from response.encode_steps(reply.api_version, bytes_max)
    except MessageSizeError as error:
        log.warning("client %s requested too much: %s", _client_id(reply), error)
        reply.refuse("answer_size")
        return
    except KraftError as error:
        failed(error)
        return
    reply.answer_parts(parts, API_BY_KEY[reply.api_key].response_header_version(reply.api_version))
    if sum(map(len, parts)) > SMALL_BYTES:
        held: list[object] = [response]
        del parts, response
        yield from free_steps(held)


class RequestWork:
    """Work on one request, in parts. A large request is freed in steps after the last part: all at once takes tens of
    milliseconds."""

    __slots__ = ("parts", "reply", "request")

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.parts = 0
        """Parts that have begun and not ended."""
        self.request: Message | None = None
        """A large request; None for others, and once it is freed."""

    def part(self, slices: SliceQueue, steps: Steps) -> Steps:
        """Run `steps` as a part. The last one frees the request, also when the client has disconnected."""
        self.parts += 1        # here: a part that is closed before its first step never ends
        try:
            yield from steps
        except GeneratorExit:
            self.parts -= 1
            slices.work(self.reply.api_key, self._free())
            raise
        self.parts -= 1
        del steps
        yield from self._free()

    def _free(self) -> Steps:
        reply, request = self.reply, self.request
        settled = reply.answered or reply.refused or reply.skipped or reply.abandoned
        if request is not None and settled and not self.parts:
            held: list[object] = [request]
            self.request = request = None
            yield from free_steps(held)


class RequestRouter:
    """Router of one listener's cold APIs. A `RequestChannel` calls its `on_request`.

    Decoding, the handler and encoding work in steps that `slices` schedules. No request holds the loop for longer than
    a slice, whatever it holds.

    A handler that fails by a fault of ours is logged, and its connection is closed: one request that cannot be served
    must not take down all the others. A failed assertion is different: it shows a broken state, and stops the node.
    """

    def __init__(self, broker: Broker, listener: str, served: Callable[[], None], slices: SliceQueue,
                 quotas: ClientQuotas | None = None, clock: Callable[[], int] = now_ms,
                 answer_bytes_max: int = BYTES_MAX) -> None:
        """`served` is called after each request, because deadlines may have moved. `quotas`: None where clients have
        none."""
        self.broker = broker
        self.listener = listener
        self.served = served
        self.slices = slices
        self.clock = clock
        self.quotas = quotas
        self.answer_bytes_max = answer_bytes_max
        self.failures = 0
        self.errors: dict[int, Counter[int]] = defaultdict(Counter)
        """Count of each of Kafka's error codes that was returned, by api key."""

    def on_request(self, reply: Reply, api_key: int, _version: int, body: bytes) -> None:
        """Decode the request, call its handler, and answer when the handler does. A malformed body closes the
        connection."""
        work = RequestWork(reply)
        self._run(work, self._serve(work, API_BY_KEY[api_key], body))

    def _serve(self, work: RequestWork, api: Api, body: bytes) -> Steps:
        reply = work.reply
        version = reply.api_version
        handler = handler_of(api.key)
        request = yield from decoded(api, version, body, in_steps=_runs_in_steps(handler))
        if len(body) > SMALL_BYTES:
            work.request = request
        context = RequestContext(version, _client_id(reply), getattr(reply.sink, "peer_host", ""), self.listener,
                                 self.clock(), partial(self._run, work),
                                 getattr(reply.sink, "principal", ANONYMOUS))
        try:
            steps = handler(self.broker, request, context, partial(self._answer, work))
            if steps is not None:
                yield from steps
        finally:
            self.served()

    def _answer(self, work: RequestWork, response: Message) -> None:
        self._throttle(work.reply, response)
        self._run(work, self._send(work.reply, response))

    def _send(self, reply: Reply, response: Message) -> Steps:
        yield from count_errors(response, self.errors[reply.api_key])
        yield from answer_steps(reply, response, self.answer_bytes_max, partial(self._failed, reply))

    def _run(self, work: RequestWork, steps: Steps) -> None:
        """Run a part of the work. It may continue after the call."""
        self.slices.start(work.reply, work.part(self.slices, self._guarded(work.reply, steps)))

    def _guarded(self, reply: Reply, steps: Steps) -> Steps:
        """Run `steps` so that an error in them ends this one request."""
        try:
            yield from steps
        except ProtocolError as error:
            log.debug("%s version %d of client %s is refused: %s", API_BY_KEY[reply.api_key].name, reply.api_version,
                      _client_id(reply), error, exc_info=error)
            reply.refuse("malformed")
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            self._failed(reply, error)

    def _throttle(self, reply: Reply, response: Message) -> None:
        """Throttle the connection for the time that the controller returned to its client, or longer when the time that
        its requests take is limited. The answer returns the longer time."""
        throttled_ms = getattr(response, "throttle_time_ms", None)
        reply.throttle_ms = throttled_ms or 0
        if self.quotas is not None:
            self.quotas.charge_time(reply)
        if throttled_ms is not None and reply.throttle_ms > throttled_ms:
            response.throttle_time_ms = reply.throttle_ms  # type: ignore[attr-defined]

    def _failed(self, reply: Reply, error: Exception) -> None:
        """Log a fault of ours and close the connection whose request met it."""
        self.failures += 1
        log.error("%s version %d of client %s failed by a fault of our own", API_BY_KEY[reply.api_key].name,
                  reply.api_version, _client_id(reply), exc_info=error)
        reply.refuse("failure")


def _client_id(reply: Reply) -> str:
    return (reply.client_id or b"").decode("utf-8", "replace")
