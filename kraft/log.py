"""The log as a component: `kraft.Log` writes and reads a log, `kraft.LogReader` reads one that another owner writes.

`docs/engine.md` shows how to use them. Both inherit the methods of the compiled classes and add the Python interface:
iterators, following, appending many records. No code here runs per record on the append path.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Self, Unpack

from kraft.inputs import YEAR_2000_MS, RecordInput, column, record_fields, size_of
from kraft.reading import READ_BYTES, Isolation, Place, Reading, visible_end
from kraft_native.base.errors import InvalidArgumentError, TimestampWarning
from kraft_native.batch.batch import Batch, first_batch
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade import log as native_log
from kraft_native.facade import reader as native_reader
from kraft_native.segment.config import LogConfig

if TYPE_CHECKING:
    from kraft.backup import Backup
    from kraft_native.log.append import AppendInfo
    from kraft_native.log.flusher import Flusher
    from kraft_native.segment.log_settings import LogSettings

BATCH_RECORDS_MAX = 10_000
# Reserved for the batch header, the record's length fields and the overhead of a codec on incompressible data.
ROOM_BYTES = 1024
WAIT_SLICE_SECONDS = 0.5


def warn_of_early(timestamp_ms: int) -> None:
    """Warn the caller's caller of a time before 2000. A time far in the future needs no warning:
    `message_timestamp_after_max_ms` refuses it."""
    warnings.warn(f"timestamp_ms {timestamp_ms} is before the year 2000; is it in seconds?", TimestampWarning,
                  stacklevel=3)


class _WakeUp:
    """Wake-up of a coroutine on the log's own thread, when the log's limits move or the log is closed."""

    def __init__(self, log: Log) -> None:
        import asyncio  # not by programs that run no loop: it is most of the time of an import

        self.log = log
        self.loop = asyncio.get_running_loop()
        self.event = asyncio.Event()
        self.eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # A duplicate, because a loop accepts one callback per descriptor, and several followers may wait.
        self.flushed = os.dup(log.flush_eventfd) if log.config.durability == "group-commit" else -1

    def __enter__(self) -> Self:
        self.loop.add_reader(self.eventfd, self._moved)
        if self.flushed >= 0:
            self.loop.add_reader(self.flushed, self._became_durable)
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.log.closed:
            self.log.disarm(self.eventfd)
        for descriptor in (self.eventfd, self.flushed):
            if descriptor >= 0:
                self.loop.remove_reader(descriptor)
                os.close(descriptor)

    def _moved(self) -> None:
        os.eventfd_read(self.eventfd)
        self.event.set()

    def _became_durable(self) -> None:
        with contextlib.suppress(BlockingIOError):  # another follower's callback ran first
            os.eventfd_read(self.flushed)
        if not self.log.closed:
            self.log.poll()

    async def wait(self) -> None:
        self.event.clear()
        self.log.arm(self.eventfd)
        await self.event.wait()


class Log(Reading, native_log.Log):
    """One log in one directory, open for writing. `kraft_native.facade.log.Log` documents appends, reads, marks
    and retention.

    `Log(directory, config)` opens the log and creates a missing directory; `Log.open` accepts the settings by name.
    A log belongs to the thread that opened it: calls from another thread raise `WrongThreadError`. Readers in other
    threads or processes use `LogReader(directory)`.
    """

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, create: bool = True, flusher: Flusher | None = None,
             **settings: Unpack[LogSettings]) -> Log:
        """Open the log with settings of `LogConfig` given by name; the others have their defaults.

        With `create=False` a missing directory raises `FileNotFoundError`.
        """
        if not create and not os.path.isdir(directory):
            raise FileNotFoundError(f"{os.fspath(directory)}: no such log")
        return cls(directory, LogConfig(**settings), flusher=flusher)

    def append_records(self, records: Iterable[RecordInput], *, codec: str = "none", level: int | None = None,
                       leader_epoch: int = -1) -> list[AppendInfo]:
        """Append records in batches and return the info of each batch.

        A record is a value in bytes, a tuple (value, key, timestamp in ms or None for now, headers) whose trailing
        elements may be omitted, or a `Record`. Headers are a mapping or pairs. A batch ends before it would exceed
        `max_message_bytes` (by its size before compression), or at 10,000 records. A record that is too large for a
        batch of its own raises `MessageTooLargeError`. When a record is refused, or the iterable raises, the full
        batches before it stay appended; the records gathered for the next batch are not appended.
        """
        room = self.config.max_message_bytes - ROOM_BYTES
        builder = BatchBuilder(codec, level)
        appended = []
        early = False
        for record in records:
            fields = record_fields(record)
            if len(builder) and (builder.size_in_bytes + size_of(fields) > room or len(builder) >= BATCH_RECORDS_MAX):
                appended.append(self.append(builder.build(), leader_epoch=leader_epoch))
                builder.clear()
            builder.append(*fields)
            if not early and fields[2] is not None and 0 <= fields[2] < YEAR_2000_MS:
                early = True
                warn_of_early(fields[2])
        if len(builder):
            appended.append(self.append(builder.build(), leader_epoch=leader_epoch))
        return appended

    def append_columns(self, values: object, keys: object = None, timestamps: object = None, headers: object = None, *,
                       codec: str = "none", level: int | None = None, batch_bytes: int = 1 << 20,
                       leader_epoch: int = -1) -> list[AppendInfo]:
        """Append columns and return the info of each batch. A column is an Arrow or numpy array, a series of pandas, a
        list, or an (offsets, data) pair.

        `kraft_native.columns.encoder` documents the accepted columns. The rows are cut into batches of about
        `batch_bytes` before compression, and never more than `max_message_bytes` allows. All columns have the same
        length; None as timestamps means now. When a batch is refused, the batches before it stay appended.
        """
        # Imported here: a node, and a program without columns, start without it.
        from kraft_native.columns.encoder import encode_columns
        room = max(self.config.max_message_bytes - (0 if codec == "none" else ROOM_BYTES), 1)
        batches = encode_columns(column(values), keys=column(keys), timestamps=column(timestamps),
                                 headers=column(headers), codec=codec, level=level,
                                 batch_bytes_max=min(batch_bytes, room))
        appended = []
        latest_ms = -1
        for batch in batches:
            appended.append(self.append(batch, leader_epoch=leader_epoch))
            latest_ms = max(latest_ms, first_batch(batch).max_timestamp_ms)
        if timestamps is not None and 0 <= latest_ms < YEAR_2000_MS:
            warn_of_early(latest_ms)
        return appended

    def backup(self, to: str | os.PathLike[str]) -> Backup:
        """Copy the log to the new directory `to`, durably; see `kraft.backup.make_backup`."""
        from kraft.backup import make_backup  # here, because its imports would add 10 ms to every start

        return make_backup(self, to)

    async def follow(self, start: int | None = None, *, isolation: Isolation = "high_watermark",
                     read_bytes: int = READ_BYTES) -> AsyncIterator[Batch]:
        """Yield batches from `start` (default: the log start) on, indefinitely. At the end of the log it waits, without
        polling, until more is visible.

        Use it on the event loop of the log's own thread; up to 64 followers may wait at a time. It ends when the log is
        closed. Raises what `read` raises, and `OffsetOutOfRangeError` when retention overtook the follower or when
        batches that it yielded were truncated, even if the log has since grown past that offset.
        """
        import asyncio

        place = Place(self, start)
        with _WakeUp(self) as wake_up:
            while not self.closed:
                piece = place.read(self, read_bytes, isolation)
                if piece.next_offset <= place.offset:
                    await wake_up.wait()
                    continue
                for batch in place.batches(self, piece, isolation):
                    yield batch
                await asyncio.sleep(0)  # let other tasks run while this one catches up

    def stats(self) -> dict[str, object]:
        """Return a snapshot of the log's marks, sizes and counts, as plain values that JSON can encode."""
        self.poll()  # also raises for a closed log or a wrong thread
        segments = self.segments
        return {
            "directory": self.directory,
            "durability": self.config.durability,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "high_watermark": self.high_watermark,
            "last_stable_offset": self.last_stable_offset,
            "durable_end_offset": self.durable_end_offset,
            "recovery_point": self.recovery_point,
            "size_bytes": self.size_bytes,
            "segments": len(segments),
            "active_segment_bytes": segments[-1].size,
            "producers": len(self.producers),
            "failure": None if self.failure is None else str(self.failure),
        }


class LogReader(Reading, native_reader.LogReader):
    """Reader of a log in another process or thread than its owner's, while the owner continues to write.

    It never writes to the log's files and never sees more than the owner publishes. Without an owner it shows what
    opening the log would find; `recovery` is what that would report. One thread at a time may use it.
    """

    def follow(self, start: int | None = None, *, isolation: Isolation = "high_watermark", timeout: float | None = None,
               read_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Yield batches from `start` on. At the end of the log it waits, without polling, until the owner publishes
        more.

        Ends when no batch arrived for `timeout` seconds. Raises `LogClosedError` at the end of a log whose owner has
        closed it or ended. Raises what `read` raises, and `OffsetOutOfRangeError` when batches that it yielded were
        truncated, even if the log has since grown past that offset.
        """
        if timeout is not None and timeout < 0:
            raise InvalidArgumentError(f"timeout: {timeout} is below 0 seconds")
        place = Place(self, start)
        while True:
            limit = visible_end(self, isolation)
            offset = place.offset
            piece = place.read(self, read_bytes, isolation)
            yield from place.batches(self, piece, isolation)
            # Nothing was read below the limit: the limit lies inside a batch and must move first.
            if piece.next_offset <= offset and not self.wait(max(offset, limit), timeout, isolation):
                return

    async def follow_async(self, start: int | None = None, *, isolation: Isolation = "high_watermark",
                           read_bytes: int = READ_BYTES) -> AsyncIterator[Batch]:
        """Follow the log as `follow` does, on an event loop: a thread of its executor waits. It has no timeout.

        After a cancellation that thread may wait for up to another half second.
        """
        import asyncio

        place = Place(self, start)
        loop = asyncio.get_running_loop()
        while True:
            limit = visible_end(self, isolation)
            offset = place.offset
            piece = place.read(self, read_bytes, isolation)
            for batch in place.batches(self, piece, isolation):
                yield batch
            if piece.next_offset <= offset:
                awaited = max(offset, limit)
                while not await loop.run_in_executor(None, self.wait, awaited, WAIT_SLICE_SECONDS, isolation):
                    pass  # in slices, because a thread that waits without a limit cannot be ended with the loop
            await asyncio.sleep(0)  # let other tasks run while this one catches up
