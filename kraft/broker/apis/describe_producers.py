"""DescribeProducers (key 61), version 0: the idempotent and transactional producers that this broker's replica of a
partition knows, whether it leads or follows."""

from functools import partial

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps, each_step
from kraft.broker.broker import Broker
from kraft.log_dir import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest
from kraft.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kraft_native.base.errors import InvalidArgumentError


def describe_producers(broker: Broker, request: DescribeProducersRequest, _context: RequestContext,
                       answer: Answer) -> Steps:
    """Answer with one result and error per partition; one that is named twice is described once."""
    topics = []
    for topic in request.topics:
        indexes = yield from counted_steps(topic.partition_indexes)
        partitions = yield from each_step(partial(_partition, broker, topic.name), indexes)
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
        yield
    answer(DescribeProducersResponse(topics=topics))


def _partition(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        TopicPartition.checked(topic, max(index, 0))
    except InvalidArgumentError as error:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
                                 error_message=bounded(str(error)))
    partition = broker.partition(topic, index)
    code = ErrorCode.NONE
    if broker.image.partition(topic, index) is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code != ErrorCode.NONE or partition is None:
        return PartitionResponse(partition_index=index, error_code=code, error_message=code.message)
    return PartitionResponse(partition_index=index, active_producers=[
        ProducerState(producer_id=each.producer_id, producer_epoch=each.producer_epoch,
                      last_sequence=each.last_sequence, last_timestamp=each.last_timestamp_ms,
                      coordinator_epoch=each.coordinator_epoch,
                      current_txn_start_offset=each.txn_first_offset)
        for each in partition.producers()])
