"""Settings of a topic that change while the node runs: which apply at once, and what they change."""

import asyncio
from typing import Any

import pytest

from kraft.client.cluster import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.producer import produce_request
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from kraft.runtime.net.requests import now_ms
from kraft.runtime.replicas import settings
from kraft.runtime.server_node import ServerNode
from kraft_native.batch.records import BatchBuilder
from kraft_native.partition.partition import Partition
from tests.runtime.nodes import config, with_node

LONG_AGO_MS = 5
HOUR_MS = 3_600_000


def create(cluster: Cluster, name: str = "t", partitions: int = 1) -> None:
    answer = cluster.controller().send(CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=30_000),
        CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE


def alter(cluster: Cluster, name: str, value: str) -> None:
    alter_configs(cluster, "topic", "t", [Change(name, Operation.SET, value)])


def produce(cluster: Cluster, timestamp_ms: int, size: int = 10) -> PartitionProduceResponse:
    builder = BatchBuilder()
    builder.append(bytes(size), b"k", timestamp_ms)
    request = produce_request({("t", 0): builder.build()}, -1, 1000)
    return cluster.leader("t", 0).send(request, ProduceResponse, version=9).responses[0].partition_responses[0]


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("cleanup.policy", "compact", "compact"),
    ("compression.gzip.level", "3", 3),
    ("compression.lz4.level", "4", 4),
    ("compression.zstd.level", "5", 5),
    ("delete.retention.ms", "6000", 6000),
    ("file.delete.delay.ms", "7000", 7000),
    ("index.interval.bytes", "8000", 8000),
    ("message.timestamp.after.max.ms", "9000", 9000),
    ("message.timestamp.before.max.ms", "10000", 10000),
    ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
    ("min.cleanable.dirty.ratio", "0.25", 0.25),
    ("min.insync.replicas", "2", 2),
    ("segment.bytes", "1048576", 1048576),
    ("segment.ms", "12000", 12000),
])
def test_a_change_is_in_force_at_once(tmp_path: Any, name: str, value: str, expected: object) -> None:
    async def look(node: ServerNode) -> object:
        partition = node.parts.path.table.get("t", 0)
        assert partition is not None
        if name == "file.delete.delay.ms":      # a setting of the files, not of the log
            return node.parts.core.broker.topic_setting("t", name)
        holder = partition if name == "min.insync.replicas" else partition.log.config
        return getattr(holder, name.replace(".", "_"))

    def in_force(node: ServerNode) -> object:
        return asyncio.run_coroutine_threadsafe(look(node), node.parts.housekeeping.cleaner.loop).result()

    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster)
        assert in_force(node) != expected
        alter(cluster, name, value)
        assert in_force(node) == expected

    with_node(config(tmp_path / "data"), work)


def test_timestamps_change_their_meaning_and_their_limits(tmp_path: Any) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        create(cluster)
        assert produce(cluster, LONG_AGO_MS).log_append_time_ms == -1
        alter(cluster, "message.timestamp.before.max.ms", "1000")
        assert produce(cluster, LONG_AGO_MS).error_code == ErrorCode.INVALID_TIMESTAMP
        soon_ms = now_ms() + HOUR_MS // 2
        assert produce(cluster, soon_ms).error_code == ErrorCode.NONE
        alter(cluster, "message.timestamp.after.max.ms", "1000")
        assert produce(cluster, soon_ms).error_code == ErrorCode.INVALID_TIMESTAMP
        alter(cluster, "message.timestamp.type", "LogAppendTime")
        before_ms = now_ms()
        answer = produce(cluster, LONG_AGO_MS)
        assert answer.error_code == ErrorCode.NONE
        assert before_ms <= answer.log_append_time_ms <= now_ms()

    with_node(config(tmp_path / "data"), work)


def test_segments_become_smaller(tmp_path: Any) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster)
        for _ in range(4):
            assert produce(cluster, now_ms(), 600_000).error_code == ErrorCode.NONE
        partition = node.parts.path.table.get("t", 0)
        assert partition is not None
        assert len(partition.log.segments) == 1
        alter(cluster, "segment.bytes", "1048576")
        for _ in range(4):
            assert produce(cluster, now_ms(), 600_000).error_code == ErrorCode.NONE
        assert [segment.base_offset for segment in partition.log.segments] == [0, 4, 5, 6, 7]

    with_node(config(tmp_path / "data"), work)


def test_topics_that_take_longer_than_a_slice_follow_in_the_next_ones(
        tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SLICE_SECONDS", 0)
    reported: list[str] = []
    reconfigure = settings.ReplicaSettings._reconfigure

    def noted(self: settings.ReplicaSettings, partition: Partition, changed: settings.TopicSettings) -> None:
        reported.append(f"{partition.topic}-{partition.index}")
        reconfigure(self, partition, changed)

    monkeypatch.setattr(settings.ReplicaSettings, "_reconfigure", noted)

    async def turns(node: ServerNode) -> list[int]:
        node.parts.core.replicas.reconfigure(["gone", "t", "u"])
        counts = [len(reported)]
        while counts[-1] < 5:
            await asyncio.sleep(0)
            counts.append(len(reported))
        return counts

    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster, "t", 2)
        create(cluster, "u", 3)
        done = asyncio.run_coroutine_threadsafe(turns(node), node.parts.housekeeping.cleaner.loop).result()
        assert done == [1, 2, 3, 4, 5]
        assert reported == ["t-0", "t-1", "u-0", "u-1", "u-2"]

    with_node(config(tmp_path / "data"), work)
