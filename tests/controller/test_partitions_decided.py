"""Requests that name a thing twice: it is refused, or decided the second time from what was decided first."""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import pytest

from kraft.broker.request_parts import PLANS, Level, Plan, serve_in_parts
from kraft.controller.controller import HANDLERS
from kraft.metadata.image import PartitionRegistration
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message, Struct
from kraft.protocol.messages import alter_configs_request as legacy
from kraft.protocol.messages import incremental_alter_configs_request as incremental
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState
from kraft.protocol.messages.alter_partition_request import PartitionData as Altered
from kraft.protocol.messages.alter_partition_request import TopicData as AlteredTopic
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.steps import finish
from tests.controller.world import World


def creation(name: str) -> AclCreation:
    return AclCreation(resource_type=2, resource_name=name, resource_pattern_type=3, principal="User:u", host="*",
                       operation=3, permission_type=3)


def new_world() -> World:
    """Return a world with one partition that broker 1 leads."""
    made = World(has_authorizer=True)
    made.join(1, 2, 3, 4)
    made.send(CreateAclsRequest(creations=[creation("known")]))
    response = made.send(CreateTopicsRequest(timeout_ms=1, topics=[CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])])]), 7)
    assert response.topics[0].error_code == ErrorCode.NONE
    return made


@pytest.fixture
def world() -> World:
    return new_world()


def partition(world: World) -> PartitionRegistration:
    found: PartitionRegistration = world.partition("t")
    return found


def test_alter_partition(world: World) -> None:
    """The second change relies on a partition epoch that the first has ended."""
    known, brokers = partition(world), world.image.brokers

    def wanted(*isr: int) -> Altered:
        return Altered(partition_index=0, leader_epoch=known.leader_epoch, partition_epoch=known.partition_epoch,
                       new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=brokers[each].epoch)
                                            for each in isr])

    answer = world.send(AlterPartitionRequest(broker_id=1, broker_epoch=brokers[1].epoch, topics=[AlteredTopic(
        topic_id=world.image.topic_ids["t"], partitions=[wanted(1), wanted(1, 2)])]), 3)
    assert [each.error_code for each in answer.topics[0].partitions] == [
        ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert partition(world).isr == (1,)


def test_assign_replicas_to_dirs(world: World) -> None:
    """A replica in a failed directory leaves the ISR. The second mention does not place it again, and the third leaves
    out a replica that has left already."""
    failed, topic_id, broker = UUID(int=9999), world.image.topic_ids["t"], world.image.brokers[2]
    before = partition(world)
    places = [DirectoryData(id=directory, topics=[TopicData(topic_id=topic_id, partitions=[
        PartitionData(partition_index=0)])]) for directory in (failed, failed, broker.log_dirs[0], failed)]
    answer = world.send(AssignReplicasToDirsRequest(
        broker_id=2, broker_epoch=broker.epoch, directories=places), 0)
    assert [each.topics[0].partitions[0].error_code for each in answer.directories] == [ErrorCode.NONE] * 4
    after = partition(world)
    assert (after.isr, after.directory_of(2)) == ((1, 3), failed)
    assert after.partition_epoch == before.partition_epoch + 3


def test_alter_partition_reassignments(world: World) -> None:
    """The second one cancels the first."""
    answer = world.send(AlterPartitionReassignmentsRequest(timeout_ms=1, topics=[ReassignableTopic(
        name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)
                              for replicas in ([1, 2, 4], None)])]), 1)
    assert [each.error_code for each in answer.responses[0].partitions] == [ErrorCode.NONE] * 2
    assert partition(world).replicas == (1, 2, 3)
    assert not partition(world).reassigning


def another_leads(world: World) -> None:
    """Fence broker 1 for a moment. It is in the ISR again afterwards, and does not lead."""
    world.beat(1, want_fence=True)
    world.beat(1)
    known, broker = partition(world), world.image.brokers
    world.send(AlterPartitionRequest(
        broker_id=known.leader, broker_epoch=broker[known.leader].epoch, topics=[AlteredTopic(
            topic_id=world.image.topic_ids["t"], partitions=[Altered(
                partition_index=0, leader_epoch=known.leader_epoch, partition_epoch=known.partition_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=broker[each].epoch)
                                     for each in (1, 2, 3)])])]), 3)
    assert partition(world).leader != 1


def test_elect_leaders(world: World) -> None:
    another_leads(world)
    known = partition(world)
    answer = world.send(ElectLeadersRequest(
        election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=[0, 0])]))
    assert [each.error_code for each in answer.replica_election_results[0].partition_result] == [
        ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
    assert (partition(world).leader, partition(world).leader_epoch) == (1, known.leader_epoch + 1)


# --- every API ----------------------------------------------------------------------------------------------------


def altered(world: World, mentions: int) -> Message:
    known, broker = partition(world), world.image.brokers[2]
    return AlterPartitionRequest(broker_id=2, broker_epoch=broker.epoch, topics=[AlteredTopic(
        topic_id=world.image.topic_ids["t"], partitions=mentions * [Altered(
            partition_index=0, leader_epoch=known.leader_epoch, partition_epoch=known.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=2, broker_epoch=broker.epoch)])])])


def placed(world: World, mentions: int) -> Message:
    return AssignReplicasToDirsRequest(
        broker_id=2, broker_epoch=world.image.brokers[2].epoch, directories=mentions * [DirectoryData(
            id=UUID(int=9999), topics=[TopicData(topic_id=world.image.topic_ids["t"], partitions=[
                PartitionData(partition_index=0)])])])


TWICE: Final[dict[int, Callable[[World, int], Message]]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: lambda _world, mentions: AlterClientQuotasRequest(entries=mentions * [EntryData(
        entity=[EntityData(entity_type="user", entity_name="u")], ops=[OpData(key="producer_byte_rate", value=1.0)])]),
    ApiKey.ALTER_CONFIGS: lambda _world, mentions: legacy.AlterConfigsRequest(resources=mentions * [
        legacy.AlterConfigsResource(resource_type=2, resource_name="t", configs=[
            legacy.AlterableConfig(name="retention.ms", value="1")])]),
    ApiKey.ALTER_PARTITION: altered,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda _world, mentions: AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=mentions * [
            ReassignablePartition(partition_index=0, replicas=[1, 2, 4])])]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda _world, mentions: AlterUserScramCredentialsRequest(
        upsertions=mentions * [ScramCredentialUpsertion(
            name="u", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"salted")]),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: placed,
    ApiKey.CREATE_ACLS: lambda _world, mentions: CreateAclsRequest(creations=mentions * [creation("new")]),
    ApiKey.CREATE_PARTITIONS: lambda _world, mentions: CreatePartitionsRequest(topics=mentions * [
        CreatePartitionsTopic(name="t", count=2, assignments=None)]),
    ApiKey.CREATE_TOPICS: lambda _world, mentions: CreateTopicsRequest(topics=mentions * [
        CreatableTopic(name="new", num_partitions=1, replication_factor=1)]),
    ApiKey.DELETE_ACLS: lambda _world, mentions: DeleteAclsRequest(filters=mentions * [DeleteAclsFilter(
        resource_type_filter=2, resource_name_filter="known", principal_filter=None, host_filter=None, operation=1,
        permission_type=1)]),
    ApiKey.DELETE_TOPICS: lambda world, mentions: DeleteTopicsRequest(topics=[
        DeleteTopicState(name="t"), DeleteTopicState(name=None, topic_id=world.image.topic_ids["t"])][:mentions]),
    ApiKey.ELECT_LEADERS: lambda _world, mentions: ElectLeadersRequest(topic_partitions=[
        TopicPartitions(topic="t", partitions=mentions * [0])]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda _world, mentions: incremental.IncrementalAlterConfigsRequest(
        resources=mentions * [incremental.AlterConfigsResource(resource_type=2, resource_name="t", configs=[
            incremental.AlterableConfig(name="retention.ms", config_operation=0, value="1")])]),
    ApiKey.UPDATE_FEATURES: lambda _world, mentions: UpdateFeaturesRequest(feature_updates=mentions * [
        FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)]),
}
"""Requests with that many mentions of one thing, in a world where broker 2 leads partition t-0."""
ONE_EACH: Final = frozenset({
    ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.BROKER_HEARTBEAT, ApiKey.BROKER_REGISTRATION, ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.UNREGISTER_BROKER})
"""Requests that change one thing, or nothing."""


def test_every_request_is_known_here() -> None:
    assert TWICE.keys() | ONE_EACH == HANDLERS.keys()
    assert not TWICE.keys() & ONE_EACH


@pytest.mark.parametrize("key", TWICE, ids=lambda key: ApiKey(key).name)
def test_a_second_mention_adds_no_record(key: int) -> None:
    """Two equal mentions do what one does, or nothing."""
    def records(mentions: int) -> list[Message]:
        fresh = new_world()
        another_leads(fresh)
        before = fresh.log.end_offset
        fresh.send(TWICE[key](fresh, mentions))
        return fresh.log.messages(before)

    once = records(1)
    assert once
    assert records(2) in ([], once)


# --- in several parts ---------------------------------------------------------------------------------------------


def other(element: Any, number: int) -> Any:
    """Return a copy of an element that names another thing, one that the controller refuses."""
    if isinstance(element, int):
        return 1000 + number
    for name in ("partition_index", "partition_id"):
        if hasattr(element, name):
            return element.replace(**{name: 1000 + number})
    if isinstance(element, EntryData):
        return element.replace(entity=[EntityData(entity_type="no such type", entity_name=f"u{number}")])
    if isinstance(element, ScramCredentialUpsertion):
        return element.replace(name=f"u{number}", mechanism=9)
    if isinstance(element, AclCreation):
        return element.replace(operation=1)
    if isinstance(element, DeleteAclsFilter):
        return element.replace(resource_name_filter=f"n{number}")
    if isinstance(element, DeleteTopicState):
        return DeleteTopicState(name=f"t{number}")
    field = "resource_name" if hasattr(element, "resource_name") else "name"
    return element.replace(**{field: f"no topic {number}"})


def separated(plan: Plan, request: Message) -> Message:
    """Return the request with so many other elements after the first one that the next mention is in another part."""
    def changed(struct: Any, path: tuple[Level, ...]) -> Any:
        elements: list[Any] = getattr(struct, path[0].request)
        first = elements[0]
        more = [changed(first, path[1:])] if len(path) > 1 else [
            first, *(other(first, number) for number in range(2 * plan.size))]
        return struct.replace(**{path[0].request: [*more, *elements[1:]]})

    path = next(each for each in plan.paths if getattr(request, each[0].request))
    found = changed(request, path)
    assert isinstance(found, Struct)
    return found


def send_in_parts(world: World, request: Message) -> tuple[Message, int]:
    """Return the answer, and the number of parts."""
    answers: list[Message] = []
    parts: list[Message] = []

    def send(part: Message, answer: Callable[[Message], None]) -> None:
        parts.append(part)
        answer(world.send(part))

    finish(serve_in_parts(request, send, answers.append, finish, image=world.image))
    [answer] = answers
    return answer, len(parts)


@pytest.mark.parametrize("key", [key for key in TWICE if key in PLANS], ids=lambda key: ApiKey(key).name)
def test_a_second_mention_in_a_large_request_adds_no_record(key: int) -> None:
    """Two equal mentions, far apart in a request that is decided in parts, do what they do side by side."""
    def records(mentions: int, *, apart: bool) -> list[Message]:
        fresh = new_world()
        another_leads(fresh)
        before, request = fresh.log.end_offset, TWICE[key](fresh, mentions)
        if apart:
            _, count = send_in_parts(fresh, separated(PLANS[key], request))
            assert count > 1
        else:
            fresh.send(request)
        return fresh.log.messages(before)

    assert records(1, apart=True) == records(1, apart=False)
    assert records(2, apart=True) == records(2, apart=False)


@pytest.mark.parametrize(("mentions", "codes"), [
    (["name", "id"], [ErrorCode.INVALID_REQUEST]),
    (["id", "name", "id"], [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]),
    (["name", "name", "name", "id"], [ErrorCode.INVALID_REQUEST, ErrorCode.NONE])])
def test_a_topic_that_a_large_request_names_by_name_and_by_id(
        world: World, mentions: list[str], codes: list[ErrorCode]) -> None:
    """A large request gets the results of a small one, as in Kafka. A name that is given twice names nothing, so the id
    is its only name then."""
    topic_id = world.image.topic_ids["t"]
    named = {"name": DeleteTopicState(name="t"), "id": DeleteTopicState(name=None, topic_id=topic_id)}
    others = [DeleteTopicState(name=f"t{number}") for number in range(PLANS[ApiKey.DELETE_TOPICS].size)]
    request = DeleteTopicsRequest(timeout_ms=1, topics=[
        each for mention in mentions for each in (named[mention], *others)])
    answer, parts = send_in_parts(world, request)
    assert isinstance(answer, DeleteTopicsResponse)
    assert parts > 1
    results = [each for each in answer.responses if each.name == "t" or each.topic_id == topic_id]
    assert sorted(each.error_code for each in results) == sorted(codes)
    assert ("t" in world.image.topic_ids) is (ErrorCode.NONE not in codes)
