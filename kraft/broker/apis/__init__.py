"""Handlers, one file per API or per family of APIs with one answer.

A file is imported at the first request for one of its APIs, or soon after the start. With their messages these are some
fifty modules, which a start need not read. But a process must not read them late: its package may have been replaced.
"""

from collections.abc import Generator
from importlib import import_module
from typing import Final

from kraft.broker.api import HANDLERS, Handler
from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.record_types import METADATA_RECORDS
from kraft.protocol.registry import message_class

FILES: Final[dict[str, tuple[str, ...]]] = {
    "alter_configs": ("AlterConfigs",),
    "alter_replica_log_dirs": ("AlterReplicaLogDirs",),
    "client_quotas": ("DescribeClientQuotas",),
    "client_telemetry": ("GetTelemetrySubscriptions", "PushTelemetry"),
    "controller_requests": (
        "CreateTopics", "DeleteTopics", "CreatePartitions", "ElectLeaders",
        "AlterPartitionReassignments", "ListPartitionReassignments", "AlterClientQuotas",
        "AlterUserScramCredentials", "UpdateFeatures", "DescribeQuorum", "UnregisterBroker", "AssignReplicasToDirs",
        "AddRaftVoter", "RemoveRaftVoter"),
    "delete_records": ("DeleteRecords",),
    "describe_cluster": ("DescribeCluster",),
    "describe_configs": ("DescribeConfigs",),
    "describe_log_dirs": ("DescribeLogDirs",),
    "describe_producers": ("DescribeProducers",),
    "describe_recorder": ("DescribeRecorder",),
    "describe_topic_partitions": ("DescribeTopicPartitions",),
    "discover_brokers": ("DiscoverBrokers",),
    "find_coordinator": ("FindCoordinator",),
    "group_requests": (
        "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "OffsetCommit",
        "OffsetFetch", "DeleteGroups", "OffsetDelete"),
    "incremental_alter_configs": ("IncrementalAlterConfigs",),
    "init_producer_id": ("InitProducerId",),
    "list_config_resources": ("ListConfigResources",),
    "list_offsets": ("ListOffsets",),
    "metadata": ("Metadata",),
    "offset_for_leader_epoch": ("OffsetForLeaderEpoch",),
    "security_off": (
        "DescribeAcls", "CreateAcls", "DeleteAcls", "SaslHandshake", "SaslAuthenticate", "CreateDelegationToken",
        "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
    "transactions": ("ListTransactions", "DescribeTransactions"),
    "user_scram": ("DescribeUserScramCredentials",),
}
"""APIs of each file, by Kafka's names."""

_FILE_OF: Final = {API_BY_NAME[name].key: file for file, names in FILES.items() for name in names}
SERVED: Final = tuple(_FILE_OF)
"""Keys of all served APIs."""


def handler_of(api_key: int) -> Handler:
    """Return the handler of an API. Raise `KeyError` for an API that is not served here."""
    if (found := HANDLERS.get(api_key)) is None:
        import_module(f"{__name__}.{_FILE_OF[api_key]}")
        found = HANDLERS[api_key]
    return found


def import_steps() -> Generator[None, None, None]:
    """Import the files of all APIs and the classes of all metadata records, one per step."""
    for file in FILES:
        import_module(f"{__name__}.{file}")
        yield
    for record in METADATA_RECORDS.values():
        message_class(record)
        yield
