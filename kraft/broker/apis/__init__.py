"""Handlers of the APIs that Python serves: one file per API, or per family of APIs.

Only `FILES` binds an API to its handler. That is the function with the API's name in the file, or the function `serve`
of a file whose APIs have one answer. Versions, listeners and messages of an API are in its `kraft.protocol.api.Api`.
`kraft.broker.api` describes handlers. Compiled code serves Produce and Fetch.

A file is imported at the first request for one of its APIs, or soon after the start. With their messages these are some
fifty modules, which a start need not read. But a process must not read them late: its package may have been replaced.
"""

from collections.abc import Generator
from functools import cache
from importlib import import_module
from typing import Final

from kraft.broker.api import Handler
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.record_types import METADATA_RECORDS
from kraft.protocol.registry import message_class

FILES: Final[dict[str, tuple[ApiKey, ...]]] = {
    "acls": (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
    "alter_configs": (ApiKey.ALTER_CONFIGS,),
    "alter_replica_log_dirs": (ApiKey.ALTER_REPLICA_LOG_DIRS,),
    "client_quotas": (ApiKey.DESCRIBE_CLIENT_QUOTAS,),
    "client_telemetry": (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),
    "consumer_groups": (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
    "controller_requests": (
        ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.UPDATE_FEATURES, ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER),
    "delegation_tokens": (
        ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN),
    "delete_records": (ApiKey.DELETE_RECORDS,),
    "describe_cluster": (ApiKey.DESCRIBE_CLUSTER,),
    "describe_configs": (ApiKey.DESCRIBE_CONFIGS,),
    "describe_log_dirs": (ApiKey.DESCRIBE_LOG_DIRS,),
    "describe_producers": (ApiKey.DESCRIBE_PRODUCERS,),
    "describe_recorder": (ApiKey.DESCRIBE_RECORDER,),
    "describe_topic_partitions": (ApiKey.DESCRIBE_TOPIC_PARTITIONS,),
    "discover_brokers": (ApiKey.DISCOVER_BROKERS,),
    "find_coordinator": (ApiKey.FIND_COORDINATOR,),
    "group_requests": (
        ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT),
    "incremental_alter_configs": (ApiKey.INCREMENTAL_ALTER_CONFIGS,),
    "init_producer_id": (ApiKey.INIT_PRODUCER_ID,),
    "list_config_resources": (ApiKey.LIST_CONFIG_RESOURCES,),
    "list_offsets": (ApiKey.LIST_OFFSETS,),
    "metadata": (ApiKey.METADATA,),
    "offset_for_leader_epoch": (ApiKey.OFFSET_FOR_LEADER_EPOCH,),
    "share_groups": (
        ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS),
    "share_state_requests": (
        ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY),
    "streams_groups": (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE),
    "transaction_requests": (
        ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS),
    "unexpected_logins": (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    "user_scram": (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,),
    "write_txn_markers": (ApiKey.WRITE_TXN_MARKERS,),
}

LATE: Final = (
    "kraft.broker.groups.shard", "kraft.broker.groups.served", "kraft.broker.groups.requests",
    "kraft.broker.transactions.shard", "kraft.broker.transactions.requests",
    "kraft.broker.access.brokers", "kraft.broker.share_state.coordinator", "kraft.broker.share_state.persister")
"""Further modules that a node imports when it needs them."""
_FILE_OF: Final[dict[int, str]] = {key: file for file, keys in FILES.items() for key in keys}
SERVED: Final = tuple(key for keys in FILES.values() for key in keys)
"""Keys of all served APIs."""


@cache
def handler_of(api_key: int) -> Handler:
    """Return the handler of an API. Raise `KeyError` for an API that is not served here."""
    file = import_module(f"{__name__}.{_FILE_OF[api_key]}")
    handler: Handler = getattr(file, ApiKey(api_key).name.lower(), None) or file.serve
    return handler


def import_steps() -> Generator[None, None, None]:
    """Import the files of all APIs and the classes of all metadata records, one per step."""
    for file in FILES:
        import_module(f"{__name__}.{file}")
        yield
    for name in LATE:
        import_module(name)
        yield
    for record in METADATA_RECORDS.values():
        message_class(record)
        yield
