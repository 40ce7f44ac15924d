"""OffsetForLeaderEpoch (key 23), versions 2 to 4: the end offset of an epoch in the leader's log (KIP-101, KIP-320).

An epoch that is -1 or unknown to the log is answered with (-1, -1) and no error.
"""

from functools import partial

from kraft.broker.api import Answer, RequestContext, Steps, each_step
from kraft.broker.broker import Broker
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kraft.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kraft_native.base.errors import KraftError


def offset_for_leader_epoch(broker: Broker, request: OffsetForLeaderEpochRequest, _context: RequestContext,
                            answer: Answer) -> Steps:
    """Answer each partition with its own error."""
    topics = []
    for topic in request.topics:
        partitions = yield from each_step(partial(_partition, broker, topic.topic), topic.partitions)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield
    answer(OffsetForLeaderEpochResponse(topics=topics))


def _partition(broker: Broker, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.partition(topic, requested.partition)
    if partition is None:
        return EpochEndOffset(partition=requested.partition, error_code=broker.absence(topic, requested.partition))
    try:
        epoch, end_offset = partition.end_offset_for_epoch(requested.leader_epoch,
                                                           current_leader_epoch=requested.current_leader_epoch)
    except KraftError as error:
        return EpochEndOffset(partition=requested.partition, error_code=error.code)
    return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end_offset)
