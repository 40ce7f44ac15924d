"""ListPartitionReassignments and AlterPartitionReassignments (KIP-455): moves of replicas in progress, and new ones."""

from collections.abc import Generator, Iterable, Sequence
from typing import Final

from kraft.controller.decision import Context, Decision, RefusedError, text_of
from kraft.controller.leaderships import allows_unclean, change_of
from kraft.controller.partition_change import Assignment
from kraft.controller.partitions import check_assignment
from kraft.controller.partitions_decided import PartitionsDecided
from kraft.metadata.image import PartitionRegistration, TopicImage
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

LISTED_STEP: Final = 1024


def list_partition_reassignments(
    context: Context, request: ListPartitionReassignmentsRequest
) -> Generator[None, None, Decision[ListPartitionReassignmentsResponse]]:
    """List the reassignments of the named partitions, or of all with null. Missing partitions are skipped. Works in
    steps."""
    image = context.image
    found: list[OngoingTopicReassignment] = []
    if request.topics is None:
        for topic in image.topics.values():
            found += yield from _ongoing(topic, topic.partitions)
    else:
        for wanted in request.topics:
            named = image.topic(wanted.name)
            if named is not None:
                found += yield from _ongoing(named, wanted.partition_indexes)
    return Decision(ListPartitionReassignmentsResponse(error_message=None, topics=found))


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> Generator[None, None, list[OngoingTopicReassignment]]:
    partitions = []
    for number, index in enumerate(indexes):
        if number % LISTED_STEP == LISTED_STEP - 1:
            yield
        partition = topic.partitions.get(index)
        if partition is not None and partition.reassigning:
            partitions.append(OngoingPartitionReassignment(
                partition_index=index, replicas=partition.replicas, adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas))
    return [OngoingTopicReassignment(name=topic.name, partitions=partitions)] if partitions else []


def list_partition_reassignments_refused(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=text_of(code, message), topics=[
        OngoingTopicReassignment(name=topic.name, partitions=[
            OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes])
        for topic in request.topics or ()])


def alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Set the target replicas, partition by partition; null cancels a reassignment in progress and removes the added
    replicas. A target that can be reached at once (only removals, or another order) is complete at once."""
    responses = []
    decided = PartitionsDecided()
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            code, message = ErrorCode.NONE, None
            try:
                _reassign(context, topic.name, part, request.allow_replication_factor_change, decided)
            except RefusedError as refusal:
                code, message = refusal.error, refusal.message
            parts.append(ReassignablePartitionResponse(
                partition_index=part.partition_index, error_code=code, error_message=text_of(code, message)))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=parts))
    return Decision(AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses), decided.records, atomic=False)


def _reassign(
    context: Context, name: str, part: ReassignablePartition, may_change_factor: bool, decided: PartitionsDecided
) -> None:
    """Add the record of one reassignment."""
    topic = context.image.topic(name)
    partition = None if topic is None else decided.of(topic, part.partition_index)
    if topic is None or partition is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {name}-{part.partition_index}")
    isr = partition.isr
    if part.replicas is None:
        if not partition.reassigning:
            raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
        if not isr and not allows_unclean(context, name):
            raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                               "only replicas that were added are in sync: going back could lose records")
        wanted = Assignment(tuple(each for each in partition.replicas if each not in partition.adding_replicas))
    else:
        _check_target(context, partition, part.partition_index, part.replicas, may_change_factor)
        removing = tuple(sorted(each for each in partition.replicas if each not in part.replicas))
        wanted = Assignment((*part.replicas, *removing), removing, to_be_added(partition, part.replicas))
    record = change_of(context, topic, part.partition_index, partition=partition, isr=isr, assignment=wanted)
    if record is not None:
        decided.add(topic, record)


def to_be_added(partition: PartitionRegistration, targets: Sequence[int]) -> tuple[int, ...]:
    """Return the replicas to add. Replicas that are still being added are included; otherwise a repeated request for
    the same target would be complete at once."""
    before = [each for each in partition.replicas if each not in partition.adding_replicas]
    return tuple(sorted(each for each in targets if each not in before))


def _check_target(
    context: Context, partition: PartitionRegistration, index: int, replicas: Sequence[int], may_change_factor: bool
) -> None:
    check_assignment(context, index, replicas)
    factor = sum(each not in partition.adding_replicas for each in partition.replicas)
    if not may_change_factor and len(replicas) != factor:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR,
                           f"The replication factor is changed from {factor} to {len(replicas)}")


def alter_partition_reassignments_refused(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    text = text_of(code, message)
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=text, responses=[
        ReassignableTopicResponse(name=topic.name, partitions=[
            ReassignablePartitionResponse(partition_index=each.partition_index, error_code=code, error_message=text)
            for each in topic.partitions])
        for topic in request.topics])
