"""Connections of brokers to the active controller, and attempts to connect to a broker.

From both the controller detects that a process has ended before its session expires.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from kraft.controller.machine import MetadataMachine
from kraft.controller.sessions import Found
from kraft.metadata.image import BrokerRegistration, Endpoint
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.raft.types import Endpoint as Address
from kraft.runtime.net import dialer

log = logging.getLogger(__name__)

PROBE_SECONDS: Final = 0.5
"""Limit for an answer of any kind from a broker's address."""


AnyConnection = TypeVar("AnyConnection")
AnyConnection_contra = TypeVar("AnyConnection_contra", contravariant=True)


class Watches(Protocol[AnyConnection_contra]):
    """Owner of the connections."""

    def watch(self, connection: AnyConnection_contra, on_left: Callable[[], None]) -> None:
        """Call back when that open connection has closed. Replaces an earlier callback of the connection."""


class BrokerConnections(Generic[AnyConnection]):
    """The connection of each broker's last heartbeat. Loop thread only.

    Notifies the controller of `metadata` when the connection closes on which a broker's current incarnation sent its
    last heartbeat.
    """

    def __init__(self, metadata: MetadataMachine, server: Watches[AnyConnection]) -> None:
        self._metadata = metadata
        self._server = server
        self._by_broker: dict[int, AnyConnection] = {}

    def note_heartbeat(self, connection: AnyConnection, heartbeat: BrokerHeartbeatRequest) -> None:
        """Note the connection on which a heartbeat came."""
        broker_id, epoch = heartbeat.broker_id, heartbeat.broker_epoch
        controller = self._metadata.controller
        broker = controller.decided.brokers.get(broker_id)
        if controller.active and broker is not None and broker.epoch == epoch:
            self._by_broker[broker_id] = connection
            self._server.watch(connection, partial(self._left, connection, broker_id, epoch))

    def _left(self, connection: AnyConnection, broker_id: int, epoch: int) -> None:
        if self._by_broker.get(broker_id) is connection:
            del self._by_broker[broker_id]
            self._metadata.broker_disconnected(broker_id, epoch)


class Probes:
    """Attempts to connect to brokers, for the controller of `metadata`. Loop thread only."""

    def __init__(self, metadata: MetadataMachine) -> None:
        self._metadata = metadata
        self._tasks: set[asyncio.Task[None]] = set()
        metadata.on_probe = self.begin

    def begin(self, broker: BrokerRegistration) -> None:
        task = asyncio.get_running_loop().create_task(self._probe(broker))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Cancel all probes; no result is reported from here on."""
        for task in self._tasks:
            task.cancel()

    async def _probe(self, broker: BrokerRegistration) -> None:
        found = await probe(broker.endpoints)
        log.info("broker %d may have ended: %s", broker.broker_id, found.value)
        self._metadata.broker_probed(broker.broker_id, broker.epoch, found)


async def probe(endpoints: Sequence[Endpoint]) -> Found:
    """Connect to all endpoints. Returns whether one accepts, all refuse, or neither is known in `PROBE_SECONDS`."""
    found = await asyncio.gather(*map(_probe, endpoints))
    if Found.ACCEPTED in found:
        return Found.ACCEPTED
    return Found.UNANSWERED if Found.UNANSWERED in found or not found else Found.REFUSED


async def _probe(endpoint: Endpoint) -> Found:
    try:
        await dialer.probe(Address(endpoint.name, endpoint.host, endpoint.port), seconds=PROBE_SECONDS)
    except ConnectionRefusedError:
        return Found.REFUSED
    except OSError:
        return Found.UNANSWERED
    return Found.ACCEPTED
