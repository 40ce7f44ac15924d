"""Transactions on a whole node: verified or added by its own coordinator, ended by markers, read when committed."""

import json
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.features import UpgradeType, describe_features, update_features
from kraft.client.groups import committed_offsets
from kraft.client.producer import Producer
from kraft.client.refusals import RefusedError
from kraft.client.topics import create_topic
from kraft.client.transactional_producer import TransactionalProducer
from kraft.client.transactions import GroupMember, Offset
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse, PartitionData
from kraft.runtime.server_node import ServerNode
from kraft_native.batch.records import BatchBuilder, records
from tests.runtime.nodes import config, with_node

SETTINGS = {"transaction_state_log_num_partitions": "2", "transaction_state_log_replication_factor": "1",
            "transaction_state_log_min_isr": "1", "offsets_topic_replication_factor": "1"}


def fetch(cluster: Cluster, index: int, offset: int, max_wait_ms: int) -> PartitionData:
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, isolation_level=1, topics=[FetchTopic(
        topic="t", partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)])])
    [topic] = cluster.any().send(request, FetchResponse, version=12).responses
    [part] = topic.partitions
    return part


def read(cluster: Cluster, index: int = 0, end: int = 0) -> tuple[int, list[int], list[bytes | None]]:
    """Last stable offset of a partition, first offsets of its aborted transactions, and all values below. `end`: wait
    for the marker before it. The end of a transaction is answered before its markers are written."""
    if end:
        fetch(cluster, index, end - 1, 9_000)
    part = fetch(cluster, index, 0, 0)
    return (part.last_stable_offset, [each.first_offset for each in part.aborted_transactions or []],
            [each.value for each in records(bytes(part.records or b""))])


@pytest.mark.parametrize("level", [1, 2])
def test_a_transaction_over_partitions_and_offsets(tmp_path: Path, level: int,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "t", 2)
        current = describe_features(cluster).features["transaction.version"].level
        if level != current:
            kind = UpgradeType.UPGRADE if level > current else UpgradeType.SAFE_DOWNGRADE
            update_features(cluster, {"transaction.version": level}, kind, validate_only=False)
        with TransactionalProducer(cluster, "x") as producer:
            for index in range(2):
                producer.send("t", index, [(None, b"one"), (None, b"two")])
                producer.send("t", index, [(None, b"three")])
            producer.commit_offsets(GroupMember("g"), {("t", 0): Offset(3)})
            assert read(cluster) == read(cluster, 1) == (0, [], [])
            producer.commit()
            producer.send("t", 0, [(None, b"four")])
            producer.abort()
            producer.send("t", 0, [(None, b"five")])
            producer.commit()
        end, aborted, values = read(cluster, end=8)
        assert (end, aborted) == (8, [4])
        assert [each for each in values if each in (b"one", b"two", b"three", b"four", b"five")] == [
            b"one", b"two", b"three", b"four", b"five"]
        assert read(cluster, 1, end=4)[:2] == (4, [])
        assert committed_offsets(cluster, "g", stable=True)["t", 0].offset == 3
        address = f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"
        assert run(["transactions", "timeline", "--transactional-id", "x", "--bootstrap", address]) == 0
        text = capsys.readouterr().out
        assert [text.count(f" {each} ") for each in (
            "begins", "is to commit", "is to abort", "is committed", "is aborted")] == [3, 2, 1, 2, 1]
        assert text.count("marker is written") >= 3 + 1 + 1
        assert run(["transactions", "timeline", "--bootstrap", address, "--json"]) == 0
        [loaded, *_] = [each for line in capsys.readouterr().out.splitlines() if (each := json.loads(line))["what"]
                        == "coordinates transactions"]
        assert loaded["node_id"] == 1

    with_node(config(tmp_path, **SETTINGS), work)


def test_a_batch_outside_a_transaction_is_refused(tmp_path: Path) -> None:
    """The transactional id is right, and its transaction has ended."""
    def work(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        with TransactionalProducer(cluster, "x") as producer:
            producer.send("t", 0, [(None, b"one")])
            ended = producer._producer.producer_id, producer._producer.producer_epoch
            producer.commit()
        late = Producer(cluster, transactional_id="x")
        late.adopt(ended, adds_implicitly=True)
        builder = BatchBuilder()
        builder.append(b"late")
        with pytest.raises(RefusedError) as refused:
            late.send({("t", 0): builder.build()})
        assert refused.value.code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
        assert read(cluster, end=2)[0] == 2

    with_node(config(tmp_path, **SETTINGS), work)
