"""Defects that real clients found in young brokers, by number. Others of the list are tests elsewhere: 11 (a consumer
that does not poll) in `test_group_rebalance`, 13 (max.message.bytes) in `test_configs`."""

import asyncio
import ipaddress
import threading
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.structs import OffsetAndMetadata as AioOffset
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import TopicPartition
from kafka.structs import OffsetAndMetadata as PythonOffset
from kafka.structs import TopicPartition as PythonPartition

from kraft.client import Cluster
from kraft.client.groups import committed_offsets
from kraft.client.producer import produce_request
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import create_partitions_request as partitions
from kraft.protocol.messages import create_topics_request as creation
from kraft.protocol.messages import fetch_request as fetch
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.protocol.messages.fetch_response import FetchResponse, PartitionData
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from kraft_native.batch.records import BatchBuilder
from tests.integration.admin import (
    APPEND,
    SUBTRACT,
    alter,
    configs,
    connect,
    create,
    end_offset,
    wait_until,
)
from tests.integration.clients import CLIENTS, START_MS, Client, Record, librdkafka_consumer, librdkafka_produce
from tests.integration.process import NodeProcess
from tests.integration.test_group_offsets import commit


def raw_fetch(node: NodeProcess, topic: str, offset: int, last_fetched_epoch: int = -1) -> PartitionData:
    """Fetch one partition by Fetch version 12."""
    wanted = fetch.FetchPartition(partition=0, fetch_offset=offset, last_fetched_epoch=last_fetched_epoch,
                                  partition_max_bytes=1 << 20)
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1,
                                 topics=[fetch.FetchTopic(topic=topic, partitions=[wanted])])
    with connect(node) as connection:
        return connection.send(request, FetchResponse, version=12).responses[0].partitions[0]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_1_reading_from_the_middle_of_a_batch(node: NodeProcess, name: str, client: Client) -> None:
    create(node, name)
    one = batch_of([(b"k", b"%d" % i) for i in range(10)], "lz4")
    assert raw_produce(node, name, one, version=9).error_code == ErrorCode.NONE
    assert len(raw_fetch(node, name, 9).records or b"") == len(raw_fetch(node, name, 0).records or b"") > 0
    for offset in (1, 5, 9):
        read = client.read(node, name, 10 - offset, offset=offset)
        assert [each.record.value for each in read] == [b"%d" % i for i in range(offset, 10)]


def test_2_metadata_creates_topics_when_it_may(node: NodeProcess, name: str) -> None:
    def metadata(topic: str, *, create: bool) -> tuple[int, int]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create)
        with connect(node) as connection:
            found = connection.send(request, MetadataResponse).topics[0]
        return found.error_code, len(found.partitions)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert metadata(name, create=False) == (unknown, 0)
    assert metadata(name, create=False) == (unknown, 0)
    assert metadata(name, create=True)[0] in {ErrorCode.NONE, unknown, ErrorCode.LEADER_NOT_AVAILABLE}
    wait_until(lambda: metadata(name, create=True) == (0, 4), "the topic has its 4 partitions")
    assert metadata("not a name", create=True) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)


def test_3_append_and_subtract(node: NodeProcess, name: str) -> None:
    create(node, name)
    alter(node, name, "cleanup.policy", "compact", APPEND)
    assert configs(node, name)["cleanup.policy"].value == "delete,compact"
    alter(node, name, "cleanup.policy", "delete", SUBTRACT)
    assert configs(node, name)["cleanup.policy"].value == "compact"


def test_4_and_22_records_without_a_key_are_refused_one_by_one(node: NodeProcess, name: str) -> None:
    create(node, name, config={"cleanup.policy": "compact"})
    keyless = batch_of([(b"k", b"1"), (None, b"2"), (b"k", b"3"), (None, b"4")])
    for version in (8, 9, 12):
        found = raw_produce(node, name, keyless, version)
        assert (found.error_code, found.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert [each.batch_index for each in found.record_errors] == [1, 3]
        assert found.error_message
    assert end_offset(node, name) == 0
    for client in CLIENTS:
        with pytest.raises(Exception, match=r"(?i)record.*(failed|invalid)|invalid.?record|87|UnknownError"):
            client.produce(node, name, [Record(None, b"no key")])


def raw_produce(node: NodeProcess, topic: str, batch: bytes, version: int) -> PartitionProduceResponse:
    request = produce_request({(topic, 0): batch}, -1, 1_000)
    with connect(node) as connection:
        return connection.send(request, ProduceResponse, version=version).responses[0].partition_responses[0]


def batch_of(records: list[tuple[bytes | None, bytes]], codec: str = "none") -> bytes:
    builder = BatchBuilder(codec)
    for index, (key, value) in enumerate(records):
        builder.append(value, key, START_MS + index)
    return builder.build(0)


def test_5_offsets_by_time_for_every_client(node: NodeProcess, name: str) -> None:
    librdkafka_produce(node, name, [Record(b"k", b"v", (), START_MS + i * 10) for i in range(10)])
    consumer = librdkafka_consumer(node)
    times = [TopicPartition(name, 0, START_MS + 41)]
    assert [each.offset for each in consumer.offsets_for_times(times, 10)] == [5]
    consumer.close()
    python = kafka.KafkaConsumer(bootstrap_servers=node.address)
    found = python.offsets_for_times({PythonPartition(name, 0): START_MS + 41})[PythonPartition(name, 0)]
    assert (found.offset, found.timestamp) == (5, START_MS + 50)
    assert python.offsets_for_times({PythonPartition(name, 0): START_MS + 91}) == {PythonPartition(name, 0): None}
    python.close()

    async def by_aiokafka() -> tuple[int, int]:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=node.address) as consumer:
            where = AioPartition(name, 0)
            found = (await consumer.offsets_for_times({where: START_MS + 41}))[where]
            assert found is not None
            return found.offset, found.timestamp

    assert asyncio.run(by_aiokafka()) == (5, START_MS + 50)


def test_6_create_partitions_names_its_topics(node: NodeProcess, name: str) -> None:
    create(node, name, 1)
    wanted = [partitions.CreatePartitionsTopic(name=name, count=3, assignments=None),
              partitions.CreatePartitionsTopic(name=f"{name}-missing", count=3, assignments=None)]
    with connect(node) as connection:
        answer = connection.send(partitions.CreatePartitionsRequest(topics=wanted, timeout_ms=5_000),
                                 CreatePartitionsResponse)
    assert {each.name: each.error_code for each in answer.results} == {
        name: ErrorCode.NONE, f"{name}-missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_7_metadata_of_commits_by_every_client(node: NodeProcess, name: str) -> None:
    create(node, name, 3)
    commit(node, name, TopicPartition(name, 0, 1, "librdkafka"))
    python = kafka.KafkaConsumer(bootstrap_servers=node.address, group_id=name, enable_auto_commit=False)
    python.assign([PythonPartition(name, 1)])
    python.commit({PythonPartition(name, 1): PythonOffset(2, "python", -1)})
    other = python.committed(PythonPartition(name, 0), metadata=True)
    python.close()
    assert (other[0], other[1].rstrip("\0")) == (1, "librdkafka")

    async def by_aiokafka() -> None:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=node.address, group_id=name, enable_auto_commit=False)
        async with consumer:
            consumer.assign([AioPartition(name, 2)])
            await consumer.commit({AioPartition(name, 2): AioOffset(3, "aiokafka")})
            assert await consumer.committed(AioPartition(name, 1)) == 2

    asyncio.run(by_aiokafka())
    # confluent-kafka sends a zero at the end of its text, and sometimes reads beyond the end of other clients' text.
    with Cluster(node.address) as cluster:
        found = committed_offsets(cluster, name)
    assert {partition: (each.offset, each.metadata.rstrip("\0")) for (_, partition), each in found.items()} == {
        0: (1, "librdkafka"), 1: (2, "python"), 2: (3, "aiokafka")}


def test_8_every_setting_with_its_default(node: NodeProcess, name: str) -> None:
    create(node, name, config={"retention.ms": "5"})
    found = configs(node, name)
    assert len(found) >= 30
    assert {each for each, entry in found.items() if not entry.is_default} >= {"retention.ms"}
    assert (found["retention.ms"].value, found["segment.bytes"].value) == ("5", "1073741824")
    assert len(configs(node, "1", confluent_kafka.admin.ConfigResource.Type.BROKER)) > 150


def test_13_a_batch_that_is_too_large(node: NodeProcess, name: str) -> None:
    create(node, name, config={"max.message.bytes": "1000"})
    for client in CLIENTS:
        with pytest.raises(Exception, match=r"(?i)too.?large|larger|10\b"):
            client.produce(node, name, [Record(b"k", bytes(5_000))])
    assert end_offset(node, name) == 0


def test_14_good_and_bad_topics_in_one_request(node: NodeProcess, name: str) -> None:
    def topic(suffix: str, count: int = 1, factor: int = 1) -> creation.CreatableTopic:
        return creation.CreatableTopic(name=name + suffix, num_partitions=count, replication_factor=factor)

    wanted = [topic("-a"), topic(" b"), topic("-c", 0), topic("-d", factor=2), topic("-e"), topic("-twice"),
              topic("-twice")]
    with connect(node) as connection:
        answer = connection.send(creation.CreateTopicsRequest(topics=wanted, timeout_ms=5_000), CreateTopicsResponse)
    assert {each.name.removeprefix(name): each.error_code for each in answer.topics} == {
        "-a": ErrorCode.NONE, " b": ErrorCode.INVALID_TOPIC_EXCEPTION, "-c": ErrorCode.INVALID_PARTITIONS,
        "-d": ErrorCode.INVALID_REPLICATION_FACTOR, "-e": ErrorCode.NONE, "-twice": ErrorCode.INVALID_REQUEST}
    assert len(answer.topics) == 6


def test_15_addresses_are_reported_as_ipv4(node: NodeProcess) -> None:
    with connect(node) as connection:
        brokers = connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers
    assert [(ipaddress.ip_address(each.host).version, each.port) for each in brokers] == [(4, node.port)]


def test_16_and_19_the_first_members_of_a_fresh_cluster(new_node: Callable[..., NodeProcess]) -> None:
    """A member that joins without finding its coordinator first is refused as at the wrong node; __consumer_offsets is
    created once."""
    node = new_node({"offsets.topic.num.partitions": "3"})
    join = JoinGroupRequest(group_id="g", session_timeout_ms=6_000, rebalance_timeout_ms=6_000,
                            protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")])
    waiting = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    with connect(node) as connection:
        assert connection.send(join, JoinGroupResponse).error_code in waiting

    codes: list[int] = []

    def find(key: str) -> None:
        with connect(node) as connection:
            found = connection.send(FindCoordinatorRequest(coordinator_keys=[key]), FindCoordinatorResponse)
            codes.append(found.coordinators[0].error_code)

    threads = [threading.Thread(target=find, args=(f"g{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {ErrorCode.NONE, *waiting}

    def found_all() -> bool:
        codes.clear()
        for i in range(8):
            find(f"g{i}")
        return set(codes) == {ErrorCode.NONE}

    wait_until(found_all, "every group has its coordinator")
    assert sorted(path.name for path in node.directory.glob("__consumer_offsets-*")) == [
        f"__consumer_offsets-{i}" for i in range(3)]
    with connect(node) as connection:
        wait_until(lambda: connection.send(join, JoinGroupResponse).error_code == ErrorCode.MEMBER_ID_REQUIRED,
                   "members may join")


def test_21_and_28_epochs_that_diverge_and_offsets_after_a_kill(new_node: Callable[..., NodeProcess]) -> None:
    node = new_node()
    librdkafka_produce(node, "t", [Record(b"k", b"v")] * 5)
    node.kill_and_start()
    assert end_offset(node, "t") == 5  # already in the first answer, and never 0
    librdkafka_produce(node, "t", [Record(b"k", b"v")] * 5)
    found = raw_fetch(node, "t", 8, last_fetched_epoch=0)
    assert found.error_code == ErrorCode.NONE
    assert not found.records
    assert found.diverging_epoch is not None
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 5)
    assert raw_fetch(node, "t", 5, last_fetched_epoch=0).records
    assert raw_fetch(node, "t", 5, last_fetched_epoch=99).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_23_there_is_no_better_replica_to_read_from(node: NodeProcess, name: str) -> None:
    librdkafka_produce(node, name, [Record(b"k", b"v")])
    assert raw_fetch(node, name, 0).preferred_read_replica == -1


def test_25_log_directories_with_lag_and_future(node: NodeProcess, name: str) -> None:
    librdkafka_produce(node, name, [Record(b"k", b"v" * 100)])
    with connect(node) as connection:
        answer = connection.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    assert [each.log_dir for each in answer.results] == [str(node.directory)]
    found = {(topic.name, each.partition_index): each for topic in answer.results[0].topics
             for each in topic.partitions}
    one = found[name, 0]
    assert one.partition_size > 100
    assert (one.offset_lag, one.is_future_key) == (0, False)
    assert answer.results[0].usable_bytes > 0
