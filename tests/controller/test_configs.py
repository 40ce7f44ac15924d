"""AlterConfigs and IncrementalAlterConfigs."""

from typing import Any

import pytest

from kraft.controller.config_rules import TableRules
from kraft.controller.configs import APPEND, DELETE, SET, SUBTRACT, appended, subtracted
from kraft.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Resource,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import alter_configs_request as legacy
from kraft.protocol.messages import incremental_alter_configs_request as incremental
from kraft.protocol.messages.clear_elr_record import ClearElrRecord
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.controller.world import World

TOPIC = Resource(TOPIC_RESOURCE, "a")


@pytest.fixture
def world() -> World:
    world = World()
    world.join(1)
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]))
    return world


def alter(world: World, resource: Resource, *operations: tuple[str, int, str | None], **fields: Any) -> int:
    answer: Any = world.send(incremental.IncrementalAlterConfigsRequest(resources=[incremental.AlterConfigsResource(
        resource_type=resource.type, resource_name=resource.name, configs=[
            incremental.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in operations])], **fields))
    [result] = answer.responses
    assert (result.resource_type, result.resource_name) == resource
    assert bool(result.error_message) == bool(result.error_code)
    code: int = result.error_code
    return code


def replace(world: World, resource: Resource, **values: str | None) -> int:
    answer: Any = world.send(legacy.AlterConfigsRequest(resources=[legacy.AlterConfigsResource(
        resource_type=resource.type, resource_name=resource.name, configs=[
            legacy.AlterableConfig(name=name.replace("_", "."), value=value) for name, value in values.items()])]))
    code: int = answer.responses[0].error_code
    return code


def directly(world: World, resource: Resource, name: str, operation: int, value: str | None) -> int:
    """Alter as `alter` does, but sent by a client to the controller and not through a broker."""
    answers: list[Any] = []
    world.controller.submit(incremental.IncrementalAlterConfigsRequest(resources=[incremental.AlterConfigsResource(
        resource_type=resource.type, resource_name=resource.name, configs=[
            incremental.AlterableConfig(name=name, config_operation=operation, value=value)])]),
        1, world.now_ms, answers.append, forwarded=False)
    world.commit()
    code: int = answers[0].responses[0].error_code
    return code


def refusal_of(world: World, resource: Resource, values: dict[str, str]) -> str | None:
    """The error message has this sentence, which scripts compare."""
    answer: Any = world.send(incremental.IncrementalAlterConfigsRequest(resources=[incremental.AlterConfigsResource(
        resource_type=resource.type, resource_name=resource.name, configs=[
            incremental.AlterableConfig(name=name, config_operation=SET, value=value)
            for name, value in values.items()])]))
    text: str | None = answer.responses[0].error_message
    return text


def test_set_delete_append_subtract(world: World) -> None:
    """Hazard 3."""
    assert alter(world, TOPIC, ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert world.image.config(TOPIC) == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert alter(world, TOPIC, ("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)) == ErrorCode.NONE
    assert world.image.config(TOPIC) == {"cleanup.policy": "compact"}
    assert alter(world, TOPIC, ("cleanup.policy", APPEND, "compact,delete")) == ErrorCode.NONE
    assert world.image.config(TOPIC) == {"cleanup.policy": "compact,delete"}
    assert alter(world, TOPIC, ("cleanup.policy", DELETE, "")) == ErrorCode.NONE
    assert TOPIC not in world.image.configs


@pytest.mark.parametrize(("operations", "code"), [
    ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
    ([("retention.ms", SET, "many")], ErrorCode.INVALID_CONFIG),
    ([("no.such.thing", SET, "5")], ErrorCode.INVALID_CONFIG),
    ([("no.such.thing", APPEND, "5")], ErrorCode.INVALID_CONFIG),
    ([("cleanup.policy", SET, "burn")], ErrorCode.INVALID_CONFIG),
    ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
    ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
    ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
    ([("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")], ErrorCode.INVALID_CONFIG),
])
def test_a_refused_request_changes_nothing(world: World, operations: list[Any], code: int) -> None:
    before = world.log.end_offset
    assert alter(world, TOPIC, ("segment.bytes", SET, "1048576"), *operations) == code
    assert world.log.end_offset == before


@pytest.mark.parametrize(("name", "value"), [("remote.storage.enable", "true"), ("preallocate", "true")])
def test_settings_that_a_topic_cannot_have_are_refused(world: World, name: str, value: str) -> None:
    assert alter(world, TOPIC, (name, SET, value)) == ErrorCode.INVALID_CONFIG
    assert replace(world, TOPIC, **{name.replace(".", "_"): value}) == ErrorCode.INVALID_CONFIG
    assert alter(world, TOPIC, (name, SET, "false")) == ErrorCode.NONE
    answer: Any = world.send(CreateTopicsRequest(topics=[CreatableTopic(
        name="b", num_partitions=1, replication_factor=1, configs=[CreatableTopicConfig(name=name, value=value)])]))
    assert answer.topics[0].error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("name", "value"), [
    ("config.providers", "file"),
    ("listener.security.protocol.map", "PLAINTEXT:SSL"),
    ("listeners", "PLAINTEXT://:9999"),
    ("log.preallocate", "true"),
    ("metric.reporters", "org.example.Reporter"),
    ("principal.builder.class", "org.example.Principals"),
    ("ssl.keystore.location", "/etc/key.jks"),
    ("listener.name.outside.max.connections", "many"),
    ("listener.name.outside.max.conections", "5"),
    ("listener.name.outside.log.cleaner.threads", "2"),
])
def test_settings_that_a_broker_cannot_have_are_refused(world: World, name: str, value: str) -> None:
    assert alter(world, Resource(BROKER_RESOURCE, "1"), (name, SET, value)) == ErrorCode.INVALID_REQUEST
    assert Resource(BROKER_RESOURCE, "1") not in world.image.configs


@pytest.mark.parametrize(("name", "code"), [
    ("0001", ErrorCode.NONE), ("2", ErrorCode.BROKER_ID_NOT_REGISTERED),
    (str(1 << 31), ErrorCode.BROKER_ID_NOT_REGISTERED), ("9" * 5_000, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ("-1", ErrorCode.INVALID_REQUEST), ("1_0", ErrorCode.INVALID_REQUEST), ("\u0661", ErrorCode.INVALID_REQUEST)])
def test_names_of_brokers_are_their_ids(world: World, name: str, code: int) -> None:
    """5,000 digits are more than Python converts to a number."""
    assert alter(world, Resource(BROKER_RESOURCE, name), ("log.retention.ms", SET, "1000")) == code


@pytest.mark.parametrize(("name", "value", "code"), [
    ("interval.ms", "bbb", ErrorCode.INVALID_CONFIG),
    ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
    ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
    ("interval.ms", "100", ErrorCode.NONE),
    ("match", "bbb", ErrorCode.INVALID_CONFIG),
    ("match", "client_colour=red", ErrorCode.INVALID_CONFIG),
    ("match", "client_id=a.*,client_source_port=1", ErrorCode.NONE),
    ("no.such.thing", "1", ErrorCode.INVALID_REQUEST),
])
def test_client_metrics_are_refused_with_kafkas_codes(world: World, name: str, value: str, code: int) -> None:
    assert alter(world, Resource(CLIENT_METRICS_RESOURCE, "m"), (name, SET, value)) == code


@pytest.mark.parametrize(("name", "value"), [
    ("my.plugin.key", "x"), ("cleanup.policy", "burn"), ("sasl.kerberos.min.time.before.relogin", "5"),
    ("sasl.enabled.mechanisms", "PLAIN")])
def test_broker_settings_that_nobody_here_uses_are_stored(world: World, name: str, value: str) -> None:
    broker = Resource(BROKER_RESOURCE, "1")
    assert alter(world, broker, (name, SET, value)) == ErrorCode.NONE
    assert world.image.config(broker) == {name: value}
    assert replace(world, broker, **{name.replace(".", "_"): value}) == 0


@pytest.mark.parametrize(("name", "value"), [
    ("log.retention.ms", "0"), ("log.roll.ms", "0"), ("log.roll.jitter.ms", "-1"), ("log.flush.interval.ms", "-1"),
    ("log.index.size.max.bytes", "3"), ("max.connections.per.ip", "0"), ("max.connections.per.ip.overrides", "a"),
    ("log.cleaner.threads", "1_0")])
def test_defaults_of_topics_are_refused_where_topics_refuse_them(world: World, name: str, value: str) -> None:
    assert alter(world, CLUSTER_DEFAULT, (name, SET, value)) == ErrorCode.INVALID_REQUEST


def test_each_thread_of_the_cleaner_has_memory() -> None:
    world = World(static={"log.cleaner.dedupe.buffer.size": str(2 << 20)})
    world.join(1)
    broker = Resource(BROKER_RESOURCE, "1")
    assert alter(world, broker, ("log.cleaner.threads", SET, "2")) == ErrorCode.INVALID_REQUEST
    assert alter(world, broker, ("log.cleaner.threads", SET, "2"),
                 ("log.cleaner.dedupe.buffer.size", SET, str((2 << 20) + 2))) == ErrorCode.NONE
    assert alter(world, broker, ("log.cleaner.dedupe.buffer.size", SET, "1000")) == ErrorCode.INVALID_REQUEST
    assert alter(world, broker, ("log.retention.ms", SET, "1000")) == ErrorCode.NONE


def test_directories_are_cordoned_through_the_broker_that_has_them(world: World) -> None:
    """A controller does not know the names of a broker's directories. It can uncordon them while the broker is down."""
    broker, name = Resource(BROKER_RESOURCE, "1"), "cordoned.log.dirs"
    for operation, value in ((SET, "/a"), (SET, "*"), (APPEND, "/a")):
        assert directly(world, broker, name, operation, value) == ErrorCode.INVALID_CONFIG
    assert alter(world, broker, (name, SET, "/a,/b")) == ErrorCode.NONE
    assert directly(world, broker, name, SET, "/a,/c") == ErrorCode.INVALID_CONFIG
    assert directly(world, broker, name, SET, "/b,/a") == 0
    assert directly(world, broker, name, SUBTRACT, "/a") == 0
    assert world.image.config(broker) == {name: "/b"}
    assert directly(world, broker, name, SET, "") == 0
    assert directly(world, broker, name, DELETE, None) == 0
    assert directly(world, broker, "log.cleaner.threads", SET, "2") == 0, "other settings"


def test_directories_are_cordoned_from_a_metadata_version_on() -> None:
    world = World(metadata_level=29)
    world.join(1)
    broker = Resource(BROKER_RESOURCE, "1")
    for value in ("", "/a"):
        assert alter(world, broker, ("cordoned.log.dirs", SET, value)) == ErrorCode.INVALID_CONFIG
    assert replace(world, broker, cordoned_log_dirs="/a") == ErrorCode.INVALID_CONFIG
    world.send(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(
        feature="metadata.version", max_version_level=30, upgrade_type=1)]))
    assert alter(world, broker, ("cordoned.log.dirs", SET, "/a")) == ErrorCode.NONE


@pytest.mark.parametrize(("resource", "text"), [
    (TOPIC, "Unknown topic config name: no.such.thing"),
    (Resource(GROUP_RESOURCE, "g"), "Unknown group config name: no.such.thing"),
    (Resource(CLIENT_METRICS_RESOURCE, "m"), "Unknown client metrics configuration: no.such.thing"),
])
def test_unknown_settings_are_refused_in_kafkas_words(world: World, resource: Resource, text: str) -> None:
    assert refusal_of(world, resource, {"no.such.thing": "1"}) == text


def test_read_only_settings_are_refused_in_kafkas_words(world: World) -> None:
    fixed = "Cannot update these configs dynamically"
    broker = Resource(BROKER_RESOURCE, "1")
    assert refusal_of(world, broker, {"node.id": "1", "log.cleaner.threads": "2", "log.dirs": "/a"}) == (
        f"{fixed}: [node.id, log.dirs]")
    assert refusal_of(world, CLUSTER_DEFAULT, {"num.partitions": "2"}) == f"{fixed}: [num.partitions]"
    assert refusal_of(world, CLUSTER_DEFAULT, {"cordoned.log.dirs": "*"}) == (
        "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]")
    assert refusal_of(world, Resource(TOPIC_RESOURCE, "b"), {"retention.ms": "5"}) == "The topic 'b' does not exist."
    for name, value, bound, limit in (("session.timeout.ms", 1, "min.session.timeout.ms", 45_000),
                                      ("session.timeout.ms", 60_001, "max.session.timeout.ms", 60_000),
                                      ("num.standby.replicas", 3, "max.standby.replicas", 2)):
        order = "greater" if value < limit else "less"
        assert refusal_of(world, Resource(GROUP_RESOURCE, "g"), {f"streams.{name}": str(value)}) == (
            f"streams.{name} must be {order} than or equal to group.streams.{bound}: {value}, {limit}")


def test_long_names_and_values_are_refused_in_short(world: World) -> None:
    answer: Any = world.send(incremental.IncrementalAlterConfigsRequest(resources=[incremental.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name="a", configs=[incremental.AlterableConfig(
            name=name, config_operation=SET, value="x" * 30_000)])
        for name in ("retention.ms",)]))
    assert 0 < len(answer.responses[0].error_message) < 300


def test_resources_that_are_not_there(world: World) -> None:
    unknown = alter(world, Resource(TOPIC_RESOURCE, "b"), ("retention.ms", SET, "5"))
    assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = alter(world, Resource(BROKER_RESOURCE, "7"), ("log.cleaner.threads", SET, "2"))
    assert unknown == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert alter(world, Resource(BROKER_RESOURCE, "x"), ("log.cleaner.threads", SET, "2")) == ErrorCode.INVALID_REQUEST
    nameless = alter(world, Resource(GROUP_RESOURCE, ""), ("consumer.session.timeout.ms", SET, "50000"))
    assert nameless == ErrorCode.INVALID_REQUEST
    assert alter(world, Resource(8, "1"), ("logger", SET, "INFO")) == ErrorCode.INVALID_REQUEST
    assert alter(world, Resource(GROUP_RESOURCE, "g"), ("consumer.session.timeout.ms", SET, "50000")) == ErrorCode.NONE
    for name, value in (("consumer.session.timeout.ms", "44999"), ("consumer.session.timeout.ms", "60001"),
                        ("streams.num.standby.replicas", "3"), ("share.delivery.count.limit", "11")):
        refused = alter(world, Resource(GROUP_RESOURCE, "g"), (name, SET, value))
        assert refused == ErrorCode.INVALID_CONFIG, "the node's bounds"
    assert alter(world, Resource(GROUP_RESOURCE, "g"), ("streams.num.standby.replicas", SET, "2")) == ErrorCode.NONE
    assert alter(world, Resource(BROKER_RESOURCE, "1"), ("log.cleaner.threads", SET, "2")) == ErrorCode.NONE


def test_settings_of_one_listener(world: World) -> None:
    """Kafka's three settings that do not concern security; of one broker and of all."""
    for resource in (Resource(BROKER_RESOURCE, "1"), CLUSTER_DEFAULT):
        for name in ("max.connections", "max.connection.creation.rate", "num.network.threads"):
            assert alter(world, resource, (f"listener.name.outside.{name}", SET, "5")) == ErrorCode.NONE
            assert world.image.config(resource)[f"listener.name.outside.{name}"] == "5"
        assert alter(world, resource, ("listener.name.outside.max.connections", DELETE, None)) == ErrorCode.NONE
        assert "listener.name.outside.max.connections" not in world.image.config(resource)


def test_broker_settings(world: World) -> None:
    assert alter(world, CLUSTER_DEFAULT, ("message.max.bytes", SET, "1048000")) == ErrorCode.NONE
    assert alter(world, CLUSTER_DEFAULT, ("node.id", SET, "4")) == ErrorCode.INVALID_REQUEST
    before = world.log.end_offset
    assert alter(world, CLUSTER_DEFAULT, ("message.max.bytes", SET, "1048000")) == ErrorCode.NONE
    assert world.log.end_offset == before + 1  # written again: brokers read again what it names
    assert alter(world, TOPIC, ("retention.ms", SET, "5")) == ErrorCode.NONE
    before = world.log.end_offset
    assert alter(world, TOPIC, ("retention.ms", SET, "5")) == ErrorCode.NONE
    assert world.log.end_offset == before


def test_alter_configs_replaces_all(world: World) -> None:
    assert replace(world, TOPIC, retention_ms="5", segment_bytes="1048576") == 0
    assert replace(world, TOPIC, retention_ms="6") == 0
    assert world.image.config(TOPIC) == {"retention.ms": "6"}
    assert replace(world, TOPIC, retention_ms=None) == ErrorCode.INVALID_REQUEST
    assert replace(world, TOPIC, retention_ms="x") == ErrorCode.INVALID_CONFIG
    assert replace(world, Resource(TOPIC_RESOURCE, "b"), retention_ms="6") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replace(world, TOPIC) == 0
    assert TOPIC not in world.image.configs


def test_validate_only_and_repeated_resources(world: World) -> None:
    before = world.log.end_offset
    assert alter(world, TOPIC, ("retention.ms", SET, "5"), validate_only=True) == ErrorCode.NONE
    resource = incremental.AlterConfigsResource(resource_type=2, resource_name="a")
    answer: Any = world.send(incremental.IncrementalAlterConfigsRequest(resources=[resource, resource]))
    assert [result.error_code for result in answer.responses] == [ErrorCode.INVALID_REQUEST]
    assert world.log.end_offset == before


def test_min_insync_replicas_with_eligible_leader_replicas(world: World) -> None:
    """A change of the limit clears the eligible leader replicas, and the cluster always has one limit."""
    assert alter(world, TOPIC, ("min.insync.replicas", SET, "2")) == ErrorCode.NONE
    assert world.log.messages()[-1] == ClearElrRecord(topic_name="a")
    assert alter(world, CLUSTER_DEFAULT, ("min.insync.replicas", SET, "2")) == ErrorCode.NONE
    assert world.log.messages()[-1] == ClearElrRecord(topic_name="")
    assert alter(world, CLUSTER_DEFAULT, ("min.insync.replicas", DELETE, None)) == ErrorCode.INVALID_CONFIG
    assert alter(world, Resource(BROKER_RESOURCE, "1"), ("min.insync.replicas", SET, "2")) == ErrorCode.INVALID_CONFIG


def test_values_of_topics_are_resolved_again_when_a_broker_setting_changes() -> None:
    """Overrides are kept resolved by their text; the texts of brokers belong to what they were resolved from."""
    rules = TableRules({})
    limit = "message.max.bytes"
    assert rules.topic_value("max.message.bytes", {"max.message.bytes": " 5 "}, {}, {}) == "5"
    assert rules.topic_value("max.message.bytes", {"max.message.bytes": "x"}, {limit: "7"}, {}) == "7"
    assert rules.topic_value("max.message.bytes", {"max.message.bytes": "x"}, {limit: "8"}, {}) == "8"
    assert rules.topic_value("max.message.bytes", {"max.message.bytes": "x"}, {}, {limit: "9"}) == "9"
    assert rules.topic_value("max.message.bytes", {}, {}, {limit: "9"}) == "9"


class Part(str):
    """A part of a list that counts its comparisons."""

    compared = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        Part.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_parts_of_a_list_are_not_compared_with_each_other() -> None:
    """A value of 32 kB has thousands of parts: comparing each with each took 350 ms."""
    count = 2_000
    parts, more = ([Part(f"{first + number}") for number in range(count)] for first in (0, count // 2))
    Part.compared = 0
    assert appended(parts, [*more, *more]) == [str(number) for number in range(3 * count // 2)]
    assert subtracted([*parts, *parts], more) == [
        *map(str, range(count // 2)), *map(str, range(count))], "only the first occurrence"
    assert subtracted(["a", "b", "a"], ["a", "a", "a", "c"]) == ["b"]
    assert Part.compared <= 10 * count


def test_operations_on_a_list_cannot_make_a_value_that_no_record_holds(world: World) -> None:
    """It would end the decision half-way, and no other request would be decided any more."""
    name = "leader.replication.throttled.replicas"
    values = [",".join(f"{number}:1" for number in range(first, first + 4_000)) for first in (0, 4_000, 8_000)]
    assert alter(world, TOPIC, (name, SET, values[0])) == ErrorCode.NONE
    assert alter(world, TOPIC, (name, APPEND, values[1])) == ErrorCode.INVALID_CONFIG
    assert alter(world, TOPIC, (name, APPEND, "9999:1")) == ErrorCode.NONE
    assert world.image.config(TOPIC)[name] == f"{values[0]},9999:1"
