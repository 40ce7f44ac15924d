"""Denials by ACLs: events, and lines of Kafka's logger."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.fetcher import AT_ONCE, fetch_request
from kraft.client.producer import produce_request
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.runtime.audit.access_audit import LOGGED_PER_SECOND
from kraft.runtime.server_node import ServerNode
from kraft.security.access import NOTES_MAX, Access
from kraft.security.acls import Operation, ResourceType
from kraft.security.principal import ANONYMOUS
from kraft_native.batch.records import BatchBuilder
from tests.runtime.net.test_sasl import LISTENER, connect, secured
from tests.runtime.nodes import with_node

LOGGER = "kafka.authorizer.logger"


def guarded(tmp_path: Path, **more: str) -> Any:
    return secured(tmp_path / "data", authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS",
                   **{"kraft.audit.file": str(tmp_path / "audit.jsonl"), **more})


def events(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]


def as_bob(node: ServerNode) -> Connection:
    return connect(node, "PLAIN", "bob", "hush")


def create(connection: Connection, *names: str) -> list[int]:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    answer = connection.send(CreateTopicsRequest(topics=topics, timeout_ms=10_000), CreateTopicsResponse)
    return [each.error_code for each in answer.topics]


def test_a_denial_is_an_event_and_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        with as_bob(node) as bob:
            assert create(bob, "orders") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            assert create(bob, *(f"t{number}" for number in range(100)))[0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    with caplog.at_level(logging.INFO, LOGGER):
        with_node(guarded(tmp_path), work)
    [denied, *others] = [each for each in events(tmp_path) if "operation" in each["unmapped"]]
    assert denied["actor"]["user"]["uid"] == "User:bob"
    assert denied["actor"]["authorizations"] == [{"decision": "denied"}]
    assert (denied["api"]["operation"], denied["unmapped"]["operation"], denied["unmapped"]["listener"]) == (
        "CreateTopics", "CREATE", LISTENER)
    assert denied["resources"] == [{"type": "topic", "name": "orders"}]
    assert (denied["status_code"], denied["action"]) == ("TOPIC_AUTHORIZATION_FAILED", "Denied")
    assert 0 < len(others) <= NOTES_MAX, "the check of the cluster is no denial: the answer does not refuse it"
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert lines[0] == ("Principal = User:bob is Denied operation = CREATE from host = 127.0.0.1 on resource = "
                        "TOPIC:LITERAL:orders for request = CreateTopics")
    assert len(lines) <= 2 * LOGGED_PER_SECOND + 1, "another second may have begun, with the number of omitted lines"
    changes = [each for each in events(tmp_path) if "errors" in each["unmapped"]]
    assert [each["unmapped"]["decision"] for each in changes] == ["denied", "denied"]


def test_what_is_allowed_is_no_event_and_a_line_of_debug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        assert create(cluster.any(), "orders") == [ErrorCode.NONE]

    with caplog.at_level(logging.DEBUG, LOGGER):
        with_node(guarded(tmp_path), work)
    assert [each["unmapped"]["decision"] for each in events(tmp_path)] == ["allowed"]
    assert any(f"Principal = {ANONYMOUS} is Allowed operation = CREATE" in record.getMessage()
               for record in caplog.records if record.name == LOGGER)


def test_topics_that_are_only_hidden_are_not_denied(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster.any(), "orders")
        with as_bob(node) as bob:
            assert bob.send(MetadataRequest(topics=None), MetadataResponse).topics == []
            named = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
            assert bob.send(named, MetadataResponse).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    with_node(guarded(tmp_path, **{"kraft.audit.events": "denials"}), work)
    assert [(each["api"]["operation"], each["resources"][0]["name"]) for each in events(tmp_path)] == [
        ("Metadata", "orders")]


def test_denials_of_produce_and_fetch(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster.any(), "orders")
        batch = BatchBuilder()
        batch.append(b"x")
        data = {("orders", 0): batch.build()}
        follower = fetch_request("orders", 0, 0, AT_ONCE).replace(replica_id=7)
        with as_bob(node) as bob:
            for _ in range(2):
                bob.send(produce_request(data, -1, 1000), ProduceResponse, version=9)
            bob.send(fetch_request("orders", 0, 0, AT_ONCE), FetchResponse, version=11)
            bob.send(follower, FetchResponse, version=11)
            bob.send(produce_request({("absent", 0): data["orders", 0]}, -1, 1000), ProduceResponse, version=9)

    with_node(guarded(tmp_path, **{"kraft.audit.events": "denials"}), work)
    assert [(each["api"]["operation"], each["unmapped"]["operation"], each["resources"][0]["name"])
            for each in events(tmp_path)] == [
        ("Produce", "WRITE", "orders"), ("Produce", "WRITE", "orders"), ("Fetch", "READ", "orders"),
        ("Fetch", "CLUSTER_ACTION", "kafka-cluster"), ("Produce", "WRITE", "absent")]
    assert {(each["unmapped"]["listener"], each["actor"]["app_name"], each["src_endpoint"]["port"] > 0)
            for each in events(tmp_path)} == {(LISTENER, "kraft", True)}


class Deciding:
    """Decisions by the name alone."""

    def allows(self, _principal: object, _host: str, _operation: Operation, _resource: ResourceType,
               name: str) -> bool:
        return name != "no"


def test_denials_are_kept_where_many_decisions_are_made() -> None:
    access = Access(Deciding(), ANONYMOUS, "")  # type: ignore[arg-type]
    assert access.may(Operation.READ, ResourceType.TOPIC, "no") is False
    assert access.notes is None
    access.notes = []
    for number in range(NOTES_MAX + 5):
        access.may(Operation.READ, ResourceType.TOPIC, str(number))
    access.may(Operation.READ, ResourceType.TOPIC, "no")
    assert len(access.notes) == NOTES_MAX
    assert [each.name for each in access.notes if not each.is_allowed] == ["no"]
