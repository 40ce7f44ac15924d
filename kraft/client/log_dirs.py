"""Replicas in brokers' log directories, and their moves between directories of one broker (KIP-113)."""

from collections.abc import Iterable
from typing import NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.partitions import Partition
from kraft.client.refusals import check
from kraft.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse


class PlacedReplica(NamedTuple):
    """One replica in one directory. `is_future` means that it is being moved there and is `offset_lag` behind."""

    partition: Partition
    path: str
    size_bytes: int
    offset_lag: int
    is_future: bool


def placed_replicas(cluster: Cluster, node_id: int) -> list[PlacedReplica]:
    """Return all replicas of a broker in its usable directories, sorted by directory."""
    answer = cluster.node(node_id).send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    check(f"log directories of broker {node_id}", answer.error_code)
    return [PlacedReplica((topic.name, each.partition_index), directory.log_dir, each.partition_size,
                          each.offset_lag, each.is_future_key)
            for directory in sorted(answer.results, key=lambda result: result.log_dir)
            for topic in directory.topics for each in topic.partitions]


def move_replicas(cluster: Cluster, node_id: int, path: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Let a broker move replicas into one of its directories. Return Kafka's error code for each, 0 when the move has
    begun."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[
        AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in topics.items()])])
    answer = cluster.node(node_id).send(request, AlterReplicaLogDirsResponse)
    return {(topic.topic_name, each.partition_index): each.error_code
            for topic in answer.results for each in topic.partitions}
