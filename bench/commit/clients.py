"""Clients of our bench's replicas, of controllers and of etcd that keep a number of proposals in flight.

They have one thread, several connections and no library. All proposals of a turn leave in one call, so that the client
is not what is measured. For etcd they send its own Put over gRPC; the HTTP/2 here is the minimum for it.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from bench.commit.load import Latencies

RECEIVE_BYTES: Final = 1 << 20
REPLY_SECONDS: Final = 30.0
CONNECTIONS_MAX: Final = 8

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACKNOWLEDGED, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE: Final = 4
WINDOW_MAX: Final = (1 << 31) - 1
WINDOW_DEFAULT: Final = 65_535
FRAME_HEAD: Final = struct.Struct(">BHBBI")
PUT: Final = b"/etcdserverpb.KV/Put"
KEYS: Final = 100_000


class Client(Protocol):
    """One connection. `receive` returns the number of answered proposals, and records the latency of each."""

    socket: socket.socket

    def send(self, count: int) -> None: ...
    def receive(self, latencies: Latencies) -> int: ...


def run(connect: Callable[[], Client], in_flight: int, seconds: float,
        connections_max: int = CONNECTIONS_MAX) -> dict[str, float]:
    """Keep `in_flight` proposals in flight for that time; return rate and latencies."""
    clients = [connect() for _ in range(min(in_flight, connections_max))]
    latencies = Latencies()
    try:
        with selectors.DefaultSelector() as selector:
            for each in clients:
                selector.register(each.socket, selectors.EVENT_READ, each)
            began_ns = time.perf_counter_ns()
            until_ns = began_ns + int(seconds * 1e9)
            for number, each in enumerate(clients):
                each.send((in_flight + number) // len(clients))
            while time.perf_counter_ns() < until_ns:
                ready = selector.select(REPLY_SECONDS)
                if not ready:
                    raise RuntimeError(f"no answer in {REPLY_SECONDS:g} s")
                for key, _ in ready:
                    if count := key.data.receive(latencies):
                        key.data.send(count)
            return latencies.summary(time.perf_counter_ns() - began_ns)
    finally:
        for each in clients:
            each.socket.close()


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), REPLY_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(RECEIVE_BYTES)
    if not data:
        raise RuntimeError("the server closed the connection")
    return data


class FramedClient:
    """Client of `bench.commit.replica`'s `Front`."""

    def __init__(self, port: int, payload: bytes) -> None:
        self.socket = _connected(port)
        self._frame = len(payload).to_bytes(4, "big") + payload
        self._sent: deque[tuple[int, int]] = deque()
        self._rest = 0

    def send(self, count: int) -> None:
        self._sent.append((count, time.perf_counter_ns()))
        self.socket.sendall(self._frame * count)

    def receive(self, latencies: Latencies) -> int:
        """Receive answers, which come in order: eight bytes each."""
        count, self._rest = divmod(self._rest + len(_received(self.socket)), 8)
        now_ns, left = time.perf_counter_ns(), count
        while left:
            waiting, began_ns = self._sent.popleft()
            taken = min(waiting, left)
            latencies.add(now_ns - began_ns, taken)
            left -= taken
            if taken < waiting:
                self._sent.appendleft((waiting - taken, began_ns))
        return count


class EtcdClient:
    """Client that puts a value under one key after the other, each call on a stream of its own.

    The data in flight must fit the server's window of 64 KiB for a connection; the server returns each byte of the
    window when it has read it.
    """

    def __init__(self, port: int, value: bytes) -> None:
        self.socket = _connected(port)
        self._value = b"\x12" + _varint(len(value)) + value
        self._head = (b"\x83\x86" + b"\x04" + _text(PUT) + b"\x01" + _text(b"127.0.0.1") + b"\x0f\x10"
                      + _text(b"application/grpc") + b"\x00" + _text(b"te") + _text(b"trailers"))
        self._stream = 1
        self._key = 0
        self._sent: dict[int, int] = {}
        self._answered: set[int] = set()
        self._received = b""
        self._taken = 0
        self._window = WINDOW_DEFAULT
        self._waiting = 0
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, WINDOW_MAX)
        self.socket.sendall(PREFACE + _frame(SETTINGS, 0, 0, settings) + self._more(WINDOW_MAX - WINDOW_DEFAULT))

    def _more(self, count: int) -> bytes:
        return _frame(WINDOW_UPDATE, 0, 0, count.to_bytes(4, "big"))

    def send(self, count: int) -> None:
        """Send proposals. Those that exceed the server's window are sent when that has grown."""
        out, now_ns = [], time.perf_counter_ns()
        self._waiting += count
        while self._waiting:
            key = b"\x0a\x08" + b"%08d" % (self._key % KEYS)
            body = b"\0" + (len(key) + len(self._value)).to_bytes(4, "big") + key + self._value
            if len(body) > self._window:
                break
            self._window -= len(body)
            self._waiting -= 1
            out.append(_frame(HEADERS, END_HEADERS, self._stream, self._head))
            out.append(_frame(DATA, END_STREAM, self._stream, body))
            self._sent[self._stream] = now_ns
            self._stream += 2
            self._key += 1
        self.socket.sendall(b"".join(out))

    def receive(self, latencies: Latencies) -> int:
        data = self._received + _received(self.socket)
        position, count, now_ns = 0, 0, time.perf_counter_ns()
        while position + 9 <= len(data):
            high, low, kind, flags, stream = FRAME_HEAD.unpack_from(data, position)
            end = position + 9 + (high << 16 | low)
            if end > len(data):
                break
            if kind == DATA:
                self._taken += end - position - 9
                self._answered.add(stream)
            elif kind == HEADERS and flags & END_STREAM:
                if stream not in self._answered:
                    raise RuntimeError("etcd refused a Put")
                self._answered.discard(stream)
                latencies.add(now_ns - self._sent.pop(stream))
                count += 1
            elif kind != HEADERS:
                self._control(kind, flags, stream, data[position + 9:end])
            position = end
        self._received = data[position:]
        if self._taken > WINDOW_DEFAULT:
            self.socket.sendall(self._more(self._taken))
            self._taken = 0
        if self._waiting:
            self.send(0)
        return count

    def _control(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        if kind == WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(body, "big")
        elif kind == SETTINGS and not flags & ACKNOWLEDGED:
            self.socket.sendall(_frame(SETTINGS, ACKNOWLEDGED, 0, b""))
        elif kind == PING and not flags & ACKNOWLEDGED:
            self.socket.sendall(_frame(PING, ACKNOWLEDGED, 0, body))
        elif kind == RESET and stream not in self._sent and not int.from_bytes(body, "big"):
            pass                  # the answer arrived before the server had seen the request's end: RFC 9113, 8.1
        elif kind in (RESET, GO_AWAY):
            raise RuntimeError(f"etcd ended a stream or the connection: frame {kind}, {body!r}")


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return FRAME_HEAD.pack(len(body) >> 16, len(body) & 0xFFFF, kind, flags, stream) + body


def _text(text: bytes) -> bytes:
    """Encode a string shorter than 127 bytes for HPACK, uncompressed."""
    return bytes([len(text)]) + text


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
