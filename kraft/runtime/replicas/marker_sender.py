"""Driver of the markers of transactions: to the partitions of this broker, or over one connection to each other broker.

`kraft.broker.transactions.markers` decides what a request holds. A request that fails, or is not answered in
`ANSWER_SECONDS`, goes to the present leaders of its partitions after a pause. Its markers may then be written a second
time, which their partitions recognise.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from kraft.broker.api import RequestContext, Steps
from kraft.broker.apis import handler_of
from kraft.broker.broker import Broker
from kraft.broker.transactions.coordinator import TransactionCoordinator
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.message import Message
from kraft.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from kraft.raft.types import Endpoint
from kraft.runtime.net.controller_channel import KeptLine
from kraft.runtime.net.dialer import Dialer
from kraft_native.base.errors import KraftError

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 3.0
OWN_VERSION: Final = WriteTxnMarkersRequest.VERSIONS[-1]


class MarkerSender:
    """Sender of all markers of one coordinator. Loop thread only. `run` runs the steps of a local request; `answered`
    is called after each answer, because deadlines may have moved; `on_failure` is called with a fault of our own."""

    def __init__(self, broker: Broker, coordinator: TransactionCoordinator, dialer: Dialer, clock: Callable[[], int],
                 run: Callable[[Steps], None], answered: Callable[[], None],
                 on_failure: Callable[[BaseException], object]) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._dialer = dialer
        self._clock = clock
        self._run = run
        self._on_answered = answered
        self._on_failure = on_failure
        self._lines: dict[int, KeptLine] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._is_closed = False
        coordinator.markers.on_due = self._due

    def close(self) -> None:
        """Send nothing from here on."""
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()
        for line in self._lines.values():
            line.close()

    def _due(self, broker_id: int) -> None:
        """Send to that broker, in a later iteration: a decision that queues markers is still being made."""
        if self._is_closed or broker_id in self._tasks:
            return
        task = self._tasks[broker_id] = asyncio.get_running_loop().create_task(self._send_all(broker_id))
        task.add_done_callback(lambda _task: self._tasks.pop(broker_id, None))

    async def _send_all(self, broker_id: int) -> None:
        markers = self._coordinator.markers
        try:
            while (request := markers.take(broker_id)) is not None:
                response = await (self._serve(request) if broker_id == self._broker.node_id
                                  else self._send(broker_id, request))
                markers.answered(broker_id, response, self._clock())
                self._on_answered()
        except Exception as error:  # noqa: BLE001 - transactions that never end would be worse
            self._on_failure(error)

    async def _serve(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Pass the request to this broker's own handler."""
        done: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def answer(response: Message) -> None:
            if not done.done():
                done.set_result(response)

        context = RequestContext(OWN_VERSION, "", "", self._broker.config.inter_broker_listener, self._clock(),
                                 self._run)
        steps = handler_of(ApiKey.WRITE_TXN_MARKERS)(self._broker, request, context, answer)
        if steps is not None:
            self._run(steps)
        response = await done
        assert isinstance(response, WriteTxnMarkersResponse)
        return response

    async def _send(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | None:
        """Return the answer of another broker; None when there is none in time."""
        address = self._address(broker_id)
        if address is None:
            return None
        line = self._lines.get(broker_id)
        if line is None:
            line = self._lines[broker_id] = KeptLine(f"broker-{self._broker.node_id}-transaction-markers", self._dialer)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                opened = await line.to(address)
                version = opened.versions.best(ApiKey.WRITE_TXN_MARKERS)
                body = await opened.request(request, version, ANSWER_SECONDS)
            return WriteTxnMarkersResponse.decode(body, version)
        except (OSError, KraftError) as error:
            log.info("markers of transactions for broker %d are sent again: %r", broker_id, error)
            line.close()
            return None

    def _address(self, broker_id: int) -> Endpoint | None:
        registration = self._broker.image.brokers.get(broker_id)
        if registration is None:
            return None
        return next((Endpoint(each.name, each.host, each.port) for each in registration.endpoints
                     if each.name == self._broker.config.inter_broker_listener), None)
