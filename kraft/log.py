"""The log as a component: `kraft.Log` writes and reads one, `kraft.LogReader` reads one that somebody else writes.

`docs/engine.md` shows how to use them. The classes add what is pleasant in Python (iterators, following, appending of
many records) to the compiled ones, whose methods they inherit; nothing here runs per record on the way of an append.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kraft.reading import HIGH_WATERMARK, READ_BYTES, Reading, visible_end
from kraft_native import log as native_log
from kraft_native import reader as native_reader
from kraft_native.batch import Batch, walk
from kraft_native.column_encoder import encode_columns
from kraft_native.config import LogConfig
from kraft_native.errors import InvalidArgumentError
from kraft_native.records import BatchBuilder

if TYPE_CHECKING:
    from kraft_native.append import AppendInfo
    from kraft_native.flusher import Flusher

Headers = Iterable[tuple[str, bytes | None]]
RecordTuple = tuple[bytes | None, bytes | None, int | None, Headers]

BATCH_RECORDS_MAX = 10_000
ROOM_FOR_HEADER_BYTES = 1024
WAIT_SLICE_SECONDS = 0.5


class Log(Reading, native_log.Log):
    """One log in one directory, open for writing: see `kraft_native.log.Log` for appends, reads, marks and retention.

    `Log(directory, config)` opens it, creating the directory when it is missing; `Log.open` takes the settings by name.
    A log belongs to the thread that opened it: calls from another raise `WrongThreadError`. Readers in other threads
    or processes use `LogReader(directory)`.
    """

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, create: bool = True, flusher: Flusher | None = None,
             **settings: Any) -> Log:
        """Opens the log with the settings of `LogConfig` given by name, the others at their defaults.

        With `create=False` a directory that does not exist raises `FileNotFoundError`.
        """
        if not create and not os.path.isdir(directory):
            raise FileNotFoundError(f"{os.fspath(directory)}: no such log")
        return cls(directory, LogConfig(**settings), flusher=flusher)

    def append_records(self, records: Iterable[RecordTuple], *, codec: str = "none", level: int | None = None,
                       leader_epoch: int = -1) -> Iterator[AppendInfo]:
        """Appends (value, key, timestamp in ms or None for now, headers) tuples in batches; yields each batch's info.

        A batch ends before it would pass `max_message_bytes` (by its size before compression), or at 10,000 records.
        Each is appended before the next is built: stop iterating and the rest is not appended.
        """
        room = self.config.max_message_bytes - ROOM_FOR_HEADER_BYTES
        builder = BatchBuilder(codec, level)
        for value, key, timestamp_ms, headers in records:
            size = len(value or b"") + len(key or b"")
            if len(builder) and (builder.size_in_bytes + size > room or len(builder) >= BATCH_RECORDS_MAX):
                yield self.append(builder.build(), leader_epoch=leader_epoch)
                builder.clear()
            builder.append(value, key, timestamp_ms, headers)
        if len(builder):
            yield self.append(builder.build(), leader_epoch=leader_epoch)

    def append_columns(self, values: object, keys: object = None, timestamps: object = None, headers: object = None, *,
                       codec: str = "none", level: int | None = None, batch_bytes: int = 1 << 20,
                       leader_epoch: int = -1) -> list[AppendInfo]:
        """Appends columns: Arrow arrays, numpy arrays, or (offsets, data) pairs (`kraft_native.columns.encode_columns`).

        The rows are cut into batches of about `batch_bytes`; gives the info of each. All columns have the same length.
        """
        return [
            self.append(batch, leader_epoch=leader_epoch)
            for batch in encode_columns(values, keys=keys, timestamps=timestamps, headers=headers, codec=codec,
                                        level=level, batch_bytes_max=min(batch_bytes, self.config.max_message_bytes))
        ]

    async def follow(self, start: int | None = None, *, isolation: str = HIGH_WATERMARK,
                     read_bytes: int = READ_BYTES) -> AsyncIterator[Batch]:
        """Batches from `start` on, for ever: waits at the end until more is visible, without polling.

        For the event loop of the log's own thread. Ends when the log is closed.
        """
        offset = self.log_start_offset if start is None else start
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()
        eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

        def woken() -> None:
            os.eventfd_read(eventfd)
            wake.set()

        loop.add_reader(eventfd, woken)
        try:
            while True:
                wake.clear()
                self.arm(eventfd)
                if self.closed:
                    return
                if visible_end(self, isolation) <= offset:
                    await wake.wait()
                    continue
                piece = self.read(offset, read_bytes, isolation)
                for batch in walk(piece, check_crc=False):
                    yield batch
                offset = piece.next_offset
                await asyncio.sleep(0)  # others get their turn while this one catches up
        finally:
            loop.remove_reader(eventfd)
            if not self.closed:
                self.disarm(eventfd)
            os.close(eventfd)

    def stats(self) -> dict[str, object]:
        """A snapshot of the log's figures: marks, sizes, counts. Plain values; ready for JSON."""
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
    """A log read from another process, or another thread than its owner's, while the owner goes on writing.

    It never writes to the log's files and never sees more than the owner shows. Without an owner it shows what is valid
    on disk. One thread at a time may use it.
    """

    def follow(self, start: int | None = None, *, isolation: str = HIGH_WATERMARK, timeout: float | None = None,
               read_bytes: int = READ_BYTES) -> Iterator[Batch]:
        """Batches from `start` on; at the end waits, without polling, until the owner shows more.

        Ends when nothing came for `timeout` seconds; raises `LogClosedError` when the owner has gone.
        """
        if timeout is not None and timeout < 0:
            raise InvalidArgumentError(f"timeout: {timeout} is below 0 seconds")
        offset = self.log_start_offset if start is None else start
        while self.wait(offset, timeout, isolation):
            piece = self.read(offset, read_bytes, isolation)
            yield from walk(piece, check_crc=False)
            offset = piece.next_offset

    async def follow_async(self, start: int | None = None, *, isolation: str = HIGH_WATERMARK,
                           read_bytes: int = READ_BYTES) -> AsyncIterator[Batch]:
        """As `follow`, for an event loop: a thread of its executor does the waiting. Without an end of its own."""
        offset = self.log_start_offset if start is None else start
        loop = asyncio.get_running_loop()
        while True:
            while not await loop.run_in_executor(None, self.wait, offset, WAIT_SLICE_SECONDS, isolation):
                pass  # a thread that waited without a limit could not be ended with the loop
            piece = self.read(offset, read_bytes, isolation)
            for batch in walk(piece, check_crc=False):
                yield batch
            offset = piece.next_offset
