"""Clients that read partitions with either isolation level, as Kafka's consumers do: they receive whole batches, and
leave out the records of aborted transactions by the list in the answer."""

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse, PartitionData
from kraft.testing.brokers.frames import ANSWER_BYTES, FETCH_VERSION, limit_of
from kraft.testing.brokers.transactional.clients import TOPIC, Around, AsyncClient
from kraft.testing.transactions.history import NOT_OURS, View
from kraft_native.batch.batch import Batch, walk
from kraft_native.batch.control import control_records
from kraft_native.batch.records import records

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ABORT_MARKER: Final = 0
FOLLOWER_PER_MILLE: Final = 250
VALUE_BYTES: Final = 8


class Polled(NamedTuple):
    """Result of one Fetch: visible records as (offset, code), the next position, and whether nothing more is
    visible there."""

    records: list[tuple[int, int]]
    position: int
    at_end: bool


class PartitionReader(AsyncClient):
    """A client that fetches from partitions of the topic."""

    def __init__(self, number: int, around: Around, random: Random, *, committed: bool) -> None:
        super().__init__(number, around, random)
        self.committed = committed
        self._leader_epochs: dict[int, int] = {}
        self._from_leader = True

    async def poll(self, index: int, position: int) -> Polled | None:
        """Fetch once from a leader, or for a while from a replica in sync; return None when that fails."""
        image, known = self.image(), self.partition(TOPIC, index)
        topic_id = None if image is None else image.topic_ids.get(TOPIC)
        if known is None or topic_id is None or known.leader_epoch < self._leader_epochs.get(index, 0):
            await self.pause()
            return None
        self._leader_epochs[index] = known.leader_epoch
        options = self.options
        request = FetchRequest(
            max_wait_ms=options.fetch_wait_ms, min_bytes=1, max_bytes=ANSWER_BYTES, session_epoch=-1,
            isolation_level=READ_COMMITTED if self.committed else READ_UNCOMMITTED,
            topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(
                partition=index, current_leader_epoch=known.leader_epoch, fetch_offset=position,
                partition_max_bytes=limit_of(options.fetch_batches))])])
        target_id = known.leader if self._from_leader else self._random.choice(known.isr)
        answer = await self.query(target_id, request, FETCH_VERSION, FetchResponse, "read")
        self._from_leader = not self.happens(FOLLOWER_PER_MILLE)
        part = None if answer is None or not answer.responses else answer.responses[0].partitions[0]
        if part is None or part.error_code:
            if part is not None:
                self.count(f"read answered: {name_of(part.error_code)}")
                self._from_leader = True
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and target_id == known.leader:
                    self.count("read out of range at a leader")
            await self.pause()
            return None
        return self._taken(part, position)

    def _taken(self, part: PartitionData, position: int) -> Polled:
        found, position = visible_records(part, position, committed=self.committed)
        end = part.last_stable_offset if self.committed else part.high_watermark
        # A replica whose end lies before the position is behind the one that answered last: it shows no end here.
        return Polled(found, position, at_end=position == end)


def visible_records(part: PartitionData, position: int, *, committed: bool) -> tuple[list[tuple[int, int]], int]:
    """Return the records of an answer that a consumer passes on, and its next position."""
    aborted = sorted((each.first_offset, each.producer_id) for each in part.aborted_transactions or ())
    open_ids: dict[int, None] = {}
    found: list[tuple[int, int]] = []
    for batch in walk(part.records or b""):
        if committed:
            while aborted and aborted[0][0] <= batch.last_offset:
                open_ids[aborted.pop(0)[1]] = None
        if batch.is_control:
            if next(iter(control_records(batch))).type == ABORT_MARKER:
                open_ids.pop(batch.producer_id, None)
        elif not (batch.is_transactional and batch.producer_id in open_ids):
            found += [(offset, code) for offset, code in _codes(batch) if offset >= position]
        position = max(position, batch.last_offset + 1)
    return found, position


def _codes(batch: Batch) -> Iterator[tuple[int, int]]:
    for record in records(batch):
        value = record.value
        yield record.offset, (int.from_bytes(value, "big") if value is not None and len(value) == VALUE_BYTES
                              else NOT_OURS)


class Reader(PartitionReader):
    """A client that reads all of one partition, until `is_on` ends. `view` is what it saw."""

    def __init__(self, number: int, around: Around, random: Random, index: int, *, committed: bool) -> None:
        super().__init__(number, around, random, committed=committed)
        self.is_on = True
        self.index = index
        self.view = View(f"reader {number}", index, committed=committed)
        around.history.views.append(self.view)

    def begin(self) -> None:
        self.start(self._work())

    @property
    def position(self) -> int:
        return self.view.end

    async def _work(self) -> None:
        while self.is_on:
            polled = await self.poll(self.index, self.position)
            if polled is None:
                continue
            for offset, code in polled.records:
                self.view.see(offset, code, self._around.seconds)
            self.view.end = max(self.view.end, polled.position)
            if polled.at_end:
                self.view.reach(polled.position)
            self.count("records read")
            if not polled.records:
                await self.pause()
