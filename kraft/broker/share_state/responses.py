"""Answers to requests about states of share partitions: the classes of each API, and refusals."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import (
    delete_share_group_state_response,
    initialize_share_group_state_response,
    read_share_group_state_response,
    read_share_group_state_summary_response,
    write_share_group_state_response,
)


class Answers(NamedTuple):
    """Classes of the answer to one API: the whole, the result of a topic, and that of a partition."""

    response: type[Any]
    topic: type[Any]
    partition: type[Any]


ANSWERS: Final[dict[int, Answers]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Answers(
        initialize_share_group_state_response.InitializeShareGroupStateResponse,
        initialize_share_group_state_response.InitializeStateResult,
        initialize_share_group_state_response.PartitionResult),
    ApiKey.READ_SHARE_GROUP_STATE: Answers(
        read_share_group_state_response.ReadShareGroupStateResponse,
        read_share_group_state_response.ReadStateResult, read_share_group_state_response.PartitionResult),
    ApiKey.WRITE_SHARE_GROUP_STATE: Answers(
        write_share_group_state_response.WriteShareGroupStateResponse,
        write_share_group_state_response.WriteStateResult, write_share_group_state_response.PartitionResult),
    ApiKey.DELETE_SHARE_GROUP_STATE: Answers(
        delete_share_group_state_response.DeleteShareGroupStateResponse,
        delete_share_group_state_response.DeleteStateResult, delete_share_group_state_response.PartitionResult),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Answers(
        read_share_group_state_summary_response.ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary_response.ReadStateSummaryResult,
        read_share_group_state_summary_response.PartitionResult),
}


def refused_partition(api_key: int, partition: int, error: ErrorCode, message: str | None = None) -> Any:
    """Return the result of a partition that is refused."""
    return ANSWERS[api_key].partition(partition=partition, error_code=error, error_message=message or error.message)


def refused(request: Any, error: ErrorCode) -> Message:
    """Return the answer that refuses each partition of a request."""
    answers = ANSWERS[request.API_KEY]
    response: Message = answers.response(results=[
        answers.topic(topic_id=topic.topic_id, partitions=[
            refused_partition(request.API_KEY, each.partition, error) for each in topic.partitions])
        for topic in request.topics])
    return response


def is_empty(request: Any) -> bool:
    """Return whether a request names no group, no topic, or a topic without partitions. It gets an answer without any
    result, as in Kafka."""
    return not request.group_id or not request.topics or not all(topic.partitions for topic in request.topics)
