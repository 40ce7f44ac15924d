"""Channel from a broker to the active controller, wherever it is: one request at a time, in order, until it is
answered.

A broker's own requests (registration, heartbeats) are sent as they are; requests that clients send too are sent in an
Envelope (KIP-590). A request is sent again to the current controller while no controller is known, after a connection
broke, and after an answer of NOT_CONTROLLER. It may thus be carried out twice: the second time is refused as a
repetition.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from kraft.controller.controller import HANDLERS
from kraft.controller.quorum_view import describe_quorum_refused
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.raft.types import Endpoint
from kraft.raft.wire_changes import codec_of
from kraft.runtime.base.bounded_log import BoundedLog
from kraft.runtime.net.caused_offsets import decode_offsets
from kraft.runtime.net.dialer import Backoff, Dialer
from kraft.runtime.net.peers import PeerConnection, PeerVersions
from kraft.security.forwarding import encoded_host, encoded_principal
from kraft.security.principal import Client
from kraft_native.base.errors import KraftError
from kraft_native.partition.purgatory import now_ms as monotonic_ms

log = logging.getLogger(__name__)

OPEN_SECONDS_MAX: Final = 5.0
PAUSE_SECONDS: Final = 0.05
PAUSE_SECONDS_MAX: Final = 0.2
NEEDED: Final = "its principal needs CLUSTER_ACTION on the cluster, or is to be one of super.users"
"""Advice to an operator whose node is refused."""

Answer = Callable[[Message], None]


class _Waiting(NamedTuple):
    request: Message
    version: int
    answer: Answer
    client: Client | None
    expires: float


class Line:
    """One open connection with one request at a time, for a coroutine or with a callback. A coroutine gets
    ConnectionError when it breaks."""

    def __init__(self, client_id: str, dialer: Dialer, on_lost: Callable[[], None] = lambda: None) -> None:
        self._dialer = dialer
        self._on_lost = on_lost
        self._answer: asyncio.Future[bytes] | None = None
        self._call: tuple[Callable[[memoryview | None], object], asyncio.TimerHandle] | None = None
        self._ready: asyncio.Future[PeerVersions] = asyncio.get_running_loop().create_future()
        self.connection = PeerConnection(client_id, self._ready.set_result, self._answered, self._broke)
        self.broken = False

    @property
    def is_open(self) -> bool:
        """True while requests can be sent."""
        return not self.broken and self._ready.done()

    @property
    def versions(self) -> PeerVersions:
        """Versions that the other side reported when the connection was opened."""
        return self._ready.result()

    async def open(self, address: Endpoint) -> None:
        async with asyncio.timeout(OPEN_SECONDS_MAX):
            await self._dialer.connect(address, lambda: self.connection, seconds=OPEN_SECONDS_MAX)
            await self._ready

    async def request(self, message: Message, version: int, timeout_seconds: float) -> bytes:
        if self.broken:                # since it was opened: no callback would end the wait
            raise ConnectionError("the connection was closed")
        self._answer = asyncio.get_running_loop().create_future()
        self.connection.send(message, version)
        async with asyncio.timeout(timeout_seconds):
            return await self._answer

    def call(self, message: Message, version: int, timeout_seconds: float,
             answered: Callable[[memoryview | None], object]) -> None:
        """Send a request. `answered` gets the body of its answer, which is valid during that call; None when the
        connection breaks first, or is closed because no answer came in time. It is not called before this returns."""
        assert self._call is None, "a request is on its way"
        loop = asyncio.get_running_loop()
        if self.broken:
            loop.call_soon(answered, None)
            return
        self.connection.send(message, version)
        self._call = answered, loop.call_later(timeout_seconds, self.close)

    def close(self) -> None:
        """Close the connection. A coroutine that waits gets ConnectionError."""
        self.connection.abandon()
        self._lost()

    def _answered(self, body: memoryview) -> None:
        if self._call is not None:
            self._conclude(body)
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(bytes(body))   # copied, because a later iteration reads it

    def _broke(self) -> None:
        """Handle a close by the other side."""
        was_open = self._ready.done()
        self._lost()
        if was_open:
            self._on_lost()

    def _conclude(self, body: memoryview | None) -> None:
        assert self._call is not None
        (answered, timer), self._call = self._call, None
        timer.cancel()
        answered(body)

    def _lost(self) -> None:
        self.broken = True
        if self._call is not None:
            self._conclude(None)
        for future in (self._ready, self._answer):
            if future is not None and not future.done():
                future.set_exception(ConnectionError("the controller closed the connection"))
                future.exception()      # marks it as retrieved: perhaps no coroutine waits, which is no fault


class KeptLine:
    """The line to a node that may move. It is kept while it is intact and the requested address is the same."""

    def __init__(self, client_id: str, dialer: Dialer, on_lost: Callable[[], None] = lambda: None) -> None:
        self._client_id = client_id
        self._dialer = dialer
        self._on_lost = on_lost
        self._line: Line | None = None
        self._address: Endpoint | None = None

    def opened(self, address: Endpoint) -> Line | None:
        """Return the line to that address if it is open."""
        line = self._line
        return line if line is not None and line.is_open and address == self._address else None

    async def to(self, address: Endpoint) -> Line:
        """Return the open line to that address. Raises OSError or TimeoutError when it cannot be opened; the next call
        tries again."""
        line = self._line
        if line is None or line.broken or address != self._address:
            self.close()
            line = Line(self._client_id, self._dialer, self._on_lost)
            self._line, self._address = line, address
            try:
                await line.open(address)
            except BaseException:      # a cancelled attempt too
                line.close()
                raise
        return line

    def close(self, unless: Endpoint | None = None) -> None:
        """Close the line, unless it leads to `unless`. A coroutine that waits for an answer gets ConnectionError."""
        if self._line is not None and (unless is None or unless != self._address):
            self._line.close()
            self._line = None


class ControllerChannel:
    """Queue of requests to the active controller.

    - `find` returns the active controller's address, None while it is not known.
    - `accept_locally` accepts a request when this node itself is the active controller, and returns whether it did.
    - After `timeout_seconds` a request is refused with REQUEST_TIMED_OUT.
    - `on_lost` is called when the controller closes a connection that was open.
    """

    def __init__(self, client_id: str, dialer: Dialer, find: Callable[[], Endpoint | None],
                 accept_locally: Callable[[Message, int, Answer, Client | None], bool], timeout_seconds: float,
                 on_lost: Callable[[], None] = lambda: None) -> None:
        self._client_id = client_id
        self._find = find
        self._accept_locally = accept_locally
        self._timeout_seconds = timeout_seconds
        self._queue: deque[_Waiting] = deque()
        self._moved = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._line = KeptLine(client_id, dialer, on_lost)
        self._refusals = BoundedLog(log, monotonic_ms, period_ms=60_000, lines_max=1,
                                    omitted="%d more requests of clients were refused")

    def submit(self, request: Message, version: int, answer: Answer, client: Client | None = None) -> None:
        """Queue a request. `answer` receives the controller's response, or a refusal. It is not called before this
        returns, unless the controller is on this node. `client` is the one whose request this is, None for the node's
        own."""
        if not self._queue and self._accept_locally(request, version, answer, client):
            return
        loop = asyncio.get_running_loop()
        self._queue.append(_Waiting(request, version, answer, client, loop.time() + self._timeout_seconds))
        if self._worker is None:
            self._worker = loop.create_task(self._work())

    def changed(self) -> None:
        """Adapt to a possible new leader: a request that waits for the previous one is sent again."""
        self._moved.set()
        self._line.close(unless=self._find())

    def close(self) -> None:
        """Stop the channel; no request is answered from here on."""
        if self._worker is not None:
            self._worker.cancel()
        self._line.close()

    async def _work(self) -> None:
        backoff = Backoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while self._queue:
            waiting = self._queue[0]
            self._moved.clear()
            try:
                if self._accept_locally(waiting.request, waiting.version, waiting.answer, waiting.client):
                    self._queue.popleft()
                    continue
                response = await self._send(waiting)
            except Exception:  # whatever it is, it ends one request and not the channel
                log.exception("%s ends by a fault of our own", type(waiting.request).__name__)
                self._line.close()
                response = refusal(waiting.request, ErrorCode.UNKNOWN_SERVER_ERROR)
            if response is None and asyncio.get_running_loop().time() > waiting.expires:
                response = refusal(waiting.request, ErrorCode.REQUEST_TIMED_OUT)
            if response is not None:
                self._queue.popleft()
                self._deliver(waiting, response)
                backoff.reset()
                continue
            try:
                async with asyncio.timeout(backoff.failed()):
                    await self._moved.wait()
                backoff.reset()        # another controller may answer at once
            except TimeoutError:
                pass
        self._worker = None

    def _deliver(self, waiting: _Waiting, response: Message) -> None:
        """Call back with the response. A callback that fails ends its request only."""
        try:
            waiting.answer(response)
        except Exception:
            log.exception("the answer to %s ends by a fault of our own", type(waiting.request).__name__)

    async def _send(self, waiting: _Waiting) -> Message | None:
        """Send one request. Returns the response, or None when no controller gave one."""
        address = self._find()
        if address is None:
            return None
        try:
            line = await self._line.to(address)
            left = max(PAUSE_SECONDS, waiting.expires - asyncio.get_running_loop().time())
            api = API_BY_KEY[waiting.request.API_KEY]
            if not api.forwardable or (waiting.client is None and ApiKey.DISCOVER_BROKERS not in line.versions.apis):
                body = await line.request(waiting.request, waiting.version, left)
                response = api.response.decode(body, waiting.version)
                return None if _is_elsewhere(response) else response
            envelope = EnvelopeResponse.decode(await line.request(self._envelope(waiting), 0, left), 0)
            if envelope.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                self._refusals.put("the controller at %s:%d does not accept requests of clients from this node: %s",
                                   address.host, address.port, NEEDED)
            return _opened(envelope, waiting)
        except (OSError, TimeoutError) as error:
            log.debug("the controller at %s:%d does not answer: %r", address.host, address.port, error)
        except KraftError as error:
            log.warning("the controller at %s:%d answers with what cannot be read: %s", address.host, address.port,
                        error)
        self._line.close()
        return None

    def _envelope(self, waiting: _Waiting) -> EnvelopeRequest:
        """Return the envelope of a request, with the identity of its client. The envelope of a request of this node
        itself has none: a controller of kraft takes the identity of the connection. No other accepts that."""
        api = API_BY_KEY[waiting.request.API_KEY]
        client = waiting.client
        header = encode_request_header(api, waiting.version, 0, None if client is None else client.client_id)
        return EnvelopeRequest(
            request_data=header + waiting.request.encode(waiting.version),
            request_principal=b"" if client is None else encoded_principal(client.principal),
            client_host_address=encoded_host("" if client is None else client.host))


def _is_elsewhere(response: Message) -> bool:
    """Return whether a response says that the active controller is another node: as a whole, or for its topics."""
    topics = response.topics if isinstance(response, CreateTopicsResponse) else ()
    return ErrorCode.NOT_CONTROLLER in (getattr(response, "error_code", 0), *(each.error_code for each in topics[:1]))


def _opened(envelope: EnvelopeResponse, waiting: _Waiting) -> Message | None:
    if envelope.error_code == ErrorCode.NOT_CONTROLLER:
        return None
    if envelope.error_code != ErrorCode.NONE or envelope.response_data is None:
        return refusal(waiting.request, ErrorCode.UNKNOWN_SERVER_ERROR)
    api = API_BY_KEY[waiting.request.API_KEY]
    _, body = decode_response_header(envelope.response_data, api, waiting.version)
    response = api.response.decode(body, waiting.version)
    if caused := decode_offsets(envelope.unknown_tags):
        response.caused = caused
    return response


def refusal(request: Message, code: ErrorCode, message: str | None = None) -> Message:
    """Answer to a request for which no controller was found, or which may not be sent to one."""
    codec = codec_of(request)
    if codec is not None:
        return codec.refuse(code)
    if isinstance(request, DescribeQuorumRequest):
        return describe_quorum_refused(request, code, message)
    return HANDLERS[request.API_KEY].refuse(request, code, message)
