"""A node that is only a controller: one replica of the metadata quorum, and the listener for it.

    node = ControllerNode(config)
    await node.start()       # it takes part in the quorum, with or without a leader
    await node.run()         # until `stop` or a fault of our own; raises the fault
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kraft.broker.readiness import NodeState, Phase
from kraft.config.effective import BrokerLayers
from kraft.config.node_config import NodeConfig
from kraft.config.quorum_config import check_quorum
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, MetadataImage, Resource
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.api_keys import ApiKey
from kraft.runtime.any_node import AnyNode
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.base.logger_levels import LoggerLevels
from kraft.runtime.net.api_versions import api_versions_answers
from kraft.runtime.net.dialer import PLAINTEXT, Dialer
from kraft.runtime.net.gates import ListenerGates
from kraft.runtime.net.requests import RequestRouter
from kraft.runtime.net.server import Server
from kraft.runtime.net.server_limits import connection_rates, controller_limits
from kraft.runtime.quorum.controller_registration import ControllerRegistrar
from kraft.runtime.quorum.controller_requests import SERVED, ControllerRouter, serve_apis
from kraft.runtime.quorum.controller_settings import controller_settings, metadata_log_settings
from kraft.runtime.quorum.early_listeners import early_listeners, entries_known
from kraft.runtime.quorum.metadata_machine import QuorumMetadata
from kraft.runtime.quorum.quorum_replica import Member, QuorumReplica
from kraft.runtime.stages.listeners import Listeners
from kraft.runtime.storage.directory_watch import DirectoryWatch
from kraft.runtime.storage.formatting import formatted_identity, write_cluster_id
from kraft.security.audit.sink import AccessAudit
from kraft_native.base.errors import KraftError
from kraft_native.log.flusher import Flusher
from kraft_native.net.channel import RequestChannel
from kraft_native.request.reply import Reply

if TYPE_CHECKING:
    from kraft.broker.broker import Broker
    from kraft.runtime.metrics.scrape import Sheet

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 0.5
OF_A_BROKER: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_CONFIGS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""APIs that a broker's handlers answer here, too."""
KEYS: Final = (*SERVED, *OF_A_BROKER)


class ControllerConfigs:
    """The subset of a broker that DescribeConfigs and DescribeAcls use, on a node that is none."""

    def __init__(self, config: NodeConfig, quorum: QuorumReplica, server: Server) -> None:
        self._config = config
        self._quorum = quorum
        self._server = server
        self.node_id = config.node_id
        self.loggers = LoggerLevels()
        self.authorizer = quorum.authorizer

    @property
    def image(self) -> MetadataImage:
        """The committed metadata known here."""
        return self._quorum.metadata.image

    @property
    def access_audit(self) -> AccessAudit | None:
        """See `Broker`."""
        return self._server.access_audit

    def layers(self) -> BrokerLayers:
        """This node's settings in force: dynamic ones over those of its file."""
        return self.layers_of(self.image)

    def layers_of(self, image: MetadataImage) -> BrokerLayers:
        """Return the same under another image."""
        return self._config.layers(image.config(Resource(BROKER_RESOURCE, str(self.node_id))),
                                   image.config(CLUSTER_DEFAULT))

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Settings of the topic itself."""
        return self.image.topic_config(topic)


def _route(controller: ControllerRouter, described: RequestRouter, reply: Reply, api_key: int, version: int,
           body: bytes) -> None:
    router = described if api_key in OF_A_BROKER else controller
    router.on_request(reply, api_key, version, body)


def _attempt(apply: Callable[[BrokerLayers], None], layers: BrokerLayers) -> KraftError | None:
    """Return why settings cannot be applied."""
    try:
        apply(layers)
    except KraftError as error:
        return error
    return None


class ControllerParts(NamedTuple):
    """The parts of one controller, each of which uses only those before it."""

    flusher: Flusher
    server: Server
    quorum: QuorumReplica
    alarm: Alarm
    registrar: ControllerRegistrar


class ControllerNode(AnyNode):
    """A node that is only a controller. Its directory is formatted."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self._parts: ControllerParts | None = None
        self.gates: ListenerGates | None = None
        self._channels: dict[str, RequestChannel] = {}
        self._features: dict[str, int] | None = None

    @property
    def parts(self) -> ControllerParts:
        """The parts of a node that has started."""
        assert self._parts is not None, "the node has not started"
        return self._parts

    @property
    def server(self) -> Server:
        return self.parts.server

    async def _start(self) -> None:
        self._parts = parts = await self._open()
        early = early_listeners(self.config, parts.quorum.authorizer, self.listeners)
        await self._serve(parts, early)
        await parts.quorum.cluster_id.known(self._ended)
        late = [name for name in self.listeners if name not in early]
        await entries_known(parts.quorum.authorizer, late, self._ended)
        await self._accept(late)

    async def _open(self) -> ControllerParts:
        config, opened = self.config, self._opened
        check_quorum(config)
        self.cluster_id, directory_id = formatted_identity(config.node_id, [config.metadata_log_dir])
        flusher = Flusher(bytes_trigger=config.integer("kraft.flush.bytes"),
                          linger_us=config.integer("kraft.flush.interval.us"))
        opened.callback(flusher.close)
        tls = self._open_tls()
        self._open_status()
        server = Server(controller_limits(config.layers()), self.fail, tls=None if tls is None else tls.listeners)
        server.rates = connection_rates(config)
        server.audit = audit = self._open_audit()
        opened.push_async_callback(server.close, DRAIN_SECONDS)
        listeners = await Listeners.bind(config, server)
        self.listeners.update(listeners.bound)
        member = Member(self.cluster_id, directory_id, tuple(map(listeners.advertised, config.listeners)))
        quorum = QuorumReplica(config, member, controller_settings(config, self.cluster_id),
                               metadata_log_settings(config), flusher,
                               Dialer(PLAINTEXT if tls is None else tls.clients, config.logins,
                                      config.controller_listener_names[0]), self.fail)
        opened.push_async_callback(quorum.close)
        alarm = Alarm(quorum.clock, self._tick)
        opened.callback(alarm.cancel)
        registrar = ControllerRegistrar(quorum, member.endpoints, self._schedule)
        opened.callback(registrar.close)
        if quorum.authorizer is not None:
            self._watch_access(audit, server)
        quorum.cluster_id.write = self._write_cluster_id
        quorum.metadata.subscribe(lambda _delta, _image: self._publish_versions(quorum.metadata))
        return ControllerParts(flusher, server, quorum, alarm, registrar)

    def _write_cluster_id(self, cluster_id: str) -> None:
        write_cluster_id((self.config.metadata_log_dir,), cluster_id)
        self.cluster_id = cluster_id

    async def _serve(self, parts: ControllerParts, early: list[str]) -> None:
        """Take part in the quorum, with these listeners from the start."""
        _, server, quorum, _, _ = parts
        configs = ControllerConfigs(self.config, quorum, server)
        self.gates = ListenerGates(self.config, server, lambda: quorum.metadata.image)
        self._opened.callback(self.gates.close)
        for name in self.listeners:
            router = ControllerRouter(quorum, server, self._schedule, name, server.audit)
            described = RequestRouter(cast("Broker", configs), name, lambda: None, server.slices)
            channel = self.gates.channel(name, partial(_route, router, described))
            serve_apis(channel, KEYS)
            self._channels[name] = channel
        quorum.driver.on_answers = self._send
        self._publish_versions(quorum.metadata)
        await self._accept(early)
        self._secure(configs.layers())
        quorum.metadata.subscribe(partial(self._reconfigure, configs))
        quorum.metadata.on_change = self._changed
        quorum.metadata.on_deadline = self._schedule
        quorum.start()
        watch = DirectoryWatch([self.config.metadata_log_dir], lambda _path, cause: self.fail(cause))
        self._opened.push_async_callback(watch.close)
        self._open_scrapes()

    async def _accept(self, names: list[str]) -> None:
        for name in names:
            await self.server.accept(self.listeners[name], self._channels[name])

    async def read_metrics(self, requested_s: float) -> "Sheet":
        """Read all metrics, on the loop's thread."""
        from kraft.runtime.metrics.scrape import read_controller
        flusher, server, quorum, _, _ = self.parts
        return await read_controller(self, flusher, server, quorum, requested_s)

    async def _read_parts(self, phase: Phase, *, was_ready: bool) -> NodeState:  # noqa: ARG002 - it reads little
        from kraft.runtime.metrics.node_state import state_of_controller
        return NodeState(phase) if self._parts is None else state_of_controller(self._parts.quorum, self._parts.server,
                                                                                phase)

    def _send(self) -> None:
        """Send the pending answers now, and not at the end of the loop's iteration."""
        for channel in self._channels.values():
            channel.run_turn()

    def _publish_versions(self, metadata: QuorumMetadata) -> None:
        """Install the answers to ApiVersions, when the cluster's features have changed."""
        features = metadata.finalized_features
        if self._features == features:
            return
        self._features = features
        bodies = api_versions_answers([ApiKey.API_VERSIONS, *KEYS], SUPPORTED, features, max(metadata.image.offset, 0),
                                    controller=True)
        for channel in self._channels.values():
            channel.serve_api_versions(bodies.answers, bodies.invalid, bodies.unsupported)

    def _reconfigure(self, configs: "ControllerConfigs", delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed settings of the listeners' TLS and SASL. What cannot be used changes nothing, and is logged."""
        touched = (CLUSTER_DEFAULT, Resource(BROKER_RESOURCE, str(self.config.node_id)))
        if not any(each in delta.configs.touched for each in touched):
            return
        self._secure(configs.layers_of(image))

    def _secure(self, layers: BrokerLayers) -> None:
        assert self.gates is not None
        for apply in (self.gates.reconfigure, *(() if self.tls is None else (self.tls.apply,))):
            why = _attempt(apply, layers)
            if why is not None:
                log.error("settings of a listener are not changed, the previous ones stay in use: %s", why)

    def _changed(self) -> None:
        self.parts.registrar.changed()
        self._schedule()

    # --- the controller's clock

    def _schedule(self) -> None:
        self.parts.alarm.set(self.parts.quorum.metadata.deadline_ms)

    def _tick(self) -> None:
        try:
            self.parts.quorum.metadata.tick()
        except Exception as error:  # noqa: BLE001 - a controller that failed half-way must not decide again
            self.fail(error)
            return
        self._schedule()
