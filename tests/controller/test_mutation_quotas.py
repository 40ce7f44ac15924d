"""Controller mutation quotas: the partitions that clients may create and delete per second (KIP-599)."""

from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.security.principal import Client
from tests.controller.world import World

RATE, SAMPLES = 2.0, 5
BURST = int(RATE) * SAMPLES
STRICT = {CreateTopicsRequest: 6, DeleteTopicsRequest: 5, CreatePartitionsRequest: 3}


def send(world: World, request: Message, client: str | None = "app", version: int | None = None) -> Any:
    answers: list[Any] = []
    world.controller.submit(request, STRICT[type(request)] if version is None else version, world.now_ms,
                            answers.append, None if client is None else Client(client))
    world.commit()
    return answers[0]


def create(world: World, name: str, partitions: int, **how: Any) -> tuple[ErrorCode, int]:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = send(world, CreateTopicsRequest(topics=[topic]), **how)
    return ErrorCode(answer.topics[0].error_code), answer.throttle_time_ms  # type: ignore[call-arg]


@pytest.fixture
def world() -> World:
    """`app` may change two partitions per second; other clients have no limit."""
    world = World(mutation_samples=SAMPLES, mutation_sample_ms=1000)
    world.join(1)
    answer = world.send(AlterClientQuotasRequest(entries=[EntryData(
        entity=[EntityData(entity_type="client-id", entity_name="app")],
        ops=[OpData(key="controller_mutation_rate", value=RATE)])]))
    assert answer.entries[0].error_code == ErrorCode.NONE
    return world


def test_a_burst_is_carried_out_whole_and_paid_for_afterwards(world: World) -> None:
    assert create(world, "a", BURST + 4) == (ErrorCode.NONE, 0), "there was something left when it came"
    assert create(world, "b", 1) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2000), "four partitions at two per second"
    assert "b" not in world.image.topic_ids
    world.now_ms += 1500
    assert create(world, "b", 1) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 500)
    world.now_ms += 500
    assert create(world, "b", 1) == (ErrorCode.NONE, 0)
    assert create(world, "c", 1) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 500)
    world.now_ms += 3_600_000
    assert create(world, "c", BURST) == (ErrorCode.NONE, 0)
    assert create(world, "d", 1) == (ErrorCode.NONE, 0), "no more than the burst was saved up; nothing is below it"
    assert create(world, "e", 1)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_each_topic_has_its_own_result(world: World) -> None:
    topics = [CreatableTopic(name=name, num_partitions=BURST + 2, replication_factor=1) for name in "ab"]
    answer = send(world, CreateTopicsRequest(topics=topics))
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert answer.throttle_time_ms == 1000
    more = send(world, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=99, assignments=None)]))
    assert more.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED and more.throttle_time_ms == 1000
    deleted = send(world, DeleteTopicsRequest(topic_names=["a"]))
    assert (deleted.responses[0].name, deleted.responses[0].error_code) == ("a", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert deleted.throttle_time_ms == 1000 and "a" in world.image.topic_ids
    world.now_ms += 1000
    topic = DeleteTopicState(name=None, topic_id=world.image.topic_ids["a"])
    deleted = send(world, DeleteTopicsRequest(topics=[topic]), version=6)
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (ErrorCode.NONE, 0)
    deleted = send(world, DeleteTopicsRequest(topic_names=["a"]))
    assert deleted.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it costs nothing"


@pytest.mark.parametrize("kind", STRICT)
def test_earlier_versions_are_carried_out_and_slowed_down(world: World, kind: type[Message]) -> None:
    assert create(world, "a", BURST, version=5) == (ErrorCode.NONE, 0)
    request = {
        CreateTopicsRequest: CreateTopicsRequest(topics=[CreatableTopic(name="b", num_partitions=10,
                                                                        replication_factor=1)]),
        CreatePartitionsRequest: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=BURST + 10,
                                                                                       assignments=None)]),
        DeleteTopicsRequest: DeleteTopicsRequest(topic_names=["a"]),
    }[kind]
    answer = send(world, request, version=STRICT[kind] - 1)
    [result] = getattr(answer, {CreateTopicsRequest: "topics", DeleteTopicsRequest: "responses"}.get(kind, "results"))
    assert (result.error_code, answer.throttle_time_ms) == (ErrorCode.NONE, 5000)


def test_requests_that_only_read_count_as_in_kafka(world: World) -> None:
    topic = CreatableTopic(name="a", num_partitions=BURST + 2, replication_factor=1)
    assert send(world, CreateTopicsRequest(topics=[topic], validate_only=True)).topics[0].error_code == ErrorCode.NONE
    assert create(world, "a", 1) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000)


@pytest.mark.parametrize("client", [None, "other"])
def test_others_are_not_limited(world: World, client: str | None) -> None:
    assert create(world, "a", BURST * 3)[0] == create(world, "b", BURST * 3, client=client)[0] == ErrorCode.NONE
    assert create(world, "c", BURST * 3, client=client) == (ErrorCode.NONE, 0)
    assert create(world, "d", 1)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
