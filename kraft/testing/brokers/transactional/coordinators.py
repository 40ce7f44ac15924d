"""Coordinators of transactions, groups and states of share partitions of one simulated broker.

Everything here is production code on virtual time: coordinators and their drivers, the sender of markers, the checks of
transactions, the way to share coordinators, handlers of requests. Models: the thread that reads cold data, and the
slices of the loop's time.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, cast

from kraft.broker.apis import SERVED
from kraft.broker.broker import Broker
from kraft.broker.client_telemetry import ClientTelemetry
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from kraft.broker.metadata_view import ImageTopics
from kraft.broker.ports import LogDirPort, LoggerPort
from kraft.broker.share_state.coordinator import OWN_CONTEXT, ShareCoordinator
from kraft.broker.transactions.coordinator import TransactionCoordinator
from kraft.broker.transactions.ports import Query
from kraft.config.node_config import NodeConfig
from kraft.controller.controller import HANDLERS
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.runtime.net.api_versions import api_versions_answers, served_versions
from kraft.runtime.net.requests import RequestRouter, serve_api
from kraft.runtime.replicas.coordinator_driver import CoordinatorAppends, CoordinatorDriver
from kraft.runtime.replicas.marker_sender import MarkerSender
from kraft.runtime.replicas.share_persister import StatePersister
from kraft.runtime.replicas.transaction_checks import OffsetsTransactions, TransactionChecks
from kraft.runtime.stages.broker_core import group_config, transaction_config
from kraft.runtime.stages.share_groups import share_config
from kraft.testing.brokers.transactional.async_loop import AsyncLoop
from kraft.testing.brokers.transactional.cleaning import cleaned
from kraft.testing.brokers.transactional.dialer import SimDialer, lane_of
from kraft.testing.sim.cluster import CLUSTER_ID
from kraft.testing.sim.options import Options
from kraft_native.facade.log import Log
from kraft_native.net.channel import RequestChannel
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.partition.table import PartitionTable
from kraft_native.request.reply import Reply
from kraft_native.request.slices import SliceQueue
from kraft_native.serve.produce import ProduceHandler

if TYPE_CHECKING:
    from kraft.testing.brokers.broker import Broker as SimBroker

LISTENER: Final = "PLAINTEXT"
MARKER_LANE: Final = "markers"
CHECK_LANE: Final = "transaction checks"
CHECKS: Final = lane_of(CHECK_LANE, 0)
COORDINATOR_LANES: Final = (lane_of(MARKER_LANE, 0), lane_of(MARKER_LANE, 1), CHECKS)
SHARE_LANE: Final = "states of share partitions"
SHARE_LANES: Final = (lane_of(SHARE_LANE, 0), lane_of(SHARE_LANE, 1))
UPDATES_PER_SNAPSHOT: Final = 5
POLICIES: Final = ("disabled", "upgrade", "downgrade", "bidirectional")
INITIAL_DELAY_MS: Final = "200"
LOAD_BYTES: Final = 300
"""Bytes that are loaded at once: a few records."""
COLD_MS: Final = 30
"""Longest time until cold data is in memory."""


def node_config(node_id: int, options: Options) -> NodeConfig:
    """Return the configuration of a simulated broker."""
    replication, minimum = str(min(options.replication, options.brokers)), str(options.min_insync)
    return NodeConfig({
        "node.id": str(node_id), "process.roles": "broker", "listeners": f"{LISTENER}://10.1.0.{node_id}:{node_id}",
        "controller.listener.names": "CONTROLLER", "controller.quorum.bootstrap.servers": "10.1.0.1:1",
        "log.dirs": f"/nowhere/{node_id}",
        "offsets.topic.num.partitions": str(options.partitions),
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.num.partitions": str(options.partitions),
        "transaction.state.log.replication.factor": replication,
        "share.coordinator.state.topic.num.partitions": str(options.partitions),
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": minimum,
        "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_PER_SNAPSHOT),
        "transaction.state.log.min.isr": minimum, "min.insync.replicas": minimum,
        "request.timeout.ms": str(options.request_ms),
        "transaction.remove.expired.transaction.cleanup.interval.ms": str(options.expiry_check_ms),
        "transactional.id.expiration.ms": str(options.id_expiration_ms),
        **(_group_settings(options) if options.groups else {}),
    })


def _group_settings(options: Options) -> dict[str, str]:
    """Return the settings of the group coordinator."""
    session, heartbeat = str(options.group_session_ms), str(options.heartbeat_ms)
    return {
        "group.consumer.session.timeout.ms": session, "group.consumer.min.session.timeout.ms": session,
        "group.consumer.heartbeat.interval.ms": heartbeat, "group.consumer.min.heartbeat.interval.ms": heartbeat,
        "group.consumer.assignment.interval.ms": str(options.assignment_ms),
        "group.consumer.migration.policy": POLICIES[options.migration_policy],
        "group.min.session.timeout.ms": session, "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
    }


class Coordinators:
    """Coordinators of one broker process, on its `loop`. `failed` gets faults of our own."""

    def __init__(self, owner: "SimBroker", table: PartitionTable, produce: ProduceHandler, channel: RequestChannel,
                 loop: AsyncLoop, random: Random) -> None:
        self._owner = owner
        self._channel = channel
        self._random = random
        self.loop = loop
        loop.enter()
        config = node_config(owner.id, owner.options)
        cold_reader = cast("ColdReader", _ColdReader(owner, random))
        appends = CoordinatorAppends(OFFSETS_TOPIC, table, self.now_ms)
        transaction_appends = CoordinatorAppends(TRANSACTION_TOPIC, table, self.now_ms)
        self.topics = ImageTopics(owner.image, self._covers_start)
        offsets = OffsetsTransactions(table, self.now_ms, self.schedule)
        self.groups = GroupCoordinator(
            group_config(config.__getitem__), appends, self.topics, owner.node.new_id, offsets)
        appends.coordinator = self.groups
        self.transactions = TransactionCoordinator(
            transaction_config(config.__getitem__), transaction_appends, self.topics, _ProducerIds(self))
        transaction_appends.coordinator = self.transactions
        self.broker = Broker(
            config=config, cluster_id=CLUSTER_ID, table=table, groups=self.groups, transactions=self.transactions,
            controller=_ControllerPort(owner), log_dirs=cast("LogDirPort", None), image=owner.image,
            telemetry=ClientTelemetry(owner.node.new_id), cold_reader=cold_reader, loggers=cast("LoggerPort", None),
            leaders=owner.leaders.checks)
        node, wire = owner.node, owner.node.wire
        self.checks = TransactionChecks(self.broker, SimDialer(node, wire, CHECK_LANE), owner.failed)
        self.checks.local = self._check_here
        offsets.checks = self.checks
        produce.verifier = self.checks.verify
        self.drivers = {
            OFFSETS_TOPIC: CoordinatorDriver(self.groups, appends, self.now_ms, owner.failed, cold_reader, LOAD_BYTES),
            TRANSACTION_TOPIC: CoordinatorDriver(self.transactions, transaction_appends, self.now_ms, owner.failed,
                                                 cold_reader, LOAD_BYTES)}
        self.markers = MarkerSender(self.broker, self.transactions, SimDialer(node, wire, MARKER_LANE), self.now_ms,
                                    self.schedule, owner.failed)
        self._new_share_coordinator(config, table, cold_reader)
        self.share_persister = StatePersister(self.broker, SimDialer(node, wire, SHARE_LANE), self._serve_share,
                                              self.now_ms, owner.failed)
        self._serve()

    def _new_share_coordinator(self, config: NodeConfig, table: PartitionTable, cold_reader: ColdReader) -> None:
        """Create the share coordinator. Its log is not pruned: the judge of logs knows every deletion in advance."""
        appends = CoordinatorAppends(SHARE_STATE_TOPIC, table, self.now_ms)
        self.share = appends.coordinator = self.broker.share_state = ShareCoordinator(
            share_config(config.__getitem__), appends, self.topics, lambda _partition, _offset: None)
        self.drivers[SHARE_STATE_TOPIC] = CoordinatorDriver(
            self.share, appends, self.now_ms, self._owner.failed, cold_reader, LOAD_BYTES)

    def _serve_share(self, request: Message, respond: Callable[[Message], None]) -> bool:
        self.share.handle(request, OWN_CONTEXT, respond, self.now_ms())
        self.schedule()
        return True

    def now_ms(self) -> int:
        """Read the wall clock of the broker."""
        return self._owner.node.wall_ms

    def _covers_start(self, image: MetadataImage) -> bool:
        registration = image.brokers.get(self._owner.id)
        return registration is not None and self._owner.local.is_own(registration)

    def schedule(self) -> None:
        """Set the alarms of the coordinators."""
        for driver in self.drivers.values():
            if driver.deadlines.is_earlier:
                driver.schedule()

    def _check_here(self, query: Query, respond: Callable[[Sequence[int]], None]) -> None:
        self.transactions.check(query, respond, self.now_ms())
        self.schedule()

    # --- requests -----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Serve the requests of clients and of other brokers, by the handlers of production."""
        for key in SERVED:
            api = API_BY_KEY[key]
            if api.broker_versions is not None:
                serve_api(self._channel, api, served_versions(api, api.versions))
        answers = api_versions_answers([ApiKey.API_VERSIONS, *SERVED], SUPPORTED, {}, 0)
        self._channel.serve_api_versions(answers.answers, answers.invalid, answers.unsupported)
        self._router = RequestRouter(self.broker, LISTENER, self.schedule, cast("SliceQueue", _Slices()),
                                     clock=self.now_ms)

    def on_request(self, reply: Reply, api_key: int, api_version: int, body: bytes) -> None:
        """Serve a request without a compiled handler. One that fails by a fault of our own ends the run."""
        failures = self._router.failures
        self._router.on_request(reply, api_key, api_version, body)
        assert self._router.failures == failures, f"{API_BY_KEY[api_key].name} failed"

    # --- the metadata -------------------------------------------------------------------------------------------------

    def show(self, image: MetadataImage) -> None:
        """Switch what handlers and coordinators read to this image, as `runtime.stages.commits` does."""
        self.broker.image = self.topics.image = image
        self.broker.epoch = self._owner.epoch
        self.groups.partition_count = self.topics.partition_count(OFFSETS_TOPIC)
        self.transactions.partition_count = self.topics.partition_count(TRANSACTION_TOPIC)
        self.share.partition_count = self.topics.partition_count(SHARE_STATE_TOPIC)
        self.schedule()

    def applied(self, delta: MetadataDelta) -> None:
        """Have the groups forget the deleted topics of an applied change."""
        deleted = [(topic.name, index) for topic in delta.removed_topics() for index in sorted(topic.partitions)]
        if deleted:
            self.groups.partitions_deleted(deleted, self.now_ms())
        self.schedule()

    def leads(self, partition: Partition) -> None:
        if (driver := self.drivers.get(partition.topic)) is not None:
            driver.lead(self._as_loaded(partition))

    def _as_loaded(self, partition: Partition) -> Partition:
        """Return the partition as its load sees it: by chance while the cleaner replaces its segments."""
        owner, per_mille = self._owner, self._owner.options.clean_per_mille
        if partition.topic != OFFSETS_TOPIC or not per_mille or self._random.randrange(1000) >= per_mille:
            return partition
        source = owner.disk.path_of((partition.topic, partition.index))
        return cast("Partition", cleaned(partition, source, owner.disk.scratch, self._random, owner.count))

    def resigns(self, topic: str, index: int, leader_epoch: int | None) -> None:
        if (driver := self.drivers.get(topic)) is not None:
            driver.resign(index, leader_epoch)


def _call(done: Callable[[], object]) -> None:
    done()


def _finish(steps: Generator[None, None, None]) -> None:
    for _ in steps:
        pass


class _Slices:
    """Model of `SliceQueue` on a fast processor: all work ends in its first slice."""

    def start(self, _reply: Reply, work: Generator[None, None, None]) -> None:
        _finish(work)

    def call(self, _reply: Reply, action: Callable[[], object]) -> None:
        action()

    def work(self, _api_key: int, work: Generator[None, None, None]) -> None:
        _finish(work)


class _ColdReader:
    """Model of the thread that brings cold data into memory: often it takes a while."""

    def __init__(self, owner: "SimBroker", random: Random) -> None:
        self._owner = owner
        self._random = random

    def warm_read(self, _log: Log, _offset: int, _bytes_max: int, done: Callable[[], object]) -> bool:
        is_cold = self._random.random() < 0.5
        if is_cold:
            self._owner.later(self._random.randrange(COLD_MS), partial(_call, done))
        return is_cold


class _ControllerPort:
    """The channel to the active controller, as `ControllerPort`."""

    lease_left_ms = None

    def __init__(self, owner: "SimBroker") -> None:
        self._owner = owner

    def submit(self, request: Message, version: int, now_ms: int,  # noqa: ARG002 - the channel has a clock
               answer: Callable[[Message], None], client: object = None) -> None:  # noqa: ARG002 - no quotas
        self._owner.own.submit(request, version, answer)

    def refuse(self, request: Message, code: ErrorCode, message: str) -> Message:
        return HANDLERS[request.API_KEY].refuse(request, code, message)


class _ProducerIds:
    """The producer ids of the broker, which is created after its coordinators."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    def take(self, now_ms: int, answer: Callable[[int | None], None]) -> None:
        """See `ProducerIdSource`."""
        self._coordinators.broker.producer_ids.take(now_ms, answer)
