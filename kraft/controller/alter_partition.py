"""AlterPartition (KIP-497): a leader reports which of its replicas are in sync.

The leader names the leader epoch and the partition epoch that it relies on. A leader with an old epoch is refused, so
of two concurrent changes only one succeeds. A replica may not join the ISR if its broker is fenced, in controlled
shutdown, or another process than the leader saw (KIP-841, KIP-903).
"""

from collections.abc import Sequence
from typing import Final

from kraft.controller.brokers import check_broker_epoch
from kraft.controller.decision import Context, Decision
from kraft.controller.leaderships import change_of
from kraft.controller.partitions_decided import PartitionsDecided
from kraft.metadata.image import RECOVERED, RECOVERING, PartitionRegistration, TopicImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState
from kraft.protocol.messages.alter_partition_request import PartitionData as Wanted
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData

EPOCHS_SINCE: Final = 3
"""First version with the broker epochs of the replicas."""


def alter_partition(context: Context, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
    """Decide each partition on its own. The whole request gets STALE_BROKER_EPOCH if its broker is not the registered
    one."""
    check_broker_epoch(context.image, request.broker_id, request.broker_epoch)
    decided = PartitionsDecided()
    topics = []
    for wanted_topic in request.topics:
        topic = context.image.topics.get(wanted_topic.topic_id)
        parts = [_refused(wanted.partition_index, ErrorCode.UNKNOWN_TOPIC_ID) if topic is None
                 else _alter(context, request.broker_id, topic, wanted, decided)
                 for wanted in wanted_topic.partitions]
        topics.append(TopicData(topic_id=wanted_topic.topic_id, partitions=parts))
    return Decision(AlterPartitionResponse(topics=topics), decided.records, atomic=False)


def _alter(
    context: Context, broker_id: int, topic: TopicImage, wanted: Wanted, decided: PartitionsDecided
) -> PartitionData:
    """Add the record of one change, and return its result."""
    index = wanted.partition_index
    partition = decided.of(topic, index)
    if partition is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    states = _states(context, wanted, len(partition.replicas) + 1)
    code = _validate(context, broker_id, partition, wanted, states)
    if code != ErrorCode.NONE:
        return _refused(index, code)
    record = change_of(context, topic, index, partition=partition, isr=[state.broker_id for state in states],
                       recovery=wanted.leader_recovery_state)
    if record is not None:
        partition = decided.add(topic, record)
        if partition.leader != broker_id:
            # The change completed a reassignment that removes the leader itself.
            return _refused(index, ErrorCode.NEW_LEADER_ELECTED)
    return PartitionData(
        partition_index=index, leader_id=partition.leader, leader_epoch=partition.leader_epoch, isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state, partition_epoch=partition.partition_epoch)


def _refused(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code)


def _states(context: Context, wanted: Wanted, count: int) -> Sequence[BrokerState]:
    """Return the first `count` in-sync replicas of the request. One more than the partition has replicas is enough to
    be refused: an id among them is no replica, or occurs twice."""
    if context.api_version >= EPOCHS_SINCE:
        return wanted.new_isr_with_epochs[:count]
    return [BrokerState(broker_id=broker_id) for broker_id in wanted.new_isr[:count]]


def _validate(
    context: Context, broker_id: int, partition: PartitionRegistration, wanted: Wanted, states: Sequence[BrokerState]
) -> ErrorCode:
    isr = [state.broker_id for state in states]
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER        # another controller knows more, so it is the active one
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    unclean = wanted.leader_recovery_state == RECOVERING
    if (len(dict.fromkeys(isr)) != len(isr) or broker_id not in isr
            or not all(replica in partition.replicas for replica in isr)
            or (unclean and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED))):
        return ErrorCode.INVALID_REQUEST
    eligible = all(_eligible(context, partition, state) for state in states)
    return ErrorCode.NONE if eligible else ErrorCode.INELIGIBLE_REPLICA


def _eligible(context: Context, partition: PartitionRegistration, state: BrokerState) -> bool:
    """Return whether the broker takes part with that replica's directory, and is the process that the leader saw. Epoch
    -1 does not name a process."""
    broker = context.image.brokers.get(state.broker_id)
    return (broker is not None and broker.active and state.broker_epoch in (-1, broker.epoch)
            and broker.has_online_dir(partition.directory_of(state.broker_id)))


def alter_partition_refused(
    _request: AlterPartitionRequest, code: ErrorCode, _message: str | None
) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)
