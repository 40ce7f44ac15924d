"""Connections that a broker opens to other brokers, as `runtime.net.dialer` promises them to its users."""

import asyncio
from collections.abc import Callable
from typing import cast

from kraft.raft.types import Endpoint
from kraft.runtime.net.dialer import CONNECT_SECONDS_MAX, Dialer
from kraft.runtime.net.peers import PeerConnection
from kraft.testing.brokers.ends import Receiver, receive
from kraft.testing.brokers.wire import Connection, Process, Wire


class PeerEnd:
    """The end of a connection at the broker that opened it, as a transport of `PeerConnection`."""

    def __init__(self, connection: Connection, protocol: PeerConnection) -> None:
        self._connection = connection
        self._protocol = protocol
        connection.on_lost = self._lost

    def _lost(self) -> None:
        self._protocol.connection_lost(None)

    def _answered(self, answer: object) -> None:
        if isinstance(answer, bytes) and not self._protocol.is_abandoned:
            receive(cast("Receiver", self._protocol), answer)

    def get_extra_info(self, _name: str, /) -> object:
        return None

    def write(self, frame: bytes) -> None:
        if self._connection.is_open:
            self._connection.request(frame, self._answered)

    def abort(self) -> None:
        """Close the connection. A process that has ended does nothing more."""
        source = self._connection.source
        if source.is_up and source.life == self._connection.source_life:
            self._connection.close()


def lane_of(purpose: str, number: int) -> str:
    """Return the name of a lane of the wire: each has one open connection between two brokers."""
    return f"{purpose} {number}"


class SimDialer(Dialer):
    """Opens the connections for one purpose, each in the first lane that is free. Port numbers are ids of brokers."""

    def __init__(self, process: Process, wire: Wire, purpose: str) -> None:
        super().__init__()
        self._process = process
        self._wire = wire
        self._purpose = purpose
        self._opened: dict[int, list[Connection]] = {}

    async def connect(self, endpoint: Endpoint, make: Callable[[], asyncio.BaseProtocol], *,
                      seconds: float = CONNECT_SECONDS_MAX) -> asyncio.Transport:  # noqa: ARG002 - refusals are timed
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def refuse() -> None:
            if not refused.done():
                refused.set_result(None)

        opened = self._opened.setdefault(endpoint.port, [])
        number = next((place for place, each in enumerate(opened) if not each.is_open), len(opened))
        connection = self._wire.open(self._process, endpoint.port, lane_of(self._purpose, number), refuse)
        if connection is None:
            await refused
            raise ConnectionRefusedError(f"{endpoint.host} refuses the connection")
        opened[number:number + 1] = [connection]
        protocol = make()
        assert isinstance(protocol, PeerConnection)
        transport = cast("asyncio.Transport", PeerEnd(connection, protocol))
        protocol.connection_made(transport)
        return transport
