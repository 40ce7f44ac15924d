"""ListOffsets (key 2), versions 1 to 11: the offset for a time, or for one of the special times:

- -1: latest.
- -2: earliest.
- -3 (from version 7): the record with the largest time.
- -4 (8): earliest on local disk.
- -5 (9): latest in tiered storage.
- -6 (11): earliest not yet uploaded there.

A special time that the version does not have is answered with UNSUPPORTED_VERSION. Nothing found is offset -1 without
an error.

Consumers of an earlier leader may have seen more than the high watermark of a new one. While that is below the start
of the leader's epoch the end is refused with OFFSET_NOT_AVAILABLE, before version 5 LEADER_NOT_AVAILABLE (KIP-207).

A real time and the largest time require reading records. Data of them that is not in memory is loaded by another thread
before any partition is answered.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps, each_step
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft_native.base.errors import KraftError, OffsetNotAvailableError
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
FIRST_VERSION: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9,
                        EARLIEST_PENDING_UPLOAD: 11}
FIRST_VERSION_WITH_LEADER_EPOCH: Final = 4
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE: Final = 5
READ_COMMITTED: Final = 1
CONSUMER: Final = -1


def list_offsets(broker: Broker, request: ListOffsetsRequest, context: RequestContext, answer: Answer) -> Steps:
    """Answer each partition with its own error. A partition that is named twice in one request is refused with
    INVALID_REQUEST."""
    waiting = 1

    def resume() -> None:
        nonlocal waiting
        waiting -= 1
        if waiting == 0:
            context.run(_respond(broker, request, context, answer))

    for topic in request.topics:
        for requested in topic.partitions:
            if requested.timestamp >= 0 or requested.timestamp == MAX_TIMESTAMP:
                partition = broker.partition(topic.name, requested.partition_index)
                if partition is not None and partition.is_leader:
                    waiting += _warm(broker.cold_reader, partition, requested.timestamp, resume)
            yield
        yield
    resume()


def _warm(cold_reader: ColdReader, partition: Partition, timestamp: int, done: Callable[[], None]) -> bool:
    """Start to load what gives the offset for a time. Return whether `done` will be called once it is in memory."""
    if timestamp == MAX_TIMESTAMP:
        return cold_reader.warm_max_timestamp(partition.log, done)
    return timestamp >= 0 and cold_reader.warm_time(partition.log, timestamp, done)


def _respond(broker: Broker, request: ListOffsetsRequest, context: RequestContext, answer: Answer) -> Steps:
    topics = []
    for topic in request.topics:
        counts = yield from counted_steps(each.partition_index for each in topic.partitions)
        partitions = yield from each_step(partial(_partition, broker, topic.name, counts, request, context),
                                          topic.partitions)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        yield
    answer(ListOffsetsResponse(topics=topics))


def _partition(broker: Broker, topic: str, counts: dict[int, int], request: ListOffsetsRequest, context: RequestContext,
               requested: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    if counts[requested.partition_index] > 1:
        return _refused(requested, ErrorCode.INVALID_REQUEST)
    if requested.timestamp < 0 and context.version < FIRST_VERSION.get(requested.timestamp, 1 << 15):
        return _refused(requested, ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.partition(topic, requested.partition_index)
    if partition is None:
        return _refused(requested, broker.absence(topic, requested.partition_index))
    try:
        found = _find_offset(partition, requested, request)
    except OffsetNotAvailableError as error:
        known = context.version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        return _refused(requested, error.code if known else ErrorCode.LEADER_NOT_AVAILABLE)
    except KraftError as error:
        return _refused(requested, error.code)
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=requested.partition_index)
    offset, timestamp, leader_epoch = found
    if context.version < FIRST_VERSION_WITH_LEADER_EPOCH:
        leader_epoch = -1
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, timestamp=timestamp, offset=offset,
                                        leader_epoch=leader_epoch)


def _find_offset(partition: Partition, requested: ListOffsetsPartition,
                 request: ListOffsetsRequest) -> tuple[int, int, int] | None:
    """Return (offset, timestamp, leader epoch), or None. Errors that the partition raises carry Kafka's code."""
    epoch = requested.current_leader_epoch
    match requested.timestamp:
        case -1:  # LATEST
            if request.replica_id != CONSUMER:
                return partition.latest("log_end", current_leader_epoch=epoch)
            return partition.latest(_isolation(request), current_leader_epoch=epoch)
        case -2 | -4:  # EARLIEST, EARLIEST_LOCAL: nothing is tiered
            return partition.earliest(current_leader_epoch=epoch)
        case -3:  # MAX_TIMESTAMP
            return partition.max_timestamp(_isolation(request), current_leader_epoch=epoch)
        case -5 | -6:  # without tiered storage nothing was uploaded, nor will be
            partition.earliest(current_leader_epoch=epoch)
            return None
        case timestamp:
            return partition.offset_for_time(timestamp, _isolation(request), current_leader_epoch=epoch)


def _isolation(request: ListOffsetsRequest) -> Literal["read_uncommitted", "read_committed"]:
    return "read_committed" if request.isolation_level == READ_COMMITTED else "read_uncommitted"


def _refused(requested: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=code)
