"""A request of every API, with what it needs: Kafka's rules, repeated by hand."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kraft.broker.access.table import ON_CONTROLLERS, ROWS
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.security.acls import Operation, ResourceType
from tests.broker.access.world import Acl

TOPIC, GROUP, TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TXN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
def on(operation: Operation, resource: ResourceType, name: str) -> tuple[Acl, ...]:
    return (Acl(operation, resource, name),)


def cluster(operation: Operation) -> tuple[Acl, ...]:
    return (Acl(operation),)


class Sample(NamedTuple):
    """A request, with what it needs: one ACL of each group. `errors`: those without the first one of any group.
    `found` creates the handler's answer."""

    key: ApiKey
    fields: dict[str, Any]
    needs: tuple[tuple[Acl, ...], ...]
    errors: tuple[ErrorCode, ...]
    found: dict[str, Any] | None = None
    version: int | None = None
    on_controller: bool = False

    @property
    def request(self) -> Message:
        return structs(API_BY_KEY[self.key].request, self.fields)

    @property
    def api_version(self) -> int:
        return API_BY_KEY[self.key].latest_stable if self.version is None else self.version

    def __str__(self) -> str:
        return f"{self.key.name}-{self.api_version}{'-controller' if self.on_controller else ''}"


def structs(kind: Any, fields: Any) -> Any:
    """Create a struct; a field that is a tuple (class name, list of fields) is an array of structs."""
    import importlib
    module = importlib.import_module(kind.__module__)
    made = {}
    for name, value in fields.items():
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], list):
            made[name] = [structs(getattr(module, value[0]), each) for each in value[1]]
        else:
            made[name] = value
    return kind(**made)


def topics(kind: str, part: str | None = None, array: str = "partitions", name: str = "name", **fields: Any) -> Any:
    """One topic, `orders`, with partition 0."""
    inner: Any = [0] if part is None else (part, [fields])
    return kind, [{name: "orders", array: inner}]


READ_ORDERS, WRITE_ORDERS = on(Operation.READ, TOPIC, "orders"), on(Operation.WRITE, TOPIC, "orders")
DESCRIBE_ORDERS = on(Operation.DESCRIBE, TOPIC, "orders")
READ_GROUP, DESCRIBE_GROUP = on(Operation.READ, GROUP, "g"), on(Operation.DESCRIBE, GROUP, "g")
WRITE_TXN, DESCRIBE_TXN = on(Operation.WRITE, TXN, "x"), on(Operation.DESCRIBE, TXN, "x")
ACTS = (cluster(Operation.CLUSTER_ACTION),)
ALTERS = (cluster(Operation.ALTER),)
DESCRIBES = (cluster(Operation.DESCRIBE),)
A_GROUP = {"group_id": "g"}
FILTER = {"resource_type_filter": 2, "resource_name_filter": "none", "principal_filter": None, "host_filter": None,
          "operation": 1, "permission_type": 1}

SAMPLES: Final = [
    Sample(ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": topics("ListOffsetsTopic", "ListOffsetsPartition")},
           (DESCRIBE_ORDERS,), (NO_TOPIC,)),
    Sample(ApiKey.METADATA, {"topics": ("MetadataRequestTopic", [{"name": "orders"}])}, (DESCRIBE_ORDERS,),
           (NO_TOPIC,)),
    Sample(ApiKey.METADATA, {"topics": ("MetadataRequestTopic", [{"name": "orders"}])}, (DESCRIBE_ORDERS,),
           (NO_TOPIC,), version=0),
    Sample(ApiKey.METADATA, {"topics": ("MetadataRequestTopic", [{"name": "new"}])},
           (on(Operation.DESCRIBE, TOPIC, "new"), (*on(Operation.CREATE, TOPIC, "new"), *cluster(Operation.CREATE))),
           (NO_TOPIC,)),
    Sample(ApiKey.OFFSET_COMMIT, {**A_GROUP, "topics": topics(
        "OffsetCommitRequestTopic", "OffsetCommitRequestPartition")}, (READ_GROUP, READ_ORDERS), (NO_GROUP, NO_TOPIC),
        version=8),
    Sample(ApiKey.OFFSET_FETCH, {"groups": ("OffsetFetchRequestGroup", [{"group_id": "g", "topics": topics(
        "OffsetFetchRequestTopics", array="partition_indexes")}])}, (DESCRIBE_GROUP, DESCRIBE_ORDERS),
        (NO_GROUP, NO_TOPIC), {"groups": ("OffsetFetchResponseGroup", [{"group_id": "g"}])}, version=9),
    *(Sample(ApiKey.OFFSET_FETCH, {**A_GROUP, "topics": topics("OffsetFetchRequestTopic", array="partition_indexes")},
             (DESCRIBE_GROUP, DESCRIBE_ORDERS), (NO_GROUP, NO_TOPIC), version=version) for version in (1, 2, 7)),
    Sample(ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g"]}, (DESCRIBE_GROUP,), (NO_GROUP,)),
    Sample(ApiKey.FIND_COORDINATOR, {"key_type": 1, "coordinator_keys": ["x"]}, (DESCRIBE_TXN,), (NO_TXN,)),
    Sample(ApiKey.FIND_COORDINATOR, {"key_type": 0, "key": "g"}, (DESCRIBE_GROUP,), (NO_GROUP,), version=1),
    Sample(ApiKey.FIND_COORDINATOR, {"key_type": 1, "key": "x"}, (DESCRIBE_TXN,), (NO_TXN,), version=3),
    *(Sample(key, A_GROUP, (READ_GROUP,), (NO_GROUP,), version=version) for key, version in (
        (ApiKey.JOIN_GROUP, 2), (ApiKey.JOIN_GROUP, 9), (ApiKey.HEARTBEAT, 0), (ApiKey.HEARTBEAT, 4),
        (ApiKey.LEAVE_GROUP, 0), (ApiKey.LEAVE_GROUP, 5), (ApiKey.SYNC_GROUP, 0))),
    Sample(ApiKey.SYNC_GROUP, {**A_GROUP, "protocol_type": "consumer", "protocol_name": "range"}, (READ_GROUP,),
           (NO_GROUP,)),
    Sample(ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]}, (DESCRIBE_GROUP,), (NO_GROUP,)),
    Sample(ApiKey.CONSUMER_GROUP_HEARTBEAT, {**A_GROUP, "subscribed_topic_names": ["orders"]},
           (READ_GROUP, DESCRIBE_ORDERS), (NO_GROUP, NO_TOPIC)),
    Sample(ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g"]}, (DESCRIBE_GROUP,), (NO_GROUP,)),
    Sample(ApiKey.SHARE_GROUP_HEARTBEAT, {**A_GROUP, "member_id": "m", "subscribed_topic_names": ["orders"]},
           (READ_GROUP, DESCRIBE_ORDERS), (NO_GROUP, NO_TOPIC)),
    Sample(ApiKey.SHARE_GROUP_DESCRIBE, {"group_ids": ["g"]}, (DESCRIBE_GROUP,), (NO_GROUP,)),
    Sample(ApiKey.STREAMS_GROUP_HEARTBEAT, {**A_GROUP, "member_id": "m", "member_epoch": 1}, (READ_GROUP,),
           (NO_GROUP,)),
    Sample(ApiKey.STREAMS_GROUP_DESCRIBE, {"group_ids": ["g"]}, (DESCRIBE_GROUP,), (NO_GROUP,)),
    Sample(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, {"groups": ("DescribeShareGroupOffsetsRequestGroup", [
        {"group_id": "g", "topics": topics("DescribeShareGroupOffsetsRequestTopic", name="topic_name")}])},
        (DESCRIBE_GROUP, DESCRIBE_ORDERS), (NO_GROUP, NO_TOPIC),
        {"groups": ("DescribeShareGroupOffsetsResponseGroup", [{"group_id": "g"}])}),
    Sample(ApiKey.ALTER_SHARE_GROUP_OFFSETS, {**A_GROUP, "topics": topics(
        "AlterShareGroupOffsetsRequestTopic", "AlterShareGroupOffsetsRequestPartition", name="topic_name")},
        (READ_GROUP, READ_ORDERS), (NO_GROUP, NO_TOPIC)),
    Sample(ApiKey.DELETE_SHARE_GROUP_OFFSETS, {**A_GROUP, "topics": (
        "DeleteShareGroupOffsetsRequestTopic", [{"topic_name": "orders"}])},
        (on(Operation.DELETE, GROUP, "g"), READ_ORDERS), (NO_GROUP, NO_TOPIC)),
    Sample(ApiKey.CREATE_TOPICS, {"timeout_ms": 10_000, "topics": ("CreatableTopic", [
        {"name": "new", "num_partitions": 1, "replication_factor": 1}])},
           ((*on(Operation.CREATE, TOPIC, "new"), *cluster(Operation.CREATE)),), (NO_TOPIC,)),
    Sample(ApiKey.DELETE_TOPICS, {"timeout_ms": 10_000, "topics": ("DeleteTopicState", [{"name": "orders"}])},
           (on(Operation.DELETE, TOPIC, "orders"),), (NO_TOPIC,)),
    Sample(ApiKey.DELETE_TOPICS, {"timeout_ms": 10_000, "topic_names": ["orders"]},
           ((*on(Operation.DELETE, TOPIC, "orders"), *cluster(Operation.DELETE)),), (NO_TOPIC,), version=5),
    Sample(ApiKey.DELETE_RECORDS, {"topics": topics("DeleteRecordsTopic", "DeleteRecordsPartition")},
           (on(Operation.DELETE, TOPIC, "orders"),), (NO_TOPIC,)),
    Sample(ApiKey.INIT_PRODUCER_ID, {"transactional_id": "x"}, (WRITE_TXN,), (NO_TXN,)),
    Sample(ApiKey.INIT_PRODUCER_ID, {"transactional_id": "x", "enable2_pc": True},
           (WRITE_TXN, on(Operation.TWO_PHASE_COMMIT, TXN, "x")), (NO_TXN,), version=6),
    Sample(ApiKey.INIT_PRODUCER_ID, {"transactional_id": None},
           ((*cluster(Operation.IDEMPOTENT_WRITE), *on(Operation.WRITE, TOPIC, "any")),), (NO_CLUSTER,)),
    Sample(ApiKey.OFFSET_FOR_LEADER_EPOCH, {"topics": topics(
        "OffsetForLeaderTopic", "OffsetForLeaderPartition", name="topic")},
        ((*DESCRIBE_ORDERS, *cluster(Operation.CLUSTER_ACTION)),), (NO_TOPIC,)),
    Sample(ApiKey.ADD_PARTITIONS_TO_TXN, {"v3_and_below_transactional_id": "x", "v3_and_below_topics": topics(
        "AddPartitionsToTxnTopic")}, (WRITE_TXN, WRITE_ORDERS), (NO_TXN, NO_TOPIC), version=3),
    Sample(ApiKey.ADD_PARTITIONS_TO_TXN, {"transactions": ("AddPartitionsToTxnTransaction", [
        {"transactional_id": "x", "topics": topics("AddPartitionsToTxnTopic")}])}, ACTS, (NO_CLUSTER,)),
    Sample(ApiKey.ADD_OFFSETS_TO_TXN, {"transactional_id": "x", **A_GROUP}, (WRITE_TXN, READ_GROUP),
           (NO_TXN, NO_GROUP)),
    Sample(ApiKey.END_TXN, {"transactional_id": "x"}, (WRITE_TXN,), (NO_TXN,)),
    Sample(ApiKey.WRITE_TXN_MARKERS, {"markers": ("WritableTxnMarker", [{"topics": topics(
        "WritableTxnMarkerTopic", array="partition_indexes")}])},
        ((*cluster(Operation.ALTER), *cluster(Operation.CLUSTER_ACTION)),), (NO_CLUSTER,)),
    Sample(ApiKey.TXN_OFFSET_COMMIT, {"transactional_id": "x", **A_GROUP, "topics": topics(
        "TxnOffsetCommitRequestTopic", "TxnOffsetCommitRequestPartition")}, (WRITE_TXN, READ_GROUP, READ_ORDERS),
        (NO_TXN, NO_GROUP, NO_TOPIC)),
    Sample(ApiKey.DESCRIBE_ACLS, {**FILTER}, DESCRIBES, (NO_CLUSTER,)),
    Sample(ApiKey.CREATE_ACLS, {"creations": ("AclCreation", [{
        "resource_type": 2, "resource_name": "t", "principal": "User:x", "host": "*", "operation": 3,
        "permission_type": 3}])}, ALTERS, (NO_CLUSTER,)),
    Sample(ApiKey.DELETE_ACLS, {"filters": ("DeleteAclsFilter", [FILTER])}, ALTERS, (NO_CLUSTER,)),
    *(Sample(key, {"resources": (f"{name}Resource", [{"resource_type": kind, "resource_name": resource}])}, need,
             (error,), on_controller=on_controller)
      for key, name, operation in (
          (ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", Operation.DESCRIBE_CONFIGS),
          (ApiKey.ALTER_CONFIGS, "AlterConfigs", Operation.ALTER_CONFIGS),
          (ApiKey.INCREMENTAL_ALTER_CONFIGS, "AlterConfigs", Operation.ALTER_CONFIGS))
      for kind, resource, need, error, on_controller in (
          (2, "orders", (on(operation, TOPIC, "orders"),), NO_TOPIC, False),
          (32, "g", (on(operation, GROUP, "g"),), NO_GROUP, False),
          (4, "1", (cluster(operation),), NO_CLUSTER, False),
          (8, "1", (cluster(operation),), NO_CLUSTER, False),
          (16, "metrics", (cluster(operation),), NO_CLUSTER, False))
      if (key, kind) != (ApiKey.ALTER_CONFIGS, 8)),
    Sample(ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": ("AlterConfigsResource", [
        {"resource_type": 8, "resource_name": "1"}])}, ACTS, (NO_CLUSTER,), on_controller=True),
    Sample(ApiKey.ALTER_REPLICA_LOG_DIRS, {"dirs": ("AlterReplicaLogDir", [
        {"path": "/d", "topics": topics("AlterReplicaLogDirTopic")}])}, ALTERS, (NO_CLUSTER,)),
    *(Sample(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, DESCRIBES, (NO_CLUSTER,), version=version)
      for version in (3, 4)),
    Sample(ApiKey.CREATE_PARTITIONS, {"topics": ("CreatePartitionsTopic", [{"name": "orders"}])},
           (on(Operation.ALTER, TOPIC, "orders"),), (NO_TOPIC,)),
    Sample(ApiKey.CREATE_DELEGATION_TOKEN, {"owner_principal_type": "User", "owner_principal_name": "bob"},
           (on(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob"),),
           (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,)),
    Sample(ApiKey.DELETE_GROUPS, {"groups_names": ["g"]}, (on(Operation.DELETE, GROUP, "g"),), (NO_GROUP,)),
    *(Sample(ApiKey.ELECT_LEADERS, {"topic_partitions": topics("TopicPartitions", name="topic")}, ALTERS,
             (NO_CLUSTER,), version=version) for version in (0, 1, 2)),
    Sample(ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"topics": topics("ReassignableTopic", "ReassignablePartition")},
           ALTERS, (NO_CLUSTER,)),
    Sample(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": topics(
        "ListPartitionReassignmentsTopics", array="partition_indexes")}, DESCRIBES, (NO_CLUSTER,)),
    Sample(ApiKey.OFFSET_DELETE, {**A_GROUP, "topics": topics(
        "OffsetDeleteRequestTopic", "OffsetDeleteRequestPartition")},
        (on(Operation.DELETE, GROUP, "g"), READ_ORDERS), (NO_GROUP, NO_TOPIC)),
    Sample(ApiKey.DESCRIBE_CLIENT_QUOTAS, {}, (cluster(Operation.DESCRIBE_CONFIGS),), (NO_CLUSTER,)),
    Sample(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": ("EntryData", [{"entity": ("EntityData", [
        {"entity_type": "user", "entity_name": "u"}])}])}, (cluster(Operation.ALTER_CONFIGS),), (NO_CLUSTER,)),
    Sample(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": ("UserName", [{"name": "u"}])}, DESCRIBES, (NO_CLUSTER,)),
    Sample(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": ("ScramCredentialDeletion", [
        {"name": "u", "mechanism": 1}])}, ALTERS, (NO_CLUSTER,)),
    *(Sample(key, fields, ACTS, (NO_CLUSTER,), on_controller=True) for key, fields in (
        (ApiKey.VOTE, {}), (ApiKey.BEGIN_QUORUM_EPOCH, {}), (ApiKey.END_QUORUM_EPOCH, {}),
        (ApiKey.ALTER_PARTITION, {}), (ApiKey.FETCH_SNAPSHOT, {}), (ApiKey.FETCH, {}), (ApiKey.ENVELOPE, {}),
        (ApiKey.BROKER_REGISTRATION, {}), (ApiKey.BROKER_HEARTBEAT, {}), (ApiKey.ALLOCATE_PRODUCER_IDS, {}),
        (ApiKey.CONTROLLER_REGISTRATION, {}), (ApiKey.ASSIGN_REPLICAS_TO_DIRS, {}), (ApiKey.UPDATE_RAFT_VOTER, {}),
        (ApiKey.DISCOVER_BROKERS, {}), (ApiKey.CONTROLLER_HEARTBEAT, {}))),
    Sample(ApiKey.FIND_COORDINATOR, {"key_type": 2, "coordinator_keys": ["g"]}, ACTS, (NO_CLUSTER,)),
    *(Sample(key, {**A_GROUP, "topics": (data, [{"partitions": ("PartitionData", [{"partition": 0}])}])}, ACTS,
             (NO_CLUSTER,)) for key, data in (
        (ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeStateData"), (ApiKey.READ_SHARE_GROUP_STATE, "ReadStateData"),
        (ApiKey.WRITE_SHARE_GROUP_STATE, "WriteStateData"), (ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteStateData"),
        (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadStateSummaryData"))),
    Sample(ApiKey.DESCRIBE_QUORUM, {"topics": ("TopicData", [{"topic_name": "__cluster_metadata", "partitions": (
        "PartitionData", [{}])}])}, DESCRIBES, (NO_CLUSTER,)),
    Sample(ApiKey.UPDATE_FEATURES, {}, ALTERS, (NO_CLUSTER,)),
    Sample(ApiKey.DESCRIBE_CLUSTER, {}, ALTERS, (NO_CLUSTER,), on_controller=True),
    Sample(ApiKey.DESCRIBE_PRODUCERS, {"topics": topics("TopicRequest", array="partition_indexes")}, (READ_ORDERS,),
           (NO_TOPIC,)),
    Sample(ApiKey.UNREGISTER_BROKER, {}, ALTERS, (NO_CLUSTER,)),
    Sample(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x"]}, (DESCRIBE_TXN,), (NO_TXN,)),
    *(Sample(ApiKey.LIST_CONFIG_RESOURCES, {}, (cluster(Operation.DESCRIBE_CONFIGS),), (NO_CLUSTER,), version=version)
      for version in (0, 1)),
    Sample(ApiKey.ADD_RAFT_VOTER, {}, ALTERS, (NO_CLUSTER,)),
    Sample(ApiKey.REMOVE_RAFT_VOTER, {}, ALTERS, (NO_CLUSTER,)),
    Sample(ApiKey.DESCRIBE_RECORDER, {}, DESCRIBES, (NO_CLUSTER,)),
]

HIDDEN: Final = [
    Sample(ApiKey.LIST_GROUPS, {}, ((*DESCRIBE_GROUP, *cluster(Operation.DESCRIBE)),), (),
           {"groups": ("ListedGroup", [{"group_id": "g"}])}),
    Sample(ApiKey.LIST_TRANSACTIONS, {}, (DESCRIBE_TXN,), (),
           {"transaction_states": ("TransactionState", [{"transactional_id": "x"}])}),
    Sample(ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None},
           ((*on(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "id"),
             *on(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")),), (),
           {"tokens": ("DescribedDelegationToken", [{"token_id": "id", "principal_type": "User",
                                                     "principal_name": "bob"}])}),
]


def handler(sample: Sample) -> Callable[[Any], Message]:
    """Return a handler that answers without an error."""
    return lambda _request: structs(API_BY_KEY[sample.key].response, sample.found or {})  # type: ignore[no-any-return]


def row_of(sample: Sample) -> Any:
    return (ON_CONTROLLERS if sample.on_controller else {}).get(sample.key, ROWS[sample.key])
