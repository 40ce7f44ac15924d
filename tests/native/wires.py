"""Connections without sockets: a transport that acts on request and step by step."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from kraft.protocol.api_keys import ApiKey
from kraft_native.net.channel import RequestChannel
from kraft_native.net.connection import Connection
from kraft_native.net.frames import RequestMemory
from kraft_native.request.reply import Reply
from kraft_native.request.slices import SliceQueue

METADATA, API_VERSIONS, PIPELINED = ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.DELETE_TOPICS
FLEXIBLE_FROM = 9
BODIES = {version: b"versions %d" % version for version in range(5)}
INVALID = {version: b"invalid %d" % version for version in range(5)}
UNSUPPORTED = b"unsupported"


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request(
    api_key: int,
    version: int,
    correlation_id: int,
    body: bytes = b"",
    client: bytes | None = b"test",
    tags: bytes = b"",
) -> bytes:
    """Build a framed request; `tags` follows the client id in request header version 2."""
    name = struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
    return frame(struct.pack(">hhi", api_key, version, correlation_id) + name + tags + body)


def replies(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield correlation id and body of every reply, each of which must be whole."""
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        assert 4 <= size <= len(data) - 4
        yield correlation_id, data[8 : 4 + size]
        data = data[4 + size :]


class Wire:
    """A transport and its peer. The peer takes `take` bytes of each write before the rest is buffered; None: all."""

    def __init__(self, peername: tuple[str, int] = ("192.0.2.1", 4711)) -> None:
        self.peername = peername
        self.connection: Connection | None = None
        self.received = b""
        self.writes = 0
        self.take: int | None = None
        self.queue: list[bytes | memoryview] = []
        self.reading = True
        self.closing = False
        self.aborted = False
        self.lost = False

    def get_extra_info(self, name: str) -> object:
        return self.peername if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return sum(len(part) for part in self.queue)

    def writelines(self, parts: list[bytes | memoryview]) -> None:
        assert not self.queue, "the connection writes although the transport has not sent all"
        self.writes += 1
        self.queue = list(parts)
        self.move(self.take)
        if self.queue:
            self.connection.pause_writing()

    def move(self, count: int | None) -> None:
        """Let the peer take `count` bytes, None: all."""
        while self.queue and count != 0:
            part = self.queue.pop(0)
            taken = len(part) if count is None else min(count, len(part))
            self.received += bytes(part[:taken])
            if taken < len(part):
                self.queue.insert(0, memoryview(part)[taken:])
            if count is not None:
                count -= taken

    def read_all(self) -> None:
        """Let the peer take everything, now and later."""
        self.take = None
        was_blocked = bool(self.queue)
        self.move(None)
        if was_blocked and not self.aborted:
            self.connection.resume_writing()
        self.finish_closing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closing = True
        self.finish_closing()

    def abort(self) -> None:
        self.closing = self.aborted = True
        self.queue = []

    def finish_closing(self) -> None:
        """Close as the loop does after `close` or `abort`."""
        if self.closing and not self.queue and not self.lost:
            self.lost = True
            self.connection.connection_lost(None)

    def feed(self, data: bytes, at_once: int = 1 << 30) -> None:
        """Deliver bytes, at most `at_once` per read, until all are delivered or reading pauses; the rest is dropped."""
        while data and self.reading and not self.closing:
            with memoryview(self.connection.get_buffer(65536)) as room:
                count = min(len(room), len(data), at_once)
                room[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]
        self.unread = data
        if self.aborted:
            self.finish_closing()


class Bench:
    """A channel whose loop iterations the test runs, and the requests that reached the Python side."""

    def __init__(self, memory_bytes: int = 1 << 30, slice_us: int = 1_000_000, **limits: int) -> None:
        """Slices are long unless a test is about slices, so that the outcome does not depend on the machine."""
        self.requests: list[tuple[Reply, int, int, bytes]] = []
        self.failures: list[BaseException] = []
        self.refuse: str | None = None
        self.closed_connections: list[Connection] = []
        self.turns: list[object] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        """Seconds, and the callback that is due after them."""
        self.answer_with: bytes | None = None
        self.raises: BaseException | None = None
        self.memory = RequestMemory(memory_bytes)
        self.channel = RequestChannel(
            "test", self.memory, on_request=self.on_request, on_failure=self.failures.append,
            call_soon=self.turns.append, call_later=lambda *timer: self.timers.append(timer),
            slices=SliceQueue(self.turns.append, self.failures.append, slice_us=slice_us, iteration_us=slice_us),
            **limits,
        )
        self.channel.serve_api_versions(BODIES, INVALID, UNSUPPORTED)
        self.channel.serve(METADATA, 1, 13, FLEXIBLE_FROM)
        self.channel.serve(PIPELINED, 0, 0, 32767, pipelined=True)

    def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
        if self.raises is not None:
            raise self.raises
        self.requests.append((reply, api_key, version, body))
        if self.answer_with is not None:
            reply.answer(self.answer_with, 0)

    def admit(self, connection: Connection) -> str | None:
        return self.refuse

    def left(self, connection: Connection) -> None:
        self.closed_connections.append(connection)

    def connect(self) -> Wire:
        wire = Wire()
        wire.connection = Connection(self.channel, self)
        wire.connection.connection_made(wire)
        return wire

    def turn(self) -> None:
        """Run one iteration of the loop."""
        due, self.turns[:] = list(self.turns), []
        for callback in due:
            callback()

    def settle(self) -> None:
        """Run iterations until nothing is due."""
        while self.turns:
            self.turn()

    def end(self) -> None:
        """Disconnect every connection. Nothing may be left behind."""
        self.channel.abort("shutdown")
        connections: list[Any] = list(self.channel.connections)
        for connection in connections:
            connection.connection_lost(None)
        self.requests.clear()
        self.turns.clear()
        self.timers.clear()
        self.closed_connections.clear()
        self.raises = None
        assert self.memory.used_bytes == 0
        assert self.memory.waiting_users == 0
        assert self.channel.requests_in_progress == 0
        del self.channel, self.memory
