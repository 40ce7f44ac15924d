"""WriteTxnMarkers (key 27), versions 1 and 2: a coordinator of transactions ends transactions in logs that this broker
leads, by a marker in each. Version 2 has the transaction.version, from which the check of the epoch follows.

A marker is answered once it is committed, as for acks=all, so that the end of a transaction survives every later
leader. Markers of `__consumer_offsets` also go to the coordinator of groups, which applies them as soon as they are
appended.
"""

from functools import partial
from typing import NamedTuple

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kraft_native.base.errors import KraftError
from kraft_native.partition.partition import Partition


class _Marked(NamedTuple):
    """A marker in a log; `result` gets its error once its outcome is known."""

    partition: Partition
    end_offset: int
    result: WritableTxnMarkerPartitionResult


def write_txn_markers(broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext,
                      answer: Answer) -> Steps:
    """Append per partition, each with its own error."""
    due: list[_Marked] = []
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for topic in marker.topics:
            topic_result = WritableTxnMarkerTopicResult(name=topic.name)
            result.topics.append(topic_result)
            for index in topic.partition_indexes:
                topic_result.partitions.append(_append(broker, marker, topic.name, index, context.now_ms, due))
                yield
            yield
        yield
    if not due:
        answer(response)
        return
    open_count = len(due)

    def settled(result: WritableTxnMarkerPartitionResult, code: int) -> None:
        nonlocal open_count
        result.error_code = code
        open_count -= 1
        if open_count == 0:
            answer(response)

    timeout_ms = broker.integer("request.timeout.ms")
    for marked in due:
        marked.partition.call_when_committed(marked.end_offset, partial(settled, marked.result), timeout_ms=timeout_ms)
        yield


def _append(broker: Broker, marker: WritableTxnMarker, topic: str, index: int, now_ms: int,
            due: list[_Marked]) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=index)
    partition = broker.partition(topic, index)
    if partition is None:
        result.error_code = broker.absence(topic, index)
        return result
    try:
        info = partition.append_marker(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result,
            transaction_version=marker.transaction_version, now_ms=now_ms)
    except KraftError as error:
        result.error_code = error.code
        return result
    end_offset = info.last_offset + 1
    if topic == OFFSETS_TOPIC:
        broker.groups.marker_appended(index, marker.producer_id, marker.transaction_result, end_offset, now_ms)
    due.append(_Marked(partition, end_offset, result))
    return result
