"""Limits of connections: open ones in all and of each address, requests per second, and bytes and time of a head."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kraft.http_heads import HeadTimer

ADDRESSES_MAX: Final = 100_000
BURST_SECONDS: Final = 2.0
HEAD_BYTES_MAX: Final = 64 << 10
"""Bytes of a request's line and headers that come in further reads than the first one; a read has 256 KiB at most."""
TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

SPARE: Final = 64
"""Connections beyond the limit that are served an answer which says so; further ones are closed."""

Address = tuple[str, int]


class Entry(Enum):
    """Treatment of a new connection."""

    SERVED = "served"
    TURNED_AWAY = "turned away"
    """It is beyond the limit of all connections. It gets one answer, which names the limit."""
    REFUSED = "refused"
    """It is closed."""


class Door:
    """Open connections, by the address of the other side. `connections_max`: how many are served at a time."""

    def __init__(self, per_address: int, connections_max: int) -> None:
        self.connections_max = connections_max
        self.refused = 0
        """Connections closed because their address had too many."""
        self.turned_away = 0
        """Connections beyond the limit of all."""
        self._per_address = per_address
        self._counts: Counter[str] = Counter()
        self._open: dict[Address, Any] = {}
        """The transport of each; None until its protocol begins."""
        self._beyond: set[Address] = set()
        """Those that are turned away."""

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._open)

    def enter(self, address: Address) -> Entry:
        """Count a connection unless it is refused."""
        if self._counts[address[0]] >= self._per_address:
            self.refused += 1
            return Entry.REFUSED
        found = Entry.SERVED
        if len(self._open) - len(self._beyond) >= self.connections_max:
            self.turned_away += 1
            if len(self._beyond) >= SPARE:
                return Entry.REFUSED
            self._beyond.add(address)
            found = Entry.TURNED_AWAY
        self._counts[address[0]] += 1
        self._open[address] = None
        return found

    def begin(self, address: Address, transport: Any) -> None:
        """Note the transport of a connection that entered."""
        if address in self._open:
            self._open[address] = transport

    def leave(self, address: Address) -> None:
        """Count a connection no more. Harmless for one that has left."""
        if address in self._open:
            del self._open[address]
            self._beyond.discard(address)
            self._counts[address[0]] -= 1
            if not self._counts[address[0]]:
                del self._counts[address[0]]

    def turns_away(self, address: Address) -> bool:
        """Return whether the connection is one beyond the limit."""
        return address in self._beyond

    def cut(self, address: Address) -> None:
        """Close a connection at once, without what is still to be sent."""
        if (transport := self._open.get(address)) is not None:
            transport.abort()


def protocol_of(door: Door) -> type[HttpToolsProtocol]:
    """Return the server's protocol class of connections that have passed this door. Their `address` is set before they
    begin."""

    class DoorProtocol(HttpToolsProtocol):
        address: Address = ("", 0)
        in_head = False
        head_bytes = 0
        timer: HeadTimer | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.client = self.address
            self.timer = HeadTimer(self.loop, transport)
            door.begin(self.address, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.timer is not None:
                self.timer.cancel()
            door.leave(self.address)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            was_in_head = self.in_head
            super().data_received(data)
            assert self.timer is not None
            self.timer.note(is_idle=self._is_idle)
            if self.in_head and was_in_head:
                self.head_bytes += len(data)
                if self.head_bytes > HEAD_BYTES_MAX:
                    self._refuse_head()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.in_head, self.head_bytes = True, 0

        def on_headers_complete(self) -> None:
            self.in_head = False
            super().on_headers_complete()

        def timeout_keep_alive_handler(self) -> None:
            """Close a connection without a request; at once when it does not receive its last answer."""
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            super().timeout_keep_alive_handler()

        @property
        def _is_idle(self) -> bool:
            cycle: Any = self.cycle
            return cycle is None or bool(cycle.response_complete)

        def _refuse_head(self) -> None:
            if self._is_idle and not self.transport.is_closing():
                self.transport.write(TOO_LARGE)
                self.transport.close()
            else:
                self.transport.abort()

    return DoorProtocol


class Rates:
    """Requests per second of each address, with bursts. The addresses that were seen last are remembered."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> float:
        """Count a request. Return 0 when it may be served, else the seconds until the next one may."""
        now, most = self._clock(), max(1.0, self._per_second * BURST_SECONDS)
        left, seen = self._left.pop(address, (most, now))
        left = min(most, left + (now - seen) * self._per_second)
        allowed = left >= 1.0
        self._left[address] = (left - 1.0 if allowed else left, now)
        if len(self._left) > ADDRESSES_MAX:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self._per_second
