"""Offsets of many partitions at once, with one request per leader."""

from collections.abc import Iterable, Mapping
from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection
from kraft.client.refusals import check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.protocol.messages.metadata_response import MetadataResponseTopic

LATEST: Final = -1
EARLIEST: Final = -2
CONSUMER: Final = -1  # replica id of a request from a consumer

Partition = tuple[str, int]


def list_offsets(cluster: Cluster, topics: Iterable[MetadataResponseTopic],
                 timestamps: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the offsets of these partitions at timestamps (milliseconds, or Kafka's special ones); -1 means no offset.

    `topics` is their metadata. A partition without a leader is omitted. `RefusedError` names one that was refused.
    """
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for each in topic.partitions:
            name = topic.name or ""
            if (name, each.partition_index) in timestamps and each.leader_id >= 0:
                by_leader.setdefault(each.leader_id, {}).setdefault(name, []).append(each.partition_index)
    found: dict[Partition, int] = {}
    for leader, wanted in sorted(by_leader.items()):
        found |= _query(cluster.node(leader), wanted, timestamps)
    return found


def offset_of(connection: Connection, topic: str, partition: int, timestamp: int) -> int:
    """Return the offset of one partition at a timestamp, from the node of `connection`; raises as `list_offsets`."""
    name = (topic, partition)
    return _query(connection, {topic: [partition]}, {name: timestamp})[name]


def _query(connection: Connection, wanted: Mapping[str, list[int]],
           timestamps: Mapping[Partition, int]) -> dict[Partition, int]:
    request = ListOffsetsRequest(replica_id=CONSUMER, topics=[
        ListOffsetsTopic(name=name, partitions=[
            ListOffsetsPartition(partition_index=index, timestamp=timestamps[name, index]) for index in indexes])
        for name, indexes in wanted.items()])
    found: dict[Partition, int] = {}
    for answer in connection.send(request, ListOffsetsResponse).topics:
        for each in answer.partitions:
            check(f"offsets of {answer.name}-{each.partition_index}", each.error_code)
            found[answer.name, each.partition_index] = each.offset
    return found


def list_all_offsets(cluster: Cluster, topics: Iterable[MetadataResponseTopic],
                     timestamps: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the offsets as `list_offsets` does, for all of these partitions: `RefusedError` also names one without a
    leader."""
    found = list_offsets(cluster, topics, timestamps)
    for topic, index in timestamps:
        if (topic, index) not in found:
            check(f"partition {topic}-{index}", ErrorCode.LEADER_NOT_AVAILABLE)
    return found


def every(topics: Iterable[MetadataResponseTopic], timestamp: int) -> dict[Partition, int]:
    """Return the same timestamp for each partition of the topics."""
    return {(topic.name or "", each.partition_index): timestamp for topic in topics for each in topic.partitions}
