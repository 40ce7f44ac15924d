"""Requests about the stored state of share partitions, and what their answers say."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import read_share_group_state_request as reading
from kraft.protocol.messages import read_share_group_state_response as read
from kraft.protocol.messages import write_share_group_state_request as writing
from kraft.protocol.messages import write_share_group_state_response as written

UNINITIALIZED: Final = -1
"""Start offset of a share partition that has no state yet."""
PASSING: Final = (
    ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT,
)
"""Errors that another attempt may not meet."""
FENCED: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
"""Errors of a broker that does not lead the partition any more, or does not know its latest state."""
_PASSED_ON: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE,
)

StateBatch = tuple[int, int, int, int]
"""First offset, last offset, delivery state and delivery count."""


class Stored(NamedTuple):
    """Stored state of a share partition, or Kafka's error."""

    error: int
    state_epoch: int
    start_offset: int
    batches: list[StateBatch]


class Write(NamedTuple):
    """One write of a share partition's state. `finished`: records from the start on whose delivery is complete."""

    topic_id: bytes
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    finished: int
    batches: Sequence[StateBatch]


def error_for_clients(code: int) -> ErrorCode:
    """Return the error that clients get for one of the share coordinator, as Kafka maps it."""
    if code in FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code in PASSING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return next((each for each in _PASSED_ON if each == code), ErrorCode.UNKNOWN_SERVER_ERROR)


def read_request(group: bytes, topic_id: bytes, index: int, leader_epoch: int) -> reading.ReadShareGroupStateRequest:
    """Return the request for the state of one share partition."""
    return reading.ReadShareGroupStateRequest(group_id=group.decode(), topics=[reading.ReadStateData(
        topic_id=UUID(bytes=topic_id),
        partitions=[reading.PartitionData(partition=index, leader_epoch=leader_epoch)])])


def stored_state(response: read.ReadShareGroupStateResponse) -> Stored:
    """Return the state of the one share partition in an answer."""
    for topic in response.results:
        for part in topic.partitions:
            return Stored(part.error_code, part.state_epoch, part.start_offset, [
                (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in sorted(part.state_batches, key=lambda each: each.first_offset)])
    return Stored(ErrorCode.COORDINATOR_NOT_AVAILABLE, 0, UNINITIALIZED, [])


def write_request(group: bytes, writes: Iterable[Write]) -> writing.WriteShareGroupStateRequest:
    """Return the request that writes the state of share partitions of one group."""
    topics: dict[bytes, list[writing.PartitionData]] = {}
    for each in writes:
        topics.setdefault(each.topic_id, []).append(writing.PartitionData(
            partition=each.partition, state_epoch=each.state_epoch, leader_epoch=each.leader_epoch,
            start_offset=each.start_offset, delivery_complete_count=min(each.finished, 2**31 - 1),
            state_batches=[writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state,
                                              delivery_count=count) for first, last, state, count in each.batches]))
    return writing.WriteShareGroupStateRequest(group_id=group.decode(), topics=[
        writing.WriteStateData(topic_id=UUID(bytes=topic_id), partitions=parts) for topic_id, parts in topics.items()])


def outcomes(response: written.WriteShareGroupStateResponse) -> Iterator[tuple[bytes, int, int]]:
    """Yield topic id, partition and Kafka's error of each write that an answer has."""
    for topic in response.results:
        for part in topic.partitions:
            yield topic.topic_id.bytes, part.partition, part.error_code
