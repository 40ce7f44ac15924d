"""Every API of brokers as several users: without an ACL, with what it needs, and with what comes close.

Each case has a user of its own, so that none changes the permissions of another. A refusal must be the same in both
nodes, field by field. What is allowed must be allowed in both: the rest of such an answer is compared elsewhere.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft.client.connection import Connection, ConnectionFailedError
from kraft.client.security import security_of
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import DescribeAclsResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.response_errors import count_errors
from kraft.security.acls import Operation, PatternType, ResourceType
from kraft.steps import finish
from kraft_native.base.errors import InvalidArgumentError, UnsupportedVersionError
from tests.broker.access.samples import HIDDEN, SAMPLES, Sample
from tests.broker.access.world import Acl, denied
from tests.compare.node import AS_KAFKA, NO_ANSWER, SECONDS, Requests
from tests.compare.questions import Question
from tests.integration.process import NodeProcess
from tests.native.logs import batch
from tests.peer.kafka import kafka_node
from tests.ports import free_ports

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD: Final = "secret"
WAIT_SECONDS: Final = 30.0
PARTS: Final = 200
REFUSALS: Final = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED})
ELSEWHERE: Final = (ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN)
"""APIs that need more than ACLs: a listener and a secret key of their own."""
_TOPIC: Final = ResourceType.TOPIC
_WRITE, _READ, _DESCRIBE = ((Acl(operation, _TOPIC, "orders"),) for operation in (
    Operation.WRITE, Operation.READ, Operation.DESCRIBE))
_RECORDS: Final = batch(2)
_FETCHED: Final[dict[str, Any]] = {"max_wait_ms": 0, "min_bytes": 0, "topics": ("FetchTopic", [
    {"topic": "orders", "partitions": ("FetchPartition", [{"partition_max_bytes": 1 << 20}])}])}
_PRODUCED: Final[dict[str, Any]] = {"acks": 1, "timeout_ms": 5_000, "topic_data": ("TopicProduceData", [
    {"name": "orders", "partition_data": ("PartitionProduceData", [{"records": _RECORDS}])},
    {"name": "secret", "partition_data": ("PartitionProduceData", [{"records": _RECORDS}])}])}
IN_COMPILED_CODE: Final = [
    Sample(ApiKey.PRODUCE, {**_PRODUCED, "topic_data": ("TopicProduceData", _PRODUCED["topic_data"][1][:1])},
           (_WRITE,), (), version=12),
    Sample(ApiKey.PRODUCE, _PRODUCED, (_WRITE,), (), version=11),
    Sample(ApiKey.PRODUCE, {**_PRODUCED, "transactional_id": "x", "topic_data": ("TopicProduceData", [
        {"name": "orders", "partition_data": ("PartitionProduceData", [{"records": batch(
            1, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)}])}])},
           (_WRITE, (Acl(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "x"),)), (), version=12),
    Sample(ApiKey.FETCH, _FETCHED, (_READ,), (), version=12),
    Sample(ApiKey.FETCH, {**_FETCHED, "replica_id": 1}, ((Acl(Operation.CLUSTER_ACTION),),), (), version=12),
]
WITH_OPERATIONS: Final = [
    Sample(ApiKey.METADATA, {"topics": None, "include_topic_authorized_operations": True}, (_DESCRIBE,), (),
           version=12),
    Sample(ApiKey.METADATA, {"topics": None, "include_topic_authorized_operations": True,
                             "include_cluster_authorized_operations": True},
           (_READ, (Acl(Operation.DESCRIBE),)), (), version=10),
    Sample(ApiKey.METADATA, {"topics": ("MetadataRequestTopic", [
        {"name": name} for name in ("secret", "orders", "missing")]), "include_topic_authorized_operations": True,
        "allow_auto_topic_creation": False}, (_READ,), (), version=12),
    Sample(ApiKey.DESCRIBE_TOPIC_PARTITIONS, {}, (_WRITE,), ()),
    Sample(ApiKey.DESCRIBE_TOPIC_PARTITIONS, {"topics": ("TopicRequest", [
        {"name": name} for name in ("secret", "orders", "missing")])}, (_DESCRIBE,), ()),
    Sample(ApiKey.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": True},
           ((Acl(Operation.DESCRIBE),), (Acl(Operation.ALTER_CONFIGS),)), ()),
    Sample(ApiKey.DESCRIBE_GROUPS, {"groups": ["g"], "include_authorized_operations": True},
           ((Acl(Operation.READ, ResourceType.GROUP, "g"),),), (), version=5),
]
"""Answers that contain what the user may do; all of them is compared, with what is allowed, too."""
HARMLESS: Final = (ApiKey.DESCRIBE_CLUSTER, ApiKey.INCREMENTAL_ALTER_CONFIGS)
"""Requests to controllers that may be allowed: others would change the quorum."""


class Case(NamedTuple):
    """One request as one user. `why`: what the user lacks; empty when nothing is missing."""

    sample: Sample
    why: str
    acls: list[Acl]
    user: str

    def __str__(self) -> str:
        return f"{self.sample}, {self.why or 'allowed'} ({self.user})"


def cases() -> list[Case]:
    """Return all cases: of the requests that Kafka serves on the listener, each in every version that can carry it.
    Other versions than that of a sample have the cases without any ACL, and with what the sample needs."""
    found: list[Case] = []
    for sample in (*SAMPLES, *HIDDEN, *IN_COMPILED_CODE, *WITH_OPERATIONS):
        api = API_BY_KEY[sample.key]
        versions = api.controller_versions if sample.on_controller else api.broker_versions
        if api.private or sample.key in ELSEWHERE or versions is None:
            continue
        first = [group[0] for group in sample.needs]
        enough = [("", [*first[:place], each, *first[place + 1:]]) for place, group in enumerate(sample.needs)
                  for each in group]
        if sample.on_controller and sample.key not in HARMLESS:
            enough = []
        for version in versions:
            if sample.key == ApiKey.PRODUCE and version > sample.api_version:
                continue               # they have ids of topics, which the nodes choose
            each = sample._replace(version=version)
            if version == sample.api_version:
                ways = [*denied(first).items(), *enough]
            elif version in api.versions and _fits(each):
                ways = [("no ACL", []), *enough[:1]]
            else:
                continue
            found += [Case(each, why, acls, f"u{len(found) + number}") for number, (why, acls) in enumerate(ways)]
    return found


def _fits(sample: Sample) -> bool:
    """Return whether the version of a sample can carry its request."""
    try:
        sample.request.encode(sample.api_version)
    except (InvalidArgumentError, UnsupportedVersionError):
        return False
    return True


class Secured:
    """A node with an authorizer: an anonymous client is a super user, and others log in on further ports."""

    def __init__(self, port: int, login_port: int, controller_port: int) -> None:
        self.port, self.login_port, self.controller_port = port, login_port, controller_port

    def prepare(self, found: list[Case]) -> None:
        """Create the topics and all ACLs, and wait until the broker has them."""
        with Connection("127.0.0.1", self.port, timeout=WAIT_SECONDS) as admin:
            self.create_topics(admin)
            self.await_coordinators(admin)
            entries = [AclCreation(
                resource_type=acl.resource, resource_name=acl.name, resource_pattern_type=PatternType.LITERAL,
                principal=f"User:{case.user}", host=acl.host, operation=acl.operation, permission_type=acl.permission)
                for case in found for acl in case.acls]
            for start in range(0, len(entries), PARTS):
                response = admin.send(CreateAclsRequest(creations=entries[start:start + PARTS]), CreateAclsResponse)
                assert not any(each.error_code for each in response.results)
            everything = DescribeAclsRequest(
                resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
                host_filter=None, operation=1, permission_type=1)
            deadline = time.monotonic() + WAIT_SECONDS
            while sum(len(each.acls) for each in admin.send(everything, DescribeAclsResponse).resources) < len(entries):
                assert time.monotonic() < deadline, "the broker has not learned of the ACLs"

    def await_coordinators(self, admin: Connection) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        for kind, key in ((0, "g"), (1, "x")):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            while admin.send(request, FindCoordinatorResponse).coordinators[0].error_code:
                assert time.monotonic() < deadline, "there is no coordinator"
                time.sleep(0.02)

    def create_topics(self, admin: Connection) -> None:
        names = ("orders", "secret")
        admin.send(CreateTopicsRequest(timeout_ms=10_000, topics=[CreatableTopic(
            name=name, num_partitions=1, replication_factor=1) for name in names]), CreateTopicsResponse)
        deadline = time.monotonic() + WAIT_SECONDS
        while not {each.name for each in admin.send(MetadataRequest(topics=None), MetadataResponse).topics
                   if not each.error_code and all(one.leader_id >= 0 for one in each.partitions)} >= set(names):
            assert time.monotonic() < deadline, "the topics do not exist"

    def send(self, case: Case) -> tuple[Any, set[int]]:
        """Return the answer in a form that can be compared, and the refusals in it."""
        api = API_BY_KEY[case.sample.key]
        security = security_of({
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="{case.user}" password="{PASSWORD}";'})
        port = self.controller_port if case.sample.on_controller else self.login_port
        with Connection("127.0.0.1", port, timeout=SECONDS, security=security) as user:
            try:
                answer = user.send(case.sample.request, api.response, version=case.sample.api_version)
            except ConnectionFailedError as error:
                return "closed" if "closed" in str(error) or "reset" in str(error) else f"{NO_ANSWER}: {error}", set()
        counts: Counter[int] = Counter()
        finish(count_errors(answer, counts))
        question = Question(api.name, case.sample.api_version, {})
        return Requests(0)._values(api, question, answer), {code for code in counts if code in REFUSALS}

    def repair(self) -> None:
        """Create topics again that an allowed request has deleted."""
        with Connection("127.0.0.1", self.port, timeout=WAIT_SECONDS) as admin:
            self.create_topics(admin)


def compare(ours: Secured, theirs: Secured, found: list[Case]) -> Iterator[str]:
    """Return the differences in words."""
    for case in found:
        (answer, refusals), (expected, their_refusals) = ours.send(case), theirs.send(case)
        is_whole = (case.sample.key, case.sample.fields) in [(each.key, each.fields) for each in WITH_OPERATIONS]
        is_refused = case.why and (their_refusals or not case.sample.errors)
        if refusals != their_refusals or ((is_whole or is_refused) and answer != expected):
            yield f"{case}: {case.acls}\n    ours {answer!r:.900}\n    Kafka's {expected!r:.900}"
        if not case.why and case.sample.key == ApiKey.DELETE_TOPICS:
            ours.repair()
            theirs.repair()


@contextmanager
def both_secured(directory: Path, found: list[Case]) -> Iterator[tuple[Secured, Secured]]:
    """Run our node and Kafka's, with the users, topics and ACLs of these cases."""
    users = [case.user for case in found]
    login = f"{PLAIN} required " + " ".join(f'user_{each}="{PASSWORD}"' for each in ("node", *users))
    own = f'username="node" password="{PASSWORD}"'
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:node",
        "sasl.enabled.mechanisms": "PLAIN", "listener.name.login.plain.sasl.jaas.config": f"{login};",
        "sasl.mechanism.controller.protocol": "PLAIN", "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{login} {own};",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT", "controller.listener.names": "CONTROLLER"}

    def listeners(ports: list[int]) -> str:
        return ",".join(f"{name}://127.0.0.1:{port}"
                        for name, port in zip(("PLAINTEXT", "LOGIN", "CONTROLLER"), ports, strict=True))

    with ExitStack() as stack:
        free = free_ports(6)
        our_ports, their_ports = free[:3], free[3:]
        kafka = stack.enter_context(kafka_node(directory / "kafka", **{
            **settings, "listeners": listeners(their_ports), "advertised.listeners": listeners(their_ports),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{their_ports[2]}"}))
        kafka.start()
        node = _Node(directory / "node", {**AS_KAFKA, **settings, "listeners": listeners(our_ports)})
        stack.callback(node.stop)
        node.start()
        nodes = Secured(*our_ports), Secured(*their_ports)
        for each in nodes:
            each.prepare(found)
        yield nodes


class _Node(NodeProcess):
    """Our node, whose listeners are among its settings."""

    def _options(self) -> list[str]:
        return []
