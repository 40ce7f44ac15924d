"""Driver of the markers of transactions: to the partitions of this broker, or over connections to the other brokers.

`kraft.broker.transactions.markers` decides what a request holds, and how many a broker has in flight: one on each
connection. A request that fails, or is not answered in `ANSWER_SECONDS`, goes to the present leaders of its partitions
after a pause. A partition that has such a marker already appends none.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from kraft.broker.broker import Broker
from kraft.broker.marker_appends import TransactionEnd, append_marker
from kraft.broker.transactions.coordinator import TransactionCoordinator
from kraft.broker.transactions.markers import Dispatch, Marker
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from kraft.raft.types import Endpoint
from kraft.runtime.net.controller_channel import KeptLine, Line
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.leader_queries import address_of
from kraft_native.base.errors import KraftError

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 3.0
OWN_MARKERS_PER_ITERATION: Final = 64
"""Appends to own partitions before the loop serves other requests."""


class MarkerSender:
    """Sender of all markers of one coordinator. Loop thread only. `answered` is called after each answer, because
    deadlines may have moved; `on_failure` is called with a fault of our own."""

    def __init__(self, broker: Broker, coordinator: TransactionCoordinator, dialer: Dialer, clock: Callable[[], int],
                 answered: Callable[[], None], on_failure: Callable[[BaseException], object]) -> None:
        self._broker = broker
        self._markers = coordinator.markers
        self._dialer = dialer
        self._clock = clock
        self._on_answered = answered
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._lines: dict[tuple[int, int], KeptLine] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._due: dict[int, asyncio.Handle] = {}
        self._is_closed = False
        self._markers.on_due = self._serve_later

    def close(self) -> None:
        """Send nothing further."""
        self._is_closed = True
        for handle in self._due.values():
            handle.cancel()
        for task in self._tasks:
            task.cancel()
        for line in self._lines.values():
            line.close()

    def _serve_later(self, broker_id: int) -> None:
        """Serve a broker in a later iteration: a decision that queues markers is still being made."""
        if not self._is_closed and broker_id not in self._due:
            serve = self._append_own if broker_id == self._broker.node_id else self._send_due
            self._due[broker_id] = self._loop.call_soon(self._guarded, serve, broker_id)

    def _guarded(self, serve: Callable[[int], None], broker_id: int) -> None:
        del self._due[broker_id]
        try:
            serve(broker_id)
        except Exception as error:  # noqa: BLE001 - transactions that never end would be worse
            self._on_failure(error)

    # ---------------------------------------------------------------- partitions of this broker

    def _append_own(self, broker_id: int) -> None:
        markers = self._markers.take_own(broker_id, OWN_MARKERS_PER_ITERATION)
        now_ms = self._clock()
        timeout_ms = self._broker.integer("request.timeout.ms")
        for marker in markers:
            marking, (topic, index) = marker
            decision = marking.decision
            end = TransactionEnd(decision.producer_id, decision.producer_epoch, marking.coordinator_epoch(),
                                 decision.commits, decision.transaction_version)
            appended = append_marker(self._broker, end, topic, index, now_ms)
            appended.call_when_committed(partial(self._settled, marker), timeout_ms)

    def _settled(self, marker: Marker, code: int) -> None:
        if self._is_closed:
            return
        try:
            self._markers.settled(marker, code, self._clock())
            self._on_answered()
        except Exception as error:  # noqa: BLE001 - as above
            self._on_failure(error)

    # ---------------------------------------------------------------- other brokers

    def _send_due(self, broker_id: int) -> None:
        while (dispatch := self._markers.take(broker_id)) is not None:
            kept, address = self._line_of(dispatch), address_of(self._broker, broker_id)
            line = None if address is None else kept.opened(address)
            if line is not None:
                self._request(dispatch, line)
                continue
            task = self._loop.create_task(self._open(dispatch, kept, address))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    def _line_of(self, dispatch: Dispatch) -> KeptLine:
        place = dispatch.broker_id, dispatch.lane
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = KeptLine(f"broker-{self._broker.node_id}-transaction-markers", self._dialer)
        return line

    async def _open(self, dispatch: Dispatch, kept: KeptLine, address: Endpoint | None) -> None:
        """Send the first request of a connection, once it is open."""
        line = None
        try:
            if address is not None:
                async with asyncio.timeout(ANSWER_SECONDS):
                    line = await kept.to(address)
        except (OSError, KraftError) as error:
            self._failed(dispatch, error)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_failure(error)
            return
        if line is None:
            self._answered(dispatch, None)
        else:
            self._request(dispatch, line)

    def _request(self, dispatch: Dispatch, line: Line) -> None:
        try:
            version = line.versions.best(ApiKey.WRITE_TXN_MARKERS)
            line.call(dispatch.request, version, ANSWER_SECONDS, partial(self._received, dispatch, version))
        except KraftError as error:
            self._failed(dispatch, error)
            self._loop.call_soon(self._answered, dispatch, None)

    def _received(self, dispatch: Dispatch, version: int, body: memoryview | None) -> None:
        response = None
        try:
            if body is not None:
                response = WriteTxnMarkersResponse.decode(body, version)
            else:
                log.info("markers of transactions for broker %d are sent again: it did not answer", dispatch.broker_id)
        except KraftError as error:
            self._failed(dispatch, error)
        self._answered(dispatch, response)

    def _failed(self, dispatch: Dispatch, error: Exception) -> None:
        log.info("markers of transactions for broker %d are sent again: %r", dispatch.broker_id, error)
        self._line_of(dispatch).close()

    def _answered(self, dispatch: Dispatch, response: WriteTxnMarkersResponse | None) -> None:
        if self._is_closed:
            return
        try:
            self._markers.answered(dispatch, response, self._clock())
            self._on_answered()
        except Exception as error:  # noqa: BLE001 - as above
            self._on_failure(error)
