"""A node that is a controller and nothing else: one replica of the metadata quorum, and the listener for it.

    node = ControllerNode(config)
    await node.start()       # takes part in the quorum when this returns; whether there is a leader is another matter
    await node.run()         # until `stop` is called or a fault of our own was found; raises the fault
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
from kraft.runtime.alarm import Alarm
from kraft.runtime.api_versions import api_versions_answers
from kraft.runtime.controller_registration import ControllerRegistrar
from kraft.runtime.controller_requests import SERVED, ControllerRouter, serve_apis
from kraft.runtime.controller_settings import controller_settings, metadata_log_settings
from kraft.runtime.directory_watch import DirectoryWatch
from kraft.runtime.logger_levels import LoggerLevels
from kraft.runtime.quorum import Member, Quorum
from kraft.runtime.requests import RequestRouter
from kraft.runtime.server import Listener, Server
from kraft.runtime.server_limits import connection_rates, controller_limits
from kraft.runtime.storage import formatted_identity, write_cluster_id
from kraft_native.channel import RequestChannel
from kraft_native.flusher import Flusher
from kraft_native.reply import Reply

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 0.5
DESCRIBE_CONFIGS: Final = API_BY_NAME["DescribeConfigs"].key
KEYS: Final = (*SERVED, DESCRIBE_CONFIGS)


class ControllerConfigs:
    """What DescribeConfigs (`kraft.broker.apis.describe_configs`) needs of a broker, on a node that is none."""

    def __init__(self, config: NodeConfig, quorum: Quorum) -> None:
        self._config = config
        self._quorum = quorum
        self.node_id = config.node_id
        self.loggers = LoggerLevels()

    @property
    def image(self) -> MetadataImage:
        """What is committed and known here."""
        return self._quorum.metadata.image

    def layers(self) -> BrokerLayers:
        """This node's settings in force, dynamic ones over its file."""
        return self._config.layers(self.image.config(Resource(BROKER_RESOURCE, str(self.node_id))),
                                   self.image.config(CLUSTER_DEFAULT))

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """What is set for a topic itself."""
        return self.image.topic_config(topic)


def _route(controller: ControllerRouter, described: RequestRouter, reply: Reply, api_key: int, version: int,
           body: bytes) -> None:
    router = described if api_key == DESCRIBE_CONFIGS else controller
    router.on_request(reply, api_key, version, body)


class ControllerNode:
    """One process of a cluster, on the running loop. `config` is checked already; its directory is formatted.

    A node that failed to start has closed what it had opened.
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
        """Opens everything and serves. Raises what cannot be had by name: a directory, a lock, an address, a quorum."""
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
                metadata_log_settings(self.config), self.flusher, self.fail)
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
            # Only here: what it needs takes a good part of a start to load.
            from kraft.runtime.metrics import MetricsServer, read_controller
            host, port = parse_socket("kraft.metrics.listener", address)
            self.metrics = MetricsServer(partial(read_controller, self), host, port)
            log.info("metrics: http://%s:%d/metrics", self.metrics.host or "*", self.metrics.port)

    def _send(self) -> None:
        """What was answered leaves now, and not at the end of the loop's turn."""
        for channel in self._channels:
            channel.run_turn()

    def _publish_versions(self) -> None:
        """Installs the answers to ApiVersions, when the cluster's features have changed."""
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
        """Waits until the node is told to stop or must; closes it, and raises the fault when there was one."""
        await self._ended.wait()
        try:
            await self.close()
        finally:
            # A file that cannot be closed is a consequence.
            if self.failure is not None:
                raise self.failure

    def stop(self) -> None:
        """Ends `run` in good order. From a signal handler too."""
        self._ended.set()

    def fail(self, cause: BaseException) -> None:
        """A fault of our own was found: the node stops."""
        if self.failure is None:
            self.failure = cause
            log.critical("the node stops because of a fault of its own", exc_info=cause)
        self._ended.set()

    async def close(self) -> None:
        """Ends what was opened, backwards; a leader hands over first."""
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
        """The address of a listener for others, with the port that the system chose where it is 0."""
        found = self.config.advertised(endpoint)
        return found if found.port else found._replace(port=self.listeners[endpoint.listener].port)
