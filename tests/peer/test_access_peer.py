"""Clusters of both kinds with an authorizer: the active controller checks the client of a request that a broker passes
on, whichever of the two is Kafka's."""

from pathlib import Path
from typing import Any, Final

import pytest

from kraft.client import Cluster
from kraft.client.security import security_of
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.security.acls import Operation, PatternType, PermissionType, ResourceType
from tests.integration.admin import wait_until
from tests.peer.cluster import mixed_cluster
from tests.peer.kafka import require_kafka
from tests.peer.quorum import SECONDS

pytestmark = pytest.mark.peer

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS: Final = ("node", "admin", "alice")
LOGIN: Final = (f'{PLAIN} required username="node" password="node-secret" '
                + " ".join(f'user_{each}="{each}-secret"' for each in USERS) + ";")
SETTINGS: Final = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN", "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": LOGIN, "listener.name.controller.plain.sasl.jaas.config": LOGIN,
    "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:node;User:admin",
    "offsets.topic.replication.factor": "1"}


def client(address: str, user: str) -> Cluster:
    return Cluster(address, client_id=user, timeout=SECONDS, security=security_of({
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{user}-secret";'}))


def create(user: Cluster, name: str, replicas: int = 1) -> int:
    [topic] = user.any().send(CreateTopicsRequest(topics=[CreatableTopic(
        name=name, num_partitions=1, replication_factor=replicas)], timeout_ms=30_000), CreateTopicsResponse).topics
    return topic.error_code


@pytest.mark.parametrize("controller", ["o", "j"])
def test_a_client_is_checked_behind_each_broker(tmp_path: Path, controller: str) -> None:
    require_kafka()
    settings: dict[str, Any] = SETTINGS
    with mixed_cluster(tmp_path, controller, "oj", **settings) as cluster:
        cluster.start()
        addresses = [broker.address for broker in cluster.brokers.values()]
        with client(addresses[0], "admin") as admin:
            assert create(admin, "shared", 2) == ErrorCode.NONE
            response = admin.any().send(CreateAclsRequest(creations=[AclCreation(
                resource_type=ResourceType.TOPIC, resource_name=name, resource_pattern_type=PatternType.PREFIXED,
                principal="User:alice", host="127.0.0.1", operation=operation, permission_type=PermissionType.ALLOW)
                for name, operation in (("own-", Operation.CREATE), ("shared", Operation.DESCRIBE))]),
                CreateAclsResponse)
            assert [each.error_code for each in response.results] == [ErrorCode.NONE] * 2

            def in_sync() -> bool:
                [topic] = admin.any().send(MetadataRequest(topics=[MetadataRequestTopic(name="shared")]),
                                           MetadataResponse).topics
                return sorted(topic.partitions[0].isr_nodes) == [11, 12]

            wait_until(in_sync, "the replica of the other kind is in sync", SECONDS)
        for number, address in enumerate(addresses):
            with client(address, "alice") as alice:
                wait_until(lambda: create(alice, f"own-{number}") in (  # noqa: B023 - called at once
                    ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), "alice creates a topic of her own", SECONDS)
                assert create(alice, "other") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with client(addresses[0], "admin") as admin:
            def coordinated() -> bool:
                [found] = admin.any().send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]),
                                           FindCoordinatorResponse).coordinators
                return found.error_code == ErrorCode.NONE

            wait_until(coordinated, "our broker has created the topic of offsets", SECONDS)
