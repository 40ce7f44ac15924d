"""A whole node in this process: what it answers, what survives a restart, what it leaves behind."""

import socket
import uuid
from contextlib import ExitStack

import pytest

from kraft.client import ConnectionFailedError
from kraft.client.connection import Connection
from kraft.client.fetcher import AT_ONCE, Limits, fetch_request
from kraft.client.partitions import offset_of
from kraft.client.producer import produce_request
from kraft.client.topics import create_topic
from kraft.controller.local_broker import State
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import alter_replica_log_dirs_request as moves
from kraft.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResponse
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kraft.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse
from kraft.runtime.net.server import SO_BUF_LOCK, SOCK_SNDBUF_LOCK
from kraft_native.base.errors import InvalidArgumentError, LogLockedError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder, records
from kraft_native.segment.checkpoints import read_clean_shutdown
from tests.runtime.nodes import config, with_node
from tests.runtime.quorum.metadata_nodes import formatted

EARLIEST, LATEST = -2, -1
TOPIC, BROKER = 2, 4


def produce(cluster, topic, *values, partition=0):
    builder = BatchBuilder()
    for value in values:
        builder.append(value)
    answer = cluster.leader(topic, partition).send(
        produce_request({(topic, partition): builder.build()}, -1, 1000), ProduceResponse, version=9)
    return answer.responses[0].partition_responses[0]


def create_many(cluster, names):
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    answer = cluster.controller().send(CreateTopicsRequest(topics=topics, timeout_ms=30_000), CreateTopicsResponse)
    assert not any(each.error_code for each in answer.topics)


def fetch(cluster, topic, offset=0, partition=0):
    answer = cluster.leader(topic, partition).send(
        fetch_request(topic, partition, offset, AT_ONCE), FetchResponse, version=11)
    found = answer.responses[0].partitions[0]
    assert found.error_code == ErrorCode.NONE
    return [record.value for batch in walk(found.records or b"") for record in records(batch)]


def test_records_and_topics_outlive_a_restart(tmp_path):
    settings = config(tmp_path / "data")

    def first(cluster, node):
        create_topic(cluster, "kept", 3)
        create_topic(cluster, "gone", 1)
        assert produce(cluster, "kept", b"a", b"b").base_offset == 0
        assert produce(cluster, "kept", b"c").base_offset == 2
        answer = cluster.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=1000),
                              DeleteTopicsResponse)
        assert answer.responses[0].error_code == ErrorCode.NONE
        return node.cluster_id, cluster.topic("kept").topic_id

    def second(cluster, node):
        assert [each.name for each in cluster.metadata().topics] == ["kept"]
        assert fetch(cluster, "kept") == [b"a", b"b", b"c"]
        leader = cluster.leader("kept", 0)
        assert (offset_of(leader, "kept", 0, EARLIEST), offset_of(leader, "kept", 0, LATEST)) == (0, 3)
        assert cluster.topic("kept").partitions[0].leader_epoch == 2  # Kafka's own nodes raise it by two as well
        return node.cluster_id, cluster.topic("kept").topic_id

    assert with_node(settings, first) == with_node(settings, second)
    assert not [entry.name for entry in (tmp_path / "data").iterdir() if entry.name.startswith("gone")]


def test_a_requested_topic_is_created_automatically(tmp_path):
    def work(cluster, _node):
        assert cluster.metadata(["fresh"]).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        made = cluster.metadata(["fresh"], create=True).topics[0]
        assert (made.error_code, len(made.partitions), made.partitions[0].leader_id) == (ErrorCode.NONE, 4, 1)
        bad = cluster.metadata(["no/name"], create=True).topics[0]
        assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_node(config(tmp_path, num_partitions="4"), work)


def test_partitions_can_be_added_and_records_deleted(tmp_path):
    def work(cluster, _node):
        create_topic(cluster, "t", 1)
        grown = cluster.send(CreatePartitionsRequest(topics=[
            CreatePartitionsTopic(name="t", count=3, assignments=None)], timeout_ms=1000),
                             CreatePartitionsResponse)
        assert [(each.name, each.error_code) for each in grown.results] == [("t", ErrorCode.NONE)]
        assert len(cluster.topic("t").partitions) == 3
        produce(cluster, "t", b"1", b"2", b"3", partition=2)
        part = DeleteRecordsPartition(partition_index=2, offset=2)
        answer = cluster.leader("t", 2).send(
            DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=1000),
            DeleteRecordsResponse)
        assert answer.topics[0].partitions[0].low_watermark == 2
        assert offset_of(cluster.leader("t", 2), "t", 2, EARLIEST) == 2
        too_far = DeleteRecordsPartition(partition_index=2, offset=9)
        answer = cluster.leader("t", 2).send(
            DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[too_far])], timeout_ms=1000),
            DeleteRecordsResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_node(config(tmp_path), work)


def test_settings_take_effect_while_running(tmp_path):
    def alter(cluster, kind, name, setting, value):
        change = AlterableConfig(name=setting, config_operation=0, value=value)
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])])
        return cluster.send(request, IncrementalAlterConfigsResponse).responses[0].error_code

    def described(cluster, kind, name, setting):
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[setting])
        found = cluster.send(DescribeConfigsRequest(resources=[resource], include_synonyms=True,
                                                    include_documentation=True), DescribeConfigsResponse)
        assert found.results[0].error_code == ErrorCode.NONE
        config_found = found.results[0].configs[0]
        assert config_found.documentation
        return config_found.value, config_found.config_source

    def work(cluster, _node):
        create_topic(cluster, "t", 1)
        assert described(cluster, TOPIC, "t", "max.message.bytes") == ("1048588", 5)
        assert alter(cluster, TOPIC, "t", "max.message.bytes", "100") == 0
        assert described(cluster, TOPIC, "t", "max.message.bytes") == ("100", 1)
        assert produce(cluster, "t", b"x" * 200).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert alter(cluster, TOPIC, "t", "max.message.bytes", "many") == ErrorCode.INVALID_CONFIG
        create_topic(cluster, "u", 1)
        assert alter(cluster, BROKER, "", "message.max.bytes", "150") == 0
        assert described(cluster, TOPIC, "u", "max.message.bytes") == ("150", 3)
        assert produce(cluster, "u", b"x" * 200).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert described(cluster, BROKER, "1", "message.max.bytes") == ("150", 3)

    with_node(config(tmp_path), work)


@pytest.mark.parametrize("setting", [("flush.ms", "5"), ("flush.messages", "1")])
def test_a_topic_changes_its_durability_while_it_runs(tmp_path, setting):
    def work(cluster, node):
        create_topic(cluster, "t", 1)
        produce(cluster, "t", b"from the page cache")
        change = AlterableConfig(name=setting[0], config_operation=0, value=setting[1])
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change])])
        assert cluster.send(request, IncrementalAlterConfigsResponse).responses[0].error_code == ErrorCode.NONE
        assert produce(cluster, "t", b"flushed").base_offset == 1
        log = node.parts.path.table.get("t", 0).log
        assert log.config.durability == ("per-append" if setting[0] == "flush.messages" else "group-commit")
        assert log.durable_end_offset == 2
        assert fetch(cluster, "t") == [b"from the page cache", b"flushed"]

    with_node(config(tmp_path), work)


def test_which_directories_can_be_cordoned(tmp_path):
    first, second = (str(tmp_path / name) for name in ("first", "second"))

    def cordon(cluster, value, operation=0):
        change = AlterableConfig(name="cordoned.log.dirs", config_operation=operation, value=value)
        other = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="1")
        answer = cluster.send(IncrementalAlterConfigsRequest(resources=[
            AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[change]),
            AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[other])]),
            IncrementalAlterConfigsResponse)
        codes = {each.resource_name: each.error_code for each in answer.responses}
        assert codes.pop("") == ErrorCode.NONE
        return codes["1"]

    def move(cluster, path):
        topics = [moves.AlterReplicaLogDirTopic(name="t", partitions=[0])]
        answer = cluster.send(moves.AlterReplicaLogDirsRequest(dirs=[moves.AlterReplicaLogDir(
            path=path, topics=topics)]), AlterReplicaLogDirsResponse)
        return answer.results[0].partitions[0].error_code

    def work(cluster, node):
        for value in ("/no/such", f"{first},/no/such", f"*,{first}"):
            assert cordon(cluster, value) == ErrorCode.INVALID_REQUEST
        assert cordon(cluster, "/no/such", 2) == ErrorCode.INVALID_REQUEST      # APPEND
        for value in ("*", "", f"{first}, {second}", f"{second}/"):
            assert cordon(cluster, value) == ErrorCode.NONE
        topics = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        cluster.send(CreateTopicsRequest(topics=topics, timeout_ms=10_000), CreateTopicsResponse)
        produce(cluster, "t", b"x")
        assert move(cluster, second) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert cordon(cluster, "") == ErrorCode.NONE
        assert move(cluster, second) == ErrorCode.NONE

    with_node(config(tmp_path / "unused", log_dirs=f"{first},{second}"), work)


def test_cordoned_directories_get_no_replicas(tmp_path):
    def create(cluster, name):
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        return cluster.send(CreateTopicsRequest(topics=topics, timeout_ms=10_000),
                            CreateTopicsResponse).topics[0].error_code

    def work(cluster, node):
        assert node.parts.core.broker.image.brokers[1].cordoned_log_dirs == node.parts.storage.logs.directory_ids
        [log_directory] = cluster.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse).results
        assert log_directory.is_cordoned
        assert create(cluster, "a") == ErrorCode.INVALID_REPLICATION_FACTOR
        change = AlterableConfig(name="cordoned.log.dirs", config_operation=0, value="")
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[change])])
        assert cluster.send(request, IncrementalAlterConfigsResponse).responses[0].error_code == ErrorCode.NONE
        assert any(create(cluster, "a") == ErrorCode.NONE for _ in range(1000)), "the next heartbeat says so"
        assert node.parts.core.broker.image.brokers[1].cordoned_log_dirs == ()

    with_node(config(tmp_path / "data", cordoned_log_dirs=str(tmp_path / "data")), work)


def test_directories_cordoned_in_the_file_count_from_their_metadata_version_on(tmp_path):
    def create(cluster, name):
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        return cluster.send(CreateTopicsRequest(topics=topics, timeout_ms=10_000),
                            CreateTopicsResponse).topics[0].error_code

    def cordoned(cluster):
        [log_directory] = cluster.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse).results
        return log_directory.is_cordoned

    def work(cluster, _node):
        assert create(cluster, "a") == ErrorCode.NONE
        assert not cordoned(cluster)
        raised = cluster.send(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(
            feature="metadata.version", max_version_level=30, upgrade_type=1)], timeout_ms=10_000),
            UpdateFeaturesResponse)
        assert raised.error_code == ErrorCode.NONE, raised.error_message
        refused = (create(cluster, f"b{number}") == ErrorCode.INVALID_REPLICATION_FACTOR for number in range(200))
        assert any(refused), "the next heartbeat says so"
        assert cordoned(cluster)

    with_node(config(formatted(tmp_path / "data", metadata_level=29), cordoned_log_dirs="*"), work)


def test_topics_are_described_in_pages(tmp_path):
    def work(cluster, _node):
        for name, partitions in (("a", 2), ("b", 3)):
            create_topic(cluster, name, partitions)
        seen, cursor = [], None
        while True:
            answer = cluster.send(DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor),
                                  DescribeTopicPartitionsResponse)
            seen += [(topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions]
            if answer.next_cursor is None:
                break
            cursor = Cursor(topic_name=answer.next_cursor.topic_name,
                            partition_index=answer.next_cursor.partition_index)
        assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]
        missing = cluster.send(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="no")]),
                               DescribeTopicPartitionsResponse)
        assert missing.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_node(config(tmp_path), work)


def test_producer_ids_are_never_given_twice(tmp_path):
    settings = config(tmp_path)

    def take(cluster, _node):
        ids = []
        for _ in range(5):
            answer = cluster.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
                                  InitProducerIdResponse)
            assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
            ids.append(answer.producer_id)
        refused = cluster.send(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1),
                               InitProducerIdResponse)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR       # the topic does not exist
        for timeout_ms in (0, 900_001):
            refused = cluster.send(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=timeout_ms),
                                   InitProducerIdResponse)
            assert refused.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ids

    ids = with_node(settings, take) + with_node(settings, take)
    assert len(set(ids)) == 10


def test_each_listener_names_nodes_of_its_own_kind(tmp_path):
    def work(cluster, node):
        brokers = cluster.send(DescribeClusterRequest(), DescribeClusterResponse)
        assert [each.broker_id for each in brokers.brokers] == [1]
        wrong = cluster.send(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
        assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        port = node.listeners["CONTROLLER"].port
        with cluster.connect("127.0.0.1", port) as controller:
            found = controller.send(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
            assert [(each.broker_id, each.port) for each in found.brokers] == [(1, port)]
            assert 0 not in controller.versions
            old = controller.send(DescribeClusterRequest(), DescribeClusterResponse, version=0)
            assert (old.error_code, old.brokers) == (ErrorCode.INVALID_REQUEST, [])

    with_node(config(tmp_path), work)


def test_log_directories_are_described(tmp_path):
    def work(cluster, _node):
        create_topic(cluster, "t", 1)
        produce(cluster, "t", b"x" * 1000)
        found = cluster.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse).results[0]
        assert found.log_dir == str(tmp_path / "data")
        assert found.total_bytes > found.usable_bytes > 0
        sizes = {(topic.name, each.partition_index): each.partition_size
                 for topic in found.topics for each in topic.partitions}
        assert sizes[("t", 0)] > 1000

    with_node(config(tmp_path / "data"), work)


def test_a_missing_resource_is_named_and_nothing_is_left_open(tmp_path):
    settings = config(tmp_path / "data")

    def second(_cluster, _node):
        with pytest.raises(LogLockedError, match="another process has this log directory open"):
            with_node(settings, lambda cluster, node: None)

    with_node(settings, second)
    with pytest.raises(InvalidArgumentError, match="formatted for node 1"):
        with_node(config(tmp_path / "data", node_id="2"), lambda cluster, node: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=str(port)):
            with_node(config(tmp_path / "other", listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"),
                      lambda cluster, node: None)


def test_a_start_that_fails_keeps_the_mark_of_the_last_clean_stop(tmp_path):
    """Nothing was changed: the controller still receives the epoch in which the broker shut down cleanly."""
    with_node(config(tmp_path), lambda cluster, node: None)
    epoch = read_clean_shutdown(tmp_path)
    assert epoch > 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]},CONTROLLER://127.0.0.1:0"
        with pytest.raises(OSError):
            with_node(config(tmp_path, listeners=listeners), lambda cluster, node: None)
    assert read_clean_shutdown(tmp_path) == epoch


def test_a_deleted_topic_under_its_old_name_is_a_new_one(tmp_path):
    def work(cluster, _node):
        create_topic(cluster, "t", 1)
        old = cluster.topic("t").topic_id
        produce(cluster, "t", b"old")
        cluster.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), DeleteTopicsResponse)
        create_topic(cluster, "t", 1)
        assert cluster.topic("t").topic_id not in (old, uuid.UUID(int=0))
        assert fetch(cluster, "t") == []
        produce(cluster, "t", b"new")
        assert fetch(cluster, "t") == [b"new"]

    with_node(config(tmp_path), work)


def test_a_body_that_cannot_be_read_closes_the_connection(tmp_path):
    def work(cluster, node):
        with socket.create_connection(("127.0.0.1", node.listeners["PLAINTEXT"].port)) as raw:
            frame = bytes.fromhex("0003000c00000001ffff00") + b"\xff" * 5
            raw.sendall(len(frame).to_bytes(4, "big") + frame)
            assert raw.recv(1) == b""
        assert cluster.metadata([]).brokers

    with_node(config(tmp_path), work)


def test_a_listener_takes_as_many_connections_as_it_may(tmp_path):
    def work(_cluster, node):
        ports = [node.listeners[name].port for name in ("PLAINTEXT", "PLAINTEXT", "CONTROLLER", "PLAINTEXT")]
        with ExitStack() as opened:
            peers = [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for port in ports]
            assert peers.pop().recv(1) == b""
            for peer in peers:
                peer.settimeout(0)
                with pytest.raises(BlockingIOError):
                    peer.recv(1)
            assert node.parts.path.server.closed() == {"connections": 1}

    with_node(config(tmp_path, listener_name_plaintext_max_connections="2"), work)


def test_a_stopped_node_refuses_connections(tmp_path):
    addresses = []
    with_node(config(tmp_path), lambda cluster, node: addresses.append(cluster))
    with pytest.raises(ConnectionFailedError):
        addresses[0].metadata([])


@pytest.mark.parametrize(("enabled", "last"), [("true", State.STOPPED), ("false", State.RUNNING)])
def test_a_node_announces_its_end_unless_configured_otherwise(tmp_path, enabled, last):
    """Tests `controlled.shutdown.enable`."""
    node = with_node(config(tmp_path, controlled_shutdown_enable=enabled), lambda _cluster, node: node)
    assert node.parts.control.broker.state is last


@pytest.mark.parametrize("follower", [False, True])
def test_the_system_sizes_what_a_follower_is_sent_from(tmp_path, follower):
    def work(cluster, node):
        create_topic(cluster, "t", 1)
        leader = cluster.leader("t", 0)
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(replica_id=2 if follower else -1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
                               session_epoch=0, topics=[FetchTopic(topic="t", partitions=[part])])
        assert leader.send(request, FetchResponse, version=11).session_id > 0
        port = leader.socket.getsockname()[1]
        channels = node.parts.path.server.channels
        served, = (each for channel in channels for each in channel.connections if each.peer_port == port)
        buffers = served.transport.get_extra_info("socket")
        return buffers.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK) & SOCK_SNDBUF_LOCK

    assert with_node(config(tmp_path), work) == (0 if follower else SOCK_SNDBUF_LOCK)


def test_a_waiting_fetch_is_answered_when_the_node_stops(tmp_path):
    waiting = fetch_request("t", 0, 0, Limits(wait_ms=600_000))

    def fetch(cluster, node):
        create_topic(cluster, "t", 1)
        connection = Connection("127.0.0.1", node.listeners["PLAINTEXT"].port)
        connection.socket.sendall(connection.frame(waiting, 11, 1))
        while node.parts.path.purgatory.parked_fetches == 0:
            pass
        return connection

    with with_node(config(tmp_path), fetch) as connection:
        assert int.from_bytes(connection.socket.recv(4), "big") > 0, "an answer, not the end of the connection"
