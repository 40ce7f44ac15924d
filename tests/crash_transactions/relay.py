"""Relay between clients and brokers that repeats, delays and loses requests to end a transaction.

- Repeated: the broker receives the request twice in a row; the client gets one answer.
- Answer lost: the client's connection is closed in place of the answer, so the client sends the request again.
- Late: the client's connection is closed, and the request arrives some time later by another connection. The client
  has repeated it by then and may have begun the next transaction. A client without an epoch for each transaction
  (transaction.version 2) cannot be protected from that: KAFKA-17754.
"""

import asyncio
import random
import struct
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

END_TXN: Final = 26
EPOCH_PER_TRANSACTION: Final = 5
"""Version of EndTxn from which each transaction has an epoch of its own."""
HEADER: Final = struct.Struct(">hhi")
CORRELATION: Final = struct.Struct(">i")
OURS: Final = 0x40000000
"""Bit of the correlation ids of repeated requests."""
LATE_SECONDS: Final = (0.02, 0.2, 1.0, 3.0)
FRAME_BYTES_MAX: Final = 64 << 20

REPEAT: Final = "EndTxn repeated"
LOSE_ANSWER: Final = "answer of EndTxn lost"
LATE: Final = "EndTxn late"


class Relay:
    """A listening port of 127.0.0.1 for each target, a thread for all. `late_for_all`: be late with requests of clients
    without an epoch for each transaction too. `chance`: of a fault for each EndTxn."""

    def __init__(self, targets: Sequence[tuple[str, int]], seed: int, *, chance: float = 0.1,
                 late_for_all: bool = False) -> None:
        self.ports: list[int] = []
        self.counts: Counter[str] = Counter()
        self._chance = chance
        self._late_for_all = late_for_all
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(targets), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self, targets: Sequence[tuple[str, int]]) -> None:
        self._servers = []
        for target in targets:
            server = await asyncio.start_server(
                lambda reader, writer, target=target: self._accept(target, reader, writer), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, target: tuple[str, int], reader: asyncio.StreamReader,
                      writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(target, reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass        # one side is closed, and so is the other then
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _serve(self, target: tuple[str, int], reader: asyncio.StreamReader,
                     writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(*target)
        lost: set[int] = set()
        ways = [asyncio.ensure_future(self._requests(target, reader, broker_writer, lost)),
                asyncio.ensure_future(self._answers(broker_reader, writer, lost))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            broker_writer.close()

    async def _requests(self, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                        lost: set[int]) -> None:
        while True:
            frame = await _frame(reader)
            key, version, correlation = HEADER.unpack_from(frame, 4)
            kind = self._draw(version) if key == END_TXN else ""
            if kind:
                self.counts[kind] += 1
            if kind == LATE:
                self._spawn(self._send_late(target, frame))
                return
            if kind == LOSE_ANSWER:
                lost.add(correlation)
            writer.write(frame)
            if kind == REPEAT:
                writer.write(frame[:8] + CORRELATION.pack(correlation ^ OURS) + frame[12:])
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: set[int]) -> None:
        while True:
            frame = await _frame(reader)
            correlation, = CORRELATION.unpack_from(frame, 4)
            if correlation in lost:
                return
            if correlation >= 0 and correlation & OURS:
                continue
            writer.write(frame)
            await writer.drain()

    def _draw(self, version: int) -> str:
        if self._random.random() >= self._chance:
            return ""
        kinds = [REPEAT, LOSE_ANSWER]
        if version >= EPOCH_PER_TRANSACTION or self._late_for_all:
            kinds += [LATE, LATE]
        return self._random.choice(kinds)

    async def _send_late(self, target: tuple[str, int], frame: bytes) -> None:
        await asyncio.sleep(self._random.choice(LATE_SECONDS) * self._random.random())
        try:
            reader, writer = await asyncio.open_connection(*target)
        except OSError:
            return      # the broker is down: the request is lost
        try:
            writer.write(frame)
            await asyncio.wait_for(_frame(reader), 10.0)
        except (OSError, EOFError, TimeoutError):
            self.counts["late EndTxn without an answer"] += 1
        finally:
            writer.close()

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Read one request or answer, with its size. Raises EOFError at the end."""
    head = await reader.readexactly(4)
    size = int.from_bytes(head, "big")
    if size > FRAME_BYTES_MAX:
        raise EOFError(f"{size} bytes in a frame")
    return head + await reader.readexactly(size)
