"""Permissions of every API, with Kafka's operations, resources and errors (KafkaApis, ControllerApis, AuthHelper).

`ROWS` has the APIs of listeners of brokers and of controllers. `ON_CONTROLLERS` has the rows that differ there.
"""

from functools import partial
from typing import Final

from kraft.broker.access import (
    configs,
    consumer_groups,
    coordinator,
    groups,
    offsets,
    share_groups,
    streams_groups,
    tokens,
    topics,
    transactions,
)
from kraft.broker.access.refused import (
    log_dirs_refused,
    offset_commit_refused,
    share_states_refused,
    txn_offset_commit_refused,
    users_refused,
)
from kraft.broker.access.rules import (
    Check,
    Elements,
    Hides,
    Inner,
    Place,
    Row,
    as_controller,
    on_cluster,
    with_message,
)
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages import (
    alter_share_group_offsets_response,
    consumer_group_describe_response,
    delete_groups_response,
    delete_records_response,
    delete_share_group_offsets_response,
    describe_client_quotas_response,
    describe_groups_response,
    describe_producers_response,
    find_coordinator_response,
    join_group_response,
    list_offsets_response,
    offset_commit_response,
    offset_delete_response,
    offset_for_leader_epoch_response,
    share_group_describe_response,
    streams_group_describe_response,
    txn_offset_commit_response,
)
from kraft.protocol.messages.create_partitions_response import CreatePartitionsTopicResult
from kraft.security.acls import Operation, ResourceType

TOPIC: Final = ResourceType.TOPIC
GROUP: Final = ResourceType.GROUP
TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID

_ACTS_FOR_CLUSTER: Final = (on_cluster(Operation.CLUSTER_ACTION),)
_READS_GROUP: Final = (Check(Operation.READ, GROUP, "group_id"),)
_WRITES_TRANSACTION: Final = (Check(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"),)


def _cluster(operation: Operation) -> tuple[tuple[Check, ...]]:
    return ((on_cluster(operation),),)


def _of_topics(operation: Operation, names: str = "topics.name", remark: str = "") -> Check:
    return Check(operation, TOPIC, names, remark)


_PRODUCE: Final = Row(by=(
    Check(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id", "with a transactional id; refuses all partitions"),
    _of_topics(Operation.WRITE, "topic_data.name")))
_FETCH: Final = Row(by=(
    _of_topics(Operation.READ, "topics.topic", "of a consumer"),
    Check(Operation.CLUSTER_ACTION, ResourceType.CLUSTER,
          remark="of a follower; without it each topic is refused with TOPIC_AUTHORIZATION_FAILED")))

_SHARE_FETCH: Final = Row(by=(
    Check(Operation.READ, GROUP, "group_id"), _of_topics(Operation.READ, "topics.topic_id")))

_LIST_OFFSETS: Final = Row(elements=Elements(
    "topics", "topics", _of_topics(Operation.DESCRIBE),
    lambda _code, topic: list_offsets_response.ListOffsetsTopicResponse(name=topic.name),
    Inner("partitions", "partitions", lambda code, each: list_offsets_response.ListOffsetsPartitionResponse(
        partition_index=each.partition_index, error_code=code))))

_DELETE_RECORDS: Final = Row(elements=Elements(
    "topics", "topics", _of_topics(Operation.DELETE),
    lambda _code, topic: delete_records_response.DeleteRecordsTopicResult(name=topic.name),
    Inner("partitions", "partitions", lambda code, each: delete_records_response.DeleteRecordsPartitionResult(
        partition_index=each.partition_index, error_code=code, low_watermark=-1))))

_OFFSET_FOR_LEADER_EPOCH: Final = Row(elements=Elements(
    "topics", "topics", _of_topics(Operation.DESCRIBE, "topics.topic", "or CLUSTER_ACTION on the cluster"),
    lambda _code, topic: offset_for_leader_epoch_response.OffsetForLeaderTopicResult(topic=topic.topic),
    Inner("partitions", "partitions", lambda code, each: offset_for_leader_epoch_response.EpochEndOffset(
        partition=each.partition, error_code=code)),
    unless=on_cluster(Operation.CLUSTER_ACTION, "or DESCRIBE on each topic", silent=True)))

_DESCRIBE_PRODUCERS: Final = Row(elements=Elements(
    "topics", "topics", _of_topics(Operation.READ),
    lambda _code, topic: describe_producers_response.TopicResponse(name=topic.name),
    Inner("partition_indexes", "partitions", lambda code, index: describe_producers_response.PartitionResponse(
        partition_index=index, error_code=code, error_message=code.message)),
    place=Place.AS_REQUESTED, pick=topics.if_valid))

_OFFSET_COMMIT: Final = Row((_READS_GROUP,), offset_commit_refused, Elements(
    "topics", "topics", _of_topics(Operation.READ),
    lambda _code, topic: offset_commit_response.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id),
    Inner("partitions", "partitions", lambda code, each: offset_commit_response.OffsetCommitResponsePartition(
        partition_index=each.partition_index, error_code=code)),
    place=Place.FIRST, name=offsets.topic_name))

_TXN_OFFSET_COMMIT: Final = Row((_WRITES_TRANSACTION, _READS_GROUP), txn_offset_commit_refused, Elements(
    "topics", "topics", _of_topics(Operation.READ),
    lambda _code, topic: txn_offset_commit_response.TxnOffsetCommitResponseTopic(name=topic.name),
    Inner("partitions", "partitions", lambda code, each: txn_offset_commit_response.TxnOffsetCommitResponsePartition(
        partition_index=each.partition_index, error_code=code)),
    place=Place.FIRST))

_OFFSET_DELETE: Final = Row(((Check(Operation.DELETE, GROUP, "group_id"),),), elements=Elements(
    "topics", "topics", _of_topics(Operation.READ),
    lambda _code, topic: offset_delete_response.OffsetDeleteResponseTopic(name=topic.name),
    Inner("partitions", "partitions", lambda code, each: offset_delete_response.OffsetDeleteResponsePartition(
        partition_index=each.partition_index, error_code=code)),
    place=Place.FIRST, always=True))

_DESCRIBE_GROUPS: Final = Elements(
    "groups", "groups", Check(Operation.DESCRIBE, GROUP, "groups"),
    lambda code, group: describe_groups_response.DescribedGroup(group_id=group, error_code=code), place=Place.FIRST)

_DESCRIBE_CONSUMER_GROUPS: Final = Elements(
    "group_ids", "groups", Check(Operation.DESCRIBE, GROUP, "group_ids"),
    lambda code, group: consumer_group_describe_response.DescribedGroup(group_id=group, error_code=code),
    place=Place.FIRST)

_DESCRIBE_SHARE_GROUPS: Final = Elements(
    "group_ids", "groups", Check(Operation.DESCRIBE, GROUP, "group_ids"),
    lambda code, group: share_group_describe_response.DescribedGroup(group_id=group, error_code=code),
    place=Place.FIRST)

_DESCRIBE_STREAMS_GROUPS: Final = Elements(
    "group_ids", "groups", Check(Operation.DESCRIBE, GROUP, "group_ids"),
    lambda code, group: streams_group_describe_response.DescribedGroup(group_id=group, error_code=code),
    place=Place.FIRST)

_ALTER_SHARE_OFFSETS: Final = Row((_READS_GROUP,), with_message, Elements(
    "topics", "responses", _of_topics(Operation.READ, "topics.topic_name"),
    lambda _code, topic: alter_share_group_offsets_response.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name),
    Inner("partitions", "partitions",
          lambda code, each: alter_share_group_offsets_response.AlterShareGroupOffsetsResponsePartition(
              partition_index=each.partition_index, error_code=code, error_message=code.message)),
    place=Place.FIRST, always=True))

_DELETE_SHARE_OFFSETS: Final = Row(((Check(Operation.DELETE, GROUP, "group_id"),),), with_message, Elements(
    "topics", "responses", _of_topics(Operation.READ, "topics.topic_name"),
    lambda code, topic: delete_share_group_offsets_response.DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, error_code=code, error_message=code.message),
    place=Place.FIRST, always=True))

_DELETE_GROUPS: Final = Row(elements=Elements(
    "groups_names", "results", Check(Operation.DELETE, GROUP, "groups_names"),
    lambda code, group: delete_groups_response.DeletableGroupResult(group_id=group, error_code=code)))

_FIND_COORDINATORS: Final = Elements(
    "coordinator_keys", "coordinators", coordinator.GROUP,
    lambda code, key: find_coordinator_response.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=""),
    place=Place.AS_REQUESTED, pick=coordinator.check_of)

_CREATE_PARTITIONS: Final = Row(elements=Elements(
    "topics", "results", _of_topics(Operation.ALTER),
    lambda code, topic: CreatePartitionsTopicResult(name=topic.name, error_code=code), place=Place.FIRST))

_JOIN_GROUP: Final = Row((_READS_GROUP,), lambda call, _request, code: join_group_response.JoinGroupResponse(
    error_code=code, generation_id=-1, protocol_name="" if call.version < 7 else None))
_DESCRIBE_QUOTAS: Final = Row(
    _cluster(Operation.DESCRIBE_CONFIGS),
    lambda _call, _request, code: describe_client_quotas_response.DescribeClientQuotasResponse(
        error_code=code, error_message=code.message, entries=None))

ROWS: Final[dict[int, Row]] = {
    ApiKey.PRODUCE: _PRODUCE,
    ApiKey.FETCH: _FETCH,
    ApiKey.SHARE_FETCH: _SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE: _SHARE_FETCH,
    ApiKey.LIST_OFFSETS: _LIST_OFFSETS,
    ApiKey.METADATA: Row(by=topics.METADATA_CHECKS, serve=topics.metadata),
    ApiKey.OFFSET_COMMIT: _OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH: Row(by=offsets.CHECKS, serve=offsets.offset_fetch),
    ApiKey.FIND_COORDINATOR: Row(by=coordinator.CHECKS, serve=partial(coordinator.find, _FIND_COORDINATORS)),
    ApiKey.JOIN_GROUP: _JOIN_GROUP,
    ApiKey.HEARTBEAT: Row((_READS_GROUP,)),
    ApiKey.LEAVE_GROUP: Row((_READS_GROUP,)),
    ApiKey.SYNC_GROUP: Row(by=(groups.SYNC_CHECK,), serve=groups.sync_group),
    ApiKey.DESCRIBE_GROUPS: Row(
        by=(_DESCRIBE_GROUPS.check,), serve=partial(groups.describe_groups, _DESCRIBE_GROUPS)),
    ApiKey.LIST_GROUPS: Row(hides=Hides(
        "groups", Check(Operation.DESCRIBE, GROUP, "groups.group_id", "groups without it are removed", silent=True),
        on_cluster(Operation.DESCRIBE, "or DESCRIBE on each group", silent=True))),
    ApiKey.SASL_HANDSHAKE: Row(open_because="it precedes authentication"),
    ApiKey.API_VERSIONS: Row(open_because="clients need it to authenticate"),
    ApiKey.CREATE_TOPICS: Row(by=topics.CREATE_CHECKS, serve=topics.create_topics),
    ApiKey.DELETE_TOPICS: Row(by=topics.DELETE_CHECKS, serve=topics.delete_topics),
    ApiKey.DELETE_RECORDS: _DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID: Row(by=transactions.INIT_CHECKS, serve=transactions.init_producer_id),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(by=transactions.ADD_CHECKS, serve=transactions.add_partitions_to_txn),
    ApiKey.ADD_OFFSETS_TO_TXN: Row((_WRITES_TRANSACTION, _READS_GROUP)),
    ApiKey.END_TXN: Row((_WRITES_TRANSACTION,)),
    ApiKey.WRITE_TXN_MARKERS: Row(
        ((on_cluster(Operation.ALTER, "or CLUSTER_ACTION"), on_cluster(Operation.CLUSTER_ACTION, "or ALTER")),),
        transactions.markers_refused),
    ApiKey.TXN_OFFSET_COMMIT: _TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS: Row(_cluster(Operation.DESCRIBE), with_message),
    ApiKey.CREATE_ACLS: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.DELETE_ACLS: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.DESCRIBE_CONFIGS: Row(elements=configs.DESCRIBED, by=configs.further(configs.DESCRIBE)),
    ApiKey.ALTER_CONFIGS: Row(elements=configs.ALTERED, by=configs.further(configs.ALTER)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Row(_cluster(Operation.ALTER), log_dirs_refused),
    ApiKey.DESCRIBE_LOG_DIRS: Row(_cluster(Operation.DESCRIBE)),
    ApiKey.SASL_AUTHENTICATE: Row(open_because="it is the authentication"),
    ApiKey.CREATE_PARTITIONS: _CREATE_PARTITIONS,
    ApiKey.CREATE_DELEGATION_TOKEN: Row(by=tokens.CREATE_CHECKS, serve=tokens.create_delegation_token),
    ApiKey.RENEW_DELEGATION_TOKEN: Row(open_because="only an owner or renewer of a token can name it"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Row(open_because="only an owner or renewer of a token can name it"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Row(by=tokens.DESCRIBE_CHECKS, serve=tokens.describe_delegation_token),
    ApiKey.DELETE_GROUPS: _DELETE_GROUPS,
    ApiKey.ELECT_LEADERS: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        elements=configs.INCREMENTALLY_ALTERED, by=configs.further(configs.ALTER)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row(_cluster(Operation.DESCRIBE), as_controller),
    ApiKey.OFFSET_DELETE: _OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _DESCRIBE_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS: Row(_cluster(Operation.ALTER_CONFIGS), as_controller),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Row(_cluster(Operation.DESCRIBE), users_refused),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.VOTE: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.BEGIN_QUORUM_EPOCH: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.END_QUORUM_EPOCH: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.DESCRIBE_QUORUM: Row(_cluster(Operation.DESCRIBE)),
    ApiKey.ALTER_PARTITION: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.UPDATE_FEATURES: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.ENVELOPE: Row((_ACTS_FOR_CLUSTER,)),
    ApiKey.FETCH_SNAPSHOT: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.DESCRIBE_CLUSTER: Row(open_because="the answer has authorized operations only with DESCRIBE on the cluster"),
    ApiKey.DESCRIBE_PRODUCERS: _DESCRIBE_PRODUCERS,
    ApiKey.BROKER_REGISTRATION: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.BROKER_HEARTBEAT: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.UNREGISTER_BROKER: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(by=transactions.DESCRIBE_CHECKS, serve=transactions.describe_transactions),
    ApiKey.LIST_TRANSACTIONS: Row(hides=Hides("transaction_states", Check(
        Operation.DESCRIBE, TRANSACTIONAL_ID, "transaction_states.transactional_id",
        "transactions without it are removed", silent=True))),
    ApiKey.ALLOCATE_PRODUCER_IDS: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.CONTROLLER_REGISTRATION: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row(
        by=(consumer_groups.HEARTBEAT_CHECK, consumer_groups.NAMED_CHECK),
        serve=consumer_groups.consumer_group_heartbeat),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row(
        by=(_DESCRIBE_CONSUMER_GROUPS.check, consumer_groups.SHOWN_CHECK),
        serve=partial(consumer_groups.consumer_group_describe, _DESCRIBE_CONSUMER_GROUPS)),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Row(open_because="the answer has nothing of the cluster"),
    ApiKey.PUSH_TELEMETRY: Row(open_because="the metrics are the client's own"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.LIST_CONFIG_RESOURCES: Row(_cluster(Operation.DESCRIBE_CONFIGS)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row(by=(
        _of_topics(Operation.DESCRIBE, remark="a request for all topics is answered without the others"),)),
    ApiKey.ADD_RAFT_VOTER: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.REMOVE_RAFT_VOTER: Row(_cluster(Operation.ALTER), as_controller),
    ApiKey.UPDATE_RAFT_VOTER: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.SHARE_GROUP_HEARTBEAT: Row(
        by=(consumer_groups.HEARTBEAT_CHECK, share_groups.NAMED_CHECK), serve=share_groups.share_group_heartbeat),
    ApiKey.SHARE_GROUP_DESCRIBE: Row(
        by=(_DESCRIBE_SHARE_GROUPS.check, consumer_groups.SHOWN_CHECK),
        serve=partial(consumer_groups.consumer_group_describe, _DESCRIBE_SHARE_GROUPS)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Row(
        by=(consumer_groups.HEARTBEAT_CHECK, streams_groups.NAMED_CHECK, streams_groups.CREATE_CLUSTER_CHECK,
            streams_groups.CREATE_CHECK), serve=streams_groups.streams_group_heartbeat),
    ApiKey.STREAMS_GROUP_DESCRIBE: Row(
        by=(_DESCRIBE_STREAMS_GROUPS.check, streams_groups.SHOWN_CHECK),
        serve=partial(streams_groups.streams_group_describe, _DESCRIBE_STREAMS_GROUPS)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Row(
        by=share_groups.OFFSETS_CHECKS, serve=share_groups.describe_share_group_offsets),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _ALTER_SHARE_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _DELETE_SHARE_OFFSETS,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Row((_ACTS_FOR_CLUSTER,), share_states_refused),
    ApiKey.READ_SHARE_GROUP_STATE: Row((_ACTS_FOR_CLUSTER,), share_states_refused),
    ApiKey.WRITE_SHARE_GROUP_STATE: Row((_ACTS_FOR_CLUSTER,), share_states_refused),
    ApiKey.DELETE_SHARE_GROUP_STATE: Row((_ACTS_FOR_CLUSTER,), share_states_refused),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Row((_ACTS_FOR_CLUSTER,), share_states_refused),
    ApiKey.DISCOVER_BROKERS: Row((_ACTS_FOR_CLUSTER,)),
    ApiKey.CONTROLLER_HEARTBEAT: Row((_ACTS_FOR_CLUSTER,)),
    ApiKey.DESCRIBE_RECORDER: Row(_cluster(Operation.DESCRIBE)),
}

ON_CONTROLLERS: Final[dict[int, Row]] = {
    ApiKey.FETCH: Row((_ACTS_FOR_CLUSTER,), as_controller),
    ApiKey.DESCRIBE_CLUSTER: Row(_cluster(Operation.ALTER), with_message),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        elements=configs.INCREMENTALLY_ALTERED_BY_CONTROLLERS, by=configs.further(configs.CONTROLLERS_ALTER)),
}
"""Rows of a controller's listener that differ."""

IN_COMPILED_CODE: Final = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
"""APIs of brokers that compiled code checks."""
