"""Appending from any thread, through a log in a thread of its own. Event loops use `kraft.async_log`.

    with Appender("orders-0", durability="group-commit") as log:
        future = log.append(b"two coffees")          # from any thread
        offset = future.result()                     # appended, and as durable as the log's setting promises

The thread owns the log. It drains the queue, appends its records in batches, and completes their futures when the log's
durability class holds for the batch. With group commit, all records that arrive meanwhile share the next flush.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, Unpack

from kraft.inputs import Fields, Headers, RecordInput, record_fields, size_of
from kraft.log import BATCH_RECORDS_MAX, ROOM_BYTES, Log, LogReader
from kraft_native.base.errors import InvalidArgumentError, LogClosedError, ProtocolError
from kraft_native.batch.records import BatchBuilder

if TYPE_CHECKING:
    from kraft.reading import Isolation
    from kraft_native.batch.records import Record
    from kraft_native.segment.log_settings import LogSettings

Result = TypeVar("Result")

QUEUE_BYTES_MAX: Final = 64 << 20
# Memory of an item besides its bytes: its future and its tuple.
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
    """A log that any thread may append to; a context manager. It opens the log as `Log.open` does and raises what that
    raises.

    `append` returns a future. Its result is the record's offset, its error what `Log.append` raises; a refused record
    does not affect others. Records of one thread stay in their order. A future that is cancelled before its record is
    dequeued omits the record. At most about `queue_bytes_max` bytes are queued; then `append` blocks. `codec` and
    `level` apply to the batches. `close` appends the queued records and closes the log.
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
        self._on_room: list[Callable[[], object]] = []
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
        atexit.register(self.close)     # a program that exits without closing still appends the queued records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def append(self, value: bytes | bytearray | memoryview | None, key: bytes | bytearray | memoryview | None = None,
               timestamp_ms: int | None = None, headers: Headers = ()) -> Future[int]:
        """Queue one record. Its bytes must not change before the future is done. Raises `LogClosedError` after `close`
        and `InvalidArgumentError` at once for invalid headers."""
        return self.append_input((value, key, timestamp_ms, headers))

    def append_input(self, record: RecordInput) -> Future[int]:
        """Queue a record in any form that `Log.append_records` accepts; see `append`."""
        item = _item_of(record)
        with self._lock:
            while self._waiting_bytes >= self._queue_bytes_max:
                self._need_open()
                self._lock.wait()
            self._put(item, item.size)
        return item.future

    def offer(self, record: RecordInput) -> Future[int] | None:
        """Queue a record as `append_input` does, but return None instead of blocking when the queue is full."""
        item = _item_of(record)
        with self._lock:
            self._need_open()       # a queue that stays full, because the thread has ended, is no reason to wait
            if self._waiting_bytes >= self._queue_bytes_max:
                return None
            self._put(item, item.size)
        return item.future

    def when_room(self, function: Callable[[], object]) -> None:
        """Call a function once, in any thread, as soon as `offer` may succeed or the appender closes. It must not block
        or raise."""
        with self._lock:
            if self._waiting_bytes >= self._queue_bytes_max and not self._closing:
                self._on_room.append(function)
                return
        function()

    def call(self, function: Callable[[Log], Result]) -> Future[Result]:
        """Run a function of the log in the log's thread, after everything that was queued before. Use it for `flush`,
        retention, compaction and `backup`. The result must not hold objects of the log other than slices, batches and
        records."""
        item = _Call(function, Future())
        with self._lock:
            self._put(item, 0)
        return item.future

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything that was queued before is durable; see `Log.flush`."""
        return self.call(lambda log: log.flush(timeout)).result()

    def get(self, offset: int, *, isolation: Isolation = "high_watermark") -> Record | None:
        """Return the record at an offset; see `Log.get`."""
        return self.call(lambda log: log.get(offset, isolation=isolation)).result()

    def reader(self) -> LogReader:
        """Open a reader of the log for the calling thread, which closes it."""
        return LogReader(self.directory)

    def close(self) -> None:
        """Append the queued records, close the log and end the thread. Any other thread may call it, any number of
        times. Raises what closing the log raises."""
        if threading.current_thread() is self._thread:
            raise InvalidArgumentError("close: it waits for the thread that calls it")
        with self._lock:
            first = not self._closing
            self._closing = True
            self._lock.notify_all()
        self._report_room()
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
            self._report_room()
            for item in left:
                if not item.future.done():
                    item.future.set_exception(error)

    def _taken(self) -> list[_Append | _Call]:
        """Drain at most one batch's worth of items; wait for the first one. An empty list means that the thread ends.
        """
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
        self._report_room()

    def _report_room(self) -> None:
        with self._lock:
            if self._waiting_bytes >= self._queue_bytes_max and not self._closing:
                return
            functions, self._on_room = self._on_room, []
        for function in functions:
            function()

    def _append(self, log: Log, group: list[_Append]) -> list[tuple[Future[int], int]]:
        """Append records as one batch; return the future and offset of each appended one. The others' futures get the
        error."""
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
        """Complete the futures, once the durability class holds for their records."""
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
