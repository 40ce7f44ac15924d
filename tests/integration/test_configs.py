"""Settings that change while the node runs, and their immediate effects."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.integration.admin import (
    APPEND,
    DELETE,
    SUBTRACT,
    admin,
    alter,
    configs,
    connect,
    create,
    end_offset,
    start_offset,
    wait_until,
)
from tests.integration.clients import Record, librdkafka_produce, librdkafka_producer, librdkafka_read
from tests.integration.process import NodeProcess


def refused_with(node: NodeProcess, topic: str, record: Record) -> int | None:
    """Return the error of producing one record; None if it is accepted."""
    codes: list[int | None] = []
    producer = librdkafka_producer(node, message_max_bytes=10_000_000)
    producer.produce(topic, record.value, record.key, 0,
                     on_delivery=lambda error, _: codes.append(None if error is None else error.code()))
    assert producer.flush(10) == 0
    return codes[0]


def alter_every_broker(node: NodeProcess, name: str, value: str) -> None:
    """Set the default of all brokers, a resource that librdkafka cannot name."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    with connect(node) as connection:
        answer = connection.send(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]


def test_max_message_bytes_at_once(node: NodeProcess, name: str) -> None:
    create(node, name)
    record = Record(b"k", bytes(5_000))
    assert refused_with(node, name, record) is None
    alter(node, name, "max.message.bytes", "2000")
    assert refused_with(node, name, record) == KafkaError.MSG_SIZE_TOO_LARGE
    alter(node, name, "max.message.bytes", None, DELETE)
    assert refused_with(node, name, record) is None
    assert end_offset(node, name) == 2


def test_append_and_subtract(node: NodeProcess, name: str) -> None:
    create(node, name)
    for operation, value, policy in ((APPEND, "compact", "delete,compact"), (SUBTRACT, "delete", "compact"),
                                     (APPEND, "compact", "compact"), (DELETE, None, "delete")):
        alter(node, name, "cleanup.policy", value, operation)
        assert configs(node, name)["cleanup.policy"].value == policy
    with pytest.raises(KafkaException) as refused:
        alter(node, name, "retention.ms", "1", APPEND)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_retention_at_once(node: NodeProcess, name: str) -> None:
    create(node, name, config={"segment.bytes": "1048576"})
    for _ in range(3):
        librdkafka_produce(node, name, [Record(b"k", bytes(100_000)) for _ in range(9)])
    assert start_offset(node, name) == 0
    alter(node, name, "retention.bytes", "1000000")
    wait_until(lambda: start_offset(node, name) > 0, "retention.bytes has an effect")
    alter(node, name, "retention.ms", "1")
    wait_until(lambda: start_offset(node, name) == 27, "retention.ms has an effect")
    assert librdkafka_produce(node, name, [Record(b"k", b"v", (), time.time_ns() // 1_000_000 + 60_000)]) == [27]


def test_compression_by_the_topic(node: NodeProcess, name: str) -> None:
    create(node, name, config={"compression.type": "zstd"})
    records = [Record(b"k", bytes(1_000)) for _ in range(500)]
    librdkafka_produce(node, name, records)
    log = node.directory / f"{name}-0" / "00000000000000000000.log"
    assert log.read_bytes().rstrip(b"\x00").__len__() < 50_000
    alter(node, name, "compression.type", "uncompressed")
    librdkafka_produce(node, name, records, "lz4")
    assert len(log.read_bytes().rstrip(b"\x00")) > 400_000
    assert [each.record for each in librdkafka_read(node, name, 1_000)] == records * 2


def test_log_append_time(node: NodeProcess, name: str) -> None:
    create(node, name, config={"message.timestamp.type": "LogAppendTime"})
    before = time.time_ns() // 1_000_000
    librdkafka_produce(node, name, [Record(b"k", b"v", (), 5)])
    assert before <= librdkafka_read(node, name, 1)[0].record.timestamp <= time.time_ns() // 1_000_000


def test_times_out_of_range_are_refused(node: NodeProcess, name: str) -> None:
    create(node, name, config={"message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "1000"})
    for time_ms in (5, time.time_ns() // 1_000_000 + 600_000):
        with pytest.raises(AssertionError, match=r"(?i)timestamp"):
            librdkafka_produce(node, name, [Record(b"k", b"v", (), time_ms)])


def test_min_insync_replicas(node: NodeProcess, name: str) -> None:
    create(node, name, config={"min.insync.replicas": "2"})
    # As in Kafka, at most as many replicas are required as the partition has.
    assert librdkafka_produce(node, name, [Record(None, b"v")], acks="all") == [0]


def test_compaction_keeps_the_last_value_of_each_key(node: NodeProcess, name: str) -> None:
    create(node, name, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01",
                               "segment.bytes": "1048576", "min.compaction.lag.ms": "0"})
    for turn in range(4):
        librdkafka_produce(node, name, [Record(b"k%d" % (i % 50), b"%d.%d" % (turn, i) + bytes(3_000))
                                        for i in range(400)])
    log = node.directory / f"{name}-0"

    def is_compacted() -> bool:
        try:
            return sum(path.stat().st_size for path in log.glob("*.log")) < 3_000_000
        except FileNotFoundError:  # the cleaner replaced a segment between its listing and its reading
            return False

    wait_until(is_compacted, "the log was compacted")
    assert librdkafka_read(node, name, 1, offset=0)[0].offset > 0
    last = librdkafka_read(node, name, 50, offset=1_550)
    assert sorted(each.record.key or b"" for each in last) == sorted(b"k%d" % i for i in range(50))


def test_a_broker_setting_is_the_default_of_topics(new_node: Callable[..., NodeProcess], name: str) -> None:
    node = new_node()
    create(node, name)
    alter_every_broker(node, "message.max.bytes", "3000")
    assert configs(node, name)["max.message.bytes"].value == "3000"
    assert refused_with(node, name, Record(b"k", bytes(5_000))) == KafkaError.MSG_SIZE_TOO_LARGE
    alter(node, "1", "message.max.bytes", "30000", kind=ConfigResource.Type.BROKER)
    assert refused_with(node, name, Record(b"k", bytes(5_000))) is None
    node.kill_and_start()
    entry = configs(node, "1", ConfigResource.Type.BROKER)["message.max.bytes"]
    assert (entry.value, entry.source) == ("30000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    assert configs(node, name)["max.message.bytes"].value == "30000"


def test_a_read_only_broker_setting_is_refused(node: NodeProcess) -> None:
    with pytest.raises(KafkaException):
        alter(node, "1", "log.dirs", "/elsewhere", kind=ConfigResource.Type.BROKER)
    assert admin(node).list_topics() is not None
