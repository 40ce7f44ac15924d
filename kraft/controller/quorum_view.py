"""DescribeQuorum (KIP-595): state of the quorum of the metadata log."""

from collections.abc import Iterable
from typing import Final

from kraft.controller.commit import QuorumState, ReplicaProgress
from kraft.controller.topics import CLUSTER_METADATA_TOPIC
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import ZERO_UUID
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

# Directory ids of replicas and addresses of nodes (KIP-853).
FIRST_VERSION_WITH_DIRECTORIES: Final = 2
NO_LEADER: Final = -1


def describe_quorum(state: QuorumState, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
    """Return the answer in `version` for the only partition that has a quorum, UNKNOWN_TOPIC_OR_PARTITION for any
    other."""
    directories = version >= FIRST_VERSION_WITH_DIRECTORIES
    topics = [TopicData(topic_name=topic.topic_name, partitions=[
        _partition(state, topic.topic_name, partition.partition_index, directories) for partition in topic.partitions])
        for topic in request.topics]
    nodes = [Node(node_id=voter.replica_id, listeners=[
        Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints])
        for voter in state.voters]
    return DescribeQuorumResponse(error_message="", topics=topics, nodes=nodes if directories else [])


def _partition(state: QuorumState, topic: str, index: int, directories: bool) -> PartitionData:
    if topic != CLUSTER_METADATA_TOPIC or index != 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionData(partition_index=index, error_code=code, error_message=code.message, leader_id=NO_LEADER,
                             leader_epoch=NO_LEADER)
    return PartitionData(
        partition_index=0, error_message="", leader_id=state.leader_id, leader_epoch=state.leader_epoch,
        high_watermark=state.high_watermark, current_voters=_replicas(state.voters, directories),
        observers=_replicas(state.observers, directories),
        target_voters=None if state.targets is None else _replicas(state.targets, directories))


def _replicas(replicas: Iterable[ReplicaProgress], directories: bool) -> list[ReplicaState]:
    return [ReplicaState(
        replica_id=each.replica_id, replica_directory_id=each.directory_id if directories else ZERO_UUID,
        log_end_offset=each.log_end_offset,
        last_fetch_timestamp=each.last_fetch_ms, last_caught_up_timestamp=each.last_caught_up_ms)
        for each in replicas]


def describe_quorum_refused(
    request: DescribeQuorumRequest, code: ErrorCode, message: str | None, leader_id: int = NO_LEADER,
    leader_epoch: int = NO_LEADER,
) -> DescribeQuorumResponse:
    """Return the error at the top, and for every requested partition; with the leader, where one is known."""
    return DescribeQuorumResponse(error_code=code, error_message=message or code.message, topics=[
        TopicData(topic_name=topic.topic_name, partitions=[
            PartitionData(partition_index=partition.partition_index, error_code=code, error_message=code.message,
                          leader_id=leader_id, leader_epoch=leader_epoch)
            for partition in topic.partitions]) for topic in request.topics])
