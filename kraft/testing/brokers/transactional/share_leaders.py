"""Leaders of share partitions: each reads the state of its share partition, and writes what was acknowledged.

One client plays all leaders of one share partition, one after the other, each on some broker: it uses that broker's way
to the share coordinators. It judges:

- *AcknowledgedIsRead*: a new leader reads every acknowledgement whose write was answered without an error.
- *NothingInvented*: it reads none that no leader wrote.
- *EarlierLeaderFenced*: once it has read, no write of an earlier leader succeeds.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.message import ZERO_UUID, Message
from kraft.protocol.messages import initialize_share_group_state_request as initializes
from kraft.protocol.messages import read_share_group_state_request as reads
from kraft.protocol.messages import write_share_group_state_request as writes
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.brokers.transactional.clients import TOPIC, Around, AsyncClient
from kraft.testing.sim.violation import ViolationError

ACKNOWLEDGED: Final = 2
STATE_EPOCH: Final = 1
LOOK_SECONDS: Final = 0.05
"""Pause between two checks whether there is an answer, or the broker has died."""
LONG_LOOK_SECONDS: Final = 1.0
"""The same in a run of hours."""
WRITES_MAX: Final = 12


class ShareLeader(AsyncClient):
    """All leaders of partition `index` of the topic in a group of its own. `is_on`: whether it continues."""

    def __init__(self, number: int, around: Around, random: Random, index: int,
                 broker: Callable[[Random], BrokerNode | None]) -> None:
        super().__init__(number, around, random)
        self.is_on = True
        self._broker = broker
        self._group = f"share-{number}"
        self._index = index
        self._topic_id = ZERO_UUID
        self._epoch = 0
        self._start = 0
        """Start offset that was written last without an error."""
        self._next = 0
        self._written: dict[int, None] = {}
        """Offsets whose acknowledgement is durable."""
        self._uncertain: dict[int, None] = {}
        """Offsets whose acknowledgement may be."""

    def begin(self) -> None:
        """Begin to lead."""
        self.is_over = False
        self.start(self._work())

    @property
    def is_idle(self) -> bool:
        return self.is_over

    async def _work(self) -> None:
        while not await self._initialize():
            await self.pause()
        while True:
            is_last = not self.is_on
            await self._take_over()
            if is_last:
                break
            for _ in range(self._random.randrange(WRITES_MAX)):
                if not await self._write(self._epoch):
                    break
                await self.pause(self.options.transaction_every_ms)
            if self._epoch > 1 and self.happens(300):
                await self._write_as_earlier()
        self.is_over = True

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _initialize(self) -> bool:
        image = self.image()
        if image is None or TOPIC not in image.topic_ids:
            return False
        self._topic_id = image.topic_ids[TOPIC]
        part = initializes.PartitionData(partition=self._index, state_epoch=STATE_EPOCH, start_offset=0)
        response = await self._query(initializes.InitializeShareGroupStateRequest(
            group_id=self._group, topics=[initializes.InitializeStateData(
                topic_id=self._topic_id, partitions=[part])]))
        return response is not None and self._error(response) == ErrorCode.NONE

    async def _take_over(self) -> None:
        """Become the leader of the next epoch, however long that takes."""
        self._epoch += 1
        while True:
            part = reads.PartitionData(partition=self._index, leader_epoch=self._epoch)
            response = await self._query(reads.ReadShareGroupStateRequest(group_id=self._group, topics=[
                reads.ReadStateData(topic_id=self._topic_id, partitions=[part])]))
            if response is not None and self._error(response) == ErrorCode.NONE:
                self._judge(response.results[0].partitions[0])
                self.count("states of share partitions read")
                return
            await self.pause()

    async def _write(self, epoch: int) -> bool:
        """Acknowledge the next offset; return whether that is certain. Sometimes the start offset advances."""
        offset, self._next = self._next, self._next + 1
        start = self._start
        if self.happens(200):
            while start in self._written:
                start += 1
        self._uncertain[offset] = None
        response = await self._query(self._write_request(epoch, offset, start))
        error = None if response is None else self._error(response)
        if error == ErrorCode.NONE:
            del self._uncertain[offset]
            self._written[offset] = None
            self._start = start
            self.count("states of share partitions written")
        elif error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST):
            raise ViolationError("LeaderServed", f"{self._group}: {name_of(error)} for the leader of epoch {epoch}")
        return error == ErrorCode.NONE

    async def _write_as_earlier(self) -> None:
        """Write in an earlier epoch, in which this leader has been replaced."""
        offset, self._next = self._next, self._next + 1
        response = await self._query(self._write_request(self._random.randrange(self._epoch), offset, self._start))
        if response is not None and (error := self._error(response)) == ErrorCode.FENCED_LEADER_EPOCH:
            self.count("earlier leaders of share partitions fenced")
        elif response is not None and error == ErrorCode.NONE:
            raise ViolationError("EarlierLeaderFenced", f"{self._group}: a write of an epoch before {self._epoch} "
                                                        "succeeds")

    def _write_request(self, epoch: int, offset: int, start: int) -> Message:
        batch = writes.StateBatch(first_offset=offset, last_offset=offset, delivery_state=ACKNOWLEDGED,
                                  delivery_count=1)
        part = writes.PartitionData(partition=self._index, state_epoch=STATE_EPOCH, leader_epoch=epoch,
                                    start_offset=start, state_batches=[batch])
        return writes.WriteShareGroupStateRequest(group_id=self._group, topics=[
            writes.WriteStateData(topic_id=self._topic_id, partitions=[part])])

    def _judge(self, part: Any) -> None:
        found = dict.fromkeys(offset for each in part.state_batches
                              for offset in range(each.first_offset, each.last_offset + 1))
        missing = [each for each in self._written if each >= part.start_offset and each not in found]
        if missing or part.start_offset < self._start:
            raise ViolationError("AcknowledgedIsRead", f"{self._group}: offsets {missing} are not in the state, which "
                                                       f"starts at {part.start_offset}, written was {self._start}")
        invented = [each for each in sorted(found) if each not in self._written and each not in self._uncertain]
        if invented or any(each not in self._written for each in range(self._start, part.start_offset)):
            raise ViolationError("NothingInvented", f"{self._group}: offsets {invented} were not written, start offset "
                                                    f"{part.start_offset}")
        self._start = part.start_offset
        for each in [each for each in self._uncertain if each in found]:
            del self._uncertain[each]
            self._written[each] = None

    @staticmethod
    def _error(response: Any) -> int:
        code: int = response.results[0].partitions[0].error_code
        return code

    async def _query(self, request: Message) -> Any:
        """Send a request by some broker's way to the coordinators; return None when the broker dies meanwhile."""
        node = self._broker(self._random)
        if node is None:
            return None
        loop = self._around.loop
        answer: asyncio.Future[Any] = self._around.async_loop.create_future()

        def settle(response: Any) -> None:
            if not answer.done():
                answer.set_result(response)

        def send() -> None:
            if node.broker is broker and broker is not None and broker.coordinators is not None:
                broker.coordinators.share_persister.send(
                    request, lambda response: loop.after(1, partial(self.call, settle, response)))

        broker = node.broker
        loop.after(1, partial(node.call, send))
        while not answer.done():
            if node.broker is not broker or not node.is_up:
                self.count("requests to share coordinators that died with their broker")
                return None
            await asyncio.sleep(LONG_LOOK_SECONDS if self.options.quiet_seconds else LOOK_SECONDS)
        response = answer.result()
        if (error := self._error(response)) != ErrorCode.NONE:
            self.count(f"{type(response).__name__}: {name_of(error)}")
        return response
