"""Kafka and our controller alternate on one directory: we fill it, Kafka dumps and runs it, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kraft.metadata.image import Endpoint, MetadataImage
from kraft.metadata.snapshot import image_records
from kraft.protocol.ids import id_text
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import SnapshotId
from tests.peer.kafka import KafkaNode, java, require_kafka
from tests.runtime.quorum.metadata_nodes import Node, formatted

pytestmark = pytest.mark.peer


class World(NamedTuple):
    node: KafkaNode
    endpoint: Endpoint
    image: MetadataImage
    snapshot: SnapshotId


def fill(node: Node) -> SnapshotId:
    """Append topics with and without settings, one that grows, one that is deleted, a snapshot in between."""
    node.join()
    node.send(CreateTopicsRequest(topics=[
        CreatableTopic(name="plain", num_partitions=3, replication_factor=1),
        CreatableTopic(name="set", num_partitions=1, replication_factor=1, configs=[
            CreatableTopicConfig(name="cleanup.policy", value="compact"),
            CreatableTopicConfig(name="max.message.bytes", value="65536")]),
        CreatableTopic(name="gone", num_partitions=2, replication_factor=1)]))
    node.send(DeleteTopicsRequest(topic_names=["gone"]), 5)
    snapshot: SnapshotId = node.snapshot()
    node.send(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="plain", count=5, assignments=None)]))
    node.send(CreateTopicsRequest(topics=[CreatableTopic(name="later", num_partitions=1, replication_factor=1)]))
    return snapshot


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    require_kafka()
    node = KafkaNode(tmp_path_factory.mktemp("metadata"))
    found = re.search(r"controller\.quorum\.bootstrap\.servers=127\.0\.0\.1:(\d+)", node.properties.read_text())
    assert found is not None
    endpoint = Endpoint("CONTROLLER", "127.0.0.1", int(found[1]), 0)
    formatted(node.data, endpoints=(endpoint,))
    with Node(node.data, endpoints=(endpoint,)) as ours:
        snapshot = fill(ours)
        image = ours.controller.image
    yield World(node, endpoint, image, snapshot)
    node.kill()


def dumped(path: Path) -> list[dict[str, object]]:
    """The data records that Kafka's decoder finds."""
    text = java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
    assert "isvalid: false" not in text
    assert "Could not" not in text
    return [json.loads(line.split(" payload: ", 1)[1]) for line in text.splitlines()
            if " payload: " in line and '"type"' in line]


def test_kafkas_dumper_reads_our_log_and_snapshot(world: World) -> None:
    directory = world.node.data / DIRECTORY_NAME
    log = dumped(directory / "00000000000000000000.log")
    types = [record["type"] for record in log]
    assert types[0] == "BEGIN_TRANSACTION_RECORD"
    assert types.count("TOPIC_RECORD") == 4
    assert types.count("PARTITION_RECORD") == 3 + 1 + 2 + 2 + 1
    assert types.count("REMOVE_TOPIC_RECORD") == 1
    snapshot = dumped(directory / world.snapshot.file_name)
    names = [record["data"]["name"] for record in snapshot if record["type"] == "TOPIC_RECORD"]  # type: ignore[index]
    assert names == ["plain", "set"]
    assert len(snapshot) < len(list(image_records(world.image)))


def test_kafka_starts_on_it_and_our_node_continues_after_kafka(world: World) -> None:
    node, image = world.node, world.image
    node.start()
    text = java("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap, "--describe")
    listed = {match[1]: (match[2], int(match[3]), match[4]) for match in re.finditer(
        r"Topic: (\S+)\s+TopicId: (\S+)\s+PartitionCount: (\d+)\s+ReplicationFactor: 1\s+Configs: (\S*)", text)}
    assert sorted(listed) == ["later", "plain", "set"]
    for name, (topic_id, partitions, configs) in listed.items():
        topic = image.topics[image.topic_ids[name]]
        assert topic_id == id_text(topic.topic_id)
        assert partitions == len(topic.partitions)
        for key, value in image.topic_config(name).items():
            assert f"{key}={value}" in configs.split(",")
    assert re.findall(r"Leader: (\S+)", text) == ["1"] * 7
    node.create_topic("theirs", retention_ms="5000")
    node.stop()
    with Node(node.data, endpoints=(world.endpoint,)) as ours:
        assert sorted(ours.controller.image.topic_ids) == ["later", "plain", "set", "theirs"]
        assert ours.controller.image.topic_config("theirs")["retention.ms"] == "5000"
        ours.join(9)
        partition = ours.controller.image.partition("plain", 4)
        assert partition is not None
        assert (partition.leader, partition.isr) == (1, (1,))
