"""Audit of a node: what real clients did, as its file has it."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft.broker.apis import handler_of
from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.connection import AuthenticationError, Connection, ConnectionFailedError
from kraft.client.topics import create_topic
from kraft.client.users import set_password
from kraft.metadata.image import TOPIC_RESOURCE
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from kraft.protocol.record_frames import decode_record
from kraft.protocol.response_errors import count_errors
from kraft.runtime.audit import node_audit
from kraft.runtime.net import requests
from kraft.runtime.server_node import ServerNode
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from tests.runtime.metrics.test_scrape import fetch, produce
from tests.runtime.net.test_sasl import LISTENER, connect, secured
from tests.runtime.nodes import config, with_node

MANY = 5_000


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def metadata_records(data: Path) -> dict[int, Message]:
    """Return the records of the metadata log by offset."""
    [segment] = (data / "__cluster_metadata-0").glob("*.log")
    return {record.offset: decode_record(record.value or b"")[0] for batch in walk(segment.read_bytes())
            if not batch.is_control for record in records(batch)}


def of(events: list[dict[str, Any]], api: str) -> list[dict[str, Any]]:
    return [each for each in events if each.get("api", {}).get("operation") == api]


def test_a_change_names_its_user_its_result_and_its_records(tmp_path: Path) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "orders", partitions=1)
        create_topic(cluster, "orders", partitions=1)                # it exists: the client does not care
        alter_configs(cluster, "topic", "orders", [Change("retention.ms", Operation.SET, "86400000")])
        set_password(cluster, "ann", "s3cret", ["SCRAM-SHA-256"])

    path = tmp_path / "audit.jsonl"
    with_node(config(tmp_path / "data", **{"kraft.audit.file": str(path)}), work)
    changes = metadata_records(tmp_path / "data")
    text = path.read_text()
    created, again = of(lines(path), "CreateTopics")
    assert created["resources"] == [{"type": "topic", "name": "orders"}]
    assert created["actor"]["user"]["uid"] == "User:ANONYMOUS"
    assert created["src_endpoint"]["ip"] == "127.0.0.1"
    assert created["unmapped"]["listener"] == "PLAINTEXT"
    assert (created["unmapped"]["decision"], created["status"]) == ("allowed", "Success")
    assert again["unmapped"]["decision"] == "failed"
    assert again["status_code"] == again["api"]["response"]["error"] == "TOPIC_ALREADY_EXISTS"
    assert "metadata_offsets" not in again["unmapped"]
    [altered] = of(lines(path), "IncrementalAlterConfigs")
    [[first, last]] = altered["unmapped"]["metadata_offsets"]
    assert first == last
    record = changes[first]
    assert isinstance(record, ConfigRecord)
    assert (record.resource_type, record.name) == (TOPIC_RESOURCE, "retention.ms")
    assert altered["resources"] == [{"type": "topic", "name": "orders", "labels": ["retention.ms"]}]
    [user] = of(lines(path), "AlterUserScramCredentials")
    assert (user["class_uid"], user["user"]["name"]) == (3001, "ann")
    credential = next(each for each in changes.values() if isinstance(each, UserScramCredentialRecord))
    assert "s3cret" not in text
    assert "86400000" not in text
    assert credential.salt.hex() not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_change_in_parts_names_the_records_of_all(tmp_path: Path) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> int:
        topics = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(100)]
        answer = cluster.any().send(CreateTopicsRequest(topics=topics, timeout_ms=10_000), CreateTopicsResponse)
        return len(answer.topics)

    path = tmp_path / "audit.jsonl"
    assert with_node(config(tmp_path / "data", **{"kraft.audit.file": str(path)}), work) == 100
    [event] = of(lines(path), "CreateTopics")
    assert len(event["resources"]) == 32
    assert event["unmapped"]["resources_cut"] is True
    assert sum(last - first + 1 for first, last in event["unmapped"]["metadata_offsets"]) >= 200


def test_logins_that_fail_are_bounded_and_counted(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        for _ in range(8):
            with pytest.raises(AuthenticationError):
                connect(node, "PLAIN", "bob", "wrong")
        connect(node, "PLAIN", "bob", "hush").close()

    path = tmp_path / "audit.jsonl"
    settings = secured(tmp_path / "data", **{"kraft.audit.file": str(path),
                                             "kraft.audit.events": "failed-logins,logins"})
    with_node(settings, work)
    events = lines(path)
    failed = [each for each in events if each["status_id"] == 2]
    assert [each.get("count", 1) for each in failed] == [1, 1, 1, 1, 1, 3]
    assert {(each["class_uid"], each["user"]["name"], each["auth_protocol"], each["unmapped"]["listener"])
            for each in failed} == {(3002, "bob", "PLAIN", LISTENER)}
    assert [each["user"]["uid"] for each in events if each["status_id"] == 1] == ["User:bob"]
    assert "hush" not in path.read_text()
    assert "wrong" not in path.read_text()


def test_a_client_that_disconnects_before_the_answer_is_audited(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        connection = Connection("127.0.0.1", node.listeners["PLAINTEXT"].port, timeout=10)
        topics = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(MANY)]
        connection.post(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        image = node.parts.control.metadata
        deadline_s = time.monotonic() + 10
        while not image.image.topics and time.monotonic() < deadline_s:
            pass
        connection.close()

    path = tmp_path / "audit.jsonl"
    with_node(config(tmp_path / "data", **{"kraft.audit.file": str(path)}), work)
    [event] = of(lines(path), "CreateTopics")
    assert event["status_code"] == "NETWORK_EXCEPTION"


def test_a_fault_of_our_own_is_no_lost_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  caplog: pytest.LogCaptureFixture) -> None:
    """A small request and a large one, whose handler fails."""
    def fails(*_given: object) -> None:
        raise KeyError("fault")

    monkeypatch.setattr(requests, "handler_of", lambda key: fails if key == ApiKey.CREATE_TOPICS else handler_of(key))

    def work(_cluster: Cluster, node: ServerNode) -> None:
        for count in (1, 1_000):
            with Connection("127.0.0.1", node.listeners["PLAINTEXT"].port, timeout=10) as connection, \
                    pytest.raises(ConnectionFailedError):
                connection.send(CreateTopicsRequest(topics=[
                    CreatableTopic(name=f"t{number}") for number in range(count)]), CreateTopicsResponse)

    path = tmp_path / "audit.jsonl"
    with_node(config(tmp_path / "data", **{"kraft.audit.file": str(path)}), work)
    assert [each["status_code"] for each in of(lines(path), "CreateTopics")] == ["UNKNOWN_SERVER_ERROR"] * 2
    caplog.clear()     # its records hold the frames of the fault


@pytest.mark.parametrize("count", [1, 500])
def test_the_errors_of_an_answer_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """One walk serves the metrics and the event."""
    walks: list[Message] = []

    def walked(response: Message, counts: Counter[int]) -> Iterator[None]:
        walks.append(response)
        yield from count_errors(response, counts)

    for module in (requests, node_audit):
        monkeypatch.setattr(module, "count_errors", walked)
    wrong = CreateTopicsRequest(topics=[CreatableTopic(name=f"t{number}!") for number in range(count)])

    def work(cluster: Cluster, node: ServerNode) -> int:
        cluster.any().send(wrong, CreateTopicsResponse)
        return sum(router.errors[ApiKey.CREATE_TOPICS][ErrorCode.INVALID_TOPIC_EXCEPTION]
                   for router in node.parts.serving.routers)

    path = tmp_path / "audit.jsonl"
    assert with_node(config(tmp_path / "data", **{"kraft.audit.file": str(path)}), work) == count
    [event] = of(lines(path), "CreateTopics")
    assert event["status_code"] == "INVALID_TOPIC_EXCEPTION"
    assert len(walks) == (count > 1)


def test_some_accesses_to_data_are_events(tmp_path: Path) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "orders", partitions=1)
        for _ in range(7):
            produce(cluster, "orders", [b"secret"])
        fetch(cluster, "orders")

    path = tmp_path / "audit.jsonl"
    with_node(config(tmp_path / "data", **{"kraft.audit.file": str(path), "kraft.audit.events": "data",
                                           "kraft.audit.data.sample.interval": "3"}), work)
    events = lines(path)
    assert [each["api"]["operation"] for each in events] == ["Produce", "Produce"]
    assert events[0]["resources"] == [{"type": "topic", "name": "orders", "labels": ["0"]}]
    assert events[0]["unmapped"]["decision"] == "requested"
    assert "secret" not in path.read_text()


def test_nothing_is_audited_by_default(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> tuple[bool, int]:
        create_topic(cluster, "orders", partitions=1)
        assert node.audit is not None
        return node.audit.is_on, node.audit.auditor.written

    assert with_node(config(tmp_path / "data"), work) == (False, 0)


def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "audit.jsonl"
    with pytest.raises(OSError, match="absent/audit"):
        with_node(config(tmp_path / "data", **{"kraft.audit.file": str(path)}), lambda _cluster, _node: None)
