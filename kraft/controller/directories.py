"""AssignReplicasToDirs: a broker reports in which of its log directories replicas lie (KIP-858)."""

from dataclasses import replace
from uuid import UUID

from kraft.controller.brokers import check_broker_epoch
from kraft.controller.decision import Context, Decision, RefusedError
from kraft.controller.leaderships import change_of
from kraft.controller.partitions_decided import PartitionsDecided
from kraft.metadata.image import NO_LEADER, BrokerRegistration, PartitionRegistration, TopicImage
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord


def assign_replicas_to_dirs(
    context: Context, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Record the directories. A replica in an offline directory stops taking part. In a leaderless partition a replica
    in an online directory may become leader now.

    A replica whose previous directory its broker lacks has an empty log, as after the replacement of a disk: see rule 7
    of `partition_change`.
    """
    if not context.image.metadata_version.directories:
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION,
                           f"metadata.version {context.image.metadata_version.name} has no directories of replicas")
    broker = check_broker_epoch(context.image, request.broker_id, request.broker_epoch)
    decided = PartitionsDecided()
    answer = AssignReplicasToDirsResponse()
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            parts = []
            for part in topic.partitions:
                code = _assign(context, broker, directory.id, topic.topic_id, part.partition_index, decided)
                parts.append(PartitionData(partition_index=part.partition_index, error_code=code))
            topics.append(TopicData(topic_id=topic.topic_id, partitions=parts))
        answer.directories.append(DirectoryData(id=directory.id, topics=topics))
    return Decision(answer, decided.records, atomic=False)


def assign_replicas_to_dirs_refused(
    _request: AssignReplicasToDirsRequest, code: ErrorCode, _message: str | None
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=code)


def _assign(
    context: Context, broker: BrokerRegistration, directory: UUID, topic_id: UUID, index: int,
    decided: PartitionsDecided,
) -> ErrorCode:
    topic = context.image.topics.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = decided.of(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.directory_of(broker.broker_id) != directory:
        _place(context, broker, directory, topic, index, partition, decided)
    return ErrorCode.NONE


def _place(
    context: Context, broker: BrokerRegistration, directory: UUID, topic: TopicImage, index: int,
    before: PartitionRegistration, decided: PartitionsDecided,
) -> None:
    broker_id = broker.broker_id
    places = tuple(directory if replica == broker_id else place
                   for replica, place in zip(before.replicas, before.directories, strict=True))
    placed = replace(before, directories=places)
    is_emptied = (context.image.elr_enabled and len(before.replicas) > 1
                  and broker.lacks(before.directory_of(broker_id)))
    change = None
    if is_emptied or not broker.has_online_dir(directory):
        change = change_of(context, topic, index, partition=placed, without=broker_id,
                           emptied=(broker_id,) if is_emptied else (),
                           isr=[replica for replica in before.isr if replica != broker_id])
    elif before.leader == NO_LEADER:
        change = change_of(context, topic, index, partition=placed)
    message = (PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index) if change is None
               else change.message)
    assert isinstance(message, PartitionChangeRecord)
    message.directories = list(places)
    after = decided.add(topic, Record(message, context.image.metadata_version.partition_change_record))
    if is_emptied and after.leader == NO_LEADER:
        election = change_of(context, topic, index, partition=after)
        if election is not None:
            decided.add(topic, election)
