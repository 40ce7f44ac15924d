"""A node that is only a controller: one replica of the metadata quorum, and the listener for it.

    node = ControllerNode(config)
    await node.start()       # it takes part in the quorum, with or without a leader
    await node.run()         # until `stop` or a fault of our own; raises the fault
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from kraft.config.effective import BrokerLayers
from kraft.config.node import Endpoint, NodeConfig, parse_socket
from kraft.config.quorum import check_quorum
from kraft.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, MetadataImage, Resource
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.api import API_VERSIONS_KEY
from kraft.protocol.apis import API_BY_NAME
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.base.logger_levels import LoggerLevels
from kraft.runtime.net.api_versions import api_versions_answers
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.net.requests import RequestRouter
from kraft.runtime.net.server import Listener, Server
from kraft.runtime.net.server_limits import connection_rates, controller_limits
from kraft.runtime.quorum.controller_registration import ControllerRegistrar
from kraft.runtime.quorum.controller_requests import SERVED, ControllerRouter, serve_apis
from kraft.runtime.quorum.controller_settings import controller_settings, metadata_log_settings
from kraft.runtime.quorum.quorum_replica import Member, Quorum
from kraft.runtime.storage.directory_watch import DirectoryWatch
from kraft.runtime.storage.formatting import formatted_identity, write_cluster_id
from kraft_native.log.flusher import Flusher
from kraft_native.net.channel import RequestChannel
from kraft_native.request.reply import Reply

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 0.5
DESCRIBE_CONFIGS: Final = API_BY_NAME["DescribeConfigs"].key
KEYS: Final = (*SERVED, DESCRIBE_CONFIGS)


class ControllerConfigs:
    """The subset of a broker that DescribeConfigs (`kraft.broker.apis.describe_configs`) uses, on a node that is none.
    """

    def __init__(self, config: NodeConfig, quorum: Quorum) -> None:
        self._config = config
        self._quorum = quorum
        self.node_id = config.node_id
        self.loggers = LoggerLevels()

    @property
    def image(self) -> MetadataImage:
        """The committed metadata known here."""
        return self._quorum.metadata.image

    def layers(self) -> BrokerLayers:
        """This node's settings in force: dynamic ones over those of its file."""
        return self._config.layers(self.image.config(Resource(BROKER_RESOURCE, str(self.node_id))),
                                   self.image.config(CLUSTER_DEFAULT))

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Settings of the topic itself."""
        return self.image.topic_config(topic)


def _route(controller: ControllerRouter, described: RequestRouter, reply: Reply, api_key: int, version: int,
           body: bytes) -> None:
    router = described if api_key == DESCRIBE_CONFIGS else controller
    router.on_request(reply, api_key, version, body)


class ControllerNode:
    """One process of a cluster, on the running loop. `config` is already checked, and its directory formatted.

    A node whose start failed has closed everything that it had opened.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.cluster_id = ""
        self.failure: BaseException | None = None
        self.listeners: dict[str, Listener] = {}
        self._ended = asyncio.Event()
        self._channels: list[RequestChannel] = []
        self._features: dict[str, int] | None = None

    async def start(self) -> None:
        """Open everything and serve. An error names what is unavailable: a directory, a lock, an address, a quorum."""
        try:
            check_quorum(self.config)
            self.cluster_id, directory_id = formatted_identity(
                self.config.node_id, [self.config.metadata_log_dir])
            self.server = Server(controller_limits(self.config.layers()), self.fail)
            self.server.rates = connection_rates(self.config)
            for endpoint in self.config.listeners:
                self.listeners[endpoint.listener] = await self.server.bind(
                    endpoint.listener, endpoint.host, endpoint.port)
            self.flusher = Flusher(bytes_trigger=self.config.integer("kraft.flush.bytes"),
                                   linger_us=self.config.integer("kraft.flush.interval.us"))
            member = Member(self.cluster_id, directory_id, tuple(map(self._advertised, self.config.listeners)))
            self.quorum = Quorum(
                self.config, member, controller_settings(self.config, self.cluster_id),
                metadata_log_settings(self.config), self.flusher, Dialer(), self.fail)
            self._alarm = Alarm(self.quorum.clock, self._tick)
            self.registrar = ControllerRegistrar(self.quorum, member.endpoints, self._schedule)
            self.quorum.cluster_id.write = self._write_cluster_id
            self.quorum.metadata.subscribe(lambda _delta, _image: self._publish_versions())
            await self._serve()
            await self.quorum.cluster_id.known(self._ended)
        except BaseException:
            await self.close()
            if self.failure is not None:
                raise self.failure from None
            raise

    def _write_cluster_id(self, cluster_id: str) -> None:
        write_cluster_id((self.config.metadata_log_dir,), cluster_id)
        self.cluster_id = cluster_id

    async def _serve(self) -> None:
        router = ControllerRouter(self.quorum, self.server, self._schedule)
        configs = ControllerConfigs(self.config, self.quorum)
        for name in self.listeners:
            described = RequestRouter(cast("Broker", configs), name, lambda: None, self.server.slices)
            channel = self.server.channel(name, partial(_route, router, described))
            serve_apis(channel, KEYS)
            self._channels.append(channel)
        self.quorum.driver.on_answers = self._send
        self._publish_versions()
        for listener, channel in zip(self.listeners.values(), self._channels, strict=True):
            await self.server.accept(listener, channel)
        self.quorum.metadata.on_change = self._changed
        self.quorum.metadata.on_deadline = self._schedule
        self.quorum.start()
        self.watch = DirectoryWatch([self.config.metadata_log_dir], lambda _path, cause: self.fail(cause))
        if isinstance(address := self.config["kraft.metrics.listener"], str) and address:
            # Imported here: loading the dependencies of the metrics takes a good part of a start.
            from kraft.runtime.metrics.scrape import MetricsServer, read_controller
            host, port = parse_socket("kraft.metrics.listener", address)
            self.metrics = MetricsServer(partial(read_controller, self), host, port)
            log.info("metrics: http://%s:%d/metrics", self.metrics.host or "*", self.metrics.port)

    def _send(self) -> None:
        """Send the pending answers now, and not at the end of the loop's iteration."""
        for channel in self._channels:
            channel.run_turn()

    def _publish_versions(self) -> None:
        """Install the answers to ApiVersions, when the cluster's features have changed."""
        metadata = self.quorum.metadata
        features = metadata.finalized_features
        if self._features == features:
            return
        self._features = features
        made = api_versions_answers([API_VERSIONS_KEY, *KEYS], SUPPORTED, features, max(metadata.image.offset, 0),
                                    controller=True)
        for channel in self._channels:
            channel.serve_api_versions(made.answers, made.invalid, made.unsupported)

    def _changed(self) -> None:
        self.registrar.changed()
        self._schedule()

    # --- the controller's clock

    def _schedule(self) -> None:
        self._alarm.set(self.quorum.metadata.deadline_ms)

    def _tick(self) -> None:
        try:
            self.quorum.metadata.tick()
        except Exception as error:  # noqa: BLE001 - a controller that failed half-way must not decide again
            self.fail(error)
            return
        self._schedule()

    # --- the end

    async def run(self) -> None:
        """Wait until the node is stopped or fails, and close it. Raises the fault when there was one."""
        await self._ended.wait()
        try:
            await self.close()
        finally:
            # A file that cannot be closed is a consequence of the fault.
            if self.failure is not None:
                raise self.failure

    def stop(self) -> None:
        """End `run` gracefully. May be called from a signal handler."""
        self._ended.set()

    def fail(self, cause: BaseException) -> None:
        """Stop the node because of a fault of our own."""
        if self.failure is None:
            self.failure = cause
            log.critical("the node stops because of a fault of its own", exc_info=cause)
        self._ended.set()

    async def close(self) -> None:
        """Close what was opened, in reverse; a leader hands over first."""
        if hasattr(self, "watch"):
            await self.watch.close()
        if hasattr(self, "metrics"):
            await self.metrics.close()
        if hasattr(self, "registrar"):
            self.registrar.close()
        try:
            if hasattr(self, "quorum"):
                self._alarm.cancel()
                await self.quorum.close()
        finally:
            if hasattr(self, "server"):
                await self.server.close(DRAIN_SECONDS)
            if hasattr(self, "flusher"):
                self.flusher.close()

    def _advertised(self, endpoint: Endpoint) -> Endpoint:
        """Advertised address of a listener. A port of 0 is replaced by the one that the system chose."""
        found = self.config.advertised(endpoint)
        return found if found.port else found._replace(port=self.listeners[endpoint.listener].port)
