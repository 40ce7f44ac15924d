"""A whole node: storage, metadata, partitions, coordinator and listeners. They are opened in this order and closed in
reverse.

    node = Node(config)
    await node.start()       # the node serves when this returns
    await node.run()         # until `stop` is called or a fault of our own is found; raises the fault
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from kraft.broker.apis import SERVED as BROKER_SERVED
from kraft.broker.apply_faults import ApplyFaults
from kraft.broker.broker import Broker
from kraft.broker.client_quotas import ClientRates
from kraft.broker.client_telemetry import ClientTelemetry
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.metadata_view import ImageTopics
from kraft.broker.replica_plan import PLANNED_STEP
from kraft.config.effective import broker_faults
from kraft.config.node import Endpoint, NodeConfig, parse_socket
from kraft.config.quorum import check_quorum, is_sole_controller, static_voters
from kraft.controller.local_broker import LocalBroker, State
from kraft.log_dir import new_cluster_id
from kraft.metadata.delta import MetadataDelta, PartitionChange
from kraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, BrokerRegistration, MetadataImage, QuotaEntity
from kraft.metadata.image import Endpoint as ImageEndpoint
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.apis import API_BY_KEY
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.base.logger_levels import LoggerLevels
from kraft.runtime.base.time_slices import WorkQueue
from kraft.runtime.net.api_versions import api_versions_answers
from kraft.runtime.net.batch_checks import BatchChecks
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.net.leader_lines import LeaderLines
from kraft.runtime.net.requests import NEVER_FLEXIBLE, RequestRouter, now_ms
from kraft.runtime.net.server import Listener, Server
from kraft.runtime.net.server_limits import connection_rates, limit_rates, server_limits
from kraft.runtime.quorum.broker_registration import PLAINTEXT, ReplacedError
from kraft.runtime.quorum.control_plane import QuorumPlane
from kraft.runtime.quorum.controller_requests import SERVED, ControllerRouter, serve_apis
from kraft.runtime.replicas.group_driver import GroupDriver, OffsetsAppends
from kraft.runtime.replicas.manager import ReplicaManager
from kraft.runtime.storage.directory_watch import DirectoryWatch
from kraft.runtime.storage.formatting import (
    FormatRequest,
    check_directories,
    describe,
    ensure_directory_ids,
    format_storage,
    formatted_identity,
    settle_cluster_id,
    unusable,
    write_cluster_id,
)
from kraft.runtime.storage.log_manager import LogManager
from kraft.runtime.upkeep.housekeeping import Housekeeping
from kraft_native.base.errors import StorageError
from kraft_native.log.flusher import Flusher
from kraft_native.net.channel import RequestChannel
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.purgatory import now_ms as monotonic_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.request.reply import Reply
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import SessionCache
from kraft_native.serve.produce import ProduceHandler

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 5.0
SESSION_UPKEEP_MS_MAX: Final = 1000


class Node:
    """One process of a cluster, on the running loop. `config` is already checked; missing directories are created.

    A node whose start failed has closed everything that it had opened.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.cluster_id = ""
        self.failure: BaseException | None = None
        self.listeners: dict[str, Listener] = {}
        self.dialer = Dialer()
        self._ended = asyncio.Event()
        self._channels: dict[str, RequestChannel] = {}
        self.routers: list[RequestRouter] = []
        self._alarm = Alarm(monotonic_ms, self._expire)
        self._opened = AsyncExitStack()
        self._served = False

    # --- the start

    async def start(self) -> None:
        """Open everything and serve. An error names what is unavailable: a directory, a lock, an address, a quorum."""
        try:
            self._open_storage()
            self._open_requests()
            await self._bind()
            await self._open_metadata()
            await self._open_replicas()
            await self._serve()
        except BaseException:
            await self.close()
            if self.failure is not None:
                raise self.failure from None
            raise

    def _open_storage(self) -> None:
        """Format new directories, refuse those of another node, and lock the rest. A directory that cannot be read is
        offline, except that of the metadata log, without which the node does not start."""
        config = self.config
        named = tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))
        failed = unusable(named, config.metadata_log_dir)
        paths = tuple(path for path in named if path not in failed)
        if is_sole_controller(config):
            self._format(paths)
        else:
            check_quorum(config)
            self.cluster_id, _ = formatted_identity(config.node_id, paths)
        self.flusher = Flusher(bytes_trigger=config.integer("kraft.flush.bytes"),
                               linger_us=config.integer("kraft.flush.interval.us"))
        self._opened.callback(self.flusher.close)
        self._directories = paths
        self.logs = LogManager(config.log_dirs, node_id=config.node_id, cluster_id=self.cluster_id,
                               flusher=self.flusher, needed=config.metadata_log_dir)
        self._opened.callback(self._close_logs)

    def _format(self, paths: tuple[Path, ...]) -> None:
        config = self.config
        check_directories(config.metadata_log_dir, paths)
        ensure_directory_ids(paths, uuid.uuid4)
        own = [info for info in map(describe, paths) if info.formatted and info.node_id == config.node_id]
        self.cluster_id = settle_cluster_id(own) if own else new_cluster_id()
        reachable = map(config.advertised, config.controller_listeners)
        endpoints = tuple(ImageEndpoint(each.listener, each.host, each.port, PLAINTEXT) for each in reachable)
        format_storage(FormatRequest(
            config.node_id, self.cluster_id, tuple(path for path in config.log_dirs if path in paths), endpoints,
            config.metadata_log_dir, standalone=not static_voters(config)), now_ms(), uuid.uuid4)

    def _open_requests(self) -> None:
        loop = asyncio.get_running_loop()
        self.purgatory = Purgatory(loop.call_soon, self._alarm.set)
        self.table = PartitionTable(self.purgatory)
        self.cold_reader = ColdReader()
        self._opened.callback(self.cold_reader.close)
        self._opened.callback(self._alarm.cancel)
        self.sessions = SessionCache(
            self.config.integer("max.incremental.fetch.session.cache.slots"),
            upkeep_ms=min(SESSION_UPKEEP_MS_MAX, self.config.integer("replica.lag.time.max.ms") // 8))
        self.batch_checks = BatchChecks()
        self._opened.callback(self.batch_checks.close)
        self.quotas = ClientQuotas()
        samples = self.config.integer("quota.window.num")
        sample_ms = 1000 * self.config.integer("quota.window.size.seconds")
        self.client_rates = ClientRates(samples, sample_ms)
        self.server = Server(server_limits(self.config.layers()), self.fail, call_soon=self.purgatory.call_soon)
        self.produce = ProduceHandler(self.table, self.batch_checks.offload, self.quotas, self.fail, self.server.slices)
        self.fetch = FetchHandler(self.table, self.sessions, self.cold_reader,
                                  bytes_max=self.config.integer("fetch.max.bytes"),
                                  by_rack=self.config.selects_replicas_by_rack, quotas=self.quotas,
                                  on_follower=self.server.serve_follower, slices=self.server.slices)
        # Both reset their descriptor: the end of a flush or of a read runs no Python.
        self._watch(self.flusher.eventfd, self.purgatory.flush_done, self.flusher.eventfd)
        self._watch(self.cold_reader.eventfd, self.cold_reader.poll)
        self.server.rates = self.connection_rates = connection_rates(self.config)
        self._opened.push_async_callback(self.server.close, 0)

    async def _bind(self) -> None:
        """Bind the addresses first, so that their real ports can be registered. No request is answered yet."""
        for endpoint in self.config.listeners:
            self.listeners[endpoint.listener] = await self.server.bind(endpoint.listener, endpoint.host, endpoint.port)

    def _control_plane(self) -> QuorumPlane:
        config = self.config
        metadata_directory = describe(config.metadata_log_dir).directory_id
        assert metadata_directory is not None, f"{config.metadata_log_dir} is not formatted"
        endpoints = tuple(self._advertised(each) for each in config.controller_listeners)
        return QuorumPlane(config, self.cluster_id, metadata_directory, endpoints, self.flusher, self.dialer, self.fail,
                           log_dir_locked=config.metadata_log_dir in config.log_dirs)

    async def _open_metadata(self) -> None:
        config = self.config
        self.control = self._control_plane()
        self._opened.push_async_callback(self.control.close)
        appends = OffsetsAppends(self.table, now_ms, config.integer("offsets.topic.compression.codec"))
        self.image_topics = ImageTopics(self.control.image)
        groups = GroupCoordinator(self._group_config(), appends, self.image_topics, uuid.uuid4)
        appends.coordinator = groups
        self.broker = Broker(
            config=config, cluster_id=self.cluster_id, table=self.table, groups=groups, controller=self.control,
            log_dirs=self.logs, image=self.control.image, telemetry=ClientTelemetry(uuid.uuid4),
            cold_reader=self.cold_reader, faults=ApplyFaults(_report_fault, _report_repair),
            endpoints={each.listener: self._advertised(each) for each in config.listeners})
        self.table.explain(self.broker.absence_by_key)
        self.groups = GroupDriver(groups, appends, now_ms, self.fail, self.cold_reader)
        self._opened.callback(self.groups.close)
        self.broker.loggers = LoggerLevels()
        lines = LeaderLines(config.node_id, config.integer("kraft.broker.disconnect.grace.ms"),
                            config.inter_broker_listener, self.dialer, self.fail)
        self.broker.leaders = lines.checks
        self.table.hide(lines.checks.refusing)
        self._opened.callback(lines.close)
        self._changes = WorkQueue(self.fail)
        self.replicas = ReplicaManager(self.broker, self.logs, self.groups, self.dialer, now_ms, self._changes.add,
                                       self.control.lose_directory, self.fail)
        self._opened.push_async_callback(self.replicas.close)
        self._opened.callback(self._changes.close)
        # Requests of other controllers are served from the start: without an election no broker can be registered.
        await self._accept([each.listener for each in config.controller_listeners])
        self.control.subscribe(lambda delta, _image: self.replicas.note_removals(delta))
        self.control.quorum.cluster_id.write = self._write_cluster_id
        await self.control.start()
        await self.control.quorum.cluster_id.known(self._ended)
        self._applied(self.control.image)

    def _write_cluster_id(self, cluster_id: str) -> None:
        write_cluster_id(self._directories, cluster_id)
        self.cluster_id = self.broker.cluster_id = cluster_id

    async def _open_replicas(self) -> None:
        """Register the broker, then let it lead. Most logs are opened between requests, or when a request needs one."""
        config = self.config
        advertised = tuple(self._advertised(each) for each in config.broker_listeners)
        self.broker.epoch = await self.control.register_broker(
            advertised, self.logs.directory_ids, self.logs.previous_epoch)
        self.broker.producer_ids.prepare(now_ms())
        self._applied(self.control.image)
        attempt = self.broker.faults.attempt
        attempt("addresses of brokers", partial(self._learn_endpoints, self.broker.image))
        attempt("client quotas", partial(self._limit_clients, self.broker.image, self.broker.image.quotas))
        self._apply_broker_settings()
        self.replicas.sort_out(self.broker.image)
        self._changes.add(self._open_logs(self.broker.image))
        self.control.subscribe(self._changed)      # changes wait until the logs are opened
        while self._changes and self.failure is None:  # noqa: ASYNC110 - each iteration of the loop does a slice
            await asyncio.sleep(0)
        await self.control.serve(lambda: self.failure is not None)
        if self.failure is not None:
            raise self.failure

    def _open_logs(self, image: MetadataImage) -> Generator[None]:
        yield from self.replicas.open_all(image)
        self.broker.leaders.applied(image)
        self.control.applied(MetadataDelta(image), image)

    async def _accept(self, names: list[str]) -> None:
        # Replies that clients await are sent before the parts that produce them are closed.
        self._opened.push_async_callback(self.server.close, DRAIN_SECONDS, on_drained=self.purgatory.expire_fetches)
        for name in names:
            self._channels[name] = self._channel(name)
        if len(self.config.broker_listeners) > 1:
            self.server.exempt_channel = self._channels.get(self.config.inter_broker_listener)
        self._publish_versions()
        for name in names:
            await self.server.accept(self.listeners[name], self._channels[name])

    async def _serve(self) -> None:
        self._served = True
        await self._accept([name for name in self.listeners if name not in self._channels])
        # Runs while the listeners are open: a controller that leads serves the others until its broker has left.
        self._opened.push_async_callback(self._leave)
        self.housekeeping = Housekeeping(self.broker, self.logs, self.replicas, now_ms, self.fail)
        self.housekeeping.start()
        self.replicas.replication.start()
        self._opened.push_async_callback(self.housekeeping.stop)
        online = [each.path for each in self.logs.directories if each not in self.logs.offline]
        self.watch = DirectoryWatch(dict.fromkeys((self.config.metadata_log_dir, *online)), self._lost_path)
        self._opened.push_async_callback(self.watch.close)
        if address := _text(self.config["kraft.metrics.listener"]):
            # Imported here: loading the dependencies of the metrics takes a good part of a start.
            from kraft.runtime.metrics.scrape import MetricsServer, read
            self.metrics = MetricsServer(partial(read, self), *parse_socket("kraft.metrics.listener", address))
            self._opened.push_async_callback(self.metrics.close)
            log.info("metrics: http://%s:%d/metrics", self.metrics.host or "*", self.metrics.port)

    def _channel(self, listener: str) -> RequestChannel:
        is_controller = listener in self.config.controller_listener_names
        router = RequestRouter(self.broker, listener, self.groups.schedule, self.server.slices,
                               None if is_controller else self.quotas,
                               answer_bytes_max=self.server.limits.answer_bytes_max)
        self.routers.append(router)
        if is_controller:
            return self._controller_channel(listener, router)
        channel = self.server.channel(listener, router.on_request)
        channel.limit_clients(self.quotas)
        for key in self._keys(listener):
            api = API_BY_KEY[key]
            handler = {0: self.produce, 1: self.fetch}.get(key)
            channel.serve(key, api.versions.start, min(api.versions.stop - 1, api.latest_stable),
                          min(api.flexible_from, NEVER_FLEXIBLE), handler)
        return channel

    def _controller_channel(self, listener: str, broker: RequestRouter) -> RequestChannel:
        """Channel with the controller's APIs, and those that Kafka announces on its listener and the local broker can
        answer."""
        controller = ControllerRouter(self.control.quorum, self.server, self.control.schedule)

        def on_request(reply: Reply, api_key: int, version: int, body: bytes) -> None:
            router = controller if api_key in SERVED else broker
            router.on_request(reply, api_key, version, body)

        channel = self.server.channel(listener, on_request)
        serve_apis(channel, self._keys(listener))
        self.control.quorum.driver.on_answers = channel.run_turn
        return channel

    def _keys(self, listener: str) -> list[int]:
        """Api keys that the listener serves: those with a handler that Kafka announces on a listener of its kind."""
        if listener in self.config.controller_listener_names:
            also_served = [key for key in BROKER_SERVED if API_BY_KEY[key].controller_versions is not None]
            return sorted({*SERVED, *also_served})
        return sorted([0, 1, *(key for key in BROKER_SERVED if API_BY_KEY[key].broker_versions is not None)])

    def _publish_versions(self) -> None:
        """Install the answers to ApiVersions on every listener."""
        image = self.broker.image
        for name, channel in self._channels.items():
            made = api_versions_answers([18, *self._keys(name)], SUPPORTED, self.control.metadata.finalized_features,
                                        max(image.offset, 0), controller=name in self.config.controller_listener_names)
            channel.serve_api_versions(made.answers, made.invalid, made.unsupported)

    # --- metadata

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply one committed change, after those before it. One of few partitions is applied at once."""
        local = self.control.broker
        assert local is not None
        if local.state is not State.REPLACED and (successor := local.successor(image)) is not None:
            self._make_way_for(local, successor)
        if local.state is not State.REPLACED:
            self._changes.add(self._apply(delta, image))

    def _apply(self, delta: MetadataDelta, image: MetadataImage) -> Generator[None]:
        """Apply one change in steps, replica by replica. What the brokers know of each other and what clients receive
        changes at once, before the first replica does. So a request may meet a replica whose change is still to come,
        as on a broker that learns of it a moment later."""
        found = delta.partition_changes()
        changes: list[PartitionChange] = []
        while part := list(islice(found, PLANNED_STEP)):
            self.broker.note_led(delta, now_ms(), part)
            changes += part
            yield
        self._applied(image)
        yield from self.replicas.apply(delta, changes)
        deleted = [(topic.name, index) for topic in delta.removed_topics() for index in sorted(topic.partitions)]
        if deleted:
            self.broker.groups.partitions_deleted(deleted, now_ms())
            self.groups.schedule()
        self._apply_settings(delta, image)
        # Last: a client that learns of a new leader finds it leading.
        self.broker.leaders.applied(image)
        self.control.applied(delta, image)

    def _apply_settings(self, delta: MetadataDelta, image: MetadataImage) -> None:
        touched = list(delta.configs.touched)
        if any(resource.type == BROKER_RESOURCE for resource in touched):
            self._reconfigure_broker()
        else:
            self.replicas.reconfigure(sorted(each.name for each in touched if each.type == TOPIC_RESOURCE))
        attempt = self.broker.faults.attempt
        if delta.quotas.touched:
            attempt("client quotas", partial(self._limit_clients, image, delta.quotas.touched))
        if delta.features.touched:
            attempt("features", self._publish_versions)
            attempt("cordoned log directories", self._cordon)    # none below the metadata.version that has them
        if delta.brokers.touched:
            attempt("addresses of brokers", partial(self._learn_endpoints, image))

    def _make_way_for(self, local: LocalBroker, successor: BrokerRegistration) -> None:
        """Stop, because another process is this broker now. It leads and follows the replicas; this process
        acknowledges nothing more."""
        local.give_up()
        self._changes.close()
        self.replicas.give_up_all()
        self.fail(ReplacedError(
            f"broker {successor.broker_id} is another process now: incarnation {successor.incarnation_id} has epoch "
            f"{successor.epoch}, this one is incarnation {local.incarnation_id} of epoch {self.broker.epoch}"))

    def _lost_path(self, path: Path, cause: StorageError) -> None:
        if path == self.config.metadata_log_dir:
            self.fail(cause)
        self.replicas.lose_path(path, cause)

    def _limit_clients(self, image: MetadataImage, changed: Iterable[QuotaEntity]) -> None:
        """Apply the client quotas of the image, which may have changed for these entities."""
        self.quotas.look_up_with(self.client_rates.find if self.client_rates.update(image.quotas) else None)
        self.connection_rates.update(image.quotas, changed)

    def _learn_endpoints(self, image: MetadataImage) -> None:
        """Install the address of each broker, for clients that send a request to the wrong one (KIP-951). The addresses
        are those of one listener. Where there are several listeners, clients request the metadata of theirs instead."""
        self.table.reports_endpoints = len(self.config.broker_listeners) == 1
        name = self.config.inter_broker_listener
        for broker in image.brokers.values():
            for endpoint in broker.endpoints:
                if endpoint.name == name:
                    self.table.set_endpoint(broker.broker_id, endpoint.host, endpoint.port, broker.rack)

    def _applied(self, image: MetadataImage) -> None:
        self.broker.image = image
        registration = image.brokers.get(self.config.node_id)
        local = self.control.broker
        if (registration is not None and local is not None and local.is_own(registration)
                and registration.epoch != self.broker.epoch):
            self.broker.epoch = registration.epoch     # this node was unregistered and registered again
            self.replication.renew()
        self.image_topics.image = image
        offsets = image.topic(OFFSETS_TOPIC)
        self.broker.groups.partition_count = len(offsets.partitions) if offsets else None

    def _reconfigure_broker(self) -> None:
        """Apply a change of a broker setting. Every topic that may fall back to it is resolved again."""
        self._apply_broker_settings()
        self.replicas.reconfigure(sorted(self.broker.image.topic_ids))

    def _apply_broker_settings(self) -> None:
        """Apply the broker's settings. A feature that cannot follow its new settings keeps the current ones."""
        faults = self.broker.faults
        faults.note("broker settings", tuple(map(str, broker_faults(self.broker.layers()))))
        faults.attempt("settings of the group coordinator", self._configure_groups)
        faults.attempt("limits of connections", self._limit_connections)
        faults.attempt("cordoned log directories", self._cordon)
        faults.attempt("replication throttles", self.replicas.reconfigure_throttles)
        if hasattr(self, "housekeeping"):
            faults.attempt("rate of the log cleaner", self.housekeeping.cleaner.reconfigure)

    def _configure_groups(self) -> None:
        self.broker.groups.config = self._group_config()

    def _cordon(self) -> None:
        self.control.cordon([each.directory_id for each in self.logs.directories
                             if self.broker.is_cordoned(str(each.path.absolute()))])

    def _limit_connections(self) -> None:
        layers = self.broker.layers()
        limits = server_limits(layers)
        limit_rates(self.connection_rates, layers)
        self.server.limit_connections(limits)

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
        """Close what was opened, in reverse, and all of it even when a part fails. Only a node without a fault leaves
        the mark of a clean stop."""
        await self._opened.aclose()

    async def _leave(self) -> None:
        if self.failure is None and self._served:
            await self.control.leave()

    def _close_logs(self) -> None:
        # A start that ends before the broker served has changed nothing: the mark of the last clean stop remains valid.
        broker_epoch = self.broker.epoch if self._served else self.logs.previous_epoch
        self.logs.close(clean=self.failure is None, broker_epoch=broker_epoch)

    # --- helpers

    def _group_config(self) -> GroupCoordinatorConfig:
        number = self.config.integer if not hasattr(self, "broker") else self.broker.integer
        return GroupCoordinatorConfig(
            group_min_session_timeout_ms=number("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=number("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            group_max_size=number("group.max.size"),
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            offset_commit_timeout_ms=number("offsets.commit.timeout.ms"))

    def _advertised(self, endpoint: Endpoint) -> Endpoint:
        """Advertised address of a listener. A port of 0 is replaced by the one that the system chose."""
        found = self.config.advertised(endpoint)
        return found if found.port else found._replace(port=self.listeners[endpoint.listener].port)

    def _watch(self, descriptor: int, callback: Callable[..., None], *arguments: int) -> None:
        """Call `callback` when the eventfd is written to."""
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, callback, *arguments)
        self._opened.callback(loop.remove_reader, descriptor)

    def _expire(self) -> None:
        if (deadline_ms := self.purgatory.expire(monotonic_ms())) >= 0:
            self._alarm.set(deadline_ms)


def _report_fault(subject: str, why: str, error: BaseException | None) -> None:
    log.error("%s: committed metadata cannot be applied here, what was in force stays: %s", subject, why,
              exc_info=error)


def _report_repair(subject: str) -> None:
    log.warning("%s: the committed metadata is applied again", subject)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
