"""DeleteRecords (key 21), versions 0 to 2: moves the start of logs. Offset -1 means the high watermark."""

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from kraft.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kraft_native.errors import KraftError

INVALID_LOW_WATERMARK = -1
HIGH_WATERMARK = -1


@serves("DeleteRecords")
def delete_records(broker: Broker, request: DeleteRecordsRequest, _context: RequestContext, answer: Answer) -> None:
    """Each partition has its own error: a log that is only compacted refuses with POLICY_VIOLATION."""
    answer(DeleteRecordsResponse(topics=[
        DeleteRecordsTopicResult(name=topic.name, partitions=[
            _partition(broker, topic.name, each) for each in topic.partitions])
        for topic in request.topics]))


def _partition(broker: Broker, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = broker.partition(topic, asked.partition_index)
    if partition is None:
        return _refused(asked, broker.absence(topic, asked.partition_index))
    if not partition.is_leader:
        return _refused(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    policy = broker.topic_setting(topic, "cleanup.policy")
    if isinstance(policy, list) and "delete" not in policy:
        return _refused(asked, ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if offset < 0 or offset > partition.high_watermark:
        return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        low = partition.delete_records(offset)
    except KraftError as error:
        return _refused(asked, error.code)
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=low)


def _refused(asked: DeleteRecordsPartition, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, error_code=code,
                                        low_watermark=INVALID_LOW_WATERMARK)
