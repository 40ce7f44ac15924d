"""ListPartitionReassignments and AlterPartitionReassignments (KIP-455): where replicas are on their way to, and should
be."""

from collections.abc import Iterable

from kraft.controller.decision import Context, Decision, RefusedError, text_of
from kraft.metadata.image import TopicImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from kraft.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
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


def alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Where replicas should be. This controller has one node to put them on, so that the only assignment there can be
    is the one there is; any other is refused, as is ending a reassignment when none goes on."""
    responses = []
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            code, message = ErrorCode.NONE, None
            try:
                _check_target(context, topic.name, part)
            except RefusedError as refusal:
                code, message = refusal.error, refusal.message
            parts.append(ReassignablePartitionResponse(
                partition_index=part.partition_index, error_code=code, error_message=text_of(code, message)))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=parts))
    return Decision(AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses))


def _check_target(context: Context, topic: str, part: ReassignablePartition) -> None:
    partition = context.image.partition(topic, part.partition_index)
    if partition is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic}-{part.partition_index}")
    if part.replicas is None:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not part.replicas:
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an assignment without replicas")
    if len(dict.fromkeys(part.replicas)) != len(part.replicas):
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an assignment with a broker more than once")
    if tuple(part.replicas) != partition.replicas:
        unknown = [each for each in part.replicas if each not in context.image.brokers]
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                           f"broker {unknown[0]} is not registered" if unknown else "replicas cannot be moved here")


def alter_partition_reassignments_refused(
    _request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=text_of(code, message))
