"""Driver of the way to the states of share partitions: to the coordinator on this node, or over connections to others.

`kraft.broker.share_state.persister` decides what a request holds, and when. A request that fails, or is not answered in
time, goes to the present coordinators after a pause.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kraft.broker.apis.find_coordinator import create
from kraft.broker.broker import Broker
from kraft.broker.coordinator.hashing import partition_of
from kraft.broker.internal_topics import SHARE_STATE_TOPIC
from kraft.broker.share_state.persister import Dispatch, Lane, PersisterQueue
from kraft.broker.share_state.responses import ANSWERS
from kraft.broker.share_state.state import ShareKey
from kraft.metadata.versions import SHARE_VERSION
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.message import Message
from kraft.raft.types import Endpoint
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.net.controller_channel import KeptLine, Line
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.leader_queries import address_of
from kraft_native.base.errors import KraftError

log = logging.getLogger(__name__)

ANSWER_MARGIN_SECONDS: Final = 1.0
"""Time for an answer in addition to that of the coordinator's own wait."""
CREATION_MS: Final = 1_000
"""Pause between two requests to create the topic."""


class StatePersister:
    """Sender of all requests about states of share partitions, as `SharePersister`. Loop thread only.

    `local` serves a request by the coordinator on this node, and returns whether there is one. `clock` is the wall
    clock in milliseconds. `on_failure` is called with a fault of our own.
    """

    def __init__(self, broker: Broker, dialer: Dialer, local: Callable[[Message, Callable[[Message], None]], bool],
                 clock: Callable[[], int], on_failure: Callable[[BaseException], object]) -> None:
        self._broker = broker
        self._dialer = dialer
        self._local = local
        self._clock = clock
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._queue = PersisterQueue(broker.node_id, _Coordinators(broker))
        self._alarm = Alarm(self._now_ms, self._work)
        self._lines: dict[Lane, KeptLine] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._due: asyncio.Handle | None = None
        self._may_create_ms = 0
        self._is_closed = False

    def send(self, request: Message, answer: Callable[[Message], None]) -> None:
        """See `SharePersister`. Nothing is answered after `close`."""
        if not self._is_closed:
            self._queue.submit(request, answer, self._now_ms())
            self._work_later()

    def close(self) -> None:
        """Send and answer nothing further."""
        self._is_closed = True
        self._alarm.cancel()
        if self._due is not None:
            self._due.cancel()
        for task in self._tasks:
            task.cancel()
        for line in self._lines.values():
            line.close()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _work_later(self) -> None:
        """Work in a later iteration, with what else comes in this one: the caller may be within a decision."""
        if self._due is None and not self._is_closed:
            self._due = self._loop.call_soon(self._guarded_work)

    def _guarded_work(self) -> None:
        self._due = None
        self._work()

    def _work(self) -> None:
        """Send what is due, and answer what is finished."""
        if self._is_closed:
            return
        try:
            self._queue.tick(self._now_ms())
            self._create_topic()
            for node_id in self._queue.brokers_due():
                if node_id == self._broker.node_id:
                    self._serve_own(node_id)
                else:
                    while (dispatch := self._queue.take(node_id)) is not None:
                        self._send(dispatch)
            for answer, response in self._queue.finished():
                answer(response)
        except Exception as error:  # noqa: BLE001 - a share partition that waits without end would be worse
            self._on_failure(error)
            return
        if (deadline_ms := self._queue.deadline_ms) is not None:
            self._alarm.set(deadline_ms)

    def _create_topic(self) -> None:
        if self._queue.lacks_topic and self._now_ms() >= self._may_create_ms:
            self._may_create_ms = self._now_ms() + CREATION_MS
            create(self._broker, SHARE_STATE_TOPIC, self._clock())
        self._queue.lacks_topic = False

    def _serve_own(self, node_id: int) -> None:
        """Have the coordinator of this node decide one request; others follow in later iterations."""
        dispatch = self._queue.take(node_id)
        assert dispatch is not None, "something is due"
        if not self._local(dispatch.request, partial(self._answered, dispatch)):
            self._answered(dispatch, None)
        self._work_later()

    # ---------------------------------------------------------------- other brokers

    def _send(self, dispatch: Dispatch) -> None:
        kept = self._lines.get(dispatch.lane)
        if kept is None:
            kept = self._lines[dispatch.lane] = KeptLine(f"broker-{self._broker.node_id}-share-state", self._dialer)
        address = address_of(self._broker, dispatch.lane[0])
        line = None if address is None else kept.opened(address)
        if line is not None:
            self._request(dispatch, line)
            return
        task = self._loop.create_task(self._open(dispatch, kept, address))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _open(self, dispatch: Dispatch, kept: KeptLine, address: Endpoint | None) -> None:
        """Send the first request of a connection, once it is open."""
        if address is None:
            self._failed(dispatch, ConnectionError("it is not registered"))
            return
        try:
            line = await kept.to(address)
        except (OSError, KraftError) as error:
            self._failed(dispatch, error)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_failure(error)
        else:
            self._request(dispatch, line)

    def _request(self, dispatch: Dispatch, line: Line) -> None:
        seconds = self._broker.integer("share.coordinator.write.timeout.ms") / 1000 + ANSWER_MARGIN_SECONDS
        try:
            version = line.versions.best(ApiKey(dispatch.request.API_KEY))
            line.call(dispatch.request, version, seconds, partial(self._received, dispatch, version))
        except KraftError as error:
            self._loop.call_soon(self._failed, dispatch, error)

    def _received(self, dispatch: Dispatch, version: int, body: memoryview | None) -> None:
        if body is None:
            self._failed(dispatch, ConnectionError("it did not answer"))
            return
        try:
            response = ANSWERS[dispatch.request.API_KEY].response.decode(body, version)
        except KraftError as error:
            self._failed(dispatch, error)
        else:
            self._answered(dispatch, response)

    def _failed(self, dispatch: Dispatch, error: Exception) -> None:
        if not self._is_closed:
            log.info("states of share partitions are sent to broker %d again: %r", dispatch.lane[0], error)
            self._lines[dispatch.lane].close()
            self._answered(dispatch, None)

    def _answered(self, dispatch: Dispatch, response: Any) -> None:
        if self._is_closed:
            return
        try:
            self._queue.answered(dispatch, response, self._now_ms())
        except Exception as error:  # noqa: BLE001 - as above
            self._on_failure(error)
            return
        self._work_later()


class _Coordinators:
    """Coordinators by the metadata of a broker, as `Coordinators`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def coordinator_of(self, key: ShareKey) -> int | None:
        topic = self._broker.image.topic(SHARE_STATE_TOPIC)
        return None if topic is None else topic.partitions[partition_of(key.text, len(topic.partitions))].leader

    def has_partition(self, key: ShareKey) -> bool:
        topic = self._broker.image.topics.get(key.topic_id)
        return topic is not None and key.partition in topic.partitions

    @property
    def are_on(self) -> bool:
        return bool(self._broker.image.features.get(SHARE_VERSION))
