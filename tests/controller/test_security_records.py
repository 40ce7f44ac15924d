"""AlterClientQuotas, AlterUserScramCredentials, AssignReplicasToDirs, AlterPartitionReassignments."""

import hashlib
import hmac
from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import assign_replicas_to_dirs_request as dirs
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.controller.world import World

USER_A = {"user": "a"}


def limits(world: World, *entries: tuple[dict[str, str | None], dict[str, float | None]],
           validate_only: bool = False) -> list[int]:
    """Set (None: remove) the limits of entities; return the code of each."""
    request = AlterClientQuotasRequest(validate_only=validate_only, entries=[
        EntryData(entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                  ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()])
        for entity, values in entries])
    answer: Any = world.send(request)
    assert all(bool(entry.error_code) == bool(entry.error_message) for entry in answer.entries)
    assert [{part.entity_type: part.entity_name for part in entry.entity} for entry in answer.entries] == [
        entity for entity, _ in entries]
    return [entry.error_code for entry in answer.entries]


def quotas(image: MetadataImage) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    return [(dict(entity), dict(values)) for entity, values in image.quotas.items()]


def test_limits_are_set_changed_and_removed() -> None:
    world = World()
    assert limits(world, (USER_A, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}),
                  ({"client-id": None}, {"consumer_byte_rate": 5.0}), ({"ip": "10.0.0.1"},
                                                                       {"connection_creation_rate": 3.0})) == [0, 0, 0]
    assert limits(world, (USER_A, {"producer_byte_rate": None, "request_percentage": 20.0})) == [0]
    assert limits(world, ({"client-id": None}, {"consumer_byte_rate": None})) == [0]
    assert quotas(world.image) == [(USER_A, {"request_percentage": 20.0}),
                                   ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0})]


@pytest.mark.parametrize(("entity", "text"), [
    ({"ip": "has spaces"}, "not a valid IP"),
    ({"ip": "10.0.0.1", "user": "a"}, "Invalid quota entity combination"),
])
def test_refused_entities_have_the_wording_that_kafkas_clients_know(entity: dict[str, str], text: str) -> None:
    answer: Any = World().send(AlterClientQuotasRequest(entries=[EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key="connection_creation_rate", value=1.0)])]))
    assert text in answer.entries[0].error_message


def test_one_entity_whatever_the_order_of_its_types() -> None:
    world = World()
    assert limits(world, ({"user": "a", "client-id": "c"}, {"producer_byte_rate": 1.0})) == [0]
    assert limits(world, ({"client-id": "c", "user": "a"}, {"producer_byte_rate": 2.0})) == [0]
    assert quotas(world.image) == [({"client-id": "c", "user": "a"}, {"producer_byte_rate": 2.0})]


def test_an_unchanged_setting_writes_no_record() -> None:
    world = World()
    limits(world, (USER_A, {"producer_byte_rate": 1000.0}))
    end = world.log.end_offset
    assert limits(world, (USER_A, {"producer_byte_rate": 1000.0, "consumer_byte_rate": None})) == [0]
    assert limits(world, (USER_A, {"producer_byte_rate": 7.0}), validate_only=True) == [0]
    assert world.log.end_offset == end


@pytest.mark.parametrize(("entity", "key", "value"), [
    ({}, "producer_byte_rate", 1.0),
    ({"group": "g"}, "producer_byte_rate", 1.0),
    ({"user": ""}, "producer_byte_rate", 1.0),
    ({"ip": "10.0.0.1", "user": "a"}, "connection_creation_rate", 1.0),
    ({"ip": "no address"}, "connection_creation_rate", 1.0),
    ({"ip": "10.0.0.1"}, "producer_byte_rate", 1.0),
    (USER_A, "no_such_limit", 1.0),
    (USER_A, "producer_byte_rate", 0.0),
    (USER_A, "producer_byte_rate", -1.0),
    (USER_A, "producer_byte_rate", 1.5),
    (USER_A, "producer_byte_rate", float("nan")),
    ({"ip": None}, "connection_creation_rate", 2.0**31),
])
def test_limits_that_cannot_be(entity: dict[str, str | None], key: str, value: float) -> None:
    world = World()
    codes = limits(world, (entity, {key: value}), ({"user": "fine"}, {"request_percentage": 1.0}))
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert quotas(world.image) == [({"user": "fine"}, {"request_percentage": 1.0})]


def test_an_entity_twice_is_refused() -> None:
    world = World()
    codes = limits(world, (USER_A, {"producer_byte_rate": 1.0}), (USER_A, {"consumer_byte_rate": 1.0}))
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
    assert quotas(world.image) == []


# --- SCRAM


def put(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt",
                                    salted_password=b"salted")


def scram(world: World, *upsertions: ScramCredentialUpsertion,
          deletions: tuple[tuple[str, int], ...] = ()) -> dict[str, int]:
    answer: Any = world.send(AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=[
        ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions]))
    return {result.user: result.error_code for result in answer.results}


def test_credentials_are_kept_as_the_two_keys() -> None:
    world = World()
    assert scram(world, put("a"), put("b", 2)) == {"a": 0, "b": 0}
    kept = world.image.scram[1, "a"]
    assert (kept.salt, kept.iterations) == (b"salt", 4096)
    client_key = hmac.digest(b"salted", b"Client Key", "sha256")
    assert kept.stored_key == hashlib.sha256(client_key).digest()
    assert kept.server_key == hmac.digest(b"salted", b"Server Key", "sha256")
    assert len(world.image.scram[2, "b"].stored_key) == 64
    assert scram(world, deletions=(("a", 1),)) == {"a": 0}
    assert list(world.image.scram) == [(2, "b")]


@pytest.mark.parametrize(("upsertion", "code"), [
    (put(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    (put("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    (put("a", 1, 4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    (put("a", 1, 16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    (put("a").replace(salt=bytes(1025)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    (put("a").replace(salted_password=bytes(1025)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
])
def test_credentials_that_cannot_be(upsertion: ScramCredentialUpsertion, code: int) -> None:
    world = World()
    assert scram(world, upsertion, put("fine")) == {upsertion.name: code, "fine": ErrorCode.NONE}


def test_deletions_and_doubles() -> None:
    world = World()
    assert scram(world, deletions=(("a", 1),)) == {"a": ErrorCode.RESOURCE_NOT_FOUND}
    assert scram(world, put("a"), put("a", 2), put("b")) == {"a": ErrorCode.DUPLICATE_RESOURCE, "b": 0}
    assert scram(world, put("b"), deletions=(("b", 1),)) == {"b": ErrorCode.DUPLICATE_RESOURCE}
    assert list(world.image.scram) == [(1, "b")], "neither of the two"
    assert scram(world, put("a"), deletions=(("a", 1),)) == {"a": ErrorCode.RESOURCE_NOT_FOUND}, "the first error"
    assert list(world.image.scram) == [(1, "b")]


def test_an_old_metadata_version_has_no_credentials() -> None:
    world = World(metadata_level=7)
    assert scram(world, put("a"))["a"] == ErrorCode.UNSUPPORTED_VERSION


# --- replicas


def with_topic() -> World:
    world = World()
    world.join(1)
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=2, replication_factor=1)]))
    return world


def test_directories_of_replicas() -> None:
    world = with_topic()
    topic = world.image.topic("a")
    assert topic is not None
    directory = UUID(int=4711)
    epoch = world.image.brokers[1].epoch

    def assign(topic_id: UUID, *indexes: int, broker_epoch: int = epoch) -> Any:
        return world.send(dirs.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=broker_epoch, directories=[
            dirs.DirectoryData(id=directory, topics=[dirs.TopicData(topic_id=topic_id, partitions=[
                dirs.PartitionData(partition_index=index) for index in indexes])])]))

    assert assign(topic.topic_id, 0, broker_epoch=99).error_code == ErrorCode.STALE_BROKER_EPOCH
    answer = assign(topic.topic_id, 0, 7)
    assert [part.error_code for part in answer.directories[0].topics[0].partitions] == [
        ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.partition("a", 0).directories == (directory,)
    answer = assign(UUID(int=5000), 0)
    assert answer.directories[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("name", "index", "replicas", "code"), [
    ("a", 0, [1], ErrorCode.NONE),
    ("a", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ("a", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("a", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("a", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("a", 2, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("b", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
])
def test_reassignments(name: str, index: int, replicas: list[int] | None, code: int) -> None:
    world = with_topic()
    answer: Any = world.send(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[
        ReassignablePartition(partition_index=index, replicas=replicas)])]))
    found = answer.responses[0].partitions[0]
    assert (found.error_code, bool(found.error_message)) == (code, bool(code))


def test_a_replication_factor_that_must_not_change_is_refused_with_kafkas_wording() -> None:
    world = with_topic()
    world.join(2)

    def answered(may_change: bool) -> tuple[int, str | None]:
        answer: Any = world.send(AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change, topics=[ReassignableTopic(name="a", partitions=[
                ReassignablePartition(partition_index=0, replicas=[1, 2])])]))
        found = answer.responses[0].partitions[0]
        return found.error_code, found.error_message

    assert answered(False) == (ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 1 to 2")
    assert answered(True) == (ErrorCode.NONE, None)
