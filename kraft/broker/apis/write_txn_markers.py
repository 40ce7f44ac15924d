"""WriteTxnMarkers (key 27), versions 1 and 2: a coordinator of transactions ends transactions in logs that this broker
leads, by a marker in each. Version 2 has the transaction.version, from which the check of the epoch follows.

A marker is answered once it is committed, as for acks=all, so that the end of a transaction survives every later
leader. One that is not committed after `COMMIT_WAIT_MS` is answered with REQUEST_TIMED_OUT, upon which coordinators try
again: the other partitions of the request have their outcomes then.
"""

from functools import partial
from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.broker.marker_appends import Appended, TransactionEnd, append_marker
from kraft.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

COMMIT_WAIT_MS: Final = 500
"""Longest wait for the commit of markers: far above that of healthy replicas, far below a time-out of transactions."""


def write_txn_markers(broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext,
                      answer: Answer) -> Steps:
    """Append per partition, each with its own error."""
    due: list[tuple[Appended, WritableTxnMarkerPartitionResult]] = []
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        end = TransactionEnd(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch,
                             marker.transaction_result, marker.transaction_version)
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for topic in marker.topics:
            topic_result = WritableTxnMarkerTopicResult(name=topic.name)
            result.topics.append(topic_result)
            for index in topic.partition_indexes:
                appended = append_marker(broker, end, topic.name, index, context.now_ms)
                part = WritableTxnMarkerPartitionResult(partition_index=index, error_code=appended.error)
                topic_result.partitions.append(part)
                if appended.partition is not None:
                    due.append((appended, part))
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

    timeout_ms = min(COMMIT_WAIT_MS, broker.integer("request.timeout.ms"))
    for appended, part in due:
        appended.call_when_committed(partial(settled, part), timeout_ms)
        yield
