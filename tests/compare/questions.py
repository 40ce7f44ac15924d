"""Requests to send: of every API that both nodes serve, in a common version, with meaningful values.

A request is a tree of values by attribute, created from the schema. A `Name` stands for a value that a node assigns
(ids of topics and members); each node resolves it to the value that it assigned.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.protocol.apis import API_BY_NAME
from tests.compare.batches import batches, wrong_batches
from tests.protocol.json_form import default_value, schemas, struct_class
from tools.schema import Field, Schema, Struct

VERSIONS_MIN: Final = {"Metadata": 4, "JoinGroup": 1}
"""Earliest versions that are sent.

Before them Metadata creates missing topics, and Kafka does not wait until it has them; and a member that joins may wait
for a whole session.
"""
WRONG_SHARE: Final = 0.3
NULL_SHARE: Final = 0.06
UNTAGGED_SHARE: Final = 0.7
DEFAULT_SHARE: Final = 0.25
"""Share of the values that are neither names nor enumerations which keep the default of the schema."""
LENGTHS: Final = (1, 1, 1, 1, 1, 1, 2, 2, 3)
IDENTITY: Final = (
    "name", "topic", "topic_id", "partition_index", "partition", "partition_id", "index", "resource_name", "group_id",
    "user", "mechanism", "path", "topic_name", "member_id", "entity_type", "key")
"""Fields that distinguish the elements of a list: for a duplicate each node has its own behaviour."""
TOPIC_CONFIGS: Final = {
    "cleanup.policy": ("delete", "compact", "compact,delete", "none", ""), "retention.ms": ("-1", "1000", "-2", "x"),
    "segment.bytes": ("1048576", "1", "14"), "min.insync.replicas": ("1", "2", "0"),
    "compression.type": ("producer", "lz4", "zstd", "zip"), "max.message.bytes": ("1000", "1048588", "-1"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "Now"), "retention.bytes": ("-1", "100", "0"),
    "message.timestamp.before.max.ms": ("9223372036854775807", "1", "-5"), "segment.ms": ("604800000", "0"),
    "unclean.leader.election.enable": ("true", "false", "maybe"), "flush.messages": ("1", "0"),
    "min.cleanable.dirty.ratio": ("0.5", "1.5"), "no.such.setting": ("1",), "": ("1",), "preallocate": ("false",),
    "leader.replication.throttled.replicas": ("*", "0:1", "0:1,x"), "file.delete.delay.ms": ("60000", "-1"),
}
GROUP_CONFIGS: Final = {
    "consumer.session.timeout.ms": ("45000", "10", "x"), "consumer.heartbeat.interval.ms": ("5000", "999999"),
    "streams.num.standby.replicas": ("0", "-1"), "no.such.setting": ("1",),
    "share.auto.offset.reset": ("latest", "soon"),
}
TIMESTAMPS: Final = (-1, -2, -3, -4, -5, -6, -7, 0, 1_700_000_000_000, 1_700_000_000_500, 1_900_000_000_000)
KINDS: Final[dict[str, tuple[int, int]]] = {
    "uint16": (0, (1 << 16) - 1),
    "int8": (-(1 << 7), (1 << 7) - 1), "int16": (-(1 << 15), (1 << 15) - 1), "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1)}


class Name(NamedTuple):
    """A value that each node assigned itself. `kind`: topic (its id), member, producer (its id)."""

    kind: str
    key: str


class Question(NamedTuple):
    api: str
    version: int
    values: dict[str, Any]

    def request(self, resolve: Callable[[Name], Any]) -> Any:
        schema = schemas()[f"{self.api}Request"]
        return build(schema, schema.message, self.values, resolve)


def build(schema: Schema, struct: Struct, values: dict[str, Any], resolve: Callable[[Name], Any]) -> Any:
    structs = {each.name: each for each in schema.structs}

    def one(field: Field, value: Any) -> Any:
        if isinstance(value, Name):
            return resolve(value)
        return build(schema, structs[field.kind], value, resolve) if isinstance(value, dict) else value

    given = {}
    for field in struct.fields:
        if field.attribute in values:
            value = values[field.attribute]
            given[field.attribute] = [one(field, each) for each in value] if isinstance(value, list) \
                else one(field, value)
    return struct_class(schema, struct.name)(**given)


def identity(element: Any) -> Any:
    if not isinstance(element, dict):
        return element
    return tuple(element[name] for name in IDENTITY if name in element and not isinstance(element[name], list))


class Questions:
    """An endless series of them; a function of the seed.

    All names begin with `prefix`, so that a row affects only what it created itself.
    """

    def __init__(self, source: random.Random, prefix: str, apis: Sequence[str]) -> None:
        self.source = source
        self.prefix = prefix
        self.apis = apis
        self.topics = [f"{prefix}-{letter}" for letter in "ab.c_"]
        self.groups = [f"{prefix}-g{number}" for number in range(2)]

    def next(self) -> Question:
        api = API_BY_NAME[self.source.choices(self.apis, [WEIGHTS.get(each, 1) for each in self.apis])[0]]
        assert api.broker_versions is not None
        high = min(api.broker_versions.stop, api.versions.stop, api.latest_stable + 1)
        version = self.source.randrange(api.versions.start, high)
        if self.source.random() < 0.3:
            version = high - 1
        version = max(version, VERSIONS_MIN.get(api.name, 0))
        values = _Request(self, api.name, version).values()
        if api.name == "Produce" and self.source.random() < WRONG_SHARE:
            # Alone and to an existing partition: for others Kafka has its own behaviour and its own order.
            topic = {"topic_id": Name("topic", self.topics[0])} if version >= 13 else {"name": self.topics[0]}
            values["topic_data"] = [{**topic, "partition_data": [
                {"index": 0, "records": self.source.choice(wrong_batches())}]}]
        return Question(api.name, version, values)

    def topic_names(self) -> Sequence[str]:
        return (*self.topics[:2] * 5, *self.topics, f"{self.prefix}-none", "", ".", "bad name", "x" * 250)

    def topic_ids(self, *, is_named: bool) -> Sequence[Any]:
        """Ids to choose from; mostly none when a name is beside the id."""
        given = tuple(Name("topic", each) for each in self.topics[:2])
        if is_named:
            return (*[UUID(int=0)] * 6, given[0])
        return (*given * 3, UUID(int=0), UUID(int=1 << 100))


class _Request:
    """The values of one request."""

    def __init__(self, questions: Questions, api: str, version: int) -> None:
        self.questions = questions
        self.source = questions.source
        self.api = api
        self.version = version
        self.schema = schemas()[f"{api}Request"]
        self.structs = {each.name: each for each in self.schema.structs}

    def values(self) -> dict[str, Any]:
        return self.struct(self.schema.message)

    def struct(self, struct: Struct) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in struct.fields:
            if self.version in field.versions:
                values[field.attribute] = self.field(struct, field, values)
        return values

    def field(self, struct: Struct, field: Field, before: dict[str, Any]) -> Any:
        if self.version in field.nullable and field.kind != "records" and self.source.random() < NULL_SHARE:
            return None
        if field.tag is not None and self.source.random() < UNTAGGED_SHARE:
            return default_value(self.schema, field)
        if field.is_array:
            found = [self.one(struct, field, before) for _ in range(self.source.choice(LENGTHS))]
            return list({identity(each): each for each in found}.values())
        return self.one(struct, field, before)

    def one(self, struct: Struct, field: Field, before: dict[str, Any]) -> Any:
        if field.is_struct:
            return self.struct(self.structs[field.kind])
        pool = self.pool(struct, field, before)
        if pool is not None:
            return self.source.choice(pool)
        if field.kind == "bool":
            return self.source.random() < 0.5
        if field.kind in KINDS:
            low, high = KINDS[field.kind]
            if not field.is_array and self.source.random() < DEFAULT_SHARE:
                return default_value(self.schema, field)
            return self.source.choice((max(-1, low), 0, 0, 0, 1, 1, 2, 100, low, high))
        if field.kind == "float64":
            return self.source.choice((0.0, 1.0, 1000.5, -1.0))
        if field.kind == "uuid":
            return UUID(int=self.source.getrandbits(128))
        if field.kind == "string":
            return self.source.choice(("", "a", "é", "x" * 300))
        return self.source.choice((b"", b"a", b"\0\1", b"x" * 100))

    def pool(self, struct: Struct, field: Field, before: dict[str, Any]) -> Sequence[Any] | None:
        """Values for a field of that name; the likely ones more often. None: anything of its type."""
        api, name, questions = self.api, field.attribute, self.questions
        if struct.name in CONFIG_STRUCTS and name in ("name", "value"):
            return config_pool(name, before)
        if (special := SPECIAL.get((api, name))) is not None:
            return special
        if name in TOPIC_NAMES.get(api, ()):
            return questions.topic_names()
        if name == "topic_id" or (name == "topic_ids" and field.kind == "uuid"):
            return questions.topic_ids(is_named=bool(before.get("name") or before.get("topic")))
        if name in PARTITION_FIELDS and field.kind == "int32":
            return (0, 0, 0, 0, 1, 1, 2, 3, -1, 1000)
        if name in GROUP_FIELDS:
            return (*questions.groups * 4, f"{questions.prefix}-none", "")
        if name == "records":
            return batches()
        if name in ("key", "coordinator_keys"):
            return (*questions.groups, "", "a:b", f"{questions.prefix}-x")
        if name == "transactional_id":
            return (None,) if self.version in field.nullable else ("",)
        if name == "resource_name":
            return questions.groups if before.get("resource_type") in (16, 32) else questions.topic_names()
        return COMMON.get(name)


def config_pool(name: str, before: dict[str, Any]) -> Sequence[Any]:
    if name == "name":
        return tuple(TOPIC_CONFIGS) + tuple(GROUP_CONFIGS)[:2]
    known = {**GROUP_CONFIGS, **TOPIC_CONFIGS}.get(before.get("name", ""), ("1",))
    return (*known, *known, *known, "", "delete")


WEIGHTS: Final = {
    "CreateTopics": 4, "Produce": 8, "Fetch": 5, "ListOffsets": 4, "JoinGroup": 6, "SyncGroup": 4, "OffsetCommit": 5,
    "OffsetFetch": 4, "Heartbeat": 2, "LeaveGroup": 2, "DescribeGroups": 2, "IncrementalAlterConfigs": 3,
    "DeleteRecords": 2, "Metadata": 3, "DeleteTopics": 1, "CreatePartitions": 2, "InitProducerId": 2,
}
TOPIC_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "CreatePartitions": ("name",), "CreateTopics": ("name",), "DeleteTopics": ("name", "topic_names"),
    "Metadata": ("name",), "Produce": ("name",), "Fetch": ("topic",), "ListOffsets": ("name",),
    "OffsetForLeaderEpoch": ("topic",),
    "OffsetCommit": ("name",), "OffsetFetch": ("name",), "OffsetDelete": ("name",), "DeleteRecords": ("name",),
    "DescribeProducers": ("name",), "DescribeTopicPartitions": ("name", "topic_name"), "ElectLeaders": ("topic",),
    "AlterPartitionReassignments": ("name",), "ListPartitionReassignments": ("name",), "DescribeLogDirs": ("topic",),
    "DescribeQuorum": ("topic_name",), "TxnOffsetCommit": ("name",),
    "AddPartitionsToTxn": ("name",),
}
CONFIG_STRUCTS: Final = frozenset({"CreatableTopicConfig", "AlterableConfig"})
PARTITION_FIELDS: Final = frozenset({"partition_index", "partition", "partition_indexes", "partitions", "partition_id"})
GROUP_FIELDS: Final = frozenset({"group_id", "groups", "groups_names", "group_ids"})
COMMON: Final[dict[str, Sequence[Any]]] = {
    "configs": tuple(TOPIC_CONFIGS), "configuration_keys": tuple(TOPIC_CONFIGS),
    "member_id": (*(Name("member", each) for each in ("newest", "newest", "newest", "older")), "", "", "nobody"),
    "generation_id": (*[Name("generation", "newest")] * 5, -1, 0, 1, 7),
    "generation_id_or_member_epoch": (*[Name("generation", "newest")] * 5, -1, 0, 1, 7),
    "producer_id": (Name("producer", "newest"), Name("producer", "newest"), -1, 0, 1_000_000),
    "broker_id": (1, 1, 1, 1, 1, 2, -1), "broker_ids": (1, 1, 1, 1, 1, 2, -1), "replicas": (1, 1, 1, 1, 1, 2, -1),
    "timeout_ms": (1000, 1000, 1000, 5000), "max_wait_ms": (0, 0, 20), "min_bytes": (0, 1, 1),
    "max_bytes": (1 << 20, 1 << 20, 1, 0), "partition_max_bytes": (1 << 20, 1 << 20, 1, 0),
    "isolation_level": (0, 0, 1), "replica_id": (-1, -1, -1, -1, -2), "session_id": (0, 0, 0, 5),
    "session_epoch": (-1, -1, -1, 0, 1), "acks": (-1, 1), "current_leader_epoch": (-1, -1, 0, 1),
    "leader_epoch": (0, 0, -1, 1), "fetch_offset": (0, 0, 1, 3, -1, 10_000), "log_start_offset": (-1, -1, 0),
    "timestamp": TIMESTAMPS, "resource_type": (2, 2, 2, 32, 16), "config_operation": (0, 0, 0, 1),
    "offset": (0, 1, 2, -1, -2, 10_000), "committed_offset": (0, 1, 5, -1, -2),
    "committed_metadata": ("", None, "m"), "session_timeout_ms": (10_000, 10_000, 6_000, 100, 9_999_999),
    "rebalance_timeout_ms": (2_500,), "protocol_type": ("consumer", "consumer", "consumer", "", "connect"),
    "protocol_name": ("range", "range", "sticky", ""), "group_instance_id": (None, None, None, "i1"),
    "validate_only": (False, False, False, True), "num_partitions": (-1, 1, 2, 3, 0), "count": (2, 3, 4, 1, 0, -1),
    "replication_factor": (1, 1, 1, -1, 2, 0), "allow_auto_topic_creation": (False,), "key_type": (0, 0, 1, 2, 3),
    "producer_epoch": (0, 0, -1, 1), "transaction_timeout_ms": (60_000, 0, -1, 2**31 - 1), "election_type": (0, 1, 2),
    "rack_id": ("", "r"), "require_stable": (False, True), "retention_time_ms": (-1, 60_000),
    "states_filter": ("Empty", "Stable", "Dead", "x", "stable"),
    "types_filter": ("classic", "consumer", "Classic", "x"),
    "include_topic_authorized_operations": (False, True), "response_partition_limit": (2000, 1, 0, -1),
    "endpoint_type": (1, 1, 2, 0), "duration_filter": (-1, 0, 1000), "strict": (False, True),
    "transactional_ids": ("", "t"), "state_filters": ("Ongoing", "x"),
    "entity_type": ("client-id", "user", "ip", "x", ""),
    "match_type": (0, 1, 2, 3), "entity_name": (None, "n", "127.0.0.1", ""), "match": ("n", None),
    "user": ("u", ""), "users": ("u",), "resource_type_filter": (1, 2, 3, 4), "pattern_type_filter": (1, 2, 3, 4),
    "resource_pattern_type": (3, 4), "operation": (1, 2, 3, 8), "permission_type": (1, 2, 3),
}
SPECIAL: Final[dict[tuple[str, str], Sequence[Any]]] = {
    ("Metadata", "topic_id"): (UUID(int=0),),      # when some are named by id, Kafka omits those named by name
    # Kafka's controller accepts an empty one, and then no change of credentials reaches its broker any more.
    ("AlterUserScramCredentials", "salted_password"): (b"\0\1" * 16,),
    ("AlterReplicaLogDirs", "name"): ("nowhere", "elsewhere"), ("AlterReplicaLogDirs", "path"): ("/nowhere",),
    ("JoinGroup", "name"): ("range", "range", "range", "sticky"), ("JoinGroup", "reason"): (None, "why"),
    # Kafka does not answer bytes that are no subscription and claim to be long.
    ("JoinGroup", "metadata"): (b"", b"a", b"\0\1"),
    ("AlterClientQuotas", "key"): ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate", "x"),
    ("AlterClientQuotas", "value"): (1000.0, 1e9, 0.0, -1.0, 1.5), ("AlterUserScramCredentials", "name"): ("u", ""),
    ("DescribeUserScramCredentials", "name"): ("u", ""), ("AlterUserScramCredentials", "mechanism"): (1, 2, 0, 3),
    ("AlterUserScramCredentials", "iterations"): (4096, 8192, 1, 20000),
    ("CreateAcls", "resource_type"): (2, 3, 4), ("CreateAcls", "permission_type"): (2, 3),
    ("CreateTopics", "num_partitions"): (-1, 1, 2, 3, 0), ("FindCoordinator", "key_type"): (0, 0, 0, 2, 3),
    ("ListPartitionReassignments", "partition_indexes"): (0, 1, 9),
}
