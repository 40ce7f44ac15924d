"""Life of a node with any roles: its start, its stop, its faults, its metrics."""

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraft.broker.readiness import NodeState, Phase
from kraft.config.node_config import METRICS, NodeConfig, parse_socket
from kraft.runtime.audit.node_audit import NodeAudit
from kraft.runtime.base.bounded_log import BoundedLog
from kraft.runtime.base.service_manager import ALIVE, EXTENDED, READY, STOPPING, ServiceManager
from kraft.runtime.net.server import Listener, Server
from kraft_native.partition.purgatory import now_ms as monotonic_ms

if TYPE_CHECKING:
    from kraft.broker.readiness import Verdict
    from kraft.runtime.audit.access_audit import WatchedAccess
    from kraft.runtime.metrics.http_server import MetricsServer
    from kraft.runtime.metrics.readiness_watch import ReadinessWatch
    from kraft.runtime.metrics.scrape import Sheet
    from kraft.runtime.net.tls_contexts import TlsContexts

log = logging.getLogger(__name__)

REFUSALS_PERIOD_MS: Final = 10_000
TLS_PERIOD_SECONDS: Final = 5.0
"""Pause between two checks of the files that TLS uses."""


class AnyNode(ABC):
    """One process of a cluster, on the running loop. `config` is already checked.

    A node whose start failed has closed everything that it had opened. `metrics` and `readiness` exist from the
    beginning of the start to the end of the stop, where they are configured.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.cluster_id = ""
        self.failure: BaseException | None = None
        self.listeners: dict[str, Listener] = {}
        self.metrics: MetricsServer | None = None
        self.readiness: ReadinessWatch | None = None
        self.service: ServiceManager | None = None
        """The manager that started this process and waits for its reports; set it before the start."""
        self.audit: NodeAudit | None = None
        """The audit of a node that has started."""
        self.tls: TlsContexts | None = None
        """TLS of the listeners; None where no listener that this node uses is encrypted."""
        self._refusals = BoundedLog(log, monotonic_ms, period_ms=REFUSALS_PERIOD_MS, lines_max=1,
                                    omitted="%d more requests for metrics were refused")
        self._ended = asyncio.Event()
        self._is_started = False
        self._opened = AsyncExitStack()

    async def start(self) -> None:
        """Open everything and serve. An error names what is unavailable: a directory, a lock, an address, a quorum."""
        try:
            await self._start()
            self._is_started = True
            if self.service is not None:
                self.service.notify(READY, status="started")
        except BaseException:
            await self.close()
            if self.failure is not None:
                raise self.failure from None
            raise

    @property
    @abstractmethod
    def server(self) -> Server:
        """The listeners of a node that has started."""

    @abstractmethod
    async def _start(self) -> None:
        """Open the stages, each with its end in `_opened`."""

    @abstractmethod
    async def read_metrics(self, requested_s: float) -> "Sheet":
        """Read all metrics, on the loop's thread."""

    async def _read_parts(self, phase: Phase, *, was_ready: bool) -> NodeState:  # noqa: ARG002 - without parts
        """Read the state of the parts, of which some may not be opened yet."""
        return NodeState(phase)

    async def read_state(self, *, was_ready: bool) -> NodeState:
        """Read the state for `kraft.broker.readiness`, on the loop's thread."""
        if self.stopping:
            failure = self.failure
            return NodeState(Phase.STOPPING, failure="" if failure is None else f"{type(failure).__name__}: {failure}")
        return await self._read_parts(Phase.SERVING if self._is_started else Phase.STARTING, was_ready=was_ready)

    def _open_tls(self) -> "TlsContexts | None":
        """Read what the listeners with TLS use, and read it again when it has changed. Raises `TlsError`."""
        names = (*(each.listener for each in self.config.listeners), *self.config.dialed_listeners)
        if any(map(self.config.has_tls, names)) or self.config.has_tls_metrics:
            # Imported here: a node without TLS starts without its libraries.
            from kraft.runtime.net.tls_contexts import TlsContexts
            from kraft.tls.library import library_text
            self.tls = TlsContexts(self.config)
            log.info("TLS: %s", library_text())
            self.tls.watch(TLS_PERIOD_SECONDS)
            self._opened.callback(self.tls.close)
        return self.tls

    def _open_audit(self) -> NodeAudit:
        """Open what events of the audit are written to. Raises OSError that names it."""
        self.audit = audit = NodeAudit(self.config)
        self._opened.callback(audit.close)
        audit.start()
        return audit

    def _watch_access(self, audit: NodeAudit, server: Server) -> "WatchedAccess":
        """Have denials by ACLs audited and logged."""
        from kraft.runtime.audit.access_audit import WatchedAccess
        server.access_audit = watched = WatchedAccess(audit, server.clock_ms, server.slices.work)
        return watched

    def reload(self) -> None:
        """Read the files of TLS again. May be called from a signal handler."""
        log.info("the files of TLS are read again" if self.tls is not None else "no listener has TLS, nothing is read")
        if self.tls is not None:
            self.tls.reload(is_forced=True)

    def _open_status(self) -> None:
        """Report to the service manager, and serve health and readiness, each where it is configured. `_open_scrapes`
        adds the metrics."""
        address = self.config["kraft.metrics.listener"]
        if not address and self.service is None:
            return
        # Imported here, like what follows: a node that reports to nobody starts without it.
        from kraft.runtime.metrics.readiness_watch import PERIOD_SECONDS, ReadinessWatch
        limit = None if self.service is None else self.service.watchdog_seconds
        self.readiness = watch = ReadinessWatch(
            self.read_state, self._report, PERIOD_SECONDS if limit is None else min(PERIOD_SECONDS, limit / 4))
        watch.start()
        self._opened.push_async_callback(watch.close)
        if isinstance(address, str) and address:
            # Imported here: loading the dependencies of the metrics takes a good part of a start.
            from kraft.runtime.metrics.http_server import FILE_OF_TOKENS, MetricsServer, TokenFile
            path, tls = self.config[FILE_OF_TOKENS], self.tls
            self.metrics = MetricsServer(
                self.read_metrics, *parse_socket("kraft.metrics.listener", address),
                context=(lambda: tls.listeners[METRICS].context) if tls is not None and METRICS in tls.listeners
                else None, tokens=TokenFile(Path(path)) if isinstance(path, str) and path else None,
                refused=self._refused_scrape, verdict=watch.from_thread)
            self._opened.push_async_callback(self.metrics.close)
            log.info("metrics: %s://%s:%d/metrics", self.metrics.scheme, self.metrics.host or "*", self.metrics.port)

    def _report(self, verdict: "Verdict") -> None:
        """Report to the service manager that the loop runs. A start or a stop may take long, as long as it does."""
        if self.service is not None:
            states = (ALIVE,) if self._is_started and not self.stopping else (ALIVE, EXTENDED)
            self.service.notify(*states, status=verdict.text)

    def _open_scrapes(self) -> None:
        """Let the metrics be read until the parts are closed, which begins with what was opened last."""
        if (metrics := self.metrics) is not None:
            metrics.is_open = True
            self._opened.callback(setattr, metrics, "is_open", False)

    def _refused_scrape(self, host: str, port: int, why: str) -> None:
        self._refusals.put("metrics are not sent to %s:%d: %s", host, port, why)
        if self.audit is not None:
            self.audit.login_failed(METRICS, host, port, "bearer token", why)

    async def run(self) -> None:
        """Wait until the node is stopped or fails, and close it. Raises the fault when there was one."""
        await self._ended.wait()
        if self.service is not None:
            self.service.notify(STOPPING, status="stopping")
        try:
            await self.close()
        finally:
            # A file that cannot be closed is a consequence of the fault.
            if self.failure is not None:
                raise self.failure

    @property
    def stopping(self) -> bool:
        """Return whether the node has begun to stop."""
        return self._ended.is_set()

    def stop(self) -> None:
        """End `run` gracefully. May be called from a signal handler."""
        self._ended.set()

    def fail(self, cause: BaseException) -> None:
        """Stop the node because of a fault of our own, and do not report a clean stop."""
        if self.failure is None:
            self.failure = cause
            log.critical("the node stops because of a fault of its own", exc_info=cause)
        self._ended.set()

    async def close(self) -> None:
        """Close what was opened, in reverse, and all of it even when a part fails."""
        await self._opened.aclose()
