"""CreateTopics and DeleteTopics: Kafka's answers and codes."""

from collections.abc import Generator
from typing import Any
from uuid import UUID

import pytest

from kraft.controller.topics import TOPICS_OF_A_STEP
from kraft.metadata.image import BROKER_RESOURCE, ZERO_ID
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.partition_record import PartitionRecord
from tests.controller.world import World


def topic(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **fields)


def assigned(name: str, *brokers: list[int], first: int = 0) -> CreatableTopic:
    return topic(name, -1, -1, assignments=[
        CreatableReplicaAssignment(partition_index=first + index, broker_ids=ids) for index, ids in enumerate(brokers)])


def create(world: World, *topics: CreatableTopic, version: int = 7, **fields: Any) -> dict[str, Any]:
    answer = world.send(CreateTopicsRequest(topics=topics, **fields), version)
    assert len({result.name for result in answer.topics}) == len(answer.topics)
    return {result.name: result for result in answer.topics}


@pytest.fixture
def world() -> World:
    world = World()
    world.join(1, 2, 3)
    return world


def test_each_topic_is_independent(world: World) -> None:
    """Hazard 14: valid and invalid entries in one request."""
    create(world, topic("there"))
    answers = create(
        world, topic("good", 3, 2), topic("bad name!"), topic("there"), topic("wide", 1, 9), topic("none", 0),
        topic("less", 1, 0), topic("minus", -2, 1),
        topic("setting", configs=[CreatableTopicConfig(name="retention.ms", value="zzz")]),
        topic("unknown", configs=[CreatableTopicConfig(name="nothing", value="1")]),
        topic("null", configs=[CreatableTopicConfig(name="retention.ms", value=None)]),
        topic("twice"), topic("twice", 2), topic("default", -1, -1))
    assert {name: answer.error_code for name, answer in answers.items()} == {
        "good": ErrorCode.NONE, "default": ErrorCode.NONE,
        "bad name!": ErrorCode.INVALID_TOPIC_EXCEPTION, "there": ErrorCode.TOPIC_ALREADY_EXISTS,
        "wide": ErrorCode.INVALID_REPLICATION_FACTOR, "less": ErrorCode.INVALID_REPLICATION_FACTOR,
        "none": ErrorCode.INVALID_PARTITIONS, "minus": ErrorCode.INVALID_PARTITIONS,
        "setting": ErrorCode.INVALID_CONFIG, "unknown": ErrorCode.INVALID_CONFIG, "null": ErrorCode.INVALID_CONFIG,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert sorted(world.image.topic_ids) == ["default", "good", "there"]
    for answer in answers.values():
        if answer.error_code:
            assert (answer.num_partitions, answer.replication_factor, answer.configs) == (-1, -1, [])
            assert answer.error_message
            assert answer.topic_id == ZERO_ID
    good = answers["good"]
    assert (good.num_partitions, good.replication_factor, good.error_message) == (3, 2, None)
    assert good.topic_id == world.image.topic_ids["good"]


def test_a_new_topic_has_the_settings_it_was_given(world: World) -> None:
    configs = [CreatableTopicConfig(name="cleanup.policy", value="compact"),
               CreatableTopicConfig(name="retention.ms", value="-1")]
    configs_of = {config.name: config for config in create(world, topic("a", configs=configs), topic("b"))["a"].configs}
    assert world.image.topic_config("a") == {"cleanup.policy": "compact", "retention.ms": "-1"}
    assert (configs_of["cleanup.policy"].value, configs_of["cleanup.policy"].config_source) == ("compact", 1)
    assert (configs_of["segment.bytes"].value, configs_of["segment.bytes"].config_source) == ("1073741824", 5)
    assert configs_of["min.insync.replicas"].config_source == 3  # the cluster's own, in the log
    assert list(configs_of) == sorted(configs_of)
    assert not create(world, topic("old"), version=4)["old"].configs


@pytest.mark.parametrize(("name", "allowed"), [
    ("a", True), ("A.b-C_9", True), ("x" * 249, True), ("x" * 250, False), ("", False), (".", False), ("..", False),
    ("...", True), ("é", False), ("a/b", False), ("a\n", False),
])
def test_topic_names(world: World, name: str, allowed: bool) -> None:
    code = create(world, topic(name))[name].error_code
    assert code == (ErrorCode.NONE if allowed else ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_names_that_collide_in_metrics(world: World) -> None:
    """wire.md 2.6: a name is refused beside an existing topic, not within one request."""
    assert create(world, topic("a.b"))["a.b"].error_code == ErrorCode.NONE
    assert create(world, topic("a_b"))["a_b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(world, topic("a.b"))["a.b"].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert create(world, topic("a-b"))["a-b"].error_code == ErrorCode.NONE
    answers = create(world, topic("c.d.e"), topic("c_d.e"))
    assert [answer.error_code for answer in answers.values()] == [ErrorCode.NONE, ErrorCode.NONE]
    world.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="c.d.e")]))
    assert create(world, topic("c.d_e"))["c.d_e"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    world.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="c_d.e")]))
    assert create(world, topic("c.d_e"))["c.d_e"].error_code == ErrorCode.NONE


def test_topics_with_the_same_settings_have_them_in_common(world: World) -> None:
    """Such a list is encoded once for all of them."""
    configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    made = create(world, topic("a"), topic("b", configs=configs), topic("c"))
    assert made["a"].configs is made["c"].configs
    assert made["a"].configs != made["b"].configs


def test_requests_have_the_settings_without_overrides_in_common(world: World) -> None:
    """The list is computed and encoded again when a setting changes, and not when a topic is created."""
    first = create(world, topic("a"))["a"].configs
    configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    assert create(world, topic("b", configs=configs))["b"].configs != first
    assert create(world, topic("c"))["c"].configs is first
    world.send(IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="", configs=[
            AlterableConfig(name="log.retention.ms", config_operation=0, value="77")])]), 1)
    changed = {each.name: each.value for each in create(world, topic("d"))["d"].configs}
    assert changed["retention.ms"] == "77"
    assert {each.name: each.value for each in first}["retention.ms"] != "77"


def test_a_new_broker_gets_replicas_at_once(world: World) -> None:
    """The places of the next topics are kept only while no broker changes."""
    create(world, topic("a"))
    world.join(9)
    made = create(world, *(topic(f"t{number}") for number in range(30)))
    leaders = {world.image.topics[each.topic_id].partitions[0].leader for each in made.values()}
    assert 9 in leaders


def test_internal_settings_are_listed_where_they_are_set(world: World) -> None:
    """Kafka Streams sets and reads them."""
    name = "internal.segment.bytes"
    answers = create(world, topic("a", configs=[CreatableTopicConfig(name=name, value="1000")]), topic("b"))
    values = {key: [each.value for each in answer.configs if each.name == name] for key, answer in answers.items()}
    assert values == {"a": ["1000"], "b": []}


def test_validate_only_makes_nothing(world: World) -> None:
    before = world.log.end_offset
    answers = create(world, topic("a", 2), topic("b", 0), validate_only=True)
    assert [answers["a"].error_code, answers["b"].error_code] == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]
    assert answers["a"].num_partitions == 2
    assert world.log.end_offset == before
    assert not world.image.topic_ids


def test_manual_assignments(world: World) -> None:
    assert create(world, assigned("a", [3, 1], [1, 2]))["a"].error_code == ErrorCode.NONE
    assert [world.partition("a", index).replicas for index in (0, 1)] == [(3, 1), (1, 2)]
    assert world.partition("a").leader == 3
    refused = {
        "gap": assigned("gap", [1], [2], first=1), "uneven": assigned("uneven", [1, 2], [3]),
        "empty": assigned("empty", []), "stranger": assigned("stranger", [1, 9]), "double": assigned("double", [1, 1]),
    }
    answers = create(world, *refused.values())
    assert {answer.error_code for answer in answers.values()} == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    both = assigned("both", [1])
    both.num_partitions = 1
    assert create(world, both)["both"].error_code == ErrorCode.INVALID_REQUEST


def test_brokers_that_take_no_part_do_not_lead(world: World) -> None:
    world.beat(2, want_fence=True)
    assert create(world, assigned("a", [2, 3]))["a"].error_code == ErrorCode.NONE
    assert (world.partition("a").leader, world.partition("a").isr) == (3, (3,))
    assert create(world, assigned("b", [2]))["b"].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert create(world, topic("c", 6, 3))["c"].error_code == ErrorCode.NONE
    assert all(partition.isr == tuple(broker for broker in partition.replicas if broker != 2) and partition.leader != 2
               for name, _, partition in world.image.partitions() if name.name == "c")
    world.beat(1, want_fence=True)
    world.beat(3, want_fence=True)
    assert create(world, topic("d"))["d"].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_too_many_partitions_at_once(world: World) -> None:
    answers = create(world, topic("a", 10_001), topic("b"))
    assert {(answer.error_code, answer.error_message) for answer in answers.values()} == {
        (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")}
    assert not world.image.topic_ids
    created = create(world, *(topic(f"t{index}", 3_000) for index in range(3)), topic("u", 900))
    assert created["u"].error_code == ErrorCode.NONE


def test_too_many_records_at_once(world: World) -> None:
    """Nine thousand partitions fit into one request; with a record for each topic and setting they do not."""
    many = [topic(f"t{index}", 3, configs=[CreatableTopicConfig(name="retention.ms", value="1")])
            for index in range(2_500)]
    answers = create(world, *many)
    assert {answer.error_code for answer in answers.values()} == {ErrorCode.POLICY_VIOLATION}
    assert not world.image.topic_ids


def test_many_topics_are_decided_in_steps(world: World) -> None:
    """A part of a request may have 64 topics of one partition: the controller decides a few of them in each step."""
    works: list[Generator[None]] = []
    answers: list[Any] = []
    world.controller.run_steps = lambda _key, steps: works.append(steps)
    request = CreateTopicsRequest(topics=[topic(f"t{index}") for index in range(TOPICS_OF_A_STEP * 3)])
    world.controller.submit(request, 7, world.now_ms, answers.append)
    assert len(works) == 1 and not answers
    assert sum(1 for _ in works[0]) >= 2
    world.commit()
    assert [each.error_code for each in answers[0].topics] == [ErrorCode.NONE] * TOPICS_OF_A_STEP * 3


def test_the_metadata_log_is_no_topic(world: World) -> None:
    assert create(world, topic("__cluster_metadata"))["__cluster_metadata"].error_code == ErrorCode.INVALID_REQUEST


def test_partition_records_have_the_version_of_the_cluster() -> None:
    for level, version in ((7, 0), (17, 1), (23, 2), (30, 2)):
        world = World(metadata_level=level)
        world.join(1)
        create(world, topic("a"))
        assert [v for _, message, v in world.log.records if isinstance(message, PartitionRecord)] == [version]


def test_partitions_are_spread(world: World) -> None:
    create(world, topic("a", 30, 2))
    leaders = [partition.leader for _, _, partition in world.image.partitions()]
    assert [leaders.count(broker) for broker in (1, 2, 3)] == [10, 10, 10]
    pairs = {partition.replicas for _, _, partition in world.image.partitions()}
    assert len(pairs) == 6


# --- DeleteTopics ---------------------------------------------------------------------------------------------------


def delete(world: World, *states: DeleteTopicState, names: tuple[str, ...] = (), version: int = 6) -> list[Any]:
    answer = world.send(DeleteTopicsRequest(topics=states, topic_names=names), version)
    return [(result.name, result.topic_id, result.error_code) for result in answer.responses]


def test_topics_go_by_name_or_by_id(world: World) -> None:
    create(world, topic("a"), topic("b", configs=[CreatableTopicConfig(name="retention.ms", value="1")]), topic("c"))
    a, b = world.image.topic_ids["a"], world.image.topic_ids["b"]
    assert delete(world, DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=b)) == [
        ("a", a, 0), ("b", b, 0)]
    assert list(world.image.topic_ids) == ["c"]
    assert not world.image.topic_config("b")
    assert delete(world, names=("c", "a"), version=5) == [
        ("c", UUID(int=world.log.records[-1][1].topic_id.int), 0),  # type: ignore[attr-defined]
        ("a", ZERO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_undeletable_topics(world: World) -> None:
    create(world, topic("a"), topic("b"))
    a, b, nobody = world.image.topic_ids["a"], world.image.topic_ids["b"], UUID(int=77)
    assert delete(
        world, DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=a),
        DeleteTopicState(name="b", topic_id=b), DeleteTopicState(name=None),
        DeleteTopicState(name="x"), DeleteTopicState(name="x"), DeleteTopicState(name=None, topic_id=nobody),
    ) == [
        ("b", b, ErrorCode.INVALID_REQUEST), (None, ZERO_ID, ErrorCode.INVALID_REQUEST),
        ("a", a, ErrorCode.INVALID_REQUEST), ("x", ZERO_ID, ErrorCode.INVALID_REQUEST),
        (None, nobody, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert list(world.image.topic_ids) == ["a", "b"]


@pytest.mark.parametrize("has_authorizer", [False, True])
def test_the_topic_of_the_audit_is_deleted_only_where_acls_decide(has_authorizer: bool) -> None:
    world = World(has_authorizer=has_authorizer)
    world.join(1)
    answers = create(world, topic("__kraft_audit"), topic("other"))
    wanted = ErrorCode.NONE if has_authorizer else ErrorCode.INVALID_TOPIC_EXCEPTION
    named = world.send(DeleteTopicsRequest(topics=[
        DeleteTopicState(name=None, topic_id=answers["__kraft_audit"].topic_id), DeleteTopicState(name="other")]), 6)
    assert {each.name: each.error_code for each in named.responses} == {
        "__kraft_audit": wanted, "other": ErrorCode.NONE}
    assert ("__kraft_audit" in world.image.topic_ids) is not has_authorizer


def test_a_topic_named_by_name_and_by_id_has_one_result(world: World) -> None:
    """Kafka does the same. A refused name or id is no mention of its topic for the other one."""
    create(world, topic("a"), topic("b"))
    a, b = world.image.topic_ids["a"], world.image.topic_ids["b"]
    by_id = [DeleteTopicState(name=None, topic_id=each) for each in (a, b)]
    by_name = [DeleteTopicState(name=each) for each in "ab"]
    refused = ErrorCode.INVALID_REQUEST
    assert delete(world, by_id[0], by_name[0]) == [("a", a, refused)]
    assert delete(world, by_id[0], by_name[0], by_id[0]) == [("a", a, refused), (None, a, refused)]
    assert list(world.image.topic_ids) == ["a", "b"]
    assert delete(world, by_name[1], by_id[1], by_name[1]) == [("b", ZERO_ID, refused), ("b", b, ErrorCode.NONE)]
    assert list(world.image.topic_ids) == ["a"]


def test_deletion_can_be_switched_off() -> None:
    world = World(delete_topics=False)
    world.join(1)
    create(world, topic("a"))
    assert delete(world, names=("a",), version=2) == [("a", ZERO_ID, ErrorCode.INVALID_REQUEST)]
    assert delete(world, names=("a",), version=3) == [("a", ZERO_ID, ErrorCode.TOPIC_DELETION_DISABLED)]
    assert list(world.image.topic_ids) == ["a"]
