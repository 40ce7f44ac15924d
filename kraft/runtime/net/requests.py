"""Path of a request from its bytes to the handler of its API, and of the answer back to bytes."""

import logging
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
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import BYTES_MAX, Message, MessageSizeError
from kraft.protocol.response_errors import count_errors
from kraft.runtime.audit.node_audit import NodeAudit, PendingChange, topics_in
from kraft.security.principal import ANONYMOUS
from kraft.steps import finish
from kraft_native.base.clock import wall_ms
from kraft_native.base.errors import KraftError, ProtocolError
from kraft_native.base.wire_steps import short_codes
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
SHORT_BYTES: Final[dict[int, int]] = {ApiKey.WRITE_TXN_MARKERS: 256}
"""Size up to which all steps of a handler together take less than a millisecond: their number follows from the size."""
NO_SOFTWARE: Final = ("", "")
SHORT_ELEMENTS: Final = 64
"""Array elements, at all levels together, of an answer that is encoded in one step."""


now_ms: Final = wall_ms
"""Milliseconds since 1970."""


@cache
def _runs_in_steps(handler: Handler) -> bool:
    return isgeneratorfunction(handler)


@cache
def _messages(api_key: int) -> tuple[type[Message], type[Message]]:
    """Return the classes of an API's requests and responses."""
    return API_BY_KEY[api_key].request, API_BY_KEY[api_key].response


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
    """Encode a response in steps, and answer with it. An answer above `bytes_max` closes the connection; `failed` is
    called for one that cannot be encoded."""
    try:
        parts = yield from response.encode_steps(reply.api_version, bytes_max)
    except MessageSizeError as error:
        refuse_size(reply, error)
        return
    except KraftError as error:
        failed(error)
        return
    reply.answer_parts(parts, API_BY_KEY[reply.api_key].response_header_version(reply.api_version))


def refuse_size(reply: Reply, why: object) -> None:
    """Close the connection instead of sending an answer that is too large."""
    log.warning("client %s requested too much: %s", _client_id(reply), why)
    reply.refuse("answer_size")


class RequestWork:
    """Work on one request, in parts. A large request is freed after the last part, in slices of its own: the caller of
    that part may still refer to it. All at once takes tens of milliseconds."""

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
        finally:
            self.parts -= 1
            self._free(slices)

    def _free(self, slices: SliceQueue) -> None:
        reply, request = self.reply, self.request
        settled = reply.answered or reply.refused or reply.skipped or reply.abandoned
        if request is not None and settled and not self.parts:
            self.request = None
            slices.free(reply.api_key, [request])


class RequestRouter:
    """Router of one listener's cold APIs. A `RequestChannel` calls its `on_request`.

    Decoding, the handler and encoding work in steps that `slices` schedules. No request holds the loop for longer than
    a slice, whatever it holds. What is known to be short needs no steps: a small request up to its handler, and an
    answer of few structs.

    A handler that fails by a fault of ours is logged, and its connection is closed: one request that cannot be served
    must not take down all the others. A failed assertion is different: it shows a broken state, and stops the node.
    """

    def __init__(self, broker: Broker, listener: str, served: Callable[[], None], slices: SliceQueue,
                 quotas: ClientQuotas | None = None, clock: Callable[[], int] = now_ms,
                 answer_bytes_max: int = BYTES_MAX, audit: NodeAudit | None = None) -> None:
        """`served` is called after each request, because deadlines may have moved. `quotas`: None where clients have
        none. `audit`: None where nothing is audited."""
        self.broker = broker
        self.listener = listener
        self.served = served
        self.slices = slices
        self.clock = clock
        self.quotas = quotas
        self.answer_bytes_max = answer_bytes_max
        self.failures = 0
        self.audit = audit
        self.errors: dict[int, Counter[int]] = defaultdict(Counter)
        """Count of each of Kafka's error codes that was returned, by api key."""
        self._find_topic = topics_in(lambda: broker.image.topics)
        self._handler: Callable[[int], Handler] = handler_of
        """Returns the handler of an API, behind the checks of its permissions where there is an authorizer."""
        if broker.authorizer is not None:
            # Imported here: a node without an authorizer starts without the table of permissions.
            from kraft.broker.access.brokers import checked_handler_of
            self._handler = checked_handler_of

    def on_request(self, reply: Reply, api_key: int, _version: int, body: bytes) -> None:
        """Decode the request, call its handler, and answer when the handler does. A malformed body closes the
        connection."""
        if len(body) <= SMALL_BYTES:
            self.slices.call(reply, partial(self._serve_small, reply, api_key, body))
        else:
            work = RequestWork(reply)
            self._run(work, self._serve(work, API_BY_KEY[api_key], body))

    def _serve_small(self, reply: Reply, api_key: int, body: bytes) -> None:
        """Serve a small request. Only its handler may work in steps."""
        try:
            request = _messages(api_key)[0].decode(body, reply.api_version)
            context = RequestContext(reply.api_version, _client_id(reply), getattr(reply.sink, "peer_host", ""),
                                     self.listener, self.clock(), partial(self._run_rest, reply),
                                     getattr(reply.sink, "principal", ANONYMOUS), is_small=True,
                                     software=_software(reply), client_port=getattr(reply.sink, "peer_port", 0))
            audited = self._begin_audit(reply, request)
            steps = self._handler(api_key)(self.broker, request, context, partial(self._answer, reply, None, audited))
            if steps is not None and len(body) <= SHORT_BYTES.get(api_key, 0):
                finish(steps)
            elif steps is not None:
                self._run_rest(reply, self._then_served(steps))
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            self._end(reply, error)
        finally:
            self.served()

    def _then_served(self, steps: Steps) -> Steps:
        try:
            yield from steps
        finally:
            self.served()

    def _run_rest(self, reply: Reply, steps: Steps) -> None:
        """Run steps of a small request."""
        self._run(RequestWork(reply), steps)

    def _serve(self, work: RequestWork, api: Api, body: bytes) -> Steps:
        """Serve a large request in steps."""
        reply = work.reply
        version = reply.api_version
        work.request = request = yield from decoded(api, version, body, in_steps=_runs_in_steps(handler_of(api.key)))
        context = RequestContext(version, _client_id(reply), getattr(reply.sink, "peer_host", ""), self.listener,
                                 self.clock(), partial(self._run, work),
                                 getattr(reply.sink, "principal", ANONYMOUS), software=_software(reply),
                                 client_port=getattr(reply.sink, "peer_port", 0))
        try:
            audited = self._begin_audit(reply, request)
            steps = self._handler(api.key)(self.broker, request, context, partial(self._answer, reply, work, audited))
            if steps is not None:
                yield from steps
        finally:
            self.served()

    def _begin_audit(self, reply: Reply, request: Message) -> PendingChange | None:
        return None if self.audit is None else self.audit.begin(reply, request, self.listener, self._find_topic)

    def _answer(self, reply: Reply, work: RequestWork | None, audited: PendingChange | None, response: Message) -> None:
        """Answer a request; `work` is that of a large one. It is audited even when its client has disconnected."""
        self._throttle(reply, response)
        codes = short_codes(response, SHORT_ELEMENTS) if work is None else None
        if audited is not None and codes is not None:
            audited.answered(response, Counter(codes))
        elif audited is not None and reply.abandoned:
            self.slices.work(reply.api_key, audited.answered_steps(response))
        if codes is None:
            self._run(work or RequestWork(reply), self._send(reply, response, audited))
        else:
            self.slices.call(reply, partial(self._send_short, reply, response, codes))

    def _send_short(self, reply: Reply, response: Message, codes: list[int]) -> None:
        """Answer with a response of few structs, which has these error codes."""
        if codes:
            self.errors[reply.api_key].update(codes)
        try:
            body = response.encode(reply.api_version)
        except KraftError as error:
            self._failed(reply, error)
            return
        if len(body) > self.answer_bytes_max:
            refuse_size(reply, f"{len(body)} bytes")
        else:
            reply.answer(body, API_BY_KEY[reply.api_key].response_header_version(reply.api_version))

    def _send(self, reply: Reply, response: Message, audited: PendingChange | None) -> Steps:
        errors: Counter[int] = Counter()
        try:
            yield from count_errors(response, errors)
        except GeneratorExit:          # the client has disconnected
            if audited is not None:
                self.slices.work(reply.api_key, audited.answered_steps(response))
            raise
        self.errors[reply.api_key].update(errors)
        if audited is not None:
            audited.answered(response, errors)
        yield from answer_steps(reply, response, self.answer_bytes_max, partial(self._failed, reply))

    def _run(self, work: RequestWork, steps: Steps) -> None:
        """Run a part of the work. It may continue after the call."""
        self.slices.start(work.reply, work.part(self.slices, self._guarded(work.reply, steps)))

    def _guarded(self, reply: Reply, steps: Steps) -> Steps:
        """Run `steps` so that an error in them ends this one request."""
        try:
            yield from steps
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            self._end(reply, error)

    def _end(self, reply: Reply, error: Exception) -> None:
        """End a request that met an error: of the client in what it sent, or else of our own."""
        if isinstance(error, ProtocolError):
            log.debug("%s version %d of client %s is refused: %s", API_BY_KEY[reply.api_key].name, reply.api_version,
                      _client_id(reply), error, exc_info=error)
            if self.audit is not None:
                self.audit.failed(reply, ErrorCode.INVALID_REQUEST)
            reply.refuse("malformed")
        else:
            self._failed(reply, error)

    def _throttle(self, reply: Reply, response: Message) -> None:
        """Throttle the connection for the time that the controller returned to its client, or longer when the time that
        its requests take is limited. The answer returns the longer time."""
        throttled_ms: int | None = getattr(response, "throttle_time_ms", None)
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
        if self.audit is not None:
            self.audit.failed(reply, ErrorCode.UNKNOWN_SERVER_ERROR)
        reply.refuse("failure")


def _software(reply: Reply) -> tuple[str, str]:
    return getattr(reply.sink, "software", None) or NO_SOFTWARE


def _client_id(reply: Reply) -> str:
    return (reply.client_id or b"").decode("utf-8", "replace")
