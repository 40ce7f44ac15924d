"""From a request's bytes to the handler of its API, and from its answer back to bytes."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Final

from kraft.broker.api import RequestContext
from kraft.broker.apis import handler_of
from kraft.broker.broker import Broker
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.message import Message
from kraft.protocol.response_errors import count_errors
from kraft_native.client_quotas import ClientQuotas
from kraft_native.errors import KraftError, ProtocolError
from kraft_native.reply import Reply

log = logging.getLogger(__name__)

NEVER_FLEXIBLE: Final = 0x7FFF


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class RequestRouter:
    """Serves one listener's cold APIs. Its `on_request` is what a `RequestChannel` calls.

    A handler that fails by a fault of ours is logged, and its connection is closed: one request that we cannot serve
    must not take down all the others. Assertions are different: they say that a state is broken, and stop the node.
    """

    def __init__(self, broker: Broker, listener: str, served: Callable[[], None], quotas: ClientQuotas | None = None,
                 clock: Callable[[], int] = now_ms) -> None:
        """`served` is called after each request: deadlines may have moved. `quotas`: None where clients have none."""
        self.broker = broker
        self.listener = listener
        self.served = served
        self.clock = clock
        self.quotas = quotas
        self.failures = 0
        self.errors: dict[int, Counter[int]] = defaultdict(Counter)
        """By api key: how often each of Kafka's error codes was told."""

    def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
        """Decodes, hands over, and answers when the handler does. Raises `ProtocolError` for a malformed body."""
        api = API_BY_KEY[api_key]
        request = api.request.decode(body, version)
        sink = reply.sink
        context = RequestContext(version, (reply.client_id or b"").decode("utf-8", "replace"),
                                 getattr(sink, "peer_host", ""), self.listener, self.clock())
        header_version = api.response_header_version(version)

        def answer(response: Message) -> None:
            self._throttle(reply, response)
            try:
                encoded = response.encode(version)
            except KraftError as error:
                self._failed(reply, api.name, context, error)
            else:
                count_errors(response, self.errors[api_key])
                reply.answer(encoded, header_version)

        try:
            handler_of(api_key)(self.broker, request, context, answer)
        except ProtocolError as error:
            log.debug("%s version %d of client %s is refused: %s", api.name, version, context.client_id, error,
                      exc_info=error)
            raise
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            self._failed(reply, api.name, context, error)
        self.served()

    def _throttle(self, reply: Reply, response: Message) -> None:
        """The connection is left alone for as long as the controller told its client, or for longer when the time that
        its requests take is limited; the answer tells it."""
        told_ms = getattr(response, "throttle_time_ms", None)
        reply.throttle_ms = told_ms or 0
        if self.quotas is not None:
            self.quotas.charge_time(reply)
        if told_ms is not None and reply.throttle_ms > told_ms:
            response.throttle_time_ms = reply.throttle_ms  # type: ignore[attr-defined]

    def _failed(self, reply: Reply, name: str, context: RequestContext, error: Exception) -> None:
        """A fault of ours: it is logged, and the connection of the request that met it is closed."""
        self.failures += 1
        log.error("%s version %d of client %s failed by a fault of our own", name, context.version,
                  context.client_id, exc_info=error)
        reply.refuse("failure")
