"""Metrics as Prometheus sees them, on a real node; and the documentation page against the code."""

import asyncio
import http.client
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraft.client.fetcher import AT_ONCE, fetch_request
from kraft.client.producer import Producer, produce_request
from kraft.client.refusals import RefusedError
from kraft.client.topics import create_topic
from kraft.client.transactional_producer import TransactionalProducer
from kraft.config.errors import InvalidConfigError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.runtime.metrics.http_server import SCRAPES_MAX, MetricsServer
from kraft.runtime.metrics.names import METRICS, markdown
from kraft.runtime.metrics.scrape import Sheet, has_late_transaction
from kraft_native.batch.records import BatchBuilder
from kraft_native.request.times import NAMES
from tests.runtime.nodes import config, with_node
from tools.tree import ROOT


def get(node, path="/metrics"):
    connection = http.client.HTTPConnection("127.0.0.1", node.metrics.port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def scrape(node):
    """Return the samples by name and label values, which have the order of the label names."""
    status, text = get(node)
    assert status == 200
    return {(sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def produce(cluster, topic, values, partition=0):
    builder = BatchBuilder()
    for value in values:
        builder.append(value)
    batch = builder.build()
    cluster.leader(topic, 0).send(produce_request({(topic, partition): batch}, -1, 1000), ProduceResponse, version=9)
    return len(batch)


def fetch(cluster, topic):
    request = fetch_request(topic, 0, 0, AT_ONCE)
    return len(cluster.leader(topic, 0).send(request, FetchResponse, version=11).responses[0].partitions[0].records)


def commit(cluster, group, topic):
    """Commit a simple group's offset; the first commit creates the offsets topic."""
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(
        name=topic, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)])])
    return cluster.coordinator(group).send(request, OffsetCommitResponse, version=8)


def test_an_address_in_use_is_named():
    async def serve(port):
        MetricsServer(dict, "127.0.0.1", port)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"in use: 'kraft\.metrics\.listener 127\.0\.0\.1:{port}'"):
            asyncio.run(serve(port))


def test_counts_what_clients_did(tmp_path):
    def work(cluster, node):
        create_topic(cluster, "events", partitions=2)
        size = produce(cluster, "events", [b"one", b"two", b"three"])
        sent = fetch(cluster, "events")
        produce(cluster, "events", [b"lost"], partition=7)
        return size, sent, scrape(node)

    size, sent, values = with_node(config(tmp_path, kraft_metrics_listener="127.0.0.1:0"), work)
    topic = "kafka_server_brokertopicmetrics"
    assert values[f"{topic}_bytesin_total", "events"] == size
    assert values[f"{topic}_bytesout_total", "events"] == sent == size
    assert values[f"{topic}_messagesin_total", "events"] == 3
    assert values["kafka_log_log_logendoffset", "0", "events"] == 3
    assert values["kraft_partition_high_watermark", "0", "events"] == 3
    assert values["kafka_log_log_size", "0", "events"] == size
    assert values["kafka_log_log_numlogsegments", "1", "events"] == 1
    requests = "kafka_network_requestmetrics_requests_total"
    assert values[requests, "PLAINTEXT", "Produce"] == 2
    assert values[requests, "PLAINTEXT", "Fetch"] == 1
    assert values["kafka_network_requestmetrics_errors_total", "UNKNOWN_TOPIC_OR_PARTITION", "Produce"] == 1
    stages = {name: values[f"kafka_network_requestmetrics_{name.lower()}_sum", "PLAINTEXT", "Produce"]
              for name in NAMES}
    assert all(values[f"kafka_network_requestmetrics_{name.lower()}_count", "PLAINTEXT", "Produce"] == 2
               for name in NAMES)
    assert stages["LocalTimeMs"] > 0
    assert sum(stages.values()) == pytest.approx(2 * stages["TotalTimeMs"])
    assert values[f"{topic}_alltopics_bytesin_total",] == size
    assert values["kafka_server_delayedoperationpurgatory_purgatorysize", "Fetch"] == 0
    assert values["kraft_log_cleaner_compactions_total",] == 0
    assert values["kafka_server_socket_server_metrics_connection_count", "PLAINTEXT"] >= 1
    assert values["kafka_server_replicamanager_leadercount",] == 2
    assert values["kafka_controller_kafkacontroller_activecontrollercount",] == 1
    assert values["kafka_controller_kafkacontroller_globaltopiccount",] == 1
    assert values["kafka_controller_kafkacontroller_offlinepartitionscount",] == 0
    assert values["kafka_server_kafkaserver_brokerstate",] == 3
    assert 0 < values["kraft_broker_lease_remaining_seconds",] <= 9
    assert values["kafka_server_raft_metrics_current_state", "leader"] == 1
    assert values["kafka_server_raft_metrics_append_records_total",] >= 4
    assert 0 <= values["kafka_server_broker_metadata_metrics_last_applied_record_lag_ms",] < 60_000
    assert values["process_resident_memory_bytes",] > 1 << 20
    families = {metric.name for metric in METRICS}
    shown = {name.removesuffix("_bucket") for name, *_ in values}
    assert families - shown <= {"kraft_client_info", "kraft_client_metric",
                                "kraft_audit_events_total", "kraft_audit_events_dropped_total",
                                "kraft_audit_events_waiting", "kraft_authentications_total",
                                "kraft_connections_closed_total", "kraft_request_slices_used_up_total",
                                "kraft_tls_certificate_remaining_seconds", "kraft_tls_handshake_failures_total",
                                "kraft_tls_handshakes_total", "kraft_tls_handshakes_waiting",
                                "kafka_server_raft_metrics_commit_latency_avg",
                                "kafka_server_raft_metrics_commit_latency_max"}


def test_errors_of_the_python_side_are_counted(tmp_path):
    def work(cluster, node):
        create_topic(cluster, "events", partitions=1)
        create_topic(cluster, "events", partitions=1)
        return scrape(node)

    values = with_node(config(tmp_path, kraft_metrics_listener="127.0.0.1:0"), work)
    assert values["kafka_network_requestmetrics_errors_total", "TOPIC_ALREADY_EXISTS", "CreateTopics"] == 1


def test_unclean_elections_are_counted(tmp_path):
    def work(_cluster, node):
        before = scrape(node)[name,]
        node.parts.control.metadata.controller.on_unclean()
        return before, scrape(node)[name,]

    name = "kafka_controller_controllerstats_uncleanleaderelections_total"
    assert with_node(config(tmp_path, kraft_metrics_listener="127.0.0.1:0"), work) == (0, 1)


def test_totals_stay_when_a_topic_goes(tmp_path):
    def work(cluster, node):
        create_topic(cluster, "events", partitions=1)
        size = produce(cluster, "events", [b"one", b"two"])
        request = DeleteTopicsRequest(topic_names=["events"], timeout_ms=5000)
        cluster.controller().send(request, DeleteTopicsResponse, version=4)
        return size, scrape(node)

    size, values = with_node(config(tmp_path, kraft_metrics_listener="127.0.0.1:0"), work)
    topic = "kafka_server_brokertopicmetrics"
    assert (f"{topic}_bytesin_total", "events") not in values
    assert values[f"{topic}_alltopics_bytesin_total",] == size
    assert values[f"{topic}_alltopics_messagesin_total",] == 2


def test_groups_and_their_offsets_are_counted(tmp_path):
    def work(cluster, node):
        create_topic(cluster, "events", partitions=1)
        answer = commit(cluster, "readers", "events")
        again = commit(cluster, "readers", "events")
        return answer, again, scrape(node)

    answer, again, values = with_node(config(tmp_path, kraft_metrics_listener="127.0.0.1:0"), work)
    assert answer.topics[0].partitions[0].error_code == again.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert values["kafka_coordinator_group_groupmetadatamanager_numgroups",] == 1
    assert values["kafka_coordinator_group_groupmetadatamanager_numgroupsempty",] == 1
    assert values["kafka_coordinator_group_groupmetadatamanager_numoffsets",] == 1
    assert values["kafka_server_group_coordinator_metrics_num_partitions", "active"] == 2


def test_transactional_ids_are_counted_by_state(tmp_path):
    def work(cluster, node):
        def code():
            return cluster.send(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000),
                                InitProducerIdResponse).error_code

        cluster.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), FindCoordinatorResponse)
        deadline = time.monotonic() + 30
        while code() != ErrorCode.NONE:
            assert time.monotonic() < deadline, "the coordinator does not serve"
        return scrape(node)

    values = with_node(config(tmp_path, kraft_metrics_listener="127.0.0.1:0",
                              transaction_state_log_num_partitions="1"), work)
    assert values["kraft_transactional_ids", "Empty"] == 1
    assert values["kraft_transactional_ids", "PrepareCommit"] == values["kraft_transaction_markers",] == 0
    prefix = "kafka_server_transaction_coordinator_metrics_partition_load_time"
    assert values[f"{prefix}_max",] >= values[f"{prefix}_avg",] >= 0


def test_transactions_and_their_checks(tmp_path):
    """The coordinator refuses a Produce of an unknown transactional id. An open transaction is late after its time."""
    def work(cluster, node):
        create_topic(cluster, "t", 1)
        with TransactionalProducer(cluster, "x") as producer:
            producer.send("t", 0, [(None, b"one")])
            partition = node.parts.path.table.get("t", 0)
            now_ms = node.parts.control.clock()
            late = [has_late_transaction(partition, now_ms + later_ms) for later_ms in (-60_000, 60_000)]
            producer.commit()
        refused = Producer(cluster, transactional_id="unknown")
        refused.adopt((123_456, 0), adds_implicitly=True)
        builder = BatchBuilder()
        builder.append(b"late")
        with pytest.raises(RefusedError):
            refused.send({("t", 0): builder.build()})
        return late, scrape(node)

    late, values = with_node(config(
        tmp_path, kraft_metrics_listener="127.0.0.1:0", transaction_state_log_num_partitions="1",
        transaction_state_log_replication_factor="1", transaction_state_log_min_isr="1"), work)
    assert late == [False, True]
    assert values["kafka_server_replicamanager_partitionswithlatetransactionscount",] == 0
    prefix = "kafka_server_addpartitionstotxnmanager"
    assert values["kraft_transaction_checks_total",] == values[f"{prefix}_verificationtimems_count",] >= 2
    assert values[f"{prefix}_verificationfailure_total",] >= 1
    assert values["kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",] == 0


def test_only_metrics_and_only_a_few_at_a_time(tmp_path):
    def work(_, node):
        address = ("127.0.0.1", node.metrics.port)
        silent = [socket.create_connection(address, timeout=10) for _ in range(SCRAPES_MAX)]
        try:
            refused_connection = socket.create_connection(address, timeout=10)
            with refused_connection:
                assert refused_connection.recv(1) == b""
        finally:
            for each in silent:
                each.close()
        for _ in range(1000):  # until the node has seen that the silent clients have closed
            try:
                return get(node), get(node, "/other")[0]
            except (http.client.HTTPException, ConnectionError):
                time.sleep(0.005)
        raise AssertionError("no scrape got through")

    (status, text), other = with_node(config(tmp_path, kraft_metrics_listener="127.0.0.1:0"), work)
    assert status == 200
    assert "kraft_node_info{" in text
    assert other == 404


def test_metrics_are_off_by_default(tmp_path):
    assert with_node(config(tmp_path), lambda _, node: node.metrics) is None


@pytest.mark.parametrize("text", ["9100", "host", "localhost:99999", "a:b:c"])
def test_a_bad_address_is_named(tmp_path, text):
    with pytest.raises(InvalidConfigError, match=r"kraft\.metrics\.listener"):
        config(tmp_path, kraft_metrics_listener=text)


def test_only_listed_names_can_be_exported():
    with pytest.raises(KeyError):
        Sheet().put("kraft_something_else", 1)


def test_names_are_unique_and_counters_say_so():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name


def test_the_page_lists_exactly_these():
    assert markdown() in (ROOT / "docs" / "metrics.md").read_text(), "run: python -m tools.metrics_page"
