"""Appending from any thread, and from event loops: a log in a thread of its own.

    with Appender("orders-0", durability="group-commit") as log:
        future = log.append(b"two coffees")          # from any thread
        offset = future.result()                     # it is in the log, as durable as the log's setting promises

    async with await AsyncLog.open("orders-0") as log:
        offset = await log.append(b"two coffees")

The thread owns the log. It takes everything that waits, appends it in batches, and answers when the log's durability
class promises the batch: with group commit all that came meanwhile share the next flush.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, Unpack

from kraft.inputs import Fields, Headers, RecordInput, record_fields, size_of
from kraft.log import BATCH_RECORDS_MAX, ROOM_BYTES, Log, LogReader
from kraft_native.errors import InvalidArgumentError, LogClosedError, ProtocolError
from kraft_native.records import BatchBuilder

if TYPE_CHECKING:
    from kraft.reading import Isolation
    from kraft_native.batch import Batch
    from kraft_native.config import LogSettings
    from kraft_native.records import Record

Result = TypeVar("Result")

QUEUE_BYTES_MAX: Final = 64 << 20
# What an item costs beside its bytes: its future, its tuple.
ITEM_BYTES: Final = 1024


class _Append(NamedTuple):
    fields: Fields
    size: int
    future: Future[int]


class _Call(NamedTuple):
    function: Callable[[Log], Any]
    future: Future[Any]


def _item_of(record: RecordInput) -> _Append:
    value, key, timestamp_ms, headers = record_fields(record)
    fields = (value, key, time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms, headers)
    return _Append(fields, size_of(fields) + ITEM_BYTES, Future())


class Appender:
    """A log that any thread may append to. It opens the log as `Log.open` does, and raises what that raises.

    `append` returns a future: its result is the record's offset, its error what `Log.append` raises; a record that is
    refused harms no other. Records of one thread stay in their order. A future that is cancelled before its record is
    taken leaves it out. At most about `queue_bytes_max` bytes wait; then `append` blocks. `codec` and `level` are those
    of its batches. A context manager; `close` appends what waits, and closes the log.
    """

    def __init__(self, directory: str | os.PathLike[str], *, codec: str = "none", level: int | None = None,
                 queue_bytes_max: int = QUEUE_BYTES_MAX, **settings: Unpack[LogSettings]) -> None:
        if queue_bytes_max < 1:
            raise InvalidArgumentError(f"queue_bytes_max: {queue_bytes_max} is below 1")
        self.directory = os.fspath(directory)
        self._builder = BatchBuilder(codec, level)
        self._queue_bytes_max = queue_bytes_max
        self._lock = threading.Condition()
        self._items: deque[_Append | _Call] = deque()
        self._waiting_bytes = 0
        self._closing = False
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(settings, opened),
                                        name=f"kraft log {self.directory}", daemon=True)
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            self._thread.join()
            raise
        atexit.register(self.close)     # a program that ends without closing still appends what waits

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def append(self, value: bytes | bytearray | memoryview | None, key: bytes | bytearray | memoryview | None = None,
               timestamp_ms: int | None = None, headers: Headers = ()) -> Future[int]:
        """Hands one record over. The bytes must not change before the future is done. `LogClosedError` after `close`;
        `InvalidArgumentError` at once for headers that are none."""
        return self.append_input((value, key, timestamp_ms, headers))

    def append_input(self, record: RecordInput) -> Future[int]:
        """As `append`, for a record in any form that `Log.append_records` accepts."""
        item = _item_of(record)
        with self._lock:
            while self._waiting_bytes >= self._queue_bytes_max:
                self._need_open()
                self._lock.wait()
            self._put(item, item.size)
        return item.future

    def offer(self, record: RecordInput) -> Future[int] | None:
        """As `append_input`, but never blocks: None when too much waits."""
        item = _item_of(record)
        with self._lock:
            if self._waiting_bytes >= self._queue_bytes_max:
                return None
            self._put(item, item.size)
        return item.future

    def call(self, function: Callable[[Log], Result]) -> Future[Result]:
        """Runs a function of the log in the log's thread, after what was handed over before: for `flush`, retention,
        compaction, `backup`. What it returns must not be the log's own objects, but for slices, batches and records."""
        item = _Call(function, Future())
        with self._lock:
            self._put(item, 0)
        return item.future

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything that was handed over before is durable; see `Log.flush`."""
        return self.call(lambda log: log.flush(timeout)).result()

    def get(self, offset: int, *, isolation: Isolation = "high_watermark") -> Record | None:
        """The record at an offset; see `Log.get`."""
        return self.call(lambda log: log.get(offset, isolation=isolation)).result()

    def reader(self) -> LogReader:
        """A reader of the log for the calling thread, which closes it."""
        return LogReader(self.directory)

    def close(self) -> None:
        """Appends what waits, closes the log and ends the thread. Any thread, any number of times. Raises what closing
        the log raises."""
        if threading.current_thread() is self._thread:
            raise InvalidArgumentError("close: it waits for the thread that calls it")
        with self._lock:
            first = not self._closing
            self._closing = True
            self._lock.notify_all()
        self._thread.join()
        atexit.unregister(self.close)
        if first and self._failure is not None:
            raise self._failure

    _failure: BaseException | None = None

    def _put(self, item: _Append | _Call, size: int) -> None:
        self._need_open()
        self._items.append(item)
        self._waiting_bytes += size
        self._lock.notify_all()

    def _need_open(self) -> None:
        if self._closing:
            raise LogClosedError(f"{self.directory}: the appender is closed")

    # --- the log's thread ---------------------------------------------------------------------------------------------

    def _run(self, settings: LogSettings, opened: Future[None]) -> None:
        try:
            log = Log.open(self.directory, **settings)
        except BaseException as error:  # noqa: BLE001 - its future has it
            opened.set_exception(error)
            return
        opened.set_result(None)
        items: list[_Append | _Call] = []
        try:
            while items := self._taken():
                self._carry_out(log, items)
            log.close()
        except BaseException as error:  # noqa: BLE001 - its future has it
            self._failure = error
            with self._lock:
                self._closing = True
                left, self._items = [*items, *self._items], deque()
                self._lock.notify_all()
            for item in left:
                if not item.future.done():
                    item.future.set_exception(error)

    def _taken(self) -> list[_Append | _Call]:
        """All that waits, at most a batch's worth of records; waits for the first. Empty when it is to end."""
        with self._lock:
            while not self._items and not self._closing:
                self._lock.wait()
            return [self._items.popleft() for _ in range(min(len(self._items), BATCH_RECORDS_MAX))]

    def _carry_out(self, log: Log, items: list[_Append | _Call]) -> None:
        appended: list[tuple[Future[int], int]] = []
        group: list[_Append] = []
        room = log.config.max_message_bytes - ROOM_BYTES
        size = 0
        for item in items:
            if not item.future.set_running_or_notify_cancel():
                continue
            if isinstance(item, _Call) or (group and size + item.size > room):
                appended += self._append(log, group)
                group, size = [], 0
            if isinstance(item, _Call):
                self._settle(log, appended)
                appended = []
                self._call(log, item)
            else:
                group.append(item)
                size += item.size - ITEM_BYTES
        appended += self._append(log, group)
        self._settle(log, appended)
        with self._lock:
            self._waiting_bytes -= sum(item.size for item in items if isinstance(item, _Append))
            self._lock.notify_all()

    def _append(self, log: Log, group: list[_Append]) -> list[tuple[Future[int], int]]:
        """Appends records as one batch; those with the offset that they got. The futures of others have their error."""
        self._builder.clear()
        taken = []
        for item in group:
            try:
                self._builder.append(*item.fields)
            except Exception as error:  # noqa: BLE001 - its future has it
                item.future.set_exception(error)
                continue
            taken.append(item)
        if not taken:
            return []
        try:
            first = log.append(self._builder.build()).first_offset
        except ProtocolError as error:
            if len(taken) > 1:      # one of them is at fault
                return [found for item in taken for found in self._append(log, [item])]
            taken[0].future.set_exception(error)
            return []
        except Exception as error:  # noqa: BLE001 - its future has it
            for item in taken:
                item.future.set_exception(error)
            return []
        return [(item.future, first + index) for index, item in enumerate(taken)]

    @staticmethod
    def _settle(log: Log, appended: list[tuple[Future[int], int]]) -> None:
        """Answers, when the durability class promises the records."""
        if not appended:
            return
        try:
            if log.config.durability == "group-commit":
                log.flush_soon()
                log.wait_durable(appended[-1][1] + 1)
        except Exception as error:  # noqa: BLE001 - its future has it
            for future, _ in appended:
                future.set_exception(error)
            return
        for future, offset in appended:
            future.set_result(offset)

    @staticmethod
    def _call(log: Log, item: _Call) -> None:
        try:
            result = item.function(log)
        except Exception as error:  # noqa: BLE001 - its future has it
            item.future.set_exception(error)
        else:
            item.future.set_result(result)


class AsyncLog:
    """A log for an event loop: an `Appender` whose results are awaited. Nothing here blocks the loop. An asynchronous
    context manager."""

    def __init__(self, appender: Appender) -> None:
        self.appender = appender

    @classmethod
    async def open(cls, directory: str | os.PathLike[str], *, codec: str = "none", level: int | None = None,
                   queue_bytes_max: int = QUEUE_BYTES_MAX, **settings: Unpack[LogSettings]) -> Self:
        """Opens the log, which may scan it, in another thread; see `Appender`."""
        return cls(await asyncio.to_thread(Appender, directory, codec=codec, level=level,
                                           queue_bytes_max=queue_bytes_max, **settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def append(self, value: bytes | bytearray | memoryview | None,
                     key: bytes | bytearray | memoryview | None = None, timestamp_ms: int | None = None,
                     headers: Headers = ()) -> int:
        """Appends a record, and returns its offset once it is as durable as the log's setting promises. Many tasks may
        wait at a time, and share batches and flushes. Cancelling leaves the record out, or in."""
        return await asyncio.wrap_future(await self._handed_over((value, key, timestamp_ms, headers)))

    async def append_many(self, records: Iterable[RecordInput]) -> list[int]:
        """Appends records in their order, and returns their offsets when all are. The first error is raised when every
        one has its answer; the others are appended all the same."""
        futures = [asyncio.wrap_future(await self._handed_over(record)) for record in records]
        found = await asyncio.gather(*futures, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if isinstance(each, int)]

    async def call(self, function: Callable[[Log], Result]) -> Result:
        """Runs a function of the log in its thread; see `Appender.call`."""
        return await asyncio.wrap_future(self.appender.call(function))

    async def flush(self) -> None:
        """Waits until everything that was appended is durable, whatever the durability class."""
        await self.call(lambda log: log.flush())

    async def get(self, offset: int, *, isolation: Isolation = "high_watermark") -> Record | None:
        """The record at an offset; see `Log.get`."""
        return await self.call(lambda log: log.get(offset, isolation=isolation))

    async def follow(self, start: int | None = None, *,
                     isolation: Isolation = "high_watermark") -> AsyncIterator[Batch]:
        """Batches from `start` on, and then those to come; see `LogReader.follow_async`."""
        with self.appender.reader() as reader:
            async for batch in reader.follow_async(start, isolation=isolation):
                yield batch

    async def close(self) -> None:
        """Appends what waits and closes the log; see `Appender.close`."""
        await asyncio.to_thread(self.appender.close)

    async def _handed_over(self, record: RecordInput) -> Future[int]:
        future = self.appender.offer(record)
        return await asyncio.to_thread(self.appender.append_input, record) if future is None else future
