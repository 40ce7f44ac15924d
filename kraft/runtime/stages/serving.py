"""Channels of a node's listeners: which APIs each serves, and what answers them."""

from collections.abc import Iterable
from functools import partial

from kraft.broker.apis import SERVED as BROKER_SERVED
from kraft.config.effective import BrokerLayers
from kraft.config.node_config import NodeConfig
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.runtime.audit.node_audit import topics_in
from kraft.runtime.net.api_versions import api_versions_answers, served_versions
from kraft.runtime.net.gates import ListenerGates
from kraft.runtime.net.requests import RequestRouter, serve_api
from kraft.runtime.quorum.control_plane import ControlPlane
from kraft.runtime.quorum.controller_requests import SERVED, ControllerRouter, serve_apis
from kraft.runtime.stages.broker_core import BrokerCore
from kraft.runtime.stages.data_path import DataPath
from kraft.runtime.stages.listeners import Listeners
from kraft_native.net.channel import RequestChannel
from kraft_native.request.reply import LateHandler, Reply, RequestHandler
from kraft_native.request.sampled import SampledHandler


class Serving:
    """The listeners that accept connections, and the routers of their requests."""

    def __init__(self, config: NodeConfig, listeners: Listeners, path: DataPath, control: ControlPlane,
                 core: BrokerCore) -> None:
        self._config = config
        self._listeners = listeners
        self._path = path
        self._control = control
        self._core = core
        self._compiled: dict[int, RequestHandler] = {
            ApiKey.PRODUCE: path.produce, ApiKey.FETCH: path.fetch,
            **{key: LateHandler(partial(core.share_handler, key))
               for key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)}}
        self._channels: dict[str, RequestChannel] = {}
        self._unstable = (ApiKey.INIT_PRODUCER_ID,) if config["transaction.two.phase.commit.enable"] else ()
        self.gates = ListenerGates(config, path.server, lambda: core.broker.image)
        self.routers: list[RequestRouter] = []
        core.broker.check_security = self._check_security

    async def accept(self, names: Iterable[str]) -> None:
        """Accept connections on these listeners too, unless they are accepted already."""
        names = [name for name in names if name not in self._channels]
        for name in names:
            self._channels[name] = self._channel(name)
        if len(self._config.broker_listeners) > 1:
            self._path.server.exempt_channel = self._channels.get(self._config.inter_broker_listener)
        self.publish_versions()
        for name in names:
            await self._path.server.accept(self._listeners.bound[name], self._channels[name])

    def _check_security(self, layers: BrokerLayers) -> None:
        self.gates.check(layers)
        self._path.check_tls(layers)

    def publish_versions(self) -> None:
        """Install the answers to ApiVersions on every listener."""
        image, features = self._core.broker.image, self._control.metadata.finalized_features
        for name, channel in self._channels.items():
            bodies = api_versions_answers([ApiKey.API_VERSIONS, *self._keys(name)], SUPPORTED, features,
                                        max(image.offset, 0), controller=name in self._config.controller_listener_names,
                                        telemetry=self._core.broker.telemetry.series is not None,
                                        unstable=self._unstable)
            channel.serve_api_versions(bodies.answers, bodies.invalid, bodies.unsupported)

    def _channel(self, listener: str) -> RequestChannel:
        is_controller = listener in self._config.controller_listener_names
        server, quotas = self._path.server, self._path.quotas
        router = RequestRouter(self._core.broker, listener, self._core.schedule, server.slices,
                               None if is_controller else quotas, answer_bytes_max=server.limits.answer_bytes_max,
                               audit=server.audit)
        self.routers.append(router)
        if is_controller:
            return self._controller_channel(listener, router)
        channel = self.gates.channel(listener, router.on_request)
        channel.limit_clients(quotas)
        for key in self._keys(listener):
            api = API_BY_KEY[key]
            serve_api(channel, api, served_versions(api, api.versions, self._unstable),
                      self._compiled_for(listener, key))
        return channel

    def _compiled_for(self, listener: str, key: int) -> RequestHandler | None:
        """Return the compiled handler of an API, if it has one. Where accesses to data are audited, another handler
        stands before it, that reports some of them."""
        handler, audit = self._compiled.get(key), self._path.server.audit
        if handler is None or audit is None or not audit.is_on or not audit.auditor.audits_data:
            return handler
        find = topics_in(lambda: self._core.broker.image.topics)
        return SampledHandler(handler, self._config.integer("kraft.audit.data.sample.interval"),
                              partial(audit.sample, listener, find))

    def _controller_channel(self, listener: str, broker: RequestRouter) -> RequestChannel:
        """Channel with the controller's APIs, and those that Kafka announces on its listener and the local broker can
        answer."""
        server = self._path.server
        controller = ControllerRouter(self._control.quorum, server, self._control.schedule, listener, server.audit)

        def on_request(reply: Reply, api_key: int, version: int, body: bytes) -> None:
            router = controller if api_key in SERVED else broker
            router.on_request(reply, api_key, version, body)

        channel = self.gates.channel(listener, on_request)
        serve_apis(channel, self._keys(listener))
        self._control.quorum.driver.on_answers = channel.run_turn
        return channel

    def _keys(self, listener: str) -> list[int]:
        """Api keys that the listener serves: those with a handler that Kafka announces on a listener of its kind."""
        if listener in self._config.controller_listener_names:
            also_served = [key for key in BROKER_SERVED if API_BY_KEY[key].controller_versions is not None]
            return sorted({*SERVED, *also_served})
        return sorted(key for key in (*self._compiled, *BROKER_SERVED) if API_BY_KEY[key].broker_versions is not None)
