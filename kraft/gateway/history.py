"""Reader of records that are older than a feed. A few threads read; what they read is kept for the next subscriber."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kraft.gateway.errors import RequestError, library_failure
from kraft.gateway.feed import ENTRY_BYTES, Entry, Piece
from kraft.gateway.library import OUT_OF_RANGE, PASSING, Place, entry_of, range_of

PIECE_BYTES: Final = 256 << 10
PIECE_RECORDS: Final = 1_000
QUEUED_KIB: Final = 2_048
POLL_SECONDS: Final = 0.05
KEPT_SECONDS: Final = 30.0
"""Time for which a piece is kept: records may be deleted meanwhile, and topics created again."""
END_MS: Final = 50
"""Time after which the leader answers that there is nothing more."""


class OutOfRangeError(RequestError):
    """The partition has no such offset any more, or not yet; it has those from `low` to before `high`."""

    def __init__(self, place: Place, offset: int, low: int, high: int) -> None:
        super().__init__(416, "OFFSET_OUT_OF_RANGE",
                         f"partition {place[0]}-{place[1]}: offset {offset} is not in {low} to {high}")
        self.low = low
        self.high = high


class History:
    """Pieces of partitions at any offset. `read` is for the loop's thread; `close` waits for reads in progress.

    `bytes_max`: bytes of the pieces that are kept. `settings`: those of the library's consumers.
    """

    def __init__(self, settings: dict[str, Any], readers: int, bytes_max: int, seconds: float) -> None:
        self.settings = {**settings, "enable.partition.eof": True, "fetch.wait.max.ms": END_MS}
        self.seconds = seconds
        self.pieces_read = 0
        self._bytes_max = bytes_max
        self._size = 0
        self._kept: OrderedDict[tuple[Place, int], tuple[float, Piece]] = OrderedDict()
        self._reading: dict[tuple[Place, int], asyncio.Future[Piece]] = {}
        self._threads = ThreadPoolExecutor(readers, thread_name_prefix="kraft history")
        self._idle: list[_Reader] = []
        self._lock = threading.Lock()

    async def read(self, place: Place, offset: int) -> Piece:
        """Return the records from `offset` on, up to some size. A piece without records means that the partition has no
        more for now. Concurrent and later reads at the same offset share one. Raises `OutOfRangeError` or
        `RequestError`."""
        name = (place, offset)
        until, piece = self._kept.get(name, (0.0, None))
        if piece is not None and time.monotonic() <= until:
            self._kept.move_to_end(name)
            return piece
        if name not in self._reading:
            loop = asyncio.get_running_loop()
            self._reading[name] = loop.run_in_executor(self._threads, self._read, place, offset)
            self._reading[name].add_done_callback(lambda future: self._done(name, future))
        return await asyncio.shield(self._reading[name])

    async def query(self, question: Callable[[Consumer], Any]) -> Any:
        """Run a function of a consumer in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._query, question)

    def close(self) -> None:
        """Close the consumers. Blocks."""
        self._threads.shutdown()
        for reader in self._idle:
            reader.consumer.close()
        self._idle.clear()

    def _done(self, name: tuple[Place, int], future: "asyncio.Future[Piece]") -> None:
        self._reading.pop(name, None)
        if future.cancelled() or future.exception() is not None or not future.result().entries:
            return
        if name in self._kept:
            self._size -= _size_of(self._kept.pop(name)[1])
        self._kept[name] = time.monotonic() + KEPT_SECONDS, future.result()
        self._size += _size_of(future.result())
        self.pieces_read += 1
        while self._size > self._bytes_max and self._kept:
            self._size -= _size_of(self._kept.popitem(last=False)[1][1])

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _read(self, place: Place, offset: int) -> Piece:
        with self._reader((place, offset)) as reader:
            return reader.read(place, offset)

    def _query(self, question: Callable[[Consumer], Any]) -> Any:
        with self._reader(None) as reader:
            return question(reader.consumer)

    @contextmanager
    def _reader(self, at: tuple[Place, int] | None) -> Iterator["_Reader"]:
        """Take the reader that is at this place, else another one."""
        with self._lock:
            number = next((number for number, each in enumerate(self._idle) if each.at == at), 0)
            reader = self._idle.pop(number) if self._idle else None
        reader = reader or _Reader(Consumer(self.settings), self.seconds)
        try:
            yield reader
        finally:
            with self._lock:
                self._idle.append(reader)


def _size_of(piece: Piece) -> int:
    return sum(each.size for each in piece.entries) + ENTRY_BYTES


class _Reader:
    """One consumer, and where its next record is."""

    def __init__(self, consumer: Consumer, seconds: float) -> None:
        self.consumer = consumer
        self.seconds = seconds
        self.at: tuple[Place, int] | None = None

    def read(self, place: Place, offset: int) -> Piece:
        before, self.at = self.at, None     # an error leaves the place unknown
        if before != (place, offset):
            self.consumer.assign([TopicPartition(*place, offset)])
        entries: list[Entry] = []
        size, next_offset = 0, offset
        until = time.monotonic() + self.seconds
        while size < PIECE_BYTES and len(entries) < PIECE_RECORDS:
            message = self.consumer.poll(0 if entries else POLL_SECONDS)
            if message is None:
                if entries:
                    break
                if time.monotonic() > until:
                    self.at = before
                    raise RequestError(504, "REQUEST_TIMED_OUT", f"partition {place[0]}-{place[1]}: nothing came for "
                                                                 f"offset {offset}", retry_after=1)
                continue
            if message.error() is not None:
                if (end := self._end(place, offset, message)) is None:
                    continue
                next_offset = max(next_offset, end)
                break
            if (message.topic(), message.partition()) != place or (message.offset() or 0) < offset:
                continue        # of an earlier assignment
            entries.append(entry_of(message))
            size += entries[-1].size
            next_offset = entries[-1].offset + 1
        self.at = (place, next_offset)
        return Piece(entries, next_offset)

    def _end(self, place: Place, offset: int, message: Message) -> int | None:
        """Return the end of the partition where the message reports that; None for an error that passes."""
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return message.offset() or 0
        if error.code() in PASSING:
            return None
        if error.code() in OUT_OF_RANGE:
            raise OutOfRangeError(place, offset, *range_of(self.consumer, place, self.seconds))
        raise library_failure(f"partition {place[0]}-{place[1]}", error)
