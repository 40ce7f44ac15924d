"""Appending one record at a time, with fields of any bytes, for records that a client library cannot send."""

import random
import zlib
from collections.abc import Sequence
from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.producing import PRODUCE_VERSION_MAX, persist
from kraft.client.refusals import RefusedError, check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.batch.records import BatchBuilder

ALL: Final = -1


def append_record(cluster: Cluster, topic: str, partition: int | None, value: bytes | None, key: bytes | None,
                  timestamp_ms: int | None, headers: Sequence[tuple[bytes, bytes | None]], *, codec: str = "none",
                  acks: int = ALL) -> int:
    """Append a record and return its offset, once `acks` replicas (1, or ALL) have it.

    Without `partition` the key chooses it, as librdkafka's default partitioner does. Temporary refusals are retried for
    the cluster's time-out; a record may then be appended twice or not at all. Raises `RefusedError` or
    `ConnectionFailedError`.
    """
    builder = BatchBuilder(codec)
    builder.append(value, key, timestamp_ms, headers)
    batch = builder.build()
    partitions = len(cluster.topic(topic).partitions)
    if partition is not None and partition >= partitions:
        raise RefusedError(f"partition {topic}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    index = partition_of(key, partitions) if partition is None else partition

    def send() -> int:
        leader = cluster.leader(topic, index)
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
        request = ProduceRequest(acks=acks, timeout_ms=round(cluster.timeout * 1000), topic_data=[data])
        version = leader.version(ProduceRequest.API_KEY, PRODUCE_VERSION_MAX)
        answer = leader.send(request, ProduceResponse, version=version).responses[0].partition_responses[0]
        check(f"partition {topic}-{index}", answer.error_code, answer.error_message)
        return answer.base_offset

    return persist(cluster.timeout, send, cluster.close)


def partition_of(key: bytes | None, partitions: int) -> int:
    """Return the partition of a key by its CRC-32; a random one without a key."""
    return zlib.crc32(key) % partitions if key else random.randrange(partitions)
