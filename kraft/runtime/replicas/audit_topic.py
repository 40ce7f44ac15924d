"""Audit events in the topic `__kraft_audit`: one record each, with the JSON that a file would have.

A batch goes to a partition that this broker leads, else by a Produce request to the leader of another one. It is sent
until it is committed, so an event may be stored twice: both have the same `metadata.uid`. Events that arrive meanwhile
are in the bounded queue. No request waits for any of it.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from kraft.broker.broker import Broker
from kraft.broker.internal_topics import CREATE_TOPICS_VERSION, audit_topic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.message import Message
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.runtime.audit.file import line_of
from kraft.runtime.audit.queue import EventQueue
from kraft.runtime.net.controller_channel import KeptLine
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.leader_queries import address_of
from kraft.security.audit.event import Event
from kraft.security.audit.kinds import AUDIT_TOPIC
from kraft.security.audit.writer import writer_id
from kraft_native.base.errors import KraftError
from kraft_native.batch.records import BatchBuilder
from kraft_native.partition.partition import Partition

log = logging.getLogger(__name__)

EVENTS_AT_ONCE: Final = 32
PAUSE_SECONDS: Final = 0.5
ANSWER_SECONDS: Final = 5.0
CREATE_SECONDS: Final = 5.0
PRODUCE_VERSION: Final = 9
ALL: Final = -1


class TopicWriter:
    """Writer of one broker. Loop thread only, inside the running loop."""

    def __init__(self, broker: Broker, dialer: Dialer, queue: EventQueue, clock: Callable[[], int]) -> None:
        self.queue = queue
        self.written = 0
        """Events that are committed since the start."""
        self._broker = broker
        self._clock = clock
        self._lines: dict[int, KeptLine] = {}
        self._client_id = ""
        self._dialer = dialer
        self._held: list[Event] = []
        self._due = asyncio.Event()
        self._create_after_s = 0.0
        self._trouble = ""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, event: Event) -> None:
        """Queue an event."""
        self.queue.put(event)
        self._due.set()

    def close(self) -> None:
        """Append what is queued to a partition of this broker, if it leads one; else it is lost here."""
        self._task.cancel()
        self.queue.report_loss()
        own = self._own_partition()
        while own is not None and (events := self._held or self.queue.take(EVENTS_AT_ONCE)):
            self._held = []
            try:
                own.append(self._batch(events), now_ms=self._clock())
            except KraftError as error:
                log.warning("audit: the last events are not in %s: %s", AUDIT_TOPIC, error)
                break
        self._close_lines()

    def _close_lines(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            while events := self._held or self.queue.take(EVENTS_AT_ONCE):
                self._held = events
                if await self._attempt(events):
                    self.written += len(events)
                    self._held = []
                    await asyncio.sleep(0)
                else:
                    await asyncio.sleep(PAUSE_SECONDS)

    async def _attempt(self, events: list[Event]) -> bool:
        """Append a batch; return whether it is committed. One that fails by a fault of our own is counted as lost."""
        try:
            trouble = await self._append(self._batch(events))
        except (OSError, KraftError) as error:
            trouble = repr(error)
        except Exception:  # whatever it is, the audit continues
            log.exception("audit: %d events are not written to %s by a fault of our own", len(events), AUDIT_TOPIC)
            self.queue.lose(len(events))
            self._held = []
            return False
        if trouble != self._trouble:
            log.log(logging.WARNING if trouble else logging.INFO, "audit: events are written to %s%s", AUDIT_TOPIC,
                    f" later: {trouble}" if trouble else " again")
            self._trouble = trouble
        return not trouble

    def _batch(self, events: list[Event]) -> bytes:
        builder = BatchBuilder("none")
        for event in events:
            builder.append(line_of(event).rstrip(b"\n"), None, event["time"])
        return builder.build()

    async def _append(self, batch: bytes) -> str:
        """Append a batch. Returns why it is not committed; "" when it is."""
        topic = self._broker.image.topic(AUDIT_TOPIC)
        if topic is None:
            return self._create()
        own = self._own_partition()
        if own is not None:
            return await self._append_here(own, batch)
        for index, known in topic.partitions.items():
            if known.leader >= 0 and known.leader != self._broker.node_id:
                return await self._send(index, known.leader, batch)
        return "no partition has a leader"

    def _own_partition(self) -> Partition | None:
        """Return a partition that this broker leads."""
        topic = self._broker.image.topic(AUDIT_TOPIC)
        for index in () if topic is None else topic.partitions:
            found = self._broker.partition(AUDIT_TOPIC, index)
            if found is not None and found.is_leader and found.log.failure is None:
                return found
        return None

    async def _append_here(self, own: Partition, batch: bytes) -> str:
        info = own.append(batch, now_ms=self._clock())
        settled: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        own.call_when_committed(info.last_offset + 1, partial(_settle, settled), timeout_ms=int(ANSWER_SECONDS * 1000))
        code = await settled
        return name_of(code) if code else ""

    async def _send(self, index: int, leader: int, batch: bytes) -> str:
        address = address_of(self._broker, leader)
        if address is None:
            return f"broker {leader} has no address"
        own = self._broker.image.brokers.get(self._broker.node_id)
        if own is None:
            return "this broker is not registered"
        if self._client_id != writer_id(own):
            self._close_lines()
            self._client_id = writer_id(own)
        if leader not in self._lines:
            self._lines[leader] = KeptLine(self._client_id, self._dialer)
        request = ProduceRequest(acks=ALL, timeout_ms=int(ANSWER_SECONDS * 1000), topic_data=[TopicProduceData(
            name=AUDIT_TOPIC, partition_data=[PartitionProduceData(index=index, records=batch)])])
        try:
            line = await self._lines[leader].to(address)
            body = await line.request(request, PRODUCE_VERSION, 2 * ANSWER_SECONDS)
        except (OSError, KraftError):
            self._lines.pop(leader).close()
            raise
        code = ProduceResponse.decode(body, PRODUCE_VERSION).responses[0].partition_responses[0].error_code
        return name_of(code) if code else ""

    def _create(self) -> str:
        """Have the topic created, not too often."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._create_after_s:
            self._create_after_s = now_s + CREATE_SECONDS
            request = CreateTopicsRequest(topics=[audit_topic(self._broker)], timeout_ms=int(CREATE_SECONDS * 1000))
            self._broker.submit(request, CREATE_TOPICS_VERSION, self._clock(), self._created)
        return "the topic does not exist yet"

    def _created(self, response: Message) -> None:
        assert isinstance(response, CreateTopicsResponse)
        for each in response.topics:
            if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.warning("audit: %s cannot be created: %s (%s)", AUDIT_TOPIC, name_of(each.error_code),
                            each.error_message)


def _settle(settled: "asyncio.Future[int]", code: int) -> None:
    if not settled.done():
        settled.set_result(code)
