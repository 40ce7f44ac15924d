"""DeleteRecords (key 21), versions 0 to 2: advances the start offset of logs. Offset -1 means the high watermark.

The answer waits until all replicas on live brokers have advanced theirs (Kafka's DelayedDeleteRecords). So no later
leader returns the records again. A deletion that does not complete within the request's time gets REQUEST_TIMED_OUT.
"""

from functools import partial
from typing import NamedTuple

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.broker.internal_topics import is_internal
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from kraft.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kraft_native.base.errors import KraftError
from kraft_native.partition.partition import Partition

INVALID_LOW_WATERMARK = -1
HIGH_WATERMARK = -1


class _Deletion(NamedTuple):
    """Records that are deleted here; `result` is filled in when they are deleted on the other replicas too."""

    partition: Partition
    before_offset: int
    result: DeleteRecordsPartitionResult


def delete_records(broker: Broker, request: DeleteRecordsRequest, _context: RequestContext, answer: Answer) -> Steps:
    """Delete per partition, each with its own error: a log that is only compacted refuses with POLICY_VIOLATION. The
    last mention of a partition counts, as in Kafka."""
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        of_topic = wanted.setdefault(topic.name, {})
        for each in topic.partitions:
            of_topic[each.partition_index] = each
            yield
    due: list[_Deletion] = []
    response = DeleteRecordsResponse()
    for name, partitions in wanted.items():
        result = DeleteRecordsTopicResult(name=name)
        response.topics.append(result)
        for each in partitions.values():
            result.partitions.append(_partition(broker, name, each, due))
            yield
    if not due:
        answer(response)
        return
    open_count = len(due)

    def settled(result: DeleteRecordsPartitionResult, code: int, low_watermark: int) -> None:
        nonlocal open_count
        result.error_code, result.low_watermark = code, low_watermark
        open_count -= 1
        if open_count == 0:
            answer(response)

    def is_alive(broker_id: int) -> bool:
        registration = broker.image.brokers.get(broker_id)
        return registration is not None and not registration.fenced

    for deletion in due:
        deletion.partition.call_when_deleted(deletion.before_offset, is_alive, partial(settled, deletion.result),
                                             timeout_ms=request.timeout_ms)
        yield


def _partition(broker: Broker, topic: str, requested: DeleteRecordsPartition,
               due: list[_Deletion]) -> DeleteRecordsPartitionResult:
    if is_internal(topic):
        return _refused(requested, ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = broker.partition(topic, requested.partition_index)
    if partition is None:
        return _refused(requested, broker.absence(topic, requested.partition_index))
    if not partition.is_leader:
        return _refused(requested, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    policy = broker.topic_setting(topic, "cleanup.policy")
    if isinstance(policy, list) and "compact" in policy and "delete" not in policy:
        return _refused(requested, ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
    if offset < 0 or offset > partition.high_watermark:
        return _refused(requested, ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        partition.delete_records(offset)
    except KraftError as error:
        return _refused(requested, error.code)
    result = DeleteRecordsPartitionResult(partition_index=requested.partition_index)
    due.append(_Deletion(partition, offset, result))
    return result


def _refused(requested: DeleteRecordsPartition, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=requested.partition_index, error_code=code,
                                        low_watermark=INVALID_LOW_WATERMARK)
