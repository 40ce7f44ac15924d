"""One file per API, or per family of APIs with one answer. Importing the package registers all of them."""

from kraft.broker.apis import (
    controller_requests,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    find_coordinator,
    group_requests,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    security_off,
    transactions,
)

__all__ = [
    "controller_requests",
    "delete_records",
    "describe_cluster",
    "describe_configs",
    "describe_log_dirs",
    "describe_producers",
    "describe_topic_partitions",
    "find_coordinator",
    "group_requests",
    "init_producer_id",
    "list_config_resources",
    "list_offsets",
    "metadata",
    "offset_for_leader_epoch",
    "security_off",
    "transactions",
]
