"""A controller and two brokers with an authorizer: two users, what each of them may do, and what brokers pass on."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.client import Cluster
from kraft.client.security import security_of
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kraft.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.vote_request import VoteRequest
from kraft.protocol.messages.vote_response import VoteResponse
from kraft.security.acls import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from tests.integration.quorum import MemberProcess
from tests.ports import free_ports

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS: Final = ("node", "admin", "alice", "bob")
SECONDS: Final = 20.0
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
EVERYTHING: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))


class Member(MemberProcess):
    """A node that is either a controller or a broker, and logs in to others as `user`. Everybody does so by PLAIN."""

    def __init__(self, directory: Path, node_id: int, controller_port: int, *, is_broker: bool,
                 user: str = "node") -> None:
        name = "SASL_PLAINTEXT" if is_broker else "CONTROLLER"
        users = " ".join(f'user_{each}="{each}-secret"' for each in USERS)
        login = f'{PLAIN} required username="{user}" password="{user}-secret" {users};'
        super().__init__(directory / str(node_id), node_id, {
            "process.roles": "broker" if is_broker else "controller",
            "listeners": f"{name}://127.0.0.1:{0 if is_broker else controller_port}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            **({"security.inter.broker.protocol": "SASL_PLAINTEXT"} if is_broker else {}),
            "sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": login,
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:node;User:admin",
            "offsets.topic.replication.factor": "1"})
        self.access: dict[str, str] = {}

    def _options(self) -> list[str]:
        return []

    def _ready(self, message: dict[str, Any]) -> None:
        self.access = message["access"]
        [address] = message["listeners"].values()
        self.port = int(address.rpartition(":")[2])


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    directory, [port] = tmp_path_factory.mktemp("acls"), free_ports(1)
    found = [Member(directory, node_id, port, is_broker=node_id > 1) for node_id in (1, 2, 3)]
    for node in found:
        node.format()
    for node in found:
        node.launch()
    for node in found:
        node.await_ready()
    yield found
    for node in reversed(found):
        node.stop()
        assert node.alarms() == []


def client(node: Member, user: str) -> Cluster:
    return Cluster(node.address, client_id=user, security=security_of({
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{user}-secret";'}))


def allow(node: Member, *entries: tuple[str, Operation, ResourceType, str], host: str = "*",
          permission: PermissionType = PermissionType.ALLOW) -> None:
    with client(node, "admin") as admin:
        response = admin.any().send(CreateAclsRequest(creations=[AclCreation(
            resource_type=kind, resource_name=name, resource_pattern_type=PatternType.LITERAL, principal=f"User:{user}",
            host=host, operation=operation, permission_type=permission) for user, operation, kind, name in entries]),
            CreateAclsResponse)
    assert [each.error_code for each in response.results] == [ErrorCode.NONE] * len(entries)


def create(user: Cluster, name: str) -> Any:
    [result] = user.any().send(CreateTopicsRequest(topics=[CreatableTopic(
        name=name, num_partitions=1, replication_factor=1)], timeout_ms=5_000), CreateTopicsResponse).topics
    return result


def eventually(found: Any, wanted: Any) -> None:
    """Wait until a broker has applied what the controller committed."""
    deadline = time.monotonic() + SECONDS
    while (now := found()) != wanted:
        assert time.monotonic() < deadline, f"{now} instead of {wanted}"
        time.sleep(0.01)


def test_brokers_and_controllers_say_what_clients_may_do(nodes: list[Member]) -> None:
    for node in nodes:
        [sentence] = node.access.values()
        assert "may do what ACLs allow; an anonymous client may do nothing else" in sentence


def test_two_users_see_their_own_topics(nodes: list[Member]) -> None:
    with client(nodes[1], "admin") as admin:
        assert create(admin, "orders").error_code == create(admin, "secret").error_code == ErrorCode.NONE
    with client(nodes[1], "alice") as alice, client(nodes[2], "bob") as bob:
        everything = MetadataRequest(topics=None)
        for user in (alice, bob):
            assert user.any().send(everything, MetadataResponse).topics == []
        allow(nodes[1], ("alice", Operation.DESCRIBE, ResourceType.TOPIC, "orders"))
        eventually(lambda: [each.name for each in alice.any().send(everything, MetadataResponse).topics], ["orders"])
        named = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("secret", "orders", "missing")],
                                include_topic_authorized_operations=True)
        found = {each.name: each for each in alice.any().send(named, MetadataResponse).topics}
        assert {name: each.error_code for name, each in found.items()} == {
            "orders": ErrorCode.NONE, "secret": DENIED, "missing": DENIED}
        assert found["orders"].topic_authorized_operations == 1 << Operation.DESCRIBE
        pages = alice.any().send(DescribeTopicPartitionsRequest(topics=[
            TopicRequest(name=name) for name in ("orders", "secret")]), DescribeTopicPartitionsResponse).topics
        assert [(each.name, each.error_code) for each in pages] == [("orders", ErrorCode.NONE), ("secret", DENIED)]
        pages = alice.any().send(DescribeTopicPartitionsRequest(), DescribeTopicPartitionsResponse).topics
        assert [each.name for each in pages] == ["orders"]
        assert bob.any().send(everything, MetadataResponse).topics == []
    with client(nodes[2], "admin") as admin:
        found = {each.name: each for each in admin.any().send(named, MetadataResponse).topics}
        assert found["secret"].topic_authorized_operations == EVERYTHING


def test_the_controller_checks_the_client_of_a_forwarded_request(nodes: list[Member]) -> None:
    with client(nodes[1], "alice") as alice, client(nodes[1], "bob") as bob:
        assert create(alice, "new").error_code == DENIED
        allow(nodes[1], ("alice", Operation.CREATE, ResourceType.TOPIC, "new"))
        eventually(lambda: create(alice, "new").error_code, ErrorCode.NONE)
        allow(nodes[1], ("alice", Operation.CREATE, ResourceType.TOPIC, "own"),
              ("alice", Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "own"))
        eventually(lambda: create(alice, "own").error_code, ErrorCode.NONE)
        assert create(bob, "other").error_code == DENIED
        allow(nodes[1], ("bob", Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME), host="10.0.0.9")
        assert create(bob, "other").error_code == DENIED


def test_producers_and_groups(nodes: list[Member]) -> None:
    with client(nodes[1], "bob") as bob:
        assert bob.any().send(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
                              ).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        allow(nodes[1], ("bob", Operation.WRITE, ResourceType.TOPIC, "any"),
              ("bob", Operation.READ, ResourceType.GROUP, "g"))
        eventually(lambda: bob.any().send(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
                                          ).error_code, ErrorCode.NONE)
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["other", "g"])
        eventually(lambda: [each.error_code for each in bob.any().send(request, FindCoordinatorResponse).coordinators],
                   [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NONE])


def test_only_nodes_of_the_cluster_act_for_it(nodes: list[Member]) -> None:
    """Kafka's controllers describe themselves to a client that may ALTER the cluster."""
    with client(nodes[0], "bob") as bob, client(nodes[0], "admin") as admin:
        request = DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
        assert bob.any().send(request, DescribeClusterResponse
                              ).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        described = admin.any().send(request, DescribeClusterResponse)
        assert described.error_code == ErrorCode.NONE
        assert described.cluster_authorized_operations == sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
        assert bob.any().send(VoteRequest(), VoteResponse).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_quotas_are_those_of_the_user(nodes: list[Member]) -> None:
    """The broker counts the time of requests, and the controller the topics that a broker's client creates."""
    keys = ("request_percentage", "controller_mutation_rate")
    with client(nodes[1], "admin") as admin:
        changed = admin.any().send(AlterClientQuotasRequest(entries=[EntryData(
            entity=[EntityData(entity_type="user", entity_name="alice")],
            ops=[OpData(key=key, value=0.0001) for key in keys])]), AlterClientQuotasResponse)
        assert [each.error_code for each in changed.entries] == [ErrorCode.NONE]
    allow(nodes[1], *((user, operation, ResourceType.CLUSTER, CLUSTER_NAME) for user in ("alice", "bob")
                      for operation in (Operation.CREATE, Operation.DESCRIBE)))
    with client(nodes[1], "alice") as alice, client(nodes[1], "bob") as bob:
        everything = MetadataRequest(topics=None)
        deadline = time.monotonic() + SECONDS
        while alice.any().send(everything, MetadataResponse).throttle_time_ms == 0:
            assert time.monotonic() < deadline, "alice is not limited"
        assert bob.any().send(everything, MetadataResponse).throttle_time_ms == 0
        request = CreateTopicsRequest(topics=[CreatableTopic(name="more", num_partitions=5, replication_factor=1)],
                                      validate_only=True)
        eventually(lambda: bob.any().send(request, CreateTopicsResponse).topics[0].error_code, ErrorCode.NONE)
        assert bob.any().send(request, CreateTopicsResponse).throttle_time_ms == 0
    with client(nodes[2], "alice") as alice:
        answers = [alice.any().send(request, CreateTopicsResponse, timeout=SECONDS).topics[0].error_code
                   for _ in range(2)]
    assert answers[-1] == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_broker_needs_the_right_to_act_for_the_cluster(nodes: list[Member], tmp_path: Path) -> None:
    broker = Member(tmp_path, 4, nodes[0].port, is_broker=True, user="bob")
    broker.format()
    broker.launch()
    try:
        eventually(lambda: "controller 1 does not let this node act for the cluster: its principal needs CLUSTER_ACTION"
                   in broker.log(), True)
        allow(nodes[1], ("bob", Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))
        broker.await_ready()
        with client(broker, "admin") as admin:
            assert create(admin, "passed-on").error_code == ErrorCode.NONE
    finally:
        broker.kill()
