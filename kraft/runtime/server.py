"""Listeners: sockets that accept connections, who may connect, and how serving ends.

The connections themselves are compiled (`kraft_native.connection`); nothing here runs per request. A `Server` has the
limits that all listeners of a node share. Each kind of listener (broker, controller) has a `RequestChannel`, made by
`Server.channel`, which says which apis it serves.

What a limit is called in Kafka's configuration stands at its field. Kafka's default is "no limit" for connections and
for request memory; ours are what the machine can carry.
"""

import asyncio
import errno
import gc
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import Any, cast

from kraft.broker.client_quotas import ConnectionRates
from kraft.immutable import immutable
from kraft.runtime.descriptors import UNLIMITED, default_connections_max
from kraft_native.channel import RequestChannel
from kraft_native.connection import Connection
from kraft_native.errors import InvalidArgumentError
from kraft_native.frames import RequestMemory
from kraft_native.reply import Reply, ReplySink
from kraft_native.slices import SliceQueue

log = logging.getLogger(__name__)

SWEEP_MS_MAX = 500
# Between full garbage collections: those of the interpreter's own choice come when large requests are being served.
GARBAGE_MS = 300_000
EVERY_IPV6_ADDRESS = "::"
SYSTEM_BUFFER = -1
# Of <linux/socket.h>, since 5.14: which buffers have a size that was set, and which the system makes larger as needed.
SO_BUF_LOCK = 72
SOCK_SNDBUF_LOCK = 1


@immutable(kw_only=True)
class ServerLimits:
    """What clients may use of the node. A value out of range is refused when the server is made."""

    request_bytes_max: int = 100 * 1024 * 1024
    """socket.request.max.bytes: the largest frame."""
    answer_bytes_max: int = 100 * 1024 * 1024
    """kraft.answer.max.bytes: the largest answer, pages of the log aside."""
    memory_bytes_max: int = 64 * 1024 * 1024
    """queued.max.request.bytes: requests of all connections together; exceeded by at most one largest frame. Answers
    that have not left count, too."""
    requests_in_progress_max: int = 256
    """Requests of one connection whose replies have not left; then it is not read."""
    connections_max: int = field(default_factory=default_connections_max)
    """max.connections, of all listeners together."""
    connections_by_listener: dict[str, int] = field(default_factory=dict)
    """listener.name.*.max.connections, of those listeners that have one of their own besides."""
    connections_per_ip_max: int = UNLIMITED
    """max.connections.per.ip."""
    connections_per_ip_overrides: dict[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides, by address."""
    backlog: int = 1024
    """socket.listen.backlog.size: connections that the system holds until they are accepted."""
    send_buffer_bytes: int = SYSTEM_BUFFER
    """socket.send.buffer.bytes: of a connection in the system; -1: as the system likes."""
    follower_send_buffer_bytes: int = SYSTEM_BUFFER
    """The same once a follower fetches over it; -1: as the system likes, any other: as before."""
    receive_buffer_bytes: int = SYSTEM_BUFFER
    """socket.receive.buffer.bytes."""
    idle_timeout_ms: int = 600_000
    """connections.max.idle.ms; -1: for ever."""
    frame_timeout_ms: int = 10_000
    """From the first byte of a request to its last, and the time that its size takes at the lowest rate."""
    reply_timeout_ms: int = 30_000
    """How long a peer may leave replies unread, and the time that what it reads takes at the lowest rate."""
    rate_min_bytes_per_second: int = 16 * 1024

    def validate(self) -> None:
        """Raises `InvalidArgumentError` for what the channels do not check themselves."""
        for name, low in (("connections_max", 1), ("connections_per_ip_max", 0), ("backlog", 1)):
            value = getattr(self, name)
            if value < low:
                raise InvalidArgumentError(f"{name} must be at least {low}, not {value}")
        for name in ("send_buffer_bytes", "follower_send_buffer_bytes", "receive_buffer_bytes"):
            value = getattr(self, name)
            if value < 1 and value != SYSTEM_BUFFER:
                raise InvalidArgumentError(f"{name} must be at least 1, or -1 for the system's choice, not {value}")
        for listener, value in self.connections_by_listener.items():
            if value < 1:
                raise InvalidArgumentError(f"max.connections of listener {listener} must be at least 1, not {value}")


def _dual_stack(port: int) -> socket.socket:
    """A socket on every address of this machine, of IPv4 as well: the loops bind `::` to IPv6 alone."""
    found = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind((EVERY_IPV6_ADDRESS, port))
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


@immutable
class Listener:
    """One bound socket. `port` is the real one, also where 0 was asked for."""

    name: str
    host: str
    port: int
    acceptor: asyncio.Server


class Server:
    """All listeners of a node. Loop thread only.

    `on_failure(cause)` is called once, with the first fault of our own: the node should stop then. `clock` gives
    seconds that never go back. `call_soon` is the loop's, or one that calls earlier (`Purgatory.call_soon`).
    """

    def __init__(
        self,
        limits: ServerLimits,
        on_failure: Callable[[BaseException], object],
        clock: Callable[[], float] = time.monotonic,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        limits.validate()
        self.limits = limits
        self.memory = RequestMemory(limits.memory_bytes_max)
        self.channels: list[RequestChannel] = []
        self.listeners: list[Listener] = []
        self.connections = 0
        self.rates: ConnectionRates | None = None
        """How often addresses may connect."""
        self.spared: RequestChannel | None = None
        """Whose connections never wait for `rates` as a whole: that of the brokers, when they have one of their own."""
        self.failure: BaseException | None = None
        self._by_host: Counter[str] = Counter()
        self._accepting: dict[str, RequestChannel] = {}
        self._on_failure = on_failure
        self._clock = clock
        self._call_soon = call_soon
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None
        self._closing = False
        self._collect_ms = int(clock() * 1000) + GARBAGE_MS
        self._watched: dict[ReplySink, Callable[[], None]] = {}

    def channel(self, name: str, on_request: Callable[[Reply, int, int, bytes], object]) -> RequestChannel:
        """The channel for one kind of listener, under this server's limits. To be called inside the running loop."""
        limits = self.limits
        channel = RequestChannel(
            name,
            self.memory,
            on_request=on_request,
            on_failure=self._failed,
            call_soon=self._call_soon or asyncio.get_running_loop().call_soon,
            call_later=asyncio.get_running_loop().call_later,
            slices=self.slices,
            request_bytes_max=limits.request_bytes_max,
            answer_bytes_max=limits.answer_bytes_max,
            requests_in_progress_max=limits.requests_in_progress_max,
            frame_timeout_ms=limits.frame_timeout_ms,
            idle_timeout_ms=limits.idle_timeout_ms,
            reply_timeout_ms=limits.reply_timeout_ms,
            rate_min_bytes_per_second=limits.rate_min_bytes_per_second,
        )
        self.channels.append(channel)
        return channel

    @cached_property
    def slices(self) -> SliceQueue:
        """What is resumed in later iterations of the loop, of all channels. To be asked for inside the running loop."""
        return SliceQueue(asyncio.get_running_loop().call_soon, self._failed)

    async def bind(self, name: str, host: str, port: int) -> Listener:
        """Takes an address without accepting yet: who connects waits until `accept`. `host` empty: every address.

        OSError, naming the address, when it cannot be had.
        """
        loop = asyncio.get_running_loop()
        try:
            where: dict[str, Any] = ({"sock": _dual_stack(port)} if host == EVERY_IPV6_ADDRESS
                                     else {"host": host or None, "port": port, "reuse_address": True})
            acceptor = await loop.create_server(
                lambda: Connection(self._accepting[name], self),  # type: ignore[arg-type, return-value]
                **where, backlog=self.limits.backlog, start_serving=False)
        except OSError as error:
            # Loops word it in different ways, and name lookups have numbers of their own, below 0.
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(error.errno, why, f"listener {name}://{host}:{port}") from error
        # Connections have what the socket has that accepts them.
        for accepting in acceptor.sockets:
            for option, size in ((socket.SO_SNDBUF, self.limits.send_buffer_bytes),
                                 (socket.SO_RCVBUF, self.limits.receive_buffer_bytes)):
                if size != SYSTEM_BUFFER:
                    accepting.setsockopt(socket.SOL_SOCKET, option, size)
        bound = acceptor.sockets[0].getsockname()
        listener = Listener(name, host, bound[1], acceptor)
        self.listeners.append(listener)
        return listener

    async def accept(self, listener: Listener, channel: RequestChannel) -> None:
        """Accepts on a bound address; `channel` serves its connections."""
        self._accepting[listener.name] = channel
        await listener.acceptor.start_serving()
        if self._sweeper is None:
            self._sweep()
        log.info("listener %s: accepting on %s:%d", listener.name, listener.host or "*", listener.port)

    async def listen(self, name: str, host: str, port: int, channel: RequestChannel) -> Listener:
        """`bind` and `accept` in one."""
        listener = await self.bind(name, host, port)
        await self.accept(listener, channel)
        return listener

    # --- what connections ask

    def admit(self, connection: Connection) -> str | None:
        """Counts a new connection; says why it may not stay."""
        host = connection.peer_host
        self.connections += 1
        self._by_host[host] += 1
        if self._closing:
            return "shutdown"          # the loop had accepted it
        channel = connection.channel
        of_listener_max = self.limits.connections_by_listener.get(channel.name, UNLIMITED)
        if self.connections > self.limits.connections_max or len(channel.connections) > of_listener_max:
            return "connections"
        allowed = self.limits.connections_per_ip_overrides.get(host, self.limits.connections_per_ip_max)
        if self._by_host[host] > allowed:
            return "connections_per_ip"
        if self.rates is not None:
            self._slow_down(connection, self.rates)
        return None

    def _slow_down(self, connection: Connection, rates: ConnectionRates) -> None:
        channel = connection.channel
        delay_ms = rates.delay_ms(channel.name, self._clock_ms, spared=channel is self.spared)
        throttle_ms = rates.throttle_ms(connection.peer_host, self._clock_ms)
        if throttle_ms > 0:
            connection.hold()
            asyncio.get_running_loop().call_later(throttle_ms / 1000, connection.close, "connection_rate")
        elif delay_ms > 0:
            connection.delay(delay_ms)

    def _clock_ms(self) -> int:
        return int(self._clock() * 1000)

    def limit_connections(self, limits: ServerLimits) -> None:
        """The limits of connections that come from now on: how many, also of one listener and from one address.
        `InvalidArgumentError` leaves those before in force."""
        limits.validate()
        self.limits = replace(
            self.limits, connections_max=limits.connections_max, connections_by_listener=limits.connections_by_listener,
            connections_per_ip_max=limits.connections_per_ip_max,
            connections_per_ip_overrides=limits.connections_per_ip_overrides)

    def serve_follower(self, connection: ReplySink) -> None:
        """A follower fetches over that connection from now on. Where nobody set the size of send buffers the system may
        have its own way: an answer of a mebibyte then leaves in one turn of both loops, not in five."""
        assert isinstance(connection, Connection)
        if connection.transport is None or self.limits.follower_send_buffer_bytes != SYSTEM_BUFFER:
            return
        plain = cast(socket.socket, connection.transport.get_extra_info("socket"))
        try:
            locked = plain.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK)
            plain.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, locked & ~SOCK_SNDBUF_LOCK)
        except OSError as error:
            if error.errno != errno.ENOPROTOOPT:       # an older system
                raise

    def left(self, connection: Connection) -> None:
        """The connection is gone."""
        host = connection.peer_host
        self.connections -= 1
        self._by_host[host] -= 1
        if self._by_host[host] == 0:
            del self._by_host[host]
        if connection.reason not in ("peer", "drained"):
            log.debug("connection of %s:%d closed: %s", host, connection.peer_port, connection.reason)
        if self.connections == 0 and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

        on_left = self._watched.pop(connection, None)
        if on_left is not None:
            on_left()

    def watch(self, connection: ReplySink, on_left: Callable[[], None]) -> None:
        """Calls back when that open connection is gone, instead of who was to be called before."""
        self._watched[connection] = on_left

    # --- the end

    def stop_accepting(self) -> None:
        """Closes the listening sockets; connections go on."""
        for listener in self.listeners:
            listener.acceptor.close()

    async def close(self, timeout_s: float = 5.0, *, asked: Callable[[], None] = lambda: None) -> bool:
        """Ends everything: no new connections, no further requests; replies that clients await are sent, for at most
        `timeout_s`. Whether all of them were. `asked` is called when no more requests come: what only waits for more to
        happen is to be answered then."""
        self._closing = True
        self.stop_accepting()
        for channel in self.channels:
            channel.drain()
        asked()
        drained = await self._await_empty(timeout_s)
        if not drained:
            for channel in self.channels:
                channel.abort("shutdown")
            await self._await_empty(timeout_s)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        return drained

    async def _await_empty(self, timeout_s: float) -> bool:
        if self.connections == 0:
            return True
        self._empty = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([self._empty], timeout=timeout_s)
        return bool(done)

    def _sweep(self) -> None:
        """Looks at every connection's time-outs, and asks to be called again."""
        limits = self.limits
        shortest_ms = min(limits.frame_timeout_ms, limits.reply_timeout_ms, SWEEP_MS_MAX * 10)
        if limits.idle_timeout_ms > 0:
            shortest_ms = min(shortest_ms, limits.idle_timeout_ms)
        self._sweeper = asyncio.get_running_loop().call_later(max(shortest_ms / 10_000, 0.01), self._sweep)
        now_ms = int(self._clock() * 1000)
        for channel in self.channels:
            channel.sweep(now_ms)
        if now_ms >= self._collect_ms and self.slices.waiting_count == 0:
            self._collect_ms = now_ms + GARBAGE_MS
            gc.collect()

    def _failed(self, cause: BaseException) -> None:
        log.critical("a fault of our own while serving requests; the node stops", exc_info=cause)
        if self.failure is None:
            self.failure = cause
            self._on_failure(cause)

    # --- counts

    def counters(self) -> dict[str, int]:
        """What metrics show, all of it since the start unless it is a level (`connections`, `*_in_progress`,
        `memory_bytes`, `memory_waiting`)."""
        channels = self.channels
        return {
            "connections": self.connections,
            "connections_opened": sum(channel.connections_opened for channel in channels),
            "requests_in_progress": sum(channel.requests_in_progress for channel in channels),
            "bytes_in": sum(channel.bytes_in for channel in channels),
            "bytes_out": sum(channel.bytes_out for channel in channels),
            "memory_bytes": self.memory.used_bytes,
            "memory_bytes_peak": self.memory.peak_bytes,
            "memory_waiting": self.memory.waiting_users,
        }

    def requests(self) -> Counter[int]:
        """Requests by api key."""
        return sum((Counter(channel.requests()) for channel in self.channels), Counter())

    def closed(self) -> Counter[str]:
        """Connections closed, by reason (see `RequestChannel.closed`)."""
        return sum((Counter(channel.closed) for channel in self.channels), Counter())
