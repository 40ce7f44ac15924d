"""A log for an event loop, which it never blocks: an `Appender` whose results are awaited.

    async with await AsyncLog.open("orders-0", durability="group-commit") as log:
        offset = await log.append(b"two coffees")    # as durable as the log's setting promises
        async for record in log.records(offset):
            ...

Neither an append nor a follower occupies a thread while it waits: the thread of the log wakes the loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from kraft.appender import QUEUE_BYTES_MAX, Appender
from kraft.inputs import Headers, RecordInput
from kraft.reading import READ_BYTES, Isolation, Place, Readable, visible_end
from kraft_native.base.errors import LogClosedError
from kraft_native.batch.records import records as records_in

if TYPE_CHECKING:
    from kraft.log import Log
    from kraft_native.batch.batch import Batch
    from kraft_native.batch.records import Record
    from kraft_native.segment.log_settings import LogSettings

Result = TypeVar("Result")


class AsyncLog:
    """A log for an event loop; an asynchronous context manager. One loop uses it, from any number of tasks.

    Records are queued, at most about `queue_bytes_max` bytes of them. A task whose record finds no room waits, and
    tasks get room in their order.
    """

    def __init__(self, appender: Appender) -> None:
        self.appender = appender
        self._turn = asyncio.Lock()
        self._tail: _Tail | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, directory: str | os.PathLike[str], *, codec: str = "none", level: int | None = None,
                   queue_bytes_max: int = QUEUE_BYTES_MAX, **settings: Unpack[LogSettings]) -> Self:
        """Open the log in another thread, because opening may scan it; see `Appender`. After a cancellation the log is
        closed as soon as it is open."""
        thread = ThreadPoolExecutor(1, "kraft open")
        opening = thread.submit(partial(Appender, directory, codec=codec, level=level,
                                        queue_bytes_max=queue_bytes_max, **settings))
        thread.shutdown(wait=False)
        try:
            return cls(await asyncio.wrap_future(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def append(self, value: bytes | bytearray | memoryview | None,
                     key: bytes | bytearray | memoryview | None = None, timestamp_ms: int | None = None,
                     headers: Headers = ()) -> int:
        """Append a record and return its offset once it is as durable as the log's setting promises. Many tasks may
        wait at a time; they share batches and flushes. After a cancellation the record may or may not be appended."""
        return await asyncio.wrap_future(await self._handed_over((value, key, timestamp_ms, headers)))

    async def submit(self, record: RecordInput) -> asyncio.Future[int]:
        """Queue a record in any form that `Log.append_records` accepts, and return the future of its offset. It waits
        for room in the queue only. A future that is cancelled before its record is dequeued omits the record."""
        return asyncio.wrap_future(await self._handed_over(record))

    async def append_many(self, records: Iterable[RecordInput]) -> list[int]:
        """Append records in their order and return their offsets once all are appended. When some fail, the first error
        is raised after every record has its result; the other records stay appended. A record that cannot be queued
        ends the call: those after it are not appended."""
        futures: list[asyncio.Future[int]] = []
        refused: Exception | None = None
        for record in records:
            try:
                futures.append(await self.submit(record))
            except Exception as error:  # noqa: BLE001 - raised below, when the others have their results
                refused = error
                break
        found = await asyncio.gather(*futures, return_exceptions=True)
        for each in (*found, refused):
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if isinstance(each, int)]

    async def call(self, function: Callable[[Log], Result]) -> Result:
        """Run a function of the log in its thread; see `Appender.call`."""
        return await asyncio.wrap_future(self.appender.call(function))

    async def flush(self) -> None:
        """Wait until everything that was appended is durable, whatever the durability class."""
        await self.call(lambda log: log.flush())

    async def get(self, offset: int, *, isolation: Isolation = "high_watermark") -> Record | None:
        """Return the record at an offset; see `Log.get`."""
        return await self.call(lambda log: log.get(offset, isolation=isolation))

    async def follow(self, start: int | None = None, *, isolation: Isolation = "high_watermark",
                     read_bytes: int = READ_BYTES) -> AsyncGenerator[Batch, None]:
        """Yield the batches from `start` (default: the log start) on, including future ones. Any number of followers
        may wait. Raises `LogClosedError` at the end of the log when it is closed, and what `LogReader.follow` raises.
        """
        with self.appender.reader() as reader:
            place = Place(reader, start)
            while True:
                awaited = max(place.offset, visible_end(reader, isolation))
                offset = place.offset
                piece = place.read(reader, read_bytes, isolation)
                for batch in place.batches(reader, piece, isolation):
                    yield batch
                if piece.next_offset <= offset:
                    await self._shared_tail().moved(reader, awaited, isolation)
                else:
                    await asyncio.sleep(0)      # let other tasks run while this one catches up

    async def records(self, start: int | None = None, end: int | None = None, *,
                      isolation: Isolation = "high_watermark", read_bytes: int = READ_BYTES) -> AsyncIterator[Record]:
        """Yield the records from `start` on, as `follow` does; those below `end` only, when it is given. Markers of
        transactions are omitted."""
        if end is not None and end <= (0 if start is None else start):
            return
        async with aclosing(self.follow(start, isolation=isolation, read_bytes=read_bytes)) as batches:
            async for batch in batches:
                if not batch.is_control:
                    for record in records_in(batch, check_crc=False):
                        if (start is None or record.offset >= start) and (end is None or record.offset < end):
                            yield record
                if end is not None and batch.next_offset >= end:
                    return

    async def close(self) -> None:
        """Append the queued records and close the log; see `Appender.close`."""
        closing = asyncio.ensure_future(asyncio.to_thread(self.appender.close))
        # Not before, even when this task is cancelled: the log's thread writes into the descriptor until it has ended.
        closing.add_done_callback(self._end_tail)
        await asyncio.shield(closing)

    def _shared_tail(self) -> _Tail:
        if self._is_closed:
            raise LogClosedError(f"{self.appender.directory}: the log is closed")
        self._tail = self._tail or _Tail(self.appender)
        return self._tail

    def _end_tail(self, closing: asyncio.Future[None]) -> None:
        if closing.cancelled():
            return
        self._is_closed = True
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    async def _handed_over(self, record: RecordInput) -> Future[int]:
        if not self._turn.locked() and (future := self.appender.offer(record)) is not None:
            return future
        async with self._turn:      # one task waits for room, the others for their turn
            loop = asyncio.get_running_loop()
            while (future := self.appender.offer(record)) is None:
                room = loop.create_future()
                self.appender.when_room(partial(_complete_soon, loop, room))
                await room
        return future


def _close_opened(opening: Future[Appender]) -> None:
    """Close a log that nobody waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _complete_soon(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):        # the loop has ended meanwhile
        loop.call_soon_threadsafe(_complete, future)


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Tail:
    """Wake-up of followers on an event loop, when the limits of a log in another thread move. One event descriptor
    serves all of them."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._loop = asyncio.get_running_loop()
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._loop.add_reader(self._event, self._moved)
        self._waiting: list[asyncio.Future[None]] = []
        self._armed: asyncio.Future[None] | None = None

    async def moved(self, reader: Readable, end: int, isolation: Isolation) -> None:
        """Return when the limits have moved, or more than `end` is visible. Raises `LogClosedError` when the log is
        closed without that."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            if self._armed is None:
                self._armed = asyncio.wrap_future(self._appender.call(lambda log: log.arm(self._event)))
            await asyncio.shield(self._armed)   # a later move wakes; an earlier one is visible below
            if visible_end(reader, isolation) <= end:
                await waiter
        except LogClosedError:
            await asyncio.to_thread(self._appender.close)       # it still appends what is queued
            if visible_end(reader, isolation) <= end:
                raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def close(self) -> None:
        """Wake every follower and release the descriptor. Call it after the log is closed."""
        self._loop.remove_reader(self._event)
        os.close(self._event)
        self._wake()

    def _moved(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        self._wake()

    def _wake(self) -> None:
        self._armed = None
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            _complete(waiter)
