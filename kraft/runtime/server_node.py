"""A whole node: storage, metadata, partitions, coordinator and listeners. They are opened in this order and closed in
reverse.

    node = ServerNode(config)
    await node.start()       # the node serves when this returns
    await node.run()         # until `stop` is called or a fault of our own is found; raises the fault
"""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraft.broker.broker import Broker
from kraft.broker.readiness import NodeState, Phase
from kraft.config.node_config import NodeConfig
from kraft.runtime.any_node import AnyNode
from kraft.runtime.audit.node_audit import topics_in
from kraft.runtime.net.dialer import PLAINTEXT, Dialer
from kraft.runtime.net.requests import now_ms
from kraft.runtime.net.server import Server
from kraft.runtime.quorum.control_plane import ControlPlane
from kraft.runtime.quorum.early_listeners import early_listeners, entries_known
from kraft.runtime.replicas.audit_topic import TopicWriter
from kraft.runtime.stages.broker_core import BrokerCore
from kraft.runtime.stages.commits import Commits
from kraft.runtime.stages.data_path import DataPath
from kraft.runtime.stages.listeners import Listeners
from kraft.runtime.stages.parts import NodeParts
from kraft.runtime.stages.serving import Serving
from kraft.runtime.stages.storage import Storage
from kraft.runtime.storage.directory_watch import DirectoryWatch
from kraft.runtime.upkeep.housekeeping import Housekeeping
from kraft_native.base.errors import StorageError

if TYPE_CHECKING:
    from kraft.runtime.metrics.scrape import Sheet

DRAIN_SECONDS: Final = 5.0


class ServerNode(AnyNode):
    """A node with a broker; missing directories are created. `watch` exists while it serves."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self.watch: DirectoryWatch | None = None
        self._parts: NodeParts | None = None
        self._served: Broker | None = None

    @property
    def parts(self) -> NodeParts:
        """The stages of a node that has started."""
        assert self._parts is not None, "the node has not started"
        return self._parts

    @property
    def server(self) -> Server:
        return self.parts.path.server

    async def _start(self) -> None:
        self._parts = parts = await self._open()
        await self._join(parts)
        await self._serve(parts)

    async def _open(self) -> NodeParts:
        """Open the stages. The addresses are bound early, so that their real ports can be registered."""
        config, opened = self.config, self._opened
        tls = self._open_tls()
        self._open_status()
        dialer = Dialer(PLAINTEXT if tls is None else tls.clients, config.logins,
                        next(iter(config.controller_listener_names), ""))
        storage = Storage(config)
        opened.callback(self._close_storage, storage)
        self.cluster_id = storage.cluster_id
        audit = self._open_audit()
        path = DataPath(config, storage.flusher, self.fail, tls)
        path.server.audit = audit
        opened.push_async_callback(path.close)
        listeners = await Listeners.bind(config, path.server)
        self.listeners.update(listeners.bound)
        own = tuple(map(listeners.advertised, config.controller_listeners))
        control = ControlPlane(config, storage.cluster_id, own, storage.flusher, dialer, self.fail)
        opened.push_async_callback(control.close)
        core = BrokerCore(config, storage, path, control, dialer,
                          {each.listener: listeners.advertised(each) for each in config.listeners}, self.fail)
        opened.push_async_callback(core.close)
        if core.broker.authorizer is not None:
            core.broker.access_audit = watched = self._watch_access(audit, path.server)
            core.broker.authorizer.permissions.on_refused = partial(
                watched.refused, topics_in(lambda: core.broker.image.topics))
        if config["kraft.audit.topic.enable"]:
            audit.add("topic", TopicWriter(core.broker, dialer, audit.queue("topic"), now_ms))
            opened.callback(audit.remove, "topic")
        serving = Serving(config, listeners, path, control, core)
        opened.callback(serving.gates.close)
        housekeeping = Housekeeping(core.broker, storage.logs, core.replicas, now_ms, self.fail)
        return NodeParts(storage, path, control, core, serving, housekeeping,
                         Commits(config, path, control, core, serving, housekeeping, self.fail))

    async def _join(self, parts: NodeParts) -> None:
        """Take part in the quorum, register the broker, then let it lead. Most logs are opened between requests, or
        when a request needs one."""
        control, broker, logs = parts.control, parts.core.broker, parts.storage.logs
        # Requests of other controllers are served from the start: without an election no broker can be registered.
        await self._accept(parts, early_listeners(self.config, broker.authorizer, [
            each.listener for each in self.config.controller_listeners]))
        control.subscribe(lambda delta, _image: parts.core.replicas.note_removals(delta))
        control.quorum.cluster_id.write = partial(self._write_cluster_id, parts)
        await control.start()
        await control.quorum.cluster_id.known(self._ended)
        parts.commits.show(control.image)
        broker.epoch = await control.register_broker(
            tuple(broker.endpoints[each.listener] for each in self.config.broker_listeners), logs.directory_ids,
            logs.previous_epoch)
        parts.commits.start()
        while parts.core.changes and self.failure is None:  # noqa: ASYNC110 - each iteration of the loop does a slice
            await asyncio.sleep(0)
        await control.serve(lambda: self.failure is not None)
        if self.failure is not None:
            raise self.failure

    async def _accept(self, parts: NodeParts, names: list[str]) -> None:
        # Replies that clients await are sent before the parts that produce them are closed.
        self._opened.push_async_callback(parts.path.server.close, DRAIN_SECONDS,
                                         on_drained=parts.path.purgatory.expire_fetches)
        await parts.serving.accept(names)

    async def _serve(self, parts: NodeParts) -> None:
        """Accept the requests of clients, and start what runs beside them."""
        opened, logs = self._opened, parts.storage.logs
        self._served = parts.core.broker
        await entries_known(parts.core.broker.authorizer, self.listeners, self._ended)
        await self._accept(parts, list(self.listeners))
        # Runs while the listeners are open: a controller that leads serves the others until its broker has left.
        opened.push_async_callback(self._leave, parts.control)
        parts.housekeeping.start()
        parts.core.replicas.replication.start()
        opened.push_async_callback(parts.housekeeping.stop)
        online = [each.path for each in logs.directories if each not in logs.offline]
        self.watch = DirectoryWatch(dict.fromkeys((self.config.metadata_log_dir, *online)), self._lost_path)
        opened.push_async_callback(self.watch.close)
        self._open_scrapes()

    async def read_metrics(self, requested_s: float) -> "Sheet":
        """Read all metrics, on the loop's thread."""
        from kraft.runtime.metrics.scrape import read
        return await read(self, self.parts, requested_s)

    async def _read_parts(self, phase: Phase, *, was_ready: bool) -> NodeState:
        from kraft.runtime.metrics.node_state import state_of_broker
        return NodeState(phase) if self._parts is None else await state_of_broker(self._parts, phase,
                                                                                  was_ready=was_ready)

    def _write_cluster_id(self, parts: NodeParts, cluster_id: str) -> None:
        parts.storage.write_cluster_id(cluster_id)
        self.cluster_id = parts.core.broker.cluster_id = cluster_id

    def _lost_path(self, path: Path, cause: StorageError) -> None:
        if path == self.config.metadata_log_dir:
            self.fail(cause)
        self.parts.core.replicas.lose_path(path, cause)

    async def _leave(self, control: ControlPlane) -> None:
        if self.failure is None:
            await control.leave()

    def _close_storage(self, storage: Storage) -> None:
        # Only a node without a fault leaves the mark of a clean stop. A start that ends before the broker served has
        # changed nothing: the mark of the last clean stop remains valid.
        epoch = storage.logs.previous_epoch if self._served is None else self._served.epoch
        storage.close(clean=self.failure is None, broker_epoch=epoch)
