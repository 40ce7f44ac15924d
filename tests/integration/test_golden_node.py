"""A node on the data directory of a Kafka node answers what Kafka would answer."""

import base64
import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection, TopicPartition

from tests.golden import golden, needs_golden
from tests.integration.admin import admin, configs, end_offset, start_offset, wait_until
from tests.integration.clients import Record, librdkafka_consumer, librdkafka_produce, librdkafka_read, take
from tests.integration.process import NodeProcess
from tests.integration.test_group_offsets import commit, committed

pytestmark = needs_golden
# Settings of Kafka's server.properties for which DEFAULTS has other values.
SETTINGS = {"offsets.topic.num.partitions": "3", "num.partitions": "1", "log.index.size.max.bytes": "65536"}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden("node", "expected.json").read_text("utf-8"))
    return found


def golden_copy(directory: Path) -> Path:
    shutil.copytree(golden("node", "data"), directory)
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return directory


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node = NodeProcess(golden_copy(tmp_path_factory.mktemp("golden") / "data"), SETTINGS)
    node.start()
    yield node
    node.stop()
    assert node.alarms() == []


def check(node: NodeProcess, expected: dict[str, Any]) -> None:
    """Check everything that `expected.json` states."""
    client = admin(node)
    known = client.list_topics(timeout=10)
    assert known.cluster_id == expected["cluster_id"]
    assert set(known.topics) == set(expected["topics"])
    ids = client.describe_topics(TopicCollection([name for name in expected["topics"] if name[0] != "_"]))
    for name, topic in expected["topics"].items():
        partitions = {str(index): {"leader": each.leader, "replicas": each.replicas, "isrs": each.isrs}
                      for index, each in known.topics[name].partitions.items()}
        assert partitions == topic["partitions"]
        if "topic_id" in topic:
            found = uuid.UUID(bytes=base64.urlsafe_b64decode(str(ids[name].result(10).topic_id) + "=="))
            assert found.bytes == base64.b64decode(topic["topic_id"] + "==", altchars=b"-_")
        for config, value in topic.get("dynamic_configs", {}).items():
            assert configs(node, name)[config].value == value
    for group, offsets in expected["groups"].items():
        assert {f"{topic}-{index}": offset for (topic, index), (offset, _) in committed(node, group).items()} == offsets
    for name, partition in expected["records"].items():
        topic, _, index = name.rpartition("-")
        assert (start_offset(node, topic, int(index)), end_offset(node, topic, int(index))) == (
            partition["low"], partition["high"])
        if partition["records"]:
            read = librdkafka_read(node, topic, len(partition["records"]), partition=int(index))
            assert [as_expected(each.offset, each.record) for each in read] == partition["records"]


def as_expected(offset: int, record: Record) -> dict[str, Any]:
    def hexed(value: bytes | None) -> str | None:
        return None if value is None else value.hex()

    return {"offset": offset, "timestamp": record.timestamp, "key": hexed(record.key), "value": hexed(record.value),
            "headers": [[name, hexed(value)] for name, value in record.headers]}


def test_same_answers(served: NodeProcess, expected: dict[str, Any]) -> None:
    check(served, expected)


def test_leftovers_of_a_deleted_topic_are_removed(served: NodeProcess) -> None:
    assert not list(served.directory.glob("doomed-*"))


def test_a_group_continues_where_it_was(served: NodeProcess, expected: dict[str, Any]) -> None:
    consumer = librdkafka_consumer(served, "readers")
    consumer.subscribe(["orders"])
    high = {int(name[-1]): each["high"] for name, each in expected["records"].items() if name.startswith("orders-")}
    read = take(consumer, high[0] + high[1] + high[2] - 30)
    consumer.close()
    assert min(each.offset() or 0 for each in read if each.partition() == 2) == 30


def test_same_answers_after_restarts_and_it_takes_more(served: NodeProcess, expected: dict[str, Any]) -> None:
    served.restart()
    check(served, expected)
    served.kill_and_start()
    check(served, expected)
    high = expected["records"]["orders-1"]["high"]
    assert librdkafka_produce(served, "orders", [Record(b"k", b"v")], partition=1, idempotent=True) == [high]
    served.kill_and_start()
    assert librdkafka_read(served, "orders", 1, partition=1, offset=high)[0].record.value == b"v"


def test_offsets_of_long_ago_expire(tmp_path: Path, expected: dict[str, Any]) -> None:
    """Kafka wrote them more than a minute ago. What is committed now stays."""
    node = NodeProcess(golden_copy(tmp_path / "data"), {
        **SETTINGS, "offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "50"})
    node.start()
    try:
        topic = next(name for name in expected["topics"] if name[0] != "_")
        commit(node, "of today", TopicPartition(topic, 0, 3))
        wait_until(lambda: not any(committed(node, group) for group in expected["groups"]), "their expiry")
        groups = {each.group_id for each in admin(node).list_consumer_groups().result(10).valid}
        assert groups.isdisjoint(expected["groups"])
        assert committed(node, "of today") == {(topic, 0): (3, None)}
    finally:
        node.stop()
    assert node.alarms() == []
