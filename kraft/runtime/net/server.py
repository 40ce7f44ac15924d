"""Listeners: the sockets that accept connections, the limits of connecting, and the end of serving.

The connections themselves are compiled (`kraft_native.net.connection`); nothing here runs per request. A `Server` has
the limits that all listeners of a node share. Each kind of listener (broker, controller) has a `RequestChannel` from
`Server.channel`, which says which APIs it serves.

Each field of a limit names its setting in Kafka's configuration. Kafka's default for connections and for request memory
is "no limit"; the defaults here are what the machine can carry.
"""

import asyncio
import errno
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

from kraft.broker.client_quotas import ConnectionRates
from kraft.runtime.base.descriptors import UNLIMITED, default_connections_max
from kraft.runtime.base.garbage import GarbageSchedule
from kraft.runtime.base.unused_memory import UnusedMemory
from kraft.runtime.net.handshakes import HandshakeQueue, TlsListener
from kraft.security.principal import ANONYMOUS
from kraft.structs import immutable
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.net.channel import RequestChannel
from kraft_native.net.connection import Connection
from kraft_native.net.frames import RequestMemory
from kraft_native.request.reply import Reply, ReplySink
from kraft_native.request.slices import SliceQueue

if TYPE_CHECKING:
    from kraft.runtime.audit.node_audit import NodeAudit
    from kraft.runtime.net.tls_contexts import ListenerTls
    from kraft.security.audit.sink import AccessAudit

log = logging.getLogger(__name__)

SWEEP_MS_MAX = 500
EVERY_IPV6_ADDRESS = "::"
SYSTEM_BUFFER = -1
# From <linux/socket.h>, since 5.14: marks the buffers whose size was set. The system enlarges the others as needed.
SO_BUF_LOCK = 72
SOCK_SNDBUF_LOCK = 1


@immutable(kw_only=True)
class ServerLimits:
    """Resources of the node that clients may use. `Server` refuses a value out of range when it is created."""

    request_bytes_max: int = 100 * 1024 * 1024
    """socket.request.max.bytes: the largest frame."""
    answer_bytes_max: int = 100 * 1024 * 1024
    """kraft.answer.max.bytes: the largest answer, without pages of the log."""
    memory_bytes_max: int = 64 * 1024 * 1024
    """queued.max.request.bytes: requests of all connections together, exceeded by at most one largest frame. Answers
    that have not been sent count, too."""
    requests_in_progress_max: int = 256
    """Requests of one connection whose replies have not been sent; at this number it is not read."""
    connections_max: int = field(default_factory=default_connections_max)
    """max.connections, of all listeners together."""
    connections_by_listener: dict[str, int] = field(default_factory=dict)
    """listener.name.*.max.connections, for listeners that have a limit of their own besides."""
    connections_per_ip_max: int = UNLIMITED
    """max.connections.per.ip."""
    connections_per_ip_overrides: dict[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides, by address."""
    backlog: int = 1024
    """socket.listen.backlog.size: connections that the system holds until they are accepted."""
    send_buffer_bytes: int = SYSTEM_BUFFER
    """socket.send.buffer.bytes: the system's send buffer of a connection; -1: the system chooses."""
    follower_send_buffer_bytes: int = SYSTEM_BUFFER
    """The same for a connection over which a follower fetches; -1: the system chooses, any other value: unchanged."""
    receive_buffer_bytes: int = SYSTEM_BUFFER
    """socket.receive.buffer.bytes."""
    idle_timeout_ms: int = 600_000
    """connections.max.idle.ms; -1: no limit."""
    frame_timeout_ms: int = 10_000
    """Time from the first byte of a request to its last, plus the time that its size takes at the lowest rate."""
    reply_timeout_ms: int = 30_000
    """Time for which a peer may leave replies unread, plus the time that what it reads takes at the lowest rate."""
    rate_min_bytes_per_second: int = 16 * 1024
    handshake_timeout_ms: int = 10_000
    """kraft.tls.handshake.timeout.ms: time from the connection to the end of its TLS handshake."""

    def validate(self) -> None:
        """Raise `InvalidArgumentError` for values that the channels do not check themselves."""
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
    """A socket on every address of this machine, IPv4 included: event loops bind `::` to IPv6 alone."""
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
    """One bound socket. `port` is the real one, also where 0 was requested."""

    name: str
    host: str
    port: int
    acceptor: asyncio.Server


class Gate(Protocol):
    """Authentication of a channel's connections. `successes` and `failures` count by mechanism since the start."""

    successes: Counter[str]
    failures: Counter[str]

    def admit(self, connection: Connection) -> None:
        """Demand that a new connection authenticates itself."""


class Server:
    """All listeners of a node. Loop thread only.

    `on_failure(cause)` is called once, with the first fault of our own: the node should stop then. `clock` returns
    seconds that never go back. `call_soon` is the loop's, or one that calls earlier (`Purgatory.call_soon`). `tls`: the
    listeners with TLS, by name; each new connection uses the current entry.
    """

    def __init__(
        self,
        limits: ServerLimits,
        on_failure: Callable[[BaseException], object],
        clock: Callable[[], float] = time.monotonic,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        tls: "Mapping[str, ListenerTls] | None" = None,
    ) -> None:
        limits.validate()
        self.limits = limits
        self.memory = RequestMemory(limits.memory_bytes_max)
        self.channels: list[RequestChannel] = []
        self.listeners: list[Listener] = []
        self.connections = 0
        self.rates: ConnectionRates | None = None
        """Limits of how often addresses may connect."""
        self.exempt_channel: RequestChannel | None = None
        """Channel whose connections never wait for the total of `rates`: that of the brokers, when they have their own
        listener."""
        self.gates: dict[RequestChannel, Gate] = {}
        """Authentication that connections of a channel must pass before they are served."""
        self.audit: NodeAudit | None = None
        """Audit of the node; None where nothing is audited."""
        self.access_audit: AccessAudit | None = None
        """Audit of permissions; None where nobody has any."""
        self.failure: BaseException | None = None
        handshakes = HandshakeQueue()
        self.tls = {name: TlsListener(self, name, tls, handshakes, limits.handshake_timeout_ms)
                    for name in tls} if tls else {}
        """Listeners with TLS, by name."""
        self._by_host: Counter[str] = Counter()
        self._accepting: dict[str, RequestChannel] = {}
        self._on_failure = on_failure
        self._clock = clock
        self._call_soon = call_soon
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None
        self._closing = False
        self._garbage = GarbageSchedule(int(clock() * 1000))
        self._unused_memory = UnusedMemory()
        self._watched: dict[ReplySink, Callable[[], None]] = {}

    def channel(self, name: str, on_request: Callable[[Reply, int, int, bytes], object]) -> RequestChannel:
        """Create the channel for one kind of listener, under this server's limits. Call inside the running loop."""
        limits = self.limits
        channel = RequestChannel(
            name,
            self.memory,
            principal=ANONYMOUS,
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
        """Work of all channels that later iterations of the loop resume. First read inside the running loop."""
        return SliceQueue(asyncio.get_running_loop().call_soon, self._failed)

    async def bind(self, name: str, host: str, port: int) -> Listener:
        """Bind an address without accepting: a client that connects waits until `accept`. An empty `host` means every
        address.

        Raises OSError, which names the address, when it cannot be bound.
        """
        loop = asyncio.get_running_loop()
        try:
            where: dict[str, Any] = ({"sock": _dual_stack(port)} if host == EVERY_IPV6_ADDRESS
                                     else {"host": host or None, "port": port, "reuse_address": True})
            accept = self.tls[name].accept if name in self.tls else lambda: Connection(self._accepting[name], self)
            acceptor = await loop.create_server(
                accept,  # type: ignore[arg-type]
                **where, backlog=self.limits.backlog, start_serving=False)
        except OSError as error:
            # Event loops word the error in different ways, and name lookups have their own numbers, below 0.
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(error.errno, why, f"listener {name}://{host}:{port}") from error
        # A connection inherits the options of the socket that accepts it.
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
        """Accept on a bound address; `channel` serves its connections."""
        self._accepting[listener.name] = channel
        if listener.name in self.tls:
            self.tls[listener.name].channel = channel
        await listener.acceptor.start_serving()
        if self._sweeper is None:
            self._sweep()
        log.info("listener %s: accepting on %s:%d", listener.name, listener.host or "*", listener.port)

    async def listen(self, name: str, host: str, port: int, channel: RequestChannel) -> Listener:
        """Bind and accept in one call."""
        listener = await self.bind(name, host, port)
        await self.accept(listener, channel)
        return listener

    # --- calls from connections

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection. Returns the reason why it may not stay, or None."""
        if (refused := self.enter(connection.peer_host, connection.channel)) is not None:
            return refused
        throttle_ms, delay_ms = self.slow_down(connection.peer_host, connection.channel)
        if throttle_ms > 0:
            connection.hold()
            asyncio.get_running_loop().call_later(throttle_ms / 1000, connection.close, "connection_rate")
        elif delay_ms > 0:
            connection.delay(delay_ms)
        self.demand_authentication(connection)
        return None

    def demand_authentication(self, connection: Connection) -> None:
        """Have an admitted connection authenticate itself, where its listener demands that."""
        if (gate := self.gates.get(connection.channel)) is not None:
            gate.admit(connection)

    def enter(self, host: str, channel: RequestChannel, waiting: int = 0) -> str | None:
        """Count a new connection from a host. Returns the reason why it may not stay, or None. `waiting`: connections
        of the channel that it does not know yet."""
        self.connections += 1
        self._by_host[host] += 1
        if self._closing:
            return "shutdown"          # the loop had already accepted it
        of_listener_max = self.limits.connections_by_listener.get(channel.name, UNLIMITED)
        if self.connections > self.limits.connections_max or len(channel.connections) + waiting > of_listener_max:
            return "connections"
        allowed = self.limits.connections_per_ip_overrides.get(host, self.limits.connections_per_ip_max)
        return "connections_per_ip" if self._by_host[host] > allowed else None

    def slow_down(self, host: str, channel: RequestChannel) -> tuple[int, int]:
        """Return for how many milliseconds a new connection is held and then closed, and for how many it is held and
        then served, because addresses connect too often."""
        if self.rates is None:
            return 0, 0
        delay_ms = self.rates.delay_ms(channel.name, self.clock_ms, is_exempt=channel is self.exempt_channel)
        return self.rates.throttle_ms(host, self.clock_ms), delay_ms

    def clock_ms(self) -> int:
        """Return milliseconds that never go back."""
        return int(self._clock() * 1000)

    def limit_connections(self, limits: ServerLimits) -> None:
        """Set the limits of later connections: in total, of one listener and from one address. `InvalidArgumentError`
        leaves the current limits in force."""
        limits.validate()
        self.limits = replace(
            self.limits, connections_max=limits.connections_max, connections_by_listener=limits.connections_by_listener,
            connections_per_ip_max=limits.connections_per_ip_max,
            connections_per_ip_overrides=limits.connections_per_ip_overrides)

    def serve_follower(self, connection: ReplySink) -> None:
        """Enlarge the send buffer of a connection over which a follower fetches from now on. Without a configured size
        the system may choose: an answer of a mebibyte then leaves in one iteration of both loops, not in five."""
        assert isinstance(connection, Connection)
        if connection.transport is None or self.limits.follower_send_buffer_bytes != SYSTEM_BUFFER:
            return
        plain = cast(socket.socket, connection.transport.get_extra_info("socket"))
        try:
            locked = plain.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK)
            plain.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, locked & ~SOCK_SNDBUF_LOCK)
        except OSError as error:
            if error.errno != errno.ENOPROTOOPT:       # an older kernel
                raise

    def left(self, connection: Connection) -> None:
        """Remove a closed connection from the counts."""
        self.leave(connection.peer_host)
        if connection.reason not in ("peer", "drained"):
            log.debug("connection of %s:%d closed: %s", connection.peer_host, connection.peer_port, connection.reason)
        on_left = self._watched.pop(connection, None)
        if on_left is not None:
            on_left()

    def leave(self, host: str) -> None:
        """Remove a connection of that host from the counts."""
        self.connections -= 1
        self._by_host[host] -= 1
        if self._by_host[host] == 0:
            del self._by_host[host]
        if self.connections == 0 and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def watch(self, connection: ReplySink, on_left: Callable[[], None]) -> None:
        """Call back when that open connection has closed. Replaces an earlier callback of the connection."""
        self._watched[connection] = on_left

    # --- the end

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections continue."""
        for listener in self.listeners:
            listener.acceptor.close()

    async def close(self, timeout_s: float = 5.0, *, on_drained: Callable[[], None] = lambda: None) -> bool:
        """End everything: accept no connections and no further requests. Replies that clients await are sent for at
        most `timeout_s`; returns whether all were. `on_drained` is called when no more requests come, to answer those
        that only wait for something to happen."""
        self._closing = True
        self.stop_accepting()
        for listener in self.tls.values():
            listener.abort()
        for channel in self.channels:
            channel.drain()
        on_drained()
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
        """Check every connection's time-outs, and schedule the next check."""
        limits = self.limits
        shortest_ms = min(limits.frame_timeout_ms, limits.reply_timeout_ms, limits.handshake_timeout_ms,
                          SWEEP_MS_MAX * 10)
        if limits.idle_timeout_ms > 0:
            shortest_ms = min(shortest_ms, limits.idle_timeout_ms)
        self._sweeper = asyncio.get_running_loop().call_later(max(shortest_ms / 10_000, 0.01), self._sweep)
        now_ms = int(self._clock() * 1000)
        for channel in self.channels:
            channel.sweep(now_ms)
        for listener in self.tls.values():
            listener.sweep(now_ms)
        idle = self.slices.waiting_count == 0
        self._garbage.run(now_ms, idle=idle)
        self._unused_memory.run(idle=idle)

    def _failed(self, cause: BaseException) -> None:
        log.critical("a fault of our own while serving requests; the node stops", exc_info=cause)
        if self.failure is None:
            self.failure = cause
            self._on_failure(cause)

    # --- counts

    def counters(self) -> dict[str, int]:
        """Counters for the metrics. All count since the start, except the levels `connections`, `*_in_progress`,
        `memory_bytes` and `memory_waiting`."""
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
