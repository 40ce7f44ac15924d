"""Metrics for Prometheus over HTTP. A scrape reads counters of the node's parts; the frequent ones are compiled.

Values that a scrape reads belong to the loop's thread, so the loop reads them, in slices of a few milliseconds between
requests. The scrape's thread makes the text (`kraft.runtime.metrics.http_server`).
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kraft._version import __version__
from kraft.broker.client_series import GROUP, TRANSACTIONAL_ID
from kraft.broker.coordinator.shards import Phase
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.group import GroupState as ConsumerGroupState
from kraft.broker.groups.streams.group import GroupState as StreamsGroupState
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.broker.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from kraft.broker.readiness import REASONS
from kraft.broker.transactions.state import Status
from kraft.config.node_config import NodeConfig
from kraft.metadata.image import NO_LEADER, MetadataImage
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.base.time_slices import TimeSlice
from kraft.runtime.metrics.names import METRICS
from kraft.runtime.net.server import Server
from kraft.runtime.quorum.metadata_machine import VOTE_KINDS, QuorumMetadata
from kraft.runtime.quorum.quorum_replica import QuorumReplica
from kraft_native.base.clock import wall_ms
from kraft_native.base.errors import OperationError
from kraft_native.log.flusher import Flusher
from kraft_native.partition.partition import Partition
from kraft_native.request.times import BUCKET_ENDS_NS, NAMES

if TYPE_CHECKING:
    from kraft.runtime.metrics.readiness_watch import ReadinessWatch
    from kraft.runtime.stages.parts import NodeParts

log = logging.getLogger(__name__)

SCRAPE_SECONDS_MAX: Final = 10.0
TIME_BUCKETS_MS: Final = (*(str(end_ns / 1e6) for end_ns in BUCKET_ENDS_NS), "+Inf")
LATE_MS: Final = 300_000
"""Time after transaction.max.timeout.ms after which an open transaction is late, as in Kafka."""
RUNNING: Final = 3
SHUTTING_DOWN: Final = 7
COORDINATORS: Final = {"group": OFFSETS_TOPIC, "transaction": TRANSACTION_TOPIC, "share": SHARE_STATE_TOPIC}
"""Topics of the coordinators, by the names that Kafka's metrics have for them."""
ACKNOWLEDGE_TYPES: Final = ("gap", "accept", "release", "reject", "renew")
"""Kafka's types of acknowledgements, by code."""
NO_ACKNOWLEDGEMENTS: Final = [0] * len(ACKNOWLEDGE_TYPES)
ERROR_NAMES: Final = {int(code): code.name for code in ErrorCode}

Read = Callable[[float], Coroutine[Any, Any, "Sheet"]]


class Sheet:
    """The values of one scrape. `put` and `put_times` accept only metrics in `METRICS`, with their labels."""

    def __init__(self) -> None:
        self._families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        self._histograms: dict[str, HistogramMetricFamily] = {}
        for name, kind, labels, _, text in METRICS:
            if kind == "histogram":
                self._histograms[name] = HistogramMetricFamily(name, text, labels=labels)
            else:
                make = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
                self._families[name] = make(name, text, labels=labels)
        self._times: list[tuple[str, list[int], int, tuple[str, ...]]] = []

    def put(self, name: str, value: float, *labels: str) -> None:
        self._families[name].add_metric(labels, value)

    def put_times(self, name: str, counts: list[int], sum_ns: int, *labels: str) -> None:
        """Add a histogram with the buckets of `request_times`."""
        assert name in self._histograms, name
        self._times.append((name, counts, sum_ns, labels))

    def families(self) -> Iterable[Metric]:
        """Metrics that have values, in the order of `METRICS`. Not on the loop's thread: histograms are many lines."""
        for name, counts, sum_ns, labels in self._times:
            buckets = list(zip(TIME_BUCKETS_MS, accumulate(counts), strict=True))
            self._histograms[name].add_metric(labels, buckets, sum_ns / 1e6)
        every = {**self._families, **self._histograms}
        return [every[metric.name] for metric in METRICS if every[metric.name].samples]


class NodeCollector(Collector):
    """Reads a node for the library, from any thread but the loop's. `read(requested_s)` returns all values of a node
    that serves; `requested_s` is the time of the request, on the monotonic clock."""

    def __init__(self, read: Read, loop: asyncio.AbstractEventLoop) -> None:
        self.read = read
        self.loop = loop

    def collect(self) -> Iterable[Metric]:
        """Read all metrics. Raises `OperationError` when the loop does not answer in time."""
        future = asyncio.run_coroutine_threadsafe(self.read(time.monotonic()), self.loop)
        try:
            return future.result(SCRAPE_SECONDS_MAX).families()
        except TimeoutError:
            future.cancel()
            raise OperationError(f"metrics: the node did not answer within {SCRAPE_SECONDS_MAX:.0f} s") from None


class RunningNode(Protocol):
    """A node of any kind."""

    config: NodeConfig
    cluster_id: str

    @property
    def stopping(self) -> bool: ...

    @property
    def readiness(self) -> "ReadinessWatch | None": ...


async def read(node: RunningNode, parts: "NodeParts", requested_s: float) -> Sheet:
    """Read a broker, and the controller in its process. On the loop's thread."""
    sheet, control = Sheet(), parts.control
    _read_process(node, parts.storage.flusher, parts.path.server, requested_s, sheet)
    await _read_readiness(node, sheet)
    _read_broker(parts, sheet, stopping=node.stopping)
    _read_failures(parts, sheet)
    _read_waiting(parts, sheet)
    await _read_clients(parts, sheet)
    await _read_groups(parts, sheet)
    await _read_transactions(parts, sheet)
    _read_coordinators(parts, sheet)
    _read_applied(parts, sheet)
    sheet.put("kraft_metadata_lag", _metadata_lag(control.metadata, parts.core.broker.image), "broker")
    await _read_metadata(control.metadata, control.clock(), sheet)
    await _read_replicas(parts, sheet)
    return sheet


async def read_controller(node: RunningNode, flusher: Flusher, server: Server, quorum: QuorumReplica,
                          requested_s: float) -> Sheet:
    """Read a node that is only a controller. On the loop's thread."""
    sheet = Sheet()
    _read_process(node, flusher, server, requested_s, sheet)
    await _read_readiness(node, sheet)
    await _read_metadata(quorum.metadata, quorum.clock(), sheet)
    return sheet


def _read_process(node: RunningNode, flusher: Flusher, server: Server, requested_s: float, sheet: Sheet) -> None:
    sheet.put("kraft_loop_delay_seconds", max(0.0, time.monotonic() - requested_s))
    sheet.put("kraft_node_info", 1, str(node.config.node_id), node.cluster_id, __version__)
    flushes = flusher.statistics()
    sheet.put("kafka_log_logflushstats_logflush_total", flushes["flushes"])
    sheet.put("kafka_log_logflushstats_logflushtimems_total", flushes["busy_ns"] / 1e6)
    sheet.put("kraft_log_flushed_bytes_total", flushes["bytes"])
    _read_server(server, sheet)
    _read_slices(server, sheet)
    _read_requests(server, sheet)


async def _read_readiness(node: RunningNode, sheet: Sheet) -> None:
    if node.readiness is not None:
        verdict = await node.readiness.verdict()
        found = [each.code for each in verdict.reasons]
        sheet.put("kraft_ready", int(verdict.is_ready))
        for code in REASONS:
            sheet.put("kraft_not_ready", int(code in found), code)


def _read_broker(parts: "NodeParts", sheet: Sheet, *, stopping: bool) -> None:
    sheet.put("kafka_server_kafkaserver_brokerstate", SHUTTING_DOWN if stopping else RUNNING)
    if (lease_left_ms := parts.control.lease_left_ms) is not None:
        sheet.put("kraft_broker_lease_remaining_seconds", lease_left_ms / 1000)
    logs, path = parts.storage.logs, parts.path
    sheet.put("kafka_log_logmanager_offlinelogdirectorycount", len(logs.offline) + len(logs.unopened))
    sheet.put("kraft_cold_reads_total", path.cold_reader.ranges_total)
    sheet.put("kraft_cold_read_bytes_total", path.cold_reader.bytes_total)
    sheet.put("kraft_batch_checks_total", path.batch_checks.total)
    cleaner = parts.housekeeping.cleaner.counts
    sheet.put("kraft_log_cleaner_compactions_total", cleaner.compactions)
    sheet.put("kraft_log_cleaner_read_bytes_total", cleaner.bytes_read)
    sheet.put("kraft_log_cleaner_written_bytes_total", cleaner.bytes_written)
    sheet.put("kafka_log_logcleanermanager_uncleanable_partitions_count", cleaner.uncleanable)


def _read_server(server: Server, sheet: Sheet) -> None:
    prefix = "kafka_server_socket_server_metrics"
    for channel in server.channels:
        name = channel.name
        sheet.put(f"{prefix}_connection_count", len(channel.connections), name)
        sheet.put(f"{prefix}_connection_creation_total", channel.connections_opened, name)
        sheet.put(f"{prefix}_incoming_byte_total", channel.bytes_in, name)
        sheet.put(f"{prefix}_outgoing_byte_total", channel.bytes_out, name)
        sheet.put("kraft_requests_in_progress", channel.requests_in_progress, name)
        for reason, count in sorted(channel.closed.items()):
            sheet.put("kraft_connections_closed_total", count, name, reason)
        if (gate := server.gates.get(channel)) is not None:
            for result, counts in (("success", gate.successes), ("failure", gate.failures)):
                for mechanism, count in sorted(counts.items()):
                    sheet.put("kraft_authentications_total", count, name, mechanism, result)
    for name, listener in server.tls.items():
        sheet.put("kraft_tls_handshakes_total", listener.handshakes, name)
        for reason, count in sorted(listener.failures.items()):
            sheet.put("kraft_tls_handshake_failures_total", count, name, reason)
        sheet.put("kraft_tls_handshakes_waiting", listener.waiting, name)
        sheet.put("kraft_tls_certificate_remaining_seconds", listener.ends_s - time.time(), name)
    for name, destination in ({} if server.audit is None else server.audit.destinations).items():
        sheet.put("kraft_audit_events_total", destination.written, name)
        sheet.put("kraft_audit_events_dropped_total", destination.queue.dropped, name)
        sheet.put("kraft_audit_events_waiting", len(destination.queue), name)
    memory = server.memory
    sheet.put(f"{prefix}_memorypoolused", memory.used_bytes)
    sheet.put(f"{prefix}_memorypoolavailable", max(0, memory.limit_bytes - memory.used_bytes))
    sheet.put("kraft_request_memory_peak_bytes", memory.peak_bytes)
    sheet.put("kraft_answers_unread_bytes", memory.unread_bytes)
    sheet.put("kraft_answers_unread_closed_connections_total", memory.cut_total)
    sheet.put("kraft_request_memory_waiting_connections", memory.waiting_users)


def _read_slices(server: Server, sheet: Sheet) -> None:
    slices = server.slices
    for key, count in sorted(slices.used_up.items()):
        sheet.put("kraft_request_slices_used_up_total", count, API_BY_KEY[key].name)
    sheet.put("kraft_connection_slices_used_up_total", slices.deferred)
    sheet.put("kraft_slices_waiting", slices.waiting_count)
    for key, longest_ns in sorted(slices.longest_ns.items()):
        sheet.put("kraft_slice_longest_seconds", longest_ns / 1e9, API_BY_KEY[key].name if key >= 0 else "")


def _read_requests(server: Server, sheet: Sheet) -> None:
    prefix = "kafka_network_requestmetrics"
    for channel in server.channels:
        for key, count in sorted(channel.requests().items()):
            sheet.put(f"{prefix}_requests_total", count, API_BY_KEY[key].name, channel.name)
        for key, stages in channel.times.histograms().items():
            for name, (counts, sum_ns) in zip(NAMES, stages, strict=True):
                sheet.put_times(f"{prefix}_{name.lower()}", counts, sum_ns, API_BY_KEY[key].name, channel.name)


def _read_failures(parts: "NodeParts", sheet: Sheet) -> None:
    prefix = "kafka_network_requestmetrics"
    for router in parts.serving.routers:
        sheet.put("kraft_request_failures_total", router.failures, router.listener)
    path = parts.path
    errors: dict[int, Counter[int]] = {
        ApiKey.PRODUCE: Counter(path.produce.error_counts()), ApiKey.FETCH: Counter(path.fetch.error_counts())}
    if (shares := parts.core.share_delivery) is not None:
        errors[ApiKey.SHARE_FETCH] = Counter(shares.fetch.error_counts())
        errors[ApiKey.SHARE_ACKNOWLEDGE] = Counter(shares.acknowledge.error_counts())
    for router in parts.serving.routers:
        for key, counted in router.errors.items():
            errors[key] = errors.get(key, Counter()) + counted
    for key, counted in sorted(errors.items()):
        for code, count in sorted(counted.items()):
            sheet.put(f"{prefix}_errors_total", count, API_BY_KEY[key].name, ERROR_NAMES.get(code, str(code)))


def _read_waiting(parts: "NodeParts", sheet: Sheet) -> None:
    purgatory, sessions = parts.path.purgatory, parts.path.sessions
    size = "kafka_server_delayedoperationpurgatory_purgatorysize"
    sheet.put(size, purgatory.parked_produces, "Produce")
    sheet.put(size, purgatory.parked_fetches, "Fetch")
    sheet.put("kafka_server_delayedoperationpurgatory_expires_total", purgatory.expired_total)
    sheet.put("kraft_purgatory_parked_total", purgatory.parked_total)
    prefix = "kafka_server_fetchsessioncache"
    sheet.put(f"{prefix}_numincrementalfetchsessions", len(sessions))
    sheet.put(f"{prefix}_numincrementalfetchpartitionscached", sessions.partition_count)
    sheet.put(f"{prefix}_incrementalfetchsessionevictions_total", sessions.evictions_total)
    shares = parts.core.share_delivery
    sheet.put("kafka_server_sharesessioncache_sharesessionscount", 0 if shares is None else len(shares.sessions))
    sheet.put("kraft_share_partitions", 0 if shares is None else len(shares.partitions))
    sheet.put("kraft_share_acquired_records_total", 0 if shares is None else shares.partitions.acquired_total)
    sheet.put("kraft_share_lock_timeouts_total", 0 if shares is None else shares.partitions.expired_total)
    for kind, count in zip(ACKNOWLEDGE_TYPES, NO_ACKNOWLEDGEMENTS if shares is None
                           else shares.partitions.acknowledged_totals(), strict=True):
        sheet.put("kraft_share_acknowledged_ranges_total", count, kind)


async def _read_clients(parts: "NodeParts", sheet: Sheet) -> None:
    """Read what clients have pushed, in slices: there may be tens of thousands of values."""
    series = parts.core.broker.telemetry.series
    if series is None:
        return
    now_ms = wall_ms()
    clients = list(series.clients(now_ms).values())
    prefix = "kraft_client_telemetry"
    sheet.put(f"{prefix}_clients", len(clients))
    sheet.put(f"{prefix}_series", series.count)
    sheet.put(f"{prefix}_dropped_total", series.dropped)
    sheet.put(f"{prefix}_evicted_total", series.evicted)
    for result, count in series.pushes.items():
        sheet.put(f"{prefix}_pushes_total", count, result)
    part = TimeSlice()
    for client in clients:
        names = client.facts["client_instance_id"], client.facts["client_id"]
        sheet.put("kraft_client_info", max(0, now_ms - client.pushed_ms) / 1000, *names,
                  client.facts["client_software_name"], client.facts["client_software_version"],
                  client.facts["client_source_address"], client.groups.get(GROUP, ""),
                  client.groups.get(TRANSACTIONAL_ID, ""))
        for (metric, attributes), value in list(client.values.items()):
            sheet.put("kraft_client_metric", value, *names, metric, attributes)
            await part.give_way()


async def _read_groups(parts: "NodeParts", sheet: Sheet) -> None:
    time_slice = TimeSlice()
    shards = parts.core.broker.groups.shards
    states = dict.fromkeys(GroupState, 0)
    consumer_states = dict.fromkeys(ConsumerGroupState, 0)
    streams_states = dict.fromkeys(StreamsGroupState, 0)
    groups = offsets = 0
    for _, state in shards.active(0):
        groups += len(state.groups)
        offsets += state.offsets.committed_count
        for group in list(state.groups.values()):
            if isinstance(group, ClassicGroup):
                states[group.state] += 1
            elif isinstance(group, ConsumerGroup):
                consumer_states[group.state] += 1
            elif isinstance(group, StreamsGroup):
                streams_states[group.state] += 1
            await time_slice.give_way()
    prefix = "kafka_coordinator_group_groupmetadatamanager"
    sheet.put(f"{prefix}_numgroups", groups)
    sheet.put(f"{prefix}_numoffsets", offsets)
    for each in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        sheet.put(f"{prefix}_numgroups{each.value.lower()}", states[each])
    for found in ConsumerGroupState:
        sheet.put("kafka_server_group_coordinator_metrics_consumer_group_count", consumer_states[found],
                  found.value.lower())
    for streams in StreamsGroupState:
        sheet.put("kafka_server_group_coordinator_metrics_streams_group_count", streams_states[streams],
                  streams.value.lower())
    phases = [shards.phase(partition) for partition in shards.partitions()]
    for phase in Phase:
        sheet.put("kafka_server_group_coordinator_metrics_num_partitions", phases.count(phase), phase.value)


async def _read_transactions(parts: "NodeParts", sheet: Sheet) -> None:
    time_slice = TimeSlice()
    coordinator = parts.core.broker.transactions
    counts = dict.fromkeys((status for status in Status if status <= Status.COMPLETE_ABORT), 0)
    for _, state in coordinator.shards.active(0):
        for transaction in list(state.transactions.values()):
            counts[transaction.status] += 1
            await time_slice.give_way()
    for status, count in counts.items():
        sheet.put("kraft_transactional_ids", count, status.label)
    sheet.put("kraft_transaction_markers", len(coordinator.markers))
    sheet.put("kraft_transaction_marker_slow_partitions", coordinator.markers.slow_count)
    prefix = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
    sheet.put(f"{prefix}_unknowndestinationqueuesize", coordinator.markers.leaderless_count)
    sheet.put(f"{prefix}_logappendretryqueuesize",
              sum(len(state.unwritten) for _, state in coordinator.shards.active(0)))
    checks, prefix = parts.core.checks, "kafka_server_addpartitionstotxnmanager"
    sheet.put("kraft_transaction_checks_total", checks.total)
    sheet.put(f"{prefix}_verificationfailure_total", checks.refused_total)
    sheet.put_times(f"{prefix}_verificationtimems", list(checks.time_counts), checks.time_sum_ns)


def _read_coordinators(parts: "NodeParts", sheet: Sheet) -> None:
    """Read what all coordinators have; that of share groups exists since its topic does."""
    for kind, topic in COORDINATORS.items():
        driver = parts.core.coordinators.get(topic)
        prefix = f"kafka_server_{kind}_coordinator_metrics"
        sheet.put(f"{prefix}_partition_load_time_max", 0 if driver is None else driver.load_times.max_ms)
        sheet.put(f"{prefix}_partition_load_time_avg", 0 if driver is None else driver.load_times.average_ms)
    share = parts.core.broker.share_state
    phases = [] if share is None else [share.shards.phase(partition) for partition in share.shards.partitions()]
    for phase in Phase:
        sheet.put("kafka_server_share_coordinator_metrics_num_partitions", phases.count(phase), phase.value)
    sheet.put("kafka_server_share_coordinator_metrics_write_total", 0 if share is None else share.write_total)


def _read_applied(parts: "NodeParts", sheet: Sheet) -> None:
    image, now_ms = parts.core.broker.image, parts.control.clock()
    prefix = "kafka_server_broker_metadata_metrics"
    sheet.put(f"{prefix}_last_applied_record_offset", image.offset)
    sheet.put(f"{prefix}_last_applied_record_timestamp", image.timestamp_ms)
    sheet.put(f"{prefix}_last_applied_record_lag_ms", max(0, now_ms - image.timestamp_ms))
    sheet.put(f"{prefix}_metadata_apply_error_count", len(parts.core.replicas.failed) + len(parts.core.broker.faults))


async def _read_metadata(metadata: QuorumMetadata, now_ms: int, sheet: Sheet) -> None:
    """Read the state of this node as a controller, active or not, and as a member of the quorum."""
    _read_controller(metadata, now_ms, sheet)
    _read_raft(metadata, now_ms, sheet)
    await _read_cluster(metadata.image, sheet)


def _metadata_lag(metadata: QuorumMetadata, image: MetadataImage) -> int:
    """Committed records behind the last one that `image` has (KIP-631's MetadataLag)."""
    return max(0, metadata.raft.replica.high_watermark - 1 - image.offset)


def _read_controller(metadata: QuorumMetadata, now_ms: int, sheet: Sheet) -> None:
    controller, committed = metadata.controller, metadata.image
    decided = controller.decided if controller.active else committed
    prefix = "kafka_controller_kafkacontroller"
    sheet.put(f"{prefix}_activecontrollercount", int(controller.active))
    sheet.put(f"{prefix}_lastappliedrecordoffset", decided.offset)
    sheet.put(f"{prefix}_lastappliedrecordtimestamp", decided.timestamp_ms)
    sheet.put(f"{prefix}_lastappliedrecordlagms", 0 if controller.active else max(0, now_ms - decided.timestamp_ms))
    sheet.put(f"{prefix}_lastcommittedrecordoffset", committed.offset)
    sheet.put("kafka_controller_controllerstats_uncleanleaderelections_total", metadata.unclean_elections)
    fenced = sum(broker.fenced for broker in committed.brokers.values())
    sheet.put(f"{prefix}_activebrokercount", len(committed.brokers) - fenced)
    sheet.put(f"{prefix}_fencedbrokercount", fenced)


def _read_raft(log: QuorumMetadata, now_ms: int, sheet: Sheet) -> None:
    quorum = log.describe_quorum(now_ms)
    prefix = "kafka_server_raft_metrics"
    sheet.put(f"{prefix}_current_leader", quorum.leader_id)
    sheet.put(f"{prefix}_current_epoch", quorum.leader_epoch)
    sheet.put(f"{prefix}_current_state", 1, log.state_name)
    sheet.put(f"{prefix}_number_of_voters", len(quorum.voters))
    sheet.put(f"{prefix}_high_watermark", quorum.high_watermark)
    sheet.put(f"{prefix}_log_end_offset", log.end_offset)
    sheet.put(f"{prefix}_log_end_epoch", log.end_epoch)
    sheet.put(f"{prefix}_append_records_total", log.appended_records)
    latencies_ms = log.commit_latencies_ms
    if latencies_ms:
        sheet.put(f"{prefix}_commit_latency_avg", sum(latencies_ms) / len(latencies_ms))
        sheet.put(f"{prefix}_commit_latency_max", max(latencies_ms))
    sheet.put("kafka_server_snapshotemitter_latestsnapshotgeneratedagems", max(0, now_ms - log.snapshot_ms))
    lag = max(0, quorum.high_watermark - log.snapshot_end) if log.snapshot_end else 0
    sheet.put("kraft_metadata_snapshot_lag", lag)
    sheet.put("kraft_metadata_lag", _metadata_lag(log, log.image), "controller")
    for kind in VOTE_KINDS:
        sheet.put("kraft_raft_vote_requests_total", log.vote_answers[kind], kind)


async def _read_cluster(image: MetadataImage, sheet: Sheet) -> None:
    """Read the controller's view of all partitions."""
    time_slice = TimeSlice()
    partitions = offline = imbalanced = 0
    for _, _, partition in image.partitions():
        partitions += 1
        offline += partition.leader == NO_LEADER
        imbalanced += partition.leader != partition.replicas[0]
        await time_slice.give_way()
    prefix = "kafka_controller_kafkacontroller"
    sheet.put(f"{prefix}_globaltopiccount", len(image.topics))
    sheet.put(f"{prefix}_globalpartitioncount", partitions)
    sheet.put(f"{prefix}_offlinepartitionscount", offline)
    sheet.put(f"{prefix}_preferredreplicaimbalancecount", imbalanced)


TOPIC_COUNTERS: Final = {
    "bytesin": "produced_bytes", "bytesout": "fetched_bytes", "messagesin": "produced_records",
    "failedproducerequests": "refused_produces", "failedfetchrequests": "refused_fetches",
}


async def _read_replicas(parts: "NodeParts", sheet: Sheet) -> None:
    """Read this node's own replicas."""
    time_slice = TimeSlice()
    topics: dict[str, list[int]] = {}
    count = leaders = under_replicated = under_minimum = late = 0
    late_before_ms = parts.control.clock() - LATE_MS - parts.core.broker.integer("transaction.max.timeout.ms")
    for partition in list(parts.path.table):
        if partition.removed:
            continue
        count += 1
        totals = topics.setdefault(partition.topic, [0] * len(TOPIC_COUNTERS))
        for index, attribute in enumerate(TOPIC_COUNTERS.values()):
            totals[index] += getattr(partition, attribute)
        if partition.is_leader:
            leaders += 1
            in_sync, replicas = partition.progress.in_sync_count, len(partition.progress) + 1
            under_replicated += in_sync < replicas
            late += has_late_transaction(partition, late_before_ms)
            under_minimum += in_sync < min(partition.min_insync_replicas, replicas)
        _read_replica(partition, sheet)
        await time_slice.give_way()
    for index, (name, attribute) in enumerate(TOPIC_COUNTERS.items()):
        total = getattr(parts.path.table, attribute) + sum(each[index] for each in topics.values())
        sheet.put(f"kafka_server_brokertopicmetrics_alltopics_{name}_total", total)
    for topic, totals in topics.items():
        for name, value in zip(TOPIC_COUNTERS, totals, strict=True):
            sheet.put(f"kafka_server_brokertopicmetrics_{name}_total", value, topic)
    prefix = "kafka_server_replicamanager"
    sheet.put(f"{prefix}_partitioncount", count)
    sheet.put(f"{prefix}_leadercount", leaders)
    sheet.put(f"{prefix}_underreplicatedpartitions", under_replicated)
    sheet.put(f"{prefix}_underminisrpartitioncount", under_minimum)
    sheet.put(f"{prefix}_partitionswithlatetransactionscount", late)
    sheet.put(f"{prefix}_offlinereplicacount", len(parts.core.replicas.failed))
    sheet.put("kraft_damaged_replicas", len(parts.core.replicas.lost_records()))
    sheet.put("kraft_stray_partitions", parts.core.replicas.stray_count)
    keeper = parts.core.replicas.replication.keeper
    sheet.put(f"{prefix}_isrexpands_total", keeper.expands_total)
    sheet.put(f"{prefix}_isrshrinks_total", keeper.shrinks_total)
    sheet.put(f"{prefix}_failedisrupdates_total", keeper.failures_total)


def has_late_transaction(partition: Partition, before_ms: int) -> bool:
    """Return whether an open transaction of the partition had its last record before that time."""
    return partition.log.last_stable_offset < partition.high_watermark and any(
        each.txn_first_offset >= 0 and each.last_timestamp_ms < before_ms for each in partition.producers())


def _read_replica(partition: Partition, sheet: Sheet) -> None:
    labels = (partition.topic, str(partition.index))
    log = partition.log
    sheet.put("kafka_log_log_size", log.size_bytes, *labels)
    sheet.put("kafka_log_log_logstartoffset", log.log_start_offset, *labels)
    sheet.put("kafka_log_log_logendoffset", log.log_end_offset, *labels)
    sheet.put("kafka_log_log_numlogsegments", len(log.segments), *labels)
    sheet.put("kraft_partition_high_watermark", partition.high_watermark, *labels)
    if partition.is_leader:
        sheet.put("kafka_cluster_partition_insyncreplicascount", partition.progress.in_sync_count, *labels)
        sheet.put("kafka_cluster_partition_replicascount", len(partition.progress) + 1, *labels)
        sheet.put("kafka_cluster_partition_laststableoffsetlag",
                  max(0, partition.high_watermark - log.last_stable_offset), *labels)
