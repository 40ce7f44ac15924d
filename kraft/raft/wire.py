"""Conversion between the core's messages and Kafka's.

There is one `Codec` for each kind of request. Those that change the voters are in `kraft.raft.wire_changes`, together
with the tables of all. A field that a version cannot carry is omitted where its absence is harmless. Where it is not,
that is an `UnsupportedVersionError`: a pre-vote in a version without pre-votes would be mistaken for a vote.

All messages concern one partition, the metadata log's; a request for any other is a `WrongPartitionError`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import (
    begin_quorum_epoch_request,
    begin_quorum_epoch_response,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
    fetch_request,
    fetch_response,
    fetch_snapshot_request,
    fetch_snapshot_response,
    vote_request,
    vote_response,
)
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.types import NOBODY, UNKNOWN_OFFSET, Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft.structs import immutable
from kraft_native.base.errors import ProtocolError
from kraft_native.batch.batch import LENGTH_AT, OVERHEAD_BYTES

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = UUID(int=1)
PARTITION: Final = 0
FIRST_FETCH_WITH_TOPIC_IDS: Final = 13
FIRST_FETCH_WITH_REPLICA_STATE: Final = 15
FIRST_FETCH_WITH_NODE_ENDPOINTS: Final = 16
FIRST_WITH_CANDIDATE_KEYS: Final = 1
WAIT_MS_MAX: Final = 30_000
"""Longest time that a Fetch waits for news, whatever it requests: the answer to it is kept in memory."""

Records = TypeVar("Records", bytes, memoryview)


class WrongPartitionError(ProtocolError):
    """The request is for another partition, for none, or for several."""

    code = int(ErrorCode.INVALID_REQUEST)


@immutable
class Codec:
    """Codec of one kind of request. `refuse(code)` creates an answer to a request that cannot be processed."""

    request: type[Request]
    answer: type[Message]
    encode_request: Callable[[Any, int], Message]
    decode_request: Callable[[Any, int], Request]
    encode_response: Callable[[Any, int], Message]
    decode_response: Callable[[Any], Response]
    refuse: Callable[[ErrorCode], Message]

    @property
    def key(self) -> int:
        """API key of the request and its answer."""
        return self.answer.API_KEY


# --- shared helpers ---------------------------------------------------------------------------------------------------


def error_of(code: int) -> ErrorCode:
    """Return the error of a code; UNKNOWN_SERVER_ERROR for an unknown code."""
    try:
        return ErrorCode(code)  # type: ignore[call-arg]
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _only(topics: Sequence[Any], name: str = "topic_name") -> Any:
    """Return the metadata partition's part of a request or response; raise WrongPartitionError when there is another,
    or none."""
    partitions = [partition for topic in topics for partition in topic.partitions]
    if len(partitions) != 1 or getattr(topics[0], name) != TOPIC:
        raise WrongPartitionError(f"{len(partitions)} partitions of {[getattr(each, name) for each in topics]}, not "
                                  f"the one of {TOPIC}")
    index = getattr(partitions[0], "partition_index", PARTITION)
    if index != PARTITION:
        raise WrongPartitionError(f"{TOPIC} has no partition {index}")
    return partitions[0]


def _nodes(response: QuorumResponse, make: Callable[..., Any]) -> list[Any]:
    """Return the leader's address. Kafka's answers have one for each node."""
    return [make(node_id=response.leader_id, host=each.host, port=each.port)
            for each in response.leader_endpoints[:1] if response.leader_id != NOBODY]


def _leader_endpoints(nodes: Iterable[Any], leader_id: int) -> Endpoints:
    """Return the leader's addresses. The listener's name is not sent: the requesting node knows which listener it
    queried."""
    return tuple(Endpoint("", node.host, node.port) for node in nodes if node.node_id == leader_id)


def _listed(endpoints: Endpoints, make: Callable[..., Any]) -> list[Any]:
    return [make(name=each.name, host=each.host, port=each.port) for each in endpoints]


def endpoints_of(listeners: Iterable[Any]) -> Endpoints:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


def _leader_fields(partition: Any, nodes: Iterable[Any]) -> dict[str, Any]:
    """Return the leader and the error of a response in which the partition carries them."""
    return {"error": error_of(partition.error_code), "epoch": max(partition.leader_epoch, 0),
            "leader_id": partition.leader_id, "leader_endpoints": _leader_endpoints(nodes, partition.leader_id)}


def _is_top_level(response: Response) -> bool:
    """Return whether the error belongs to the whole request, as in Kafka when the partition was not even read."""
    return response.error is ErrorCode.INCONSISTENT_CLUSTER_ID


# --- Vote -------------------------------------------------------------------------------------------------------------


def _vote_request(request: VoteRequest, _version: int) -> Message:
    return vote_request.VoteRequest(cluster_id=request.cluster_id, voter_id=request.voter.node_id, topics=[
        vote_request.TopicData(topic_name=TOPIC, partitions=[vote_request.PartitionData(
            partition_index=PARTITION, replica_epoch=request.epoch, replica_id=request.candidate.node_id,
            replica_directory_id=request.candidate.directory_id, voter_directory_id=request.voter.directory_id,
            last_offset_epoch=request.log_end.epoch, last_offset=request.log_end.offset,
            pre_vote=request.pre_vote)])])


def _vote_of(message: vote_request.VoteRequest, _version: int) -> Request:
    part = _only(message.topics)
    return VoteRequest(
        cluster_id=message.cluster_id, candidate=ReplicaKey(part.replica_id, part.replica_directory_id),
        epoch=part.replica_epoch, log_end=OffsetAndEpoch(part.last_offset, part.last_offset_epoch),
        voter=ReplicaKey(message.voter_id, part.voter_directory_id), pre_vote=part.pre_vote)


def _vote_response(response: VoteResponse, version: int) -> Message:
    if _is_top_level(response):
        return vote_response.VoteResponse(error_code=response.error)
    return vote_response.VoteResponse(
        node_endpoints=_nodes(response, vote_response.NodeEndpoint) if version >= FIRST_WITH_CANDIDATE_KEYS else [],
        topics=[vote_response.TopicData(topic_name=TOPIC, partitions=[vote_response.PartitionData(
            partition_index=PARTITION, error_code=response.error, leader_id=response.leader_id,
            leader_epoch=response.epoch, vote_granted=response.granted,
            pre_vote=-1 if response.pre_vote is None else int(response.pre_vote))])])


def _vote_answer_of(message: vote_response.VoteResponse) -> Response:
    if message.error_code:
        return VoteResponse(error=error_of(message.error_code))
    part = _only(message.topics)
    return VoteResponse(**_leader_fields(part, message.node_endpoints), granted=part.vote_granted,
                        pre_vote=None if part.pre_vote < 0 else bool(part.pre_vote))


# --- BeginQuorumEpoch, EndQuorumEpoch ---------------------------------------------------------------------------------


def _begin_request(request: BeginQuorumEpochRequest, version: int) -> Message:
    of = begin_quorum_epoch_request
    has_keys = version >= FIRST_WITH_CANDIDATE_KEYS
    part = of.PartitionData(partition_index=PARTITION, leader_id=request.leader_id, leader_epoch=request.epoch)
    if has_keys:
        part.voter_directory_id = request.voter.directory_id
    return of.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id, voter_id=request.voter.node_id if has_keys else NOBODY,
        topics=[of.TopicData(topic_name=TOPIC, partitions=[part])],
        leader_endpoints=_listed(request.leader_endpoints, of.LeaderEndpoint) if has_keys else [])


def _begin_of(message: begin_quorum_epoch_request.BeginQuorumEpochRequest, _version: int) -> Request:
    part = _only(message.topics)
    return BeginQuorumEpochRequest(
        cluster_id=message.cluster_id, epoch=part.leader_epoch, leader_id=part.leader_id,
        voter=ReplicaKey(message.voter_id, part.voter_directory_id),
        leader_endpoints=endpoints_of(message.leader_endpoints))


def _begin_response(response: BeginQuorumEpochResponse, version: int) -> Message:
    return _epoch_response(begin_quorum_epoch_response, "BeginQuorumEpochResponse", response, version)


def _begin_answer_of(message: begin_quorum_epoch_response.BeginQuorumEpochResponse) -> Response:
    if message.error_code:
        return BeginQuorumEpochResponse(error=error_of(message.error_code))
    return BeginQuorumEpochResponse(**_leader_fields(_only(message.topics), message.node_endpoints))


def _epoch_response(of: Any, name: str, response: QuorumResponse, version: int) -> Message:
    """Encode either of the two answers, which have the same fields."""
    make: Callable[..., Message] = getattr(of, name)
    if _is_top_level(response):
        return make(error_code=response.error)
    part = of.PartitionData(partition_index=PARTITION, error_code=response.error, leader_id=response.leader_id,
                            leader_epoch=response.epoch)
    nodes = _nodes(response, of.NodeEndpoint) if version >= FIRST_WITH_CANDIDATE_KEYS else []
    return make(topics=[of.TopicData(topic_name=TOPIC, partitions=[part])], node_endpoints=nodes)


def _end_request(request: EndQuorumEpochRequest, version: int) -> Message:
    of = end_quorum_epoch_request
    part = of.PartitionData(partition_index=PARTITION, leader_id=request.leader_id, leader_epoch=request.epoch)
    endpoints = []
    if version >= FIRST_WITH_CANDIDATE_KEYS:
        part.preferred_candidates = [of.ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
                                     for key in request.preferred]
        endpoints = _listed(request.leader_endpoints, of.LeaderEndpoint)
    else:
        part.preferred_successors = [key.node_id for key in request.preferred]
    return of.EndQuorumEpochRequest(cluster_id=request.cluster_id, leader_endpoints=endpoints,
                                    topics=[of.TopicData(topic_name=TOPIC, partitions=[part])])


def _end_of(message: end_quorum_epoch_request.EndQuorumEpochRequest, version: int) -> Request:
    part = _only(message.topics)
    if version >= FIRST_WITH_CANDIDATE_KEYS:
        preferred = tuple(ReplicaKey(each.candidate_id, each.candidate_directory_id)
                          for each in part.preferred_candidates)
    else:
        preferred = tuple(map(ReplicaKey, part.preferred_successors))
    return EndQuorumEpochRequest(
        cluster_id=message.cluster_id, epoch=part.leader_epoch, leader_id=part.leader_id, preferred=preferred,
        leader_endpoints=endpoints_of(message.leader_endpoints))


def _end_response(response: EndQuorumEpochResponse, version: int) -> Message:
    return _epoch_response(end_quorum_epoch_response, "EndQuorumEpochResponse", response, version)


def _end_answer_of(message: end_quorum_epoch_response.EndQuorumEpochResponse) -> Response:
    if message.error_code:
        return EndQuorumEpochResponse(error=error_of(message.error_code))
    return EndQuorumEpochResponse(**_leader_fields(_only(message.topics), message.node_endpoints))


# --- Fetch ------------------------------------------------------------------------------------------------------------


def _fetch_request(request: FetchRequest, version: int) -> Message:
    of = fetch_request
    part = of.FetchPartition(
        partition=PARTITION, current_leader_epoch=request.epoch, fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch, partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id, high_watermark=request.high_watermark)
    topic = of.FetchTopic(partitions=[part])
    if version >= FIRST_FETCH_WITH_TOPIC_IDS:
        topic.topic_id = TOPIC_ID
    else:
        topic.topic = TOPIC
    has_state = version >= FIRST_FETCH_WITH_REPLICA_STATE
    return of.FetchRequest(
        cluster_id=request.cluster_id, replica_id=NOBODY if has_state else request.replica.node_id,
        replica_state=of.ReplicaState(replica_id=request.replica.node_id) if has_state else of.ReplicaState(),
        max_wait_ms=request.max_wait_ms, min_bytes=0, max_bytes=request.max_bytes, topics=[topic],
        is_follower=request.is_follower)


def _fetch_of(message: fetch_request.FetchRequest, version: int) -> Request:
    has_ids = version >= FIRST_FETCH_WITH_TOPIC_IDS
    topics = message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1 or topics[0].partitions[0].partition != PARTITION or (
            topics[0].topic_id != TOPIC_ID if has_ids else topics[0].topic != TOPIC):
        raise WrongPartitionError(f"Fetch: a replica of the metadata log requests {TOPIC}-{PARTITION} alone")
    part = topics[0].partitions[0]
    has_state = version >= FIRST_FETCH_WITH_REPLICA_STATE
    node_id = message.replica_state.replica_id if has_state else message.replica_id
    return FetchRequest(
        cluster_id=message.cluster_id, replica=ReplicaKey(node_id, part.replica_directory_id),
        epoch=part.current_leader_epoch, fetch_offset=part.fetch_offset, last_fetched_epoch=part.last_fetched_epoch,
        max_bytes=max(0, min(part.partition_max_bytes, message.max_bytes)),
        max_wait_ms=max(0, min(message.max_wait_ms, WAIT_MS_MAX)), high_watermark=part.high_watermark,
        is_follower=message.is_follower)


def _fetch_response(response: FetchResponse, version: int) -> Message:
    of = fetch_response
    if _is_top_level(response):
        return of.FetchResponse(error_code=response.error)
    records = response.records
    part = of.PartitionData(
        partition_index=PARTITION, error_code=response.error, high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset, not_follower=response.not_follower,
        records=records if isinstance(records, bytes) else b"",
        current_leader=of.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch))
    if response.diverging is not None:
        part.diverging_epoch = of.EpochEndOffset(epoch=response.diverging.epoch, end_offset=response.diverging.offset)
    if response.snapshot is not None:
        part.snapshot_id = of.SnapshotId(end_offset=response.snapshot.offset, epoch=response.snapshot.epoch)
    topic = of.FetchableTopicResponse(partitions=[part])
    if version >= FIRST_FETCH_WITH_TOPIC_IDS:
        topic.topic_id = TOPIC_ID
    else:
        topic.topic = TOPIC
    nodes = _nodes(response, of.NodeEndpoint) if version >= FIRST_FETCH_WITH_NODE_ENDPOINTS else []
    return of.FetchResponse(responses=[topic], node_endpoints=nodes)


def _fetch_answer_of(message: fetch_response.FetchResponse) -> Response:
    partitions = [partition for topic in message.responses for partition in topic.partitions]
    if message.error_code or not partitions:
        return FetchResponse(error=error_of(message.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
    part = partitions[0]
    leader, diverging, snapshot = part.current_leader, part.diverging_epoch, part.snapshot_id
    return FetchResponse(
        error=error_of(part.error_code), epoch=max(leader.leader_epoch, 0), leader_id=leader.leader_id,
        leader_endpoints=_leader_endpoints(message.node_endpoints, leader.leader_id),
        high_watermark=part.high_watermark, log_start_offset=part.log_start_offset,
        records=whole_batches(part.records), diverging=_place(diverging.end_offset, diverging.epoch),
        snapshot=_place(snapshot.end_offset, snapshot.epoch), not_follower=part.not_follower)


def _place(offset: int, epoch: int) -> OffsetAndEpoch | None:
    return None if offset == UNKNOWN_OFFSET else OffsetAndEpoch(offset, epoch)


def whole_batches(records: Records | None) -> Records | None:
    """Return the batches of an answer without the last one if that was truncated, which a sender may do; None for
    none."""
    end, size = 0, len(records or b"")
    while records and end + OVERHEAD_BYTES <= size:
        length = int.from_bytes(records[end + LENGTH_AT:end + OVERHEAD_BYTES], "big", signed=True)
        if length < 0 or end + OVERHEAD_BYTES + length > size:
            break
        end += OVERHEAD_BYTES + length
    return records[:end] if records and end else None


# --- FetchSnapshot ----------------------------------------------------------------------------------------------------


def _snapshot_request(request: FetchSnapshotRequest, _version: int) -> Message:
    of = fetch_snapshot_request
    part = of.PartitionSnapshot(
        partition=PARTITION, current_leader_epoch=request.epoch, position=request.position,
        snapshot_id=of.SnapshotId(end_offset=request.snapshot.offset, epoch=request.snapshot.epoch),
        replica_directory_id=request.replica.directory_id)
    return of.FetchSnapshotRequest(
        cluster_id=request.cluster_id, replica_id=request.replica.node_id, max_bytes=request.max_bytes,
        topics=[of.TopicSnapshot(name=TOPIC, partitions=[part])])


def _snapshot_of(message: fetch_snapshot_request.FetchSnapshotRequest, _version: int) -> Request:
    part = _only(message.topics, "name")
    if part.partition != PARTITION:
        raise WrongPartitionError(f"{TOPIC} has no partition {part.partition}")
    wanted = part.snapshot_id
    return FetchSnapshotRequest(
        cluster_id=message.cluster_id, replica=ReplicaKey(message.replica_id, part.replica_directory_id),
        epoch=part.current_leader_epoch, position=part.position, max_bytes=max(0, message.max_bytes),
        snapshot=OffsetAndEpoch(wanted.end_offset, wanted.epoch))


def _snapshot_response(response: FetchSnapshotResponse, version: int) -> Message:
    of = fetch_snapshot_response
    if _is_top_level(response):
        return of.FetchSnapshotResponse(error_code=response.error)
    part = of.PartitionSnapshot(
        index=PARTITION, error_code=response.error, size=response.size, position=response.position,
        snapshot_id=of.SnapshotId(end_offset=response.snapshot.offset, epoch=response.snapshot.epoch),
        current_leader=of.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
        unaligned_records=response.data)
    nodes = _nodes(response, of.NodeEndpoint) if version >= FIRST_WITH_CANDIDATE_KEYS else []
    return of.FetchSnapshotResponse(topics=[of.TopicSnapshot(name=TOPIC, partitions=[part])], node_endpoints=nodes)


def _snapshot_answer_of(message: fetch_snapshot_response.FetchSnapshotResponse) -> Response:
    if message.error_code:
        return FetchSnapshotResponse(error=error_of(message.error_code))
    part = _only(message.topics, "name")
    leader = part.current_leader
    return FetchSnapshotResponse(
        error=error_of(part.error_code), epoch=max(leader.leader_epoch, 0), leader_id=leader.leader_id,
        leader_endpoints=_leader_endpoints(message.node_endpoints, leader.leader_id), size=part.size,
        position=part.position,
        snapshot=OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch), data=part.unaligned_records)


FETCH_CODEC: Final = Codec(
    FetchRequest, fetch_response.FetchResponse, _fetch_request, _fetch_of, _fetch_response, _fetch_answer_of,
    lambda code: fetch_response.FetchResponse(error_code=code))

REPLICA_CODECS: Final = (
    FETCH_CODEC,
    Codec(VoteRequest, vote_response.VoteResponse, _vote_request, _vote_of, _vote_response, _vote_answer_of,
          lambda code: vote_response.VoteResponse(error_code=code)),
    Codec(BeginQuorumEpochRequest, begin_quorum_epoch_response.BeginQuorumEpochResponse, _begin_request, _begin_of,
          _begin_response, _begin_answer_of,
          lambda code: begin_quorum_epoch_response.BeginQuorumEpochResponse(error_code=code)),
    Codec(EndQuorumEpochRequest, end_quorum_epoch_response.EndQuorumEpochResponse, _end_request, _end_of,
          _end_response, _end_answer_of,
          lambda code: end_quorum_epoch_response.EndQuorumEpochResponse(error_code=code)),
    Codec(FetchSnapshotRequest, fetch_snapshot_response.FetchSnapshotResponse, _snapshot_request, _snapshot_of,
          _snapshot_response, _snapshot_answer_of,
          lambda code: fetch_snapshot_response.FetchSnapshotResponse(error_code=code)),
)
