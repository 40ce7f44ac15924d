"""ACLs of a whole node: created, listed and deleted by requests, and in force for Produce and Fetch."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.client.connection import Connection, ConnectionFailedError
from kraft.client.topics import create_topic
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.config.node_config import NodeConfig
from kraft.log_dir import new_cluster_id
from kraft.metadata.image import Endpoint
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import DescribeAclsResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.runtime.controller_node import ControllerNode
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage.formatting import FormatRequest, format_storage
from tests.native.logs import batch
from tests.runtime.nodes import config, with_controller, with_node

OK = ErrorCode.NONE
LEADING_SECONDS = 20
ANY, LITERAL, PREFIXED = 1, 3, 4
TOPIC = 2
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3
EVERY = {"resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
         "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY}


def settings(data: Path, **more: str) -> Any:
    return config(data, authorizer_class_name=STANDARD_AUTHORIZER, **more)


def denial(name: str = "t", **fields: Any) -> AclCreation:
    return AclCreation(**{"resource_type": TOPIC, "resource_name": name, "resource_pattern_type": LITERAL,
                          "principal": "User:ANONYMOUS", "host": "*", "operation": WRITE, "permission_type": DENY,
                          **fields})


def code(cluster: Cluster) -> int:
    answer = cluster.any().send(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=batch())])]), ProduceResponse, version=12)
    return answer.responses[0].partition_responses[0].error_code


def send(cluster: Cluster, request: Message, version: int = 3) -> Any:
    return cluster.any().send(request, API_BY_KEY[request.API_KEY].response, version=version)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_are_created_listed_in_force_and_deleted(tmp_path: Path, version: int) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        assert code(cluster) == 0
        answer: Any = send(cluster, CreateAclsRequest(creations=[
            denial(), denial(host="10.0.0.0/8"), denial("a", operation=READ), denial("", operation=READ)]), version)
        assert [each.error_code for each in answer.results] == [OK, OK, OK, ErrorCode.INVALID_REQUEST]
        assert code(cluster) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer = send(cluster, DescribeAclsRequest(**EVERY), version)
        assert answer.error_code == OK
        assert [(each.resource_type, each.resource_name, each.pattern_type, [acl.host for acl in each.acls])
                for each in answer.resources] == [(TOPIC, "a", LITERAL, ["*"]),
                                                  (TOPIC, "t", LITERAL, ["*", "10.0.0.0/8"])]
        answer = send(cluster, DescribeAclsRequest(**{**EVERY, "operation": 99}), version)
        assert (answer.error_code, answer.resources) == (OK, [])
        answer = send(cluster, DeleteAclsRequest(filters=[
            DeleteAclsFilter(**{**EVERY, "resource_name_filter": "t"}), DeleteAclsFilter(**{**EVERY, "operation": 99})
        ]), version)
        assert [each.error_code for each in answer.filter_results] == [OK, ErrorCode.INVALID_REQUEST]
        assert [each.host for each in sorted(
            answer.filter_results[0].matching_acls, key=lambda each: each.host)] == ["*", "10.0.0.0/8"]
        assert code(cluster) == 0

    with_node(settings(tmp_path, allow_everyone_if_no_acl_found="true"), work)


def test_entries_are_in_force_after_a_restart(tmp_path: Path) -> None:
    def deny(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        send(cluster, CreateAclsRequest(creations=[denial("", resource_pattern_type=PREFIXED), denial()]), 3)
        assert code(cluster) == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def check(cluster: Cluster, _node: ServerNode) -> None:
        assert code(cluster) == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    for work in (deny, check):
        with_node(settings(tmp_path, allow_everyone_if_no_acl_found="true"), work)


@pytest.mark.parametrize("request_of", [
    lambda: CreateAclsRequest(creations=[denial(), denial(operation=0)]),
    lambda: DeleteAclsRequest(filters=[DeleteAclsFilter(**{**EVERY, "permission_type": 0})]),
    lambda: DescribeAclsRequest(**{**EVERY, "pattern_type_filter": 0}),
], ids=["create", "delete", "describe"])
def test_a_code_that_nothing_has_closes_the_connection(tmp_path: Path, request_of: Callable[[], Message]) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        with pytest.raises(ConnectionFailedError):
            send(cluster, request_of())
        with Cluster(f"127.0.0.1:{node.listeners['PLAINTEXT'].port}") as other:
            assert send(other, DescribeAclsRequest(**EVERY)).resources == []

    with_node(settings(tmp_path, super_users="User:ANONYMOUS"), work)


def test_a_request_of_many_entries(tmp_path: Path) -> None:
    """It takes effect in parts; one of more than the limit does not take effect at all."""
    def work(cluster: Cluster, node: ServerNode) -> None:
        for count, expected in ((2_500, 0), (10_001, ErrorCode.POLICY_VIOLATION)):
            answer = send(cluster, CreateAclsRequest(creations=[denial(f"{count}.{each}") for each in range(count)]))
            assert [each.error_code for each in answer.results] == [expected] * count
        assert len(send(cluster, DescribeAclsRequest(**EVERY)).resources) == 2_500
        authorizer = node.parts.core.broker.authorizer
        assert authorizer is not None
        assert authorizer.table.count == 2_500
        answer = send(cluster, DeleteAclsRequest(filters=[
            DeleteAclsFilter(**{**EVERY, "resource_name_filter": f"2500.{each}"}) for each in range(2_500)]))
        assert [len(each.matching_acls) for each in answer.filter_results] == [1] * 2_500
        assert send(cluster, DescribeAclsRequest(**EVERY)).resources == []

    with_node(settings(tmp_path, super_users="User:ANONYMOUS"), work)


def test_a_super_user_needs_no_entry(tmp_path: Path) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        send(cluster, CreateAclsRequest(creations=[denial()]), 3)
        assert code(cluster) == 0

    with_node(settings(tmp_path, super_users="User:ANONYMOUS"), work)


def test_without_an_authorizer_there_are_no_entries(tmp_path: Path) -> None:
    def work(cluster: Cluster, _node: ServerNode) -> None:
        described: Any = send(cluster, DescribeAclsRequest(**EVERY), 3)
        created: Any = send(cluster, CreateAclsRequest(creations=[denial(), denial()]), 3)
        deleted: Any = send(cluster, DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY)]), 3)
        assert [described.error_code, *(each.error_code for each in (*created.results, *deleted.filter_results))] == [
            ErrorCode.SECURITY_DISABLED] * 4

    with_node(config(tmp_path), work)


@pytest.mark.parametrize("user", ["ANONYMOUS", "somebody-else"])
def test_a_node_that_is_only_a_controller(tmp_path: Path, user: str) -> None:
    """It decides by its own copy of the metadata, and lists and changes entries."""
    node_config = NodeConfig({
        "process.roles": "controller", "node.id": "1", "log.dirs": str(tmp_path), "listeners": "CTRL://127.0.0.1:0",
        "controller.listener.names": "CTRL", "listener.security.protocol.map": "CTRL:PLAINTEXT",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093", "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{user}"})
    format_storage(FormatRequest(1, new_cluster_id(), (tmp_path,), (Endpoint("CTRL", "127.0.0.1", 9093, 0),)), 0,
                   uuid.uuid4)

    def work(node: ControllerNode) -> None:
        end = time.monotonic() + LEADING_SECONDS
        while not node.parts.quorum.metadata.controller.active:
            assert time.monotonic() < end
        denied = 0 if user == "ANONYMOUS" else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with Connection("127.0.0.1", node.listeners["CTRL"].port, timeout=10) as connection:
            created = connection.send(CreateAclsRequest(creations=[denial()]), CreateAclsResponse)
            assert [each.error_code for each in created.results] == [denied]
            described = connection.send(DescribeAclsRequest(**EVERY), DescribeAclsResponse)
            assert (described.error_code, len(described.resources)) == (denied, 1 if denied == 0 else 0)
            deleted = connection.send(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY)]), DeleteAclsResponse)
            assert [(each.error_code, len(each.matching_acls)) for each in deleted.filter_results] == [
                (denied, 1 if denied == 0 else 0)]

    with_controller(node_config, work)
