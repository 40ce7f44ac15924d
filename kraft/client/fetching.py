"""Single records of a partition, exactly as the broker stores them."""

from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.refusals import RefusedError, check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft_native.batch.records import Record, records

FETCH_VERSION_MAX: Final = 12      # the last that names topics
FETCH_BYTES: Final = 1 << 20


def records_from(cluster: Cluster, topic: str, partition: int, offset: int) -> list[Record]:
    """Return the record at `offset` and those after it that one Fetch returns.

    Raises `RefusedError` when the leader refuses or has no record at this offset, and what `Cluster.leader` raises.
    """
    leader = cluster.leader(topic, partition)
    part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=FETCH_BYTES, session_epoch=-1,
                           topics=[FetchTopic(topic=topic, partitions=[part])])
    version = leader.version(FetchRequest.API_KEY, FETCH_VERSION_MAX)
    answer = leader.send(request, FetchResponse, version=version).responses[0].partitions[0]
    what = f"partition {topic}-{partition} at offset {offset}"
    check(what, answer.error_code)
    found = [each for each in records(answer.records or b"") if each.offset >= offset]
    if not found or found[0].offset != offset:
        raise RefusedError(what, ErrorCode.OFFSET_OUT_OF_RANGE)
    return found
