"""ACLs on a node of ours and on one of Kafka's: the same answers to requests, and the same decisions."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.client.acls import create_acls, delete_acls, list_acls
from kraft.client.refusals import RefusedError
from kraft.client.topics import create_topic
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.security.acls import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from tests.cli.nodes import running
from tests.peer.kafka import kafka_node, require_kafka

pytestmark = pytest.mark.peer

TOPICS = ("a", "ab", "abc", "b", "ba", "hardcode")
ROUNDS = 25
ACLS = 12
KNOWN_SECONDS = 20
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
OWN = [Acl(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME, "User:ANONYMOUS", "*", operation,
           PermissionType.ALLOW)
       for operation in (Operation.ALTER, Operation.DESCRIBE, Operation.CREATE, Operation.CLUSTER_ACTION)]
"""Entries that let this test change entries, and no idempotent producer write."""
EVERY = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
         "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
Pair = tuple[Cluster, Cluster]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    require_kafka()
    directory: Path = tmp_path_factory.mktemp("acls")
    assignments = [part for name, text in SETTINGS.items() for part in ("--set", f"{name}={text}")]
    settings = {name.replace(".", "_"): text for name, text in SETTINGS.items()}
    with (running(directory / "ours" / "data", *assignments) as ours,
          kafka_node(directory / "kafkas", **settings) as kafkas,
          Cluster(ours.bootstrap, timeout=30) as first, Cluster(kafkas.bootstrap, timeout=30) as second):
        kafkas.start()
        for cluster in (first, second):
            for topic in TOPICS:
                create_topic(cluster, topic, 1)
        yield first, second


@pytest.fixture(autouse=True)
def no_entries(pair: Pair) -> Iterator[None]:
    yield
    for cluster in pair:
        delete_acls(cluster, [AclFilter(resource_type=kind) for kind in (
            ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)])
        await_count(cluster, 0)


def await_count(cluster: Cluster, count: int) -> None:
    """Wait until the broker knows that many entries: Kafka answers before that. A deleted one may still deny."""
    end = time.monotonic() + KNOWN_SECONDS
    while known_entries(cluster) != count:
        assert time.monotonic() < end


def known_entries(cluster: Cluster) -> int | None:
    """Return the number of entries; None while an entry denies the request."""
    try:
        return len(list_acls(cluster))
    except RefusedError as refused:
        assert refused.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return None


def creation(**fields: Any) -> AclCreation:
    return AclCreation(**{"resource_type": 2, "resource_name": "a", "resource_pattern_type": 3,
                          "principal": "User:x", "host": "*", "operation": 3, "permission_type": 3, **fields})


def answer(cluster: Cluster, request: Message, version: int) -> Any:
    return cluster.any().send(request, API_BY_KEY[request.API_KEY].response, version=version)


@pytest.mark.parametrize("wrong", [
    {"resource_type": 1}, {"resource_pattern_type": 1}, {"resource_pattern_type": 2}, {"operation": 1},
    {"permission_type": 1}], ids=str)
def test_one_entry_that_only_a_filter_can_have(pair: Pair, wrong: dict[str, int]) -> None:
    """Kafka refuses the whole request as a fault of its own."""
    ours, kafkas = ([each.error_code for each in answer(cluster, CreateAclsRequest(
        creations=[creation(), creation(**wrong)]), 3).results] for cluster in pair)
    assert ours == [0, ErrorCode.INVALID_REQUEST]
    assert kafkas == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_same_answers(pair: Pair, version: int) -> None:
    creations = [creation(), creation(), creation(resource_name="p", resource_pattern_type=4, permission_type=2),
                 creation(resource_type=4, resource_name="no-cluster"), creation(resource_name=""),
                 creation(resource_type=9), creation(resource_pattern_type=9), creation(operation=99),
                 creation(permission_type=9), creation(operation=2, resource_name="*")]
    filters = [EVERY, {**EVERY, "operation": 99}, {**EVERY, "resource_type_filter": 99},
               {**EVERY, "pattern_type_filter": 9}, {**EVERY, "permission_type": 9},
               {**EVERY, "pattern_type_filter": 2, "resource_name_filter": "pq"},
               {**EVERY, "pattern_type_filter": 3, "resource_name_filter": "pq"},
               {**EVERY, "resource_name_filter": ""}, {**EVERY, "principal_filter": "User:y"}]
    found = []
    for cluster in pair:
        created = answer(cluster, CreateAclsRequest(creations=creations), version)
        await_count(cluster, 3)
        described = [answer(cluster, DescribeAclsRequest(**each), version) for each in filters]
        deleted = answer(cluster, DeleteAclsRequest(filters=[DeleteAclsFilter(**each) for each in filters]), version)
        found.append((
            [each.error_code for each in created.results],
            [(each.error_code, each.error_message, sorted(
                (resource.resource_type, resource.resource_name, resource.pattern_type, sorted(
                    (acl.principal, acl.host, acl.operation, acl.permission_type) for acl in resource.acls))
                for resource in each.resources)) for each in described],
            [(each.error_code, sorted((acl.error_code, acl.error_message, acl.resource_name, acl.pattern_type,
                                       acl.operation) for acl in each.matching_acls))
             for each in deleted.filter_results]))
    assert found[0] == found[1]


def random_acl(choose: random.Random) -> Acl:
    name = choose.choice(("*", "a", "ab", "abc", "abcd", "b", "hard", "hardcode"))
    return Acl(ResourceType.TOPIC, choose.choice((PatternType.LITERAL, PatternType.PREFIXED)), name,
               choose.choice(("User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:x")),
               choose.choice(("*", "127.0.0.1", "127.0.0.2")),
               choose.choice([each for each in Operation if Operation.ALL <= each <= Operation.ALTER_CONFIGS]),
               choose.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)))


def decisions(cluster: Cluster) -> tuple[Any, ...]:
    topics = answer(cluster, MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in TOPICS], allow_auto_topic_creation=False,
        include_topic_authorized_operations=True), 12)
    init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    while (code := answer(cluster, init, 4).error_code) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    return (sorted((each.name, each.error_code, each.topic_authorized_operations & 0xFFFFFFFF)
                   for each in topics.topics), code)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_same_decisions(pair: Pair, seed: int) -> None:
    choose = random.Random(seed)
    acls = sorted({random_acl(choose) for _ in range(choose.randint(1, ACLS))}) + OWN
    found = []
    for cluster in pair:
        create_acls(cluster, acls)
        await_count(cluster, len(acls))
        found.append(decisions(cluster))
    assert found[0] == found[1], acls
