"""Errors are counted wherever a response has a code."""

from collections import Counter

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.response_errors import count_errors


def counted(response):
    counts = Counter()
    for _ in count_errors(response, counts):
        pass
    return counts


def test_of_the_response_and_of_what_is_in_it():
    assert counted(FindCoordinatorResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        coordinators=[Coordinator(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE), Coordinator()])) \
        == {15: 2}


def test_at_any_depth():
    parts = [ListOffsetsPartitionResponse(error_code=code) for code in (0, 3, 6, 3)]
    assert counted(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=parts)] * 2)) == {3: 4, 6: 2}


def test_success_counts_nothing():
    assert counted(CreateTopicsResponse(topics=[CreatableTopicResult(configs=None)])) == {}
