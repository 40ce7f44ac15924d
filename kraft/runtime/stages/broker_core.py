"""A broker without its sockets: what the handlers of its requests read, its groups, its replicas."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from kraft.broker.apply_faults import ApplyFaults
from kraft.broker.broker import Broker
from kraft.broker.client_series import ClientSeries, SeriesLimits
from kraft.broker.client_telemetry import ClientTelemetry
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.consumer.assignor_names import assignor_names
from kraft.broker.groups.consumer.cluster import ConsumerGroupConfig, GroupSettings
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.groups.share.cluster import RecordSettings, ShareGroupConfig, check_assignors
from kraft.broker.groups.streams.cluster import StreamsGroupConfig, StreamsSettings
from kraft.broker.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kraft.broker.metadata_view import ImageTopics
from kraft.broker.transactions.config import TransactionCoordinatorConfig
from kraft.broker.transactions.coordinator import TransactionCoordinator
from kraft.broker.transactions.ports import Query
from kraft.config.node_config import Endpoint, NodeConfig
from kraft.config.setting import Value
from kraft.metadata.image import MetadataImage
from kraft.protocol.api_keys import ApiKey
from kraft.runtime.base.logger_levels import LoggerLevels
from kraft.runtime.base.time_slices import WorkQueue
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.net.leader_lines import LeaderLines
from kraft.runtime.net.requests import now_ms
from kraft.runtime.quorum.control_plane import ControlPlane
from kraft.runtime.replicas.coordinator_driver import CoordinatorAppends, CoordinatorDriver
from kraft.runtime.replicas.manager import ReplicaManager
from kraft.runtime.replicas.marker_sender import MarkerSender
from kraft.runtime.replicas.share_port import BrokerSharePort
from kraft.runtime.replicas.transaction_checks import OffsetsTransactions, TransactionChecks
from kraft.runtime.stages.data_path import DataPath
from kraft.runtime.stages.share_groups import ShareGroups
from kraft.runtime.stages.storage import Storage
from kraft.security.audit.writer import is_writer
from kraft_native.request.reply import RequestHandler

if TYPE_CHECKING:
    from kraft.runtime.replicas.share_partitions import ShareDelivery

log = logging.getLogger(__name__)


class BrokerCore:
    """The broker of a node. `endpoints`: those that clients of each listener are given. `on_failure` is called with a
    fault of our own."""

    def __init__(self, config: NodeConfig, storage: Storage, path: DataPath, control: ControlPlane, dialer: Dialer,
                 endpoints: Mapping[str, Endpoint], on_failure: Callable[[BaseException], object]) -> None:
        self._opened = AsyncExitStack()
        self._path = path
        self._on_failure = on_failure
        self.share_delivery: ShareDelivery | None = None
        """Share groups, once a client has fetched for one."""
        appends = CoordinatorAppends(OFFSETS_TOPIC, path.table, now_ms,
                                     config.integer("offsets.topic.compression.codec"))
        transaction_appends = CoordinatorAppends(TRANSACTION_TOPIC, path.table, now_ms)
        self.image_topics = ImageTopics(control.image, self._covers_start)
        offsets_transactions = OffsetsTransactions(path.table, now_ms, self.schedule)
        share_port = BrokerSharePort(config.node_id, dialer, now_ms, self.schedule, on_failure)
        self._opened.callback(share_port.close)
        groups = GroupCoordinator(group_config(config.__getitem__), appends, self.image_topics, uuid.uuid4,
                                  offsets_transactions, share_port)
        appends.coordinator = groups
        transactions = TransactionCoordinator(
            transaction_config(config.__getitem__), transaction_appends, self.image_topics, _ProducerIds(self))
        transaction_appends.coordinator = transactions
        lines = LeaderLines(config.node_id, config.integer("kraft.broker.disconnect.grace.ms"),
                            config.inter_broker_listener, dialer, on_failure)
        self.broker = Broker(
            config=config, cluster_id=storage.cluster_id, table=path.table, groups=groups,
            transactions=transactions, controller=control, log_dirs=storage.logs, image=control.image,
            telemetry=ClientTelemetry(uuid.uuid4, _client_series(config)), cold_reader=path.cold_reader,
            loggers=LoggerLevels(), leaders=lines.checks, authorizer=control.quorum.authorizer,
            endpoints=dict(endpoints), faults=ApplyFaults(_report_fault, _report_repair))
        share_port.broker = self.broker
        if self.broker.authorizer is not None:
            path.authorize(self.broker.authorizer)
        path.table.explain(self.broker.absence_by_key)
        self.checks = TransactionChecks(self.broker, dialer, on_failure)
        self.checks.local = self._check_here
        offsets_transactions.checks = self.checks
        path.produce.verifier = self.checks.verify
        path.produce.is_audit_writer = lambda client_id: is_writer(self.broker.image, client_id)
        self._opened.callback(self.checks.close)
        self.coordinators = {
            OFFSETS_TOPIC: CoordinatorDriver(groups, appends, now_ms, on_failure, path.cold_reader),
            TRANSACTION_TOPIC: CoordinatorDriver(
                transactions, transaction_appends, now_ms, on_failure, path.cold_reader,
                load_bytes=config.integer("transaction.state.log.load.buffer.size"))}
        """Drivers of the coordinators, by topic."""
        for driver in self.coordinators.values():
            self._opened.callback(driver.close)
        self.share_groups = self.broker.share_persister = ShareGroups(self, dialer, on_failure)
        self._opened.callback(self.share_groups.close)
        markers = MarkerSender(self.broker, transactions, dialer, now_ms, self.schedule, on_failure)
        self._opened.callback(markers.close)
        path.table.hide(lines.checks.refusing)
        self._opened.callback(lines.close)
        self.changes = WorkQueue(on_failure)
        """Work on committed changes, in their order."""
        self.replicas = ReplicaManager(self.broker, storage.logs, self.coordinators, dialer, now_ms, self.changes.add,
                                       control.lose_directory, on_failure)
        transactions.on_event = self.checks.on_event = self.replicas.replication.recorder.transaction
        self._opened.push_async_callback(self.replicas.close)
        self._opened.callback(self.changes.close)

    def _covers_start(self, image: MetadataImage) -> bool:
        """Return whether `image` has this process's registration, and thus all that was committed before it."""
        registration = image.brokers.get(self.broker.node_id)
        return registration is not None and registration.epoch == self.broker.epoch

    def schedule(self) -> None:
        """Set the alarms of the coordinators. Call it after anything that may have moved their deadlines."""
        for driver in self.coordinators.values():
            if driver.deadlines.is_earlier:
                driver.schedule()

    def share_handler(self, api_key: int) -> RequestHandler:
        """Return the handler of ShareFetch or ShareAcknowledge. The first call creates what serves share groups."""
        if self.share_delivery is None:
            # Imported here: most nodes serve none, and their memory does not hold it.
            from kraft.runtime.replicas.share_partitions import ShareDelivery
            path = self._path
            self.share_delivery = ShareDelivery(self.broker, path.purgatory, path.server, path.quotas, now_ms,
                                            self._on_failure)
            self._opened.callback(self.share_delivery.close)
        return self.share_delivery.fetch if api_key == ApiKey.SHARE_FETCH else self.share_delivery.acknowledge

    def _check_here(self, query: Query, respond: Callable[[Sequence[int]], None]) -> None:
        """Pass checks of transactions to this node's own coordinator."""
        self.broker.transactions.check(query, respond, now_ms())
        self.schedule()

    async def close(self) -> None:
        """Stop the work on changes, replicas and groups, and all of it even when a part fails."""
        await self._opened.aclose()


def group_config(setting: Callable[[str], Value]) -> GroupCoordinatorConfig:
    """Settings of the group coordinator, from those that `setting` returns by name."""
    def number(name: str) -> int:
        value = setting(name)
        assert isinstance(value, int), f"{name} is not a whole number"
        return value

    return GroupCoordinatorConfig(
        group_min_session_timeout_ms=number("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=number("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
        group_max_size=number("group.max.size"),
        offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
        offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
        offset_commit_timeout_ms=number("offsets.commit.timeout.ms"),
        consumer=_consumer_config(setting, number), share=_share_config(setting, number),
        streams=_streams_config(number))


def _consumer_config(setting: Callable[[str], Value], number: Callable[[str], int]) -> ConsumerGroupConfig:
    return ConsumerGroupConfig(
        max_size=number("group.consumer.max.size"),
        assignors=assignor_names(setting("group.consumer.assignors")),
        migration_policy=str(setting("group.consumer.migration.policy")).lower(),
        regex_refresh_interval_ms=number("group.consumer.regex.refresh.interval.ms"),
        defaults=GroupSettings(number("group.consumer.session.timeout.ms"),
                               number("group.consumer.heartbeat.interval.ms"),
                               number("group.consumer.assignment.interval.ms")),
        session_bounds_ms=(number("group.consumer.min.session.timeout.ms"),
                           number("group.consumer.max.session.timeout.ms")),
        heartbeat_bounds_ms=(number("group.consumer.min.heartbeat.interval.ms"),
                             number("group.consumer.max.heartbeat.interval.ms")),
        assignment_bounds_ms=(number("group.consumer.min.assignment.interval.ms"),
                              number("group.consumer.max.assignment.interval.ms")))


def _share_config(setting: Callable[[str], Value], number: Callable[[str], int]) -> ShareGroupConfig:
    check_assignors(setting("group.share.assignors"))
    return ShareGroupConfig(
        max_size=number("group.share.max.size"),
        initialize_retry_ms=number("group.share.initialize.retry.interval.ms"),
        defaults=GroupSettings(number("group.share.session.timeout.ms"), number("group.share.heartbeat.interval.ms"),
                               number("group.share.assignment.interval.ms")),
        session_bounds_ms=(number("group.share.min.session.timeout.ms"), number("group.share.max.session.timeout.ms")),
        heartbeat_bounds_ms=(number("group.share.min.heartbeat.interval.ms"),
                             number("group.share.max.heartbeat.interval.ms")),
        assignment_bounds_ms=(number("group.share.min.assignment.interval.ms"),
                              number("group.share.max.assignment.interval.ms")),
        records=RecordSettings(
            lock_duration_ms=number("group.share.record.lock.duration.ms"),
            delivery_count_limit=number("group.share.delivery.count.limit"),
            partition_locks_max=number("group.share.partition.max.record.locks")),
        lock_duration_bounds_ms=(number("group.share.min.record.lock.duration.ms"),
                                 number("group.share.max.record.lock.duration.ms")),
        delivery_count_bounds=(number("group.share.min.delivery.count.limit"),
                               number("group.share.max.delivery.count.limit")),
        partition_locks_bounds=(number("group.share.min.partition.max.record.locks"),
                                number("group.share.max.partition.max.record.locks")))


def _streams_config(number: Callable[[str], int]) -> StreamsGroupConfig:
    return StreamsGroupConfig(
        max_size=number("group.streams.max.size"),
        defaults=StreamsSettings(
            GroupSettings(number("group.streams.session.timeout.ms"), number("group.streams.heartbeat.interval.ms"),
                          number("group.streams.assignment.interval.ms")),
            standby_replicas=number("group.streams.num.standby.replicas"),
            initial_delay_ms=number("group.streams.initial.rebalance.delay.ms")),
        session_bounds_ms=(number("group.streams.min.session.timeout.ms"),
                           number("group.streams.max.session.timeout.ms")),
        heartbeat_bounds_ms=(number("group.streams.min.heartbeat.interval.ms"),
                             number("group.streams.max.heartbeat.interval.ms")),
        assignment_bounds_ms=(number("group.streams.min.assignment.interval.ms"),
                              number("group.streams.max.assignment.interval.ms")),
        standby_replicas_max=number("group.streams.max.standby.replicas"))


def transaction_config(setting: Callable[[str], Value]) -> TransactionCoordinatorConfig:
    """Settings of the transaction coordinator, from those that `setting` returns by name."""
    def number(name: str) -> int:
        value = setting(name)
        assert isinstance(value, int), f"{name} is not a whole number"
        return value

    return TransactionCoordinatorConfig(
        max_timeout_ms=number("transaction.max.timeout.ms"),
        id_expiration_ms=number("transactional.id.expiration.ms"),
        abort_retry_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_interval_ms=number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        addition_wait_ms=number("add.partitions.to.txn.retry.backoff.max.ms"),
        two_phase_commit=bool(setting("transaction.two.phase.commit.enable")))


class _ProducerIds:
    """The producer ids of the broker, which is created after its coordinators."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core

    def take(self, now_ms: int, answer: Callable[[int | None], None]) -> None:
        """See `ProducerIdSource`."""
        self._core.broker.producer_ids.take(now_ms, answer)


def _report_fault(subject: str, why: str, error: BaseException | None) -> None:
    log.error("%s: committed metadata cannot be applied here, what was in force stays: %s", subject, why,
              exc_info=error)


def _report_repair(subject: str) -> None:
    log.warning("%s: the committed metadata is applied again", subject)


def _client_series(config: NodeConfig) -> ClientSeries | None:
    """Return the receiver of client metrics: a node that serves its own metrics shows theirs, too."""
    if not config["kraft.metrics.listener"]:
        return None
    return ClientSeries(SeriesLimits(
        config.integer("kraft.client.telemetry.clients.max"), config.integer("kraft.client.telemetry.series.max"),
        config.integer("kraft.client.telemetry.series.per.client.max"),
        config.integer("kraft.client.telemetry.decompressed.max.bytes")))
