"""Every metric of a node: its name for Prometheus, and its name in Kafka.

A name is Kafka's JMX name in Prometheus form, by the usual rules of exporters: domain, type and name in lower case,
joined by "_". "PerSec" meters are counters that end in "_total". A metric without a name in Kafka begins with "kraft_".
`docs/metrics.md` is this table; a test compares them.
"""

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]

PARTITION: Final = ("topic", "partition")
LOAD_MAX: Final = "Longest load of a partition of {} since the start, in milliseconds."
LOAD_AVERAGE: Final = "Average time to load a partition of {} since the start, in milliseconds."


class Metric(NamedTuple):
    """One metric. `kafka` is Kafka's own name for it, empty where it has none."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    kafka: str
    help: str


def _topics(name: str, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_server_brokertopicmetrics_{name}_total", "counter", ("topic",),
                  f"kafka.server:type=BrokerTopicMetrics,name={kafka}", text)


def _all_topics(name: str, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_server_brokertopicmetrics_alltopics_{name}_total", "counter", (),
                  f"kafka.server:type=BrokerTopicMetrics,name={kafka} (no topic)", text)


def _times(kafka: str, text: str) -> Metric:
    return Metric(f"kafka_network_requestmetrics_{kafka.lower()}", "histogram", ("request", "listener"),
                  f"kafka.network:type=RequestMetrics,name={kafka}", text)


def _replicas(name: str, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_server_replicamanager_{name}", "counter" if name.endswith("_total") else "gauge", (),
                  f"kafka.server:type=ReplicaManager,name={kafka}", text)


def _sockets(name: str, kind: Kind, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_server_socket_server_metrics_{name}", kind, ("listener",),
                  f"kafka.server:type=socket-server-metrics,name={kafka}", text)


def _metadata(name: str, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_server_broker_metadata_metrics_{name}", "gauge", (),
                  f"kafka.server:type=broker-metadata-metrics,name={kafka}", text)


def _controller(name: str, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_controller_kafkacontroller_{name}", "gauge", (),
                  f"kafka.controller:type=KafkaController,name={kafka}", text)


def _raft(name: str, kafka: str, text: str, kind: Kind = "gauge", labels: tuple[str, ...] = ()) -> Metric:
    return Metric(f"kafka_server_raft_metrics_{name}", kind, labels, f"kafka.server:type=raft-metrics,name={kafka}",
                  text)


def _groups(name: str, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_coordinator_group_groupmetadatamanager_{name}", "gauge", (),
                  f"kafka.coordinator.group:type=GroupMetadataManager,name={kafka}", text)


def _loads(kind: str, name: str, kafka: str, topic: str, text: str) -> Metric:
    return Metric(f"kafka_server_{kind}_coordinator_metrics_{name}", "gauge", (),
                  f"kafka.server:type={kind}-coordinator-metrics,name={kafka}", text.format(topic))


def _log(name: str, kafka: str, text: str) -> Metric:
    return Metric(f"kafka_log_log_{name}", "gauge", PARTITION, f"kafka.log:type=Log,name={kafka}", text)


METRICS: Final = (
    # --- requests and connections
    Metric("kafka_network_requestmetrics_requests_total", "counter", ("request", "listener"),
           "kafka.network:type=RequestMetrics,name=RequestsPerSec", "Requests that arrived whole."),
    Metric("kafka_network_requestmetrics_errors_total", "counter", ("request", "error"),
           "kafka.network:type=RequestMetrics,name=ErrorsPerSec",
           "Errors answered, of whole requests and of each partition, topic or group in them; NONE is not counted."),
    _times("RequestQueueTimeMs", "From a request's last byte to the start of its handler."),
    _times("LocalTimeMs", "In its handler."),
    _times("RemoteTimeMs", "Waiting for records, a flush, replicas, other members, the controller."),
    _times("ResponseQueueTimeMs", "From its answer to the write, behind the replies before it."),
    _times("ResponseSendTimeMs", "The first write; later writes to a slow client are not included."),
    _times("TotalTimeMs", "From a request's last byte to the end of the write."),
    _sockets("connection_count", "gauge", "connection-count", "Open connections."),
    _sockets("connection_creation_total", "counter", "connection-creation-total", "Connections accepted."),
    _sockets("incoming_byte_total", "counter", "incoming-byte-total", "Bytes read from clients."),
    _sockets("outgoing_byte_total", "counter", "outgoing-byte-total", "Bytes given to sockets."),
    Metric("kafka_server_socket_server_metrics_memorypoolused", "gauge", (),
           "kafka.server:type=socket-server-metrics,name=MemoryPoolUsed",
           "Bytes that unfinished and waiting requests hold."),
    Metric("kafka_server_socket_server_metrics_memorypoolavailable", "gauge", (),
           "kafka.server:type=socket-server-metrics,name=MemoryPoolAvailable",
           "Bytes that they may hold in addition."),
    Metric("kraft_request_memory_peak_bytes", "gauge", (), "", "Maximum of those bytes since the start."),
    Metric("kraft_answers_unread_bytes", "gauge", (), "",
           "Bytes of answers that clients have not read, log data aside."),
    Metric("kraft_answers_unread_closed_connections_total", "counter", (), "",
           "Connections closed because unread answers took half of the request memory."),
    Metric("kraft_request_memory_waiting_connections", "gauge", (), "",
           "Connections that are not read while request memory is exhausted."),
    Metric("kraft_requests_in_progress", "gauge", ("listener",), "", "Requests whose replies have not left."),
    Metric("kraft_connections_closed_total", "counter", ("listener", "reason"), "",
           "Connections closed, by reason; `peer`: the client closed it."),
    Metric("kraft_audit_events_total", "counter", ("destination",), "", "Audit events that were written."),
    Metric("kraft_audit_events_dropped_total", "counter", ("destination",), "",
           "Audit events that were discarded: the queue was full, or the destination could not be written."),
    Metric("kraft_audit_events_waiting", "gauge", ("destination",), "", "Audit events that are not written yet."),
    Metric("kraft_authentications_total", "counter", ("listener", "mechanism", "result"), "",
           "SASL exchanges that ended, by result: success or failure. Failures before a handshake have no mechanism."),
    Metric("kraft_request_failures_total", "counter", ("listener",), "",
           "Requests that failed by a fault of the node; each is logged, and its connection closed."),
    Metric("kraft_loop_delay_seconds", "gauge", (), "",
           "Delay of this scrape in the event loop, which any request may have."),
    Metric("kraft_request_slices_used_up_total", "counter", ("request",), "",
           "Requests that did not end within their slice of the loop's time and were resumed later."),
    Metric("kraft_connection_slices_used_up_total", "counter", (), "",
           "Times that a connection had more requests than its slice of the loop's time could serve."),
    Metric("kraft_slices_waiting", "gauge", (), "", "Connections and requests that wait for their next slice."),
    Metric("kraft_slice_longest_seconds", "gauge", ("request",), "",
           "The longest step since the start that took more than a slice: no other request was served then. Without a "
           "request: of a connection."),
    Metric("kraft_tls_handshakes_total", "counter", ("listener",), "", "TLS handshakes that succeeded."),
    Metric("kraft_tls_handshake_failures_total", "counter", ("listener", "reason"), "",
           "TLS handshakes that failed, by reason; `closed`: the client ended the connection, as a probe does."),
    Metric("kraft_tls_handshakes_waiting", "gauge", ("listener",), "", "Connections whose handshake has not ended."),
    Metric("kraft_tls_certificate_remaining_seconds", "gauge", ("listener",), "",
           "Until the certificate in use expires; negative: it has expired."),
    # --- topics
    _topics("bytesin", "BytesInPerSec", "Bytes of record batches appended."),
    _topics("bytesout", "BytesOutPerSec", "Bytes of record batches sent to consumers."),
    _topics("messagesin", "MessagesInPerSec", "Records appended."),
    _topics("failedproducerequests", "FailedProduceRequestsPerSec", "Partitions of Produce requests refused."),
    _topics("failedfetchrequests", "FailedFetchRequestsPerSec", "Partitions of Fetch requests refused."),
    _all_topics("bytesin", "BytesInPerSec", "The same of all topics, also of those that were deleted."),
    _all_topics("bytesout", "BytesOutPerSec", "The same of all topics."),
    _all_topics("messagesin", "MessagesInPerSec", "The same of all topics."),
    _all_topics("failedproducerequests", "FailedProduceRequestsPerSec", "The same of all topics."),
    _all_topics("failedfetchrequests", "FailedFetchRequestsPerSec", "The same of all topics."),
    # --- replicas
    _replicas("partitioncount", "PartitionCount", "Partitions with a replica here."),
    _replicas("leadercount", "LeaderCount", "Partitions that this node leads."),
    _replicas("underreplicatedpartitions", "UnderReplicatedPartitions",
              "Partitions led here whose in-sync replicas are fewer than their replicas."),
    _replicas("underminisrpartitioncount", "UnderMinIsrPartitionCount",
              "Partitions led here whose in-sync replicas are fewer than min.insync.replicas."),
    _replicas("partitionswithlatetransactionscount", "PartitionsWithLateTransactionsCount",
              "Partitions led here with a transaction whose last record is older than transaction.max.timeout.ms and "
              "five minutes."),
    _replicas("offlinereplicacount", "OfflineReplicaCount", "Replicas whose log cannot be served."),
    Metric("kraft_damaged_replicas", "gauge", (), "", "Replicas whose log has lost records, or has damaged ones."),
    Metric("kraft_stray_partitions", "gauge", (), "",
           "Partition directories without a place in the metadata, which are neither served nor deleted."),
    _replicas("isrexpands_total", "IsrExpandsPerSec", "Proposals that add an in-sync replica."),
    _replicas("isrshrinks_total", "IsrShrinksPerSec", "Proposals that remove in-sync replicas."),
    _replicas("failedisrupdates_total", "FailedIsrUpdatesPerSec", "Proposals that the controller refused."),
    _log("size", "Size", "Bytes of a replica's log."),
    _log("logstartoffset", "LogStartOffset", "The first offset of a replica's log."),
    _log("logendoffset", "LogEndOffset", "The offset behind the last record of a replica's log."),
    _log("numlogsegments", "NumLogSegments", "Segments of a replica's log."),
    Metric("kafka_cluster_partition_insyncreplicascount", "gauge", PARTITION,
           "kafka.cluster:type=Partition,name=InSyncReplicasCount", "In-sync replicas of a partition led here."),
    Metric("kafka_cluster_partition_replicascount", "gauge", PARTITION,
           "kafka.cluster:type=Partition,name=ReplicasCount", "Replicas of a partition led here."),
    Metric("kafka_cluster_partition_laststableoffsetlag", "gauge", PARTITION,
           "kafka.cluster:type=Partition,name=LastStableOffsetLag",
           "Committed records that an open transaction holds back."),
    Metric("kraft_partition_high_watermark", "gauge", PARTITION, "", "The offset below which records are committed."),
    Metric("kafka_log_logmanager_offlinelogdirectorycount", "gauge", (),
           "kafka.log:type=LogManager,name=OfflineLogDirectoryCount", "Log directories that cannot be used."),
    Metric("kafka_log_logflushstats_logflush_total", "counter", (),
           "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs (count)", "Flushes of a log to its device."),
    Metric("kafka_log_logflushstats_logflushtimems_total", "counter", (),
           "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs (time)", "Milliseconds that flushes took."),
    Metric("kraft_log_flushed_bytes_total", "counter", (), "", "Bytes that flushes made durable."),
    Metric("kraft_cold_reads_total", "counter", (), "", "Reads of log data that was not in memory."),
    Metric("kraft_cold_read_bytes_total", "counter", (), "", "Bytes of those reads."),
    Metric("kraft_batch_checks_total", "counter", (), "",
           "Compressed batches that were checked beside the event loop, because they are costly."),
    # --- waiting requests
    Metric("kafka_server_delayedoperationpurgatory_purgatorysize", "gauge", ("delayedoperation",),
           "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
           "Requests that wait: Produce for a flush or replicas, Fetch for records."),
    Metric("kraft_purgatory_parked_total", "counter", (), "", "Requests that had to wait."),
    Metric("kafka_server_delayedoperationpurgatory_expires_total", "counter", (),
           "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec",
           "Waiting requests that reached their time limit."),
    Metric("kafka_server_fetchsessioncache_numincrementalfetchsessions", "gauge", (),
           "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions", "Fetch sessions."),
    Metric("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", "gauge", (),
           "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached", "Partitions in them."),
    Metric("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", "counter", (),
           "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
           "Fetch sessions evicted for others."),
    # --- share groups
    Metric("kafka_server_sharesessioncache_sharesessionscount", "gauge", (),
           "kafka.server:type=ShareSessionCache,name=ShareSessionsCount", "Share sessions."),
    Metric("kraft_share_partitions", "gauge", (), "", "Share groups in partitions that this node leads."),
    Metric("kraft_share_acquired_records_total", "counter", (), "", "Deliveries of records to share groups."),
    Metric("kraft_share_acknowledged_ranges_total", "counter", ("type",), "",
           "Ranges of offsets that members of share groups acknowledged, by type."),
    Metric("kraft_share_lock_timeouts_total", "counter", (), "",
           "Times that acquisition locks of a share partition ended without an acknowledgement."),
    # --- compaction
    Metric("kafka_log_logcleanermanager_uncleanable_partitions_count", "gauge", (),
           "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
           "Logs whose compaction failed; they are left as they are until the next start."),
    Metric("kraft_log_cleaner_compactions_total", "counter", (), "", "Rounds of compaction that ended."),
    Metric("kraft_log_cleaner_read_bytes_total", "counter", (), "", "Bytes that compaction read."),
    Metric("kraft_log_cleaner_written_bytes_total", "counter", (), "", "Bytes that compaction wrote."),
    # --- groups
    _groups("numgroups", "NumGroups", "Consumer groups coordinated here."),
    _groups("numgroupsempty", "NumGroupsEmpty", "Those without members."),
    _groups("numgroupspreparingrebalance", "NumGroupsPreparingRebalance", "Those that wait for members to join."),
    _groups("numgroupscompletingrebalance", "NumGroupsCompletingRebalance", "Those that wait for the assignment."),
    _groups("numgroupsstable", "NumGroupsStable", "Those with an assignment."),
    _groups("numoffsets", "NumOffsets", "Committed offsets stored here."),
    Metric("kafka_server_group_coordinator_metrics_consumer_group_count", "gauge", ("state",),
           "kafka.server:type=group-coordinator-metrics,name=consumer-group-count",
           "Groups of the consumer protocol: empty, assigning, reconciling or stable."),
    Metric("kafka_server_group_coordinator_metrics_streams_group_count", "gauge", ("state",),
           "kafka.server:type=group-coordinator-metrics,name=streams-group-count",
           "Groups of the streams protocol: empty, notready, assigning, reconciling or stable."),
    Metric("kafka_server_group_coordinator_metrics_num_partitions", "gauge", ("state",),
           "kafka.server:type=group-coordinator-metrics,name=num-partitions",
           "Partitions of __consumer_offsets led here: loading, active or failed."),
    _loads("group", "partition_load_time_max", "partition-load-time-max", "__consumer_offsets", LOAD_MAX),
    _loads("group", "partition_load_time_avg", "partition-load-time-avg", "__consumer_offsets", LOAD_AVERAGE),
    # --- transactions
    _loads("transaction", "partition_load_time_max", "partition-load-time-max", "__transaction_state", LOAD_MAX),
    _loads("transaction", "partition_load_time_avg", "partition-load-time-avg", "__transaction_state", LOAD_AVERAGE),
    Metric("kraft_transactional_ids", "gauge", ("state",), "",
           "Transactional ids coordinated here, by the state of their last transaction."),
    Metric("kraft_transaction_markers", "gauge", (), "",
           "Markers of decided transactions that their partitions have not confirmed yet."),
    Metric("kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize", "gauge", (),
           "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize",
           "Those whose partition has no leader, or is not known here yet."),
    Metric("kraft_transaction_marker_slow_partitions", "gauge", (), "",
           "Partitions of other brokers that did not commit a marker in time, and are probed."),
    Metric("kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize", "gauge", (),
           "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=LogAppendRetryQueueSize",
           "Transactions whose markers are written, and whose end could not be appended to __transaction_state yet."),
    Metric("kraft_transaction_checks_total", "counter", (), "",
           "Partitions that this broker had verified or added by the coordinator of a transaction."),
    Metric("kafka_server_addpartitionstotxnmanager_verificationfailure_total", "counter", (),
           "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
           "Those that the coordinator refused, or did not answer."),
    Metric("kafka_server_addpartitionstotxnmanager_verificationtimems", "histogram", (),
           "kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
           "Time of a verification, with its repetitions."),
    # --- share groups
    _loads("share", "partition_load_time_max", "partition-load-time-max", "__share_group_state", LOAD_MAX),
    _loads("share", "partition_load_time_avg", "partition-load-time-avg", "__share_group_state", LOAD_AVERAGE),
    Metric("kafka_server_share_coordinator_metrics_num_partitions", "gauge", ("state",),
           "kafka.server:type=share-coordinator-metrics,name=num-partitions",
           "Partitions of __share_group_state led here: loading, active or failed."),
    Metric("kafka_server_share_coordinator_metrics_write_total", "counter", (),
           "kafka.server:type=share-coordinator-metrics,name=write-total",
           "States of share partitions that were to be written here."),
    # --- the node and its metadata
    Metric("kafka_server_kafkaserver_brokerstate", "gauge", (), "kafka.server:type=KafkaServer,name=BrokerState",
           "1 starting, 2 recovery, 3 running, 6 pending controlled shutdown, 7 shutting down."),
    Metric("kraft_broker_lease_remaining_seconds", "gauge", (), "",
           "Until this broker's lease ends, which heartbeats renew; negative: it has ended, and controllers may have "
           "fenced it. Missing when controllers report none, as Kafka's."),
    Metric("kraft_ready", "gauge", (), "", "1 when this node should be sent work, as `/ready` answers."),
    Metric("kraft_not_ready", "gauge", ("reason",), "", "1 for each reason why it should not."),
    Metric("kraft_node_info", "gauge", ("node_id", "cluster_id", "version"), "", "1; what this node is, as labels."),
    # --- metrics of clients
    Metric("kraft_client_telemetry_clients", "gauge", (), "", "Client instances whose pushed metrics are shown."),
    Metric("kraft_client_telemetry_series", "gauge", (), "", "Values of theirs."),
    Metric("kraft_client_telemetry_pushes_total", "counter", ("result",), "",
           "Pushes of client metrics, by result: accepted, or malformed."),
    Metric("kraft_client_telemetry_dropped_total", "counter", (), "",
           "Pushed values that exceeded a limit (kraft.client.telemetry.*)."),
    Metric("kraft_client_telemetry_evicted_total", "counter", (), "",
           "Client instances that were removed for others before their time."),
    Metric("kraft_client_info", "gauge", ("instance", "client_id", "software", "version", "address", "group",
                                          "transactional_id"), "",
           "Seconds since a client instance pushed its metrics, with what is known of it."),
    Metric("kraft_client_metric", "gauge", ("instance", "client_id", "metric", "attributes"), "",
           "A value that a client pushed; `metric` is its name in KIP-714."),
    _metadata("last_applied_record_offset", "last-applied-record-offset", "Metadata applied by the broker."),
    _metadata("last_applied_record_timestamp", "last-applied-record-timestamp", "When it was written, ms since 1970."),
    _metadata("last_applied_record_lag_ms", "last-applied-record-lag-ms", "How long ago that was."),
    _metadata("metadata_apply_error_count", "metadata-apply-error-count",
              "Replicas, settings and features whose committed metadata cannot be applied here."),
    # --- the controller
    _controller("activecontrollercount", "ActiveControllerCount", "1 on the active controller."),
    _controller("activebrokercount", "ActiveBrokerCount", "Brokers that serve."),
    _controller("fencedbrokercount", "FencedBrokerCount", "Registered brokers that do not."),
    _controller("globaltopiccount", "GlobalTopicCount", "Topics of the cluster."),
    _controller("globalpartitioncount", "GlobalPartitionCount", "Partitions of the cluster."),
    _controller("offlinepartitionscount", "OfflinePartitionsCount", "Partitions without a leader."),
    _controller("preferredreplicaimbalancecount", "PreferredReplicaImbalanceCount",
                "Partitions that another than the preferred replica leads."),
    _controller("lastappliedrecordoffset", "LastAppliedRecordOffset", "Metadata replayed by the controller."),
    _controller("lastappliedrecordtimestamp", "LastAppliedRecordTimestamp", "When it was written, ms since 1970."),
    _controller("lastappliedrecordlagms", "LastAppliedRecordLagMs", "How long ago that was; 0 on the active one."),
    _controller("lastcommittedrecordoffset", "LastCommittedRecordOffset", "The last committed metadata record."),
    Metric("kafka_controller_controllerstats_uncleanleaderelections_total", "counter", (),
           "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
           "Leaders that this node, as the active controller, elected without their having been in sync."),
    # --- the metadata log
    _raft("current_leader", "current-leader", "The node that leads the metadata quorum."),
    _raft("current_epoch", "current-epoch", "Its epoch."),
    _raft("current_state", "current-state", "1 for the role of this node.", labels=("state",)),
    _raft("number_of_voters", "number-of-voters", "Voters of the quorum."),
    _raft("high_watermark", "high-watermark", "The offset below which metadata is committed."),
    _raft("log_end_offset", "log-end-offset", "The offset behind the last metadata record."),
    _raft("log_end_epoch", "log-end-epoch", "The epoch of the last metadata record."),
    _raft("append_records_total", "append-records-rate", "Metadata records appended here.", "counter"),
    _raft("commit_latency_avg", "commit-latency-avg", "Milliseconds to commit, average of the last commits."),
    _raft("commit_latency_max", "commit-latency-max", "Milliseconds to commit, most of the last commits."),
    Metric("kafka_server_snapshotemitter_latestsnapshotgeneratedagems", "gauge", (),
           "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedAgeMs",
           "Milliseconds since the last metadata snapshot, or since the start."),
    Metric("kraft_metadata_lag", "gauge", ("role",), "",
           "Committed metadata records that this node has not replayed, as a broker or as a controller."),
    Metric("kraft_raft_vote_requests_total", "counter", ("kind",), "",
           "Requests for votes and for pre-votes that this replica has answered."),
    Metric("kraft_metadata_snapshot_lag", "gauge", (), "",
           "Committed metadata records behind the last snapshot; 0 without one."),
)


def markdown() -> str:
    """The table for the documentation."""
    rows = ["| metric | kind | labels | Kafka's name | meaning |", "|---|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(metric.labels)
        kafka = f"`{metric.kafka}`" if metric.kafka else ""
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {kafka} | {metric.help} |")
    return "\n".join(rows) + "\n"
