"""Parts that serve Produce and Fetch without Python: table of partitions, waiting requests, handlers, server."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kraft.broker.client_quotas import ClientRates
from kraft.config.effective import BrokerLayers
from kraft.config.node_config import NodeConfig
from kraft.metadata.image import MetadataImage, QuotaEntity
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.net.batch_checks import BatchChecks
from kraft.runtime.net.server import Server
from kraft.runtime.net.server_limits import connection_rates, limit_rates, server_limits
from kraft.security.authorizer import Authorizer
from kraft_native.log.flusher import Flusher
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.purgatory import now_ms as monotonic_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import SessionCache
from kraft_native.serve.produce import ProduceHandler

if TYPE_CHECKING:
    from kraft.runtime.net.tls_contexts import TlsContexts

SESSION_UPKEEP_MS_MAX: Final = 1000


class DataPath:
    """The data path of a node on the running loop. `on_failure` is called with a fault of our own. `tls`: None where no
    listener is encrypted."""

    def __init__(self, config: NodeConfig, flusher: Flusher, on_failure: Callable[[BaseException], object],
                 tls: "TlsContexts | None" = None) -> None:
        self._tls = tls
        loop, number = asyncio.get_running_loop(), config.integer
        with ExitStack() as opened:
            self._alarm = Alarm(monotonic_ms, self._expire)
            self.purgatory = Purgatory(loop.call_soon, self._alarm.set)
            self.table = PartitionTable(self.purgatory)
            self.cold_reader = ColdReader()
            opened.callback(self.cold_reader.close)
            opened.callback(self._alarm.cancel)
            self.sessions = SessionCache(
                number("max.incremental.fetch.session.cache.slots"),
                upkeep_ms=min(SESSION_UPKEEP_MS_MAX, number("replica.lag.time.max.ms") // 8))
            self.batch_checks = BatchChecks()
            opened.callback(self.batch_checks.close)
            self.quotas = ClientQuotas()
            self._client_rates = ClientRates(number("quota.window.num"), 1000 * number("quota.window.size.seconds"))
            self.server = Server(server_limits(config.layers()), on_failure, call_soon=self.purgatory.call_soon,
                                 tls=None if tls is None else tls.listeners)
            self.produce = ProduceHandler(self.table, self.batch_checks.offload, self.quotas, on_failure,
                                          self.server.slices)
            self.fetch = FetchHandler(self.table, self.sessions, self.cold_reader, bytes_max=number("fetch.max.bytes"),
                                      by_rack=config.selects_replicas_by_rack, quotas=self.quotas,
                                      on_follower=self.server.serve_follower, slices=self.server.slices)
            # Both reset their descriptor: the end of a flush or of a read runs no Python.
            loop.add_reader(flusher.eventfd, self.purgatory.flush_done, flusher.eventfd)
            opened.callback(loop.remove_reader, flusher.eventfd)
            loop.add_reader(self.cold_reader.eventfd, self.cold_reader.poll)
            opened.callback(loop.remove_reader, self.cold_reader.eventfd)
            self.server.rates = self._connection_rates = connection_rates(config)
            self._opened = opened.pop_all()

    async def close(self) -> None:
        """Close the connections at once, then everything else."""
        with self._opened:
            await self.server.close(0)

    def authorize(self, authorizer: Authorizer) -> None:
        """Have the authorizer decide about Produce and Fetch."""
        self.produce.permissions = self.fetch.permissions = authorizer.permissions

    def limit_clients(self, image: MetadataImage, changed: Iterable[QuotaEntity]) -> None:
        """Apply the client quotas of the image, which may have changed for these entities."""
        self.quotas.look_up_with(self._client_rates.find if self._client_rates.update(image.quotas) else None)
        self._connection_rates.update(image.quotas, changed)

    def limit_connections(self, layers: BrokerLayers) -> None:
        """Apply the limits of connections in these settings."""
        limits = server_limits(layers)
        limit_rates(self._connection_rates, layers)
        self.server.limit_connections(limits)

    def configure_tls(self, layers: BrokerLayers) -> None:
        """Apply the settings of TLS. Raises `TlsError` for settings that cannot be used; the previous ones stay."""
        if self._tls is not None:
            self._tls.apply(layers)

    def check_tls(self, layers: BrokerLayers) -> None:
        """Raise `TlsError` for settings that `configure_tls` would refuse."""
        if self._tls is not None:
            self._tls.check(layers)

    def _expire(self) -> None:
        if (deadline_ms := self.purgatory.expire(monotonic_ms())) >= 0:
            self._alarm.set(deadline_ms)
