"""ListPartitionReassignments (KIP-455): which partitions are on their way to other replicas."""

from collections.abc import Iterable

from kraft.controller.decision import Context, Decision, text_of
from kraft.metadata.image import TopicImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def list_partition_reassignments(
    context: Context, request: ListPartitionReassignmentsRequest
) -> Decision[ListPartitionReassignmentsResponse]:
    """Those of the named partitions, or of all with null. What does not exist is passed over."""
    image = context.image
    found: list[OngoingTopicReassignment] = []
    if request.topics is None:
        for topic in image.topics.values():
            found += _ongoing(topic, topic.partitions)
    else:
        for wanted in request.topics:
            named = image.topic(wanted.name)
            if named is not None:
                found += _ongoing(named, wanted.partition_indexes)
    return Decision(ListPartitionReassignmentsResponse(error_message=None, topics=found))


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> list[OngoingTopicReassignment]:
    partitions = []
    for index in indexes:
        partition = topic.partitions.get(index)
        if partition is not None and partition.reassigning:
            partitions.append(OngoingPartitionReassignment(
                partition_index=index, replicas=partition.replicas, adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas))
    return [OngoingTopicReassignment(name=topic.name, partitions=partitions)] if partitions else []


def list_partition_reassignments_refused(
    _request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=text_of(code, message))
