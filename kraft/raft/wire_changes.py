"""Codecs of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853), and of AlterPartitionReassignments for the
metadata partition (KIP-642); see `kraft.raft.wire`."""

from collections.abc import Mapping
from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import (
    add_raft_voter_request,
    add_raft_voter_response,
    alter_partition_reassignments_request,
    alter_partition_reassignments_response,
    remove_raft_voter_request,
    remove_raft_voter_response,
    update_raft_voter_request,
    update_raft_voter_response,
)
from kraft.raft.messages import (
    AddVoterRequest,
    ChangeVotersResponse,
    ReassignVotersRequest,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
)
from kraft.raft.types import NOBODY, Endpoint, ReplicaKey
from kraft.raft.voters import NO_RECONFIGURATION, VersionRange, Voter
from kraft.raft.wire import PARTITION, REPLICA_CODECS, TOPIC, Codec, WrongPartitionError, endpoints_of, error_of
from kraft.raft.wire_discovery import DISCOVER_CODEC

FIRST_ADD_WITH_ACK: Final = 1


def _add_request(request: AddVoterRequest, version: int) -> Message:
    of = add_raft_voter_request
    return of.AddRaftVoterRequest(
        cluster_id=request.cluster_id, timeout_ms=request.timeout_ms, voter_id=request.voter.key.node_id,
        voter_directory_id=request.voter.key.directory_id,
        listeners=[of.Listener(name=each.name, host=each.host, port=each.port) for each in request.voter.endpoints],
        ack_when_committed=request.ack_when_committed if version >= FIRST_ADD_WITH_ACK else True)


def _add_of(message: add_raft_voter_request.AddRaftVoterRequest, _version: int) -> Request:
    key = ReplicaKey(message.voter_id, message.voter_directory_id)
    return AddVoterRequest(
        cluster_id=message.cluster_id, timeout_ms=max(0, message.timeout_ms),
        voter=Voter(key, endpoints_of(message.listeners), NO_RECONFIGURATION),
        ack_when_committed=message.ack_when_committed)


def _add_response(response: ChangeVotersResponse, _version: int) -> Message:
    return add_raft_voter_response.AddRaftVoterResponse(
        error_code=response.error, error_message=_text(response))


def _add_answer_of(message: add_raft_voter_response.AddRaftVoterResponse) -> Response:
    return ChangeVotersResponse(error=error_of(message.error_code), text=message.error_message or "")


def _text(response: ChangeVotersResponse) -> str | None:
    if response.error is ErrorCode.NONE:
        return None
    return response.text or response.error.message


def _remove_request(request: RemoveVoterRequest, _version: int) -> Message:
    return remove_raft_voter_request.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id, voter_id=request.voter.node_id, voter_directory_id=request.voter.directory_id)


def _remove_of(message: remove_raft_voter_request.RemoveRaftVoterRequest, _version: int) -> Request:
    return RemoveVoterRequest(
        cluster_id=message.cluster_id, voter=ReplicaKey(message.voter_id, message.voter_directory_id))


def _remove_response(response: ChangeVotersResponse, _version: int) -> Message:
    return remove_raft_voter_response.RemoveRaftVoterResponse(
        error_code=response.error, error_message=_text(response))


def _remove_answer_of(message: remove_raft_voter_response.RemoveRaftVoterResponse) -> Response:
    return ChangeVotersResponse(error=error_of(message.error_code), text=message.error_message or "")


def _update_request(request: UpdateVoterRequest, _version: int) -> Message:
    of = update_raft_voter_request
    voter = request.voter
    return of.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id, current_leader_epoch=request.epoch, voter_id=voter.key.node_id,
        voter_directory_id=voter.key.directory_id,
        listeners=[of.Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
        kraft_version_feature=of.KRaftVersionFeature(
            min_supported_version=voter.kraft_versions.lowest, max_supported_version=voter.kraft_versions.highest))


def _update_of(message: update_raft_voter_request.UpdateRaftVoterRequest, _version: int) -> Request:
    versions = message.kraft_version_feature
    return UpdateVoterRequest(
        cluster_id=message.cluster_id, epoch=message.current_leader_epoch, voter=Voter(
            ReplicaKey(message.voter_id, message.voter_directory_id), endpoints_of(message.listeners),
            VersionRange(versions.min_supported_version, versions.max_supported_version)))


def _update_response(response: ChangeVotersResponse, _version: int) -> Message:
    of = update_raft_voter_response
    leader = of.CurrentLeader(leader_id=response.leader_id, leader_epoch=response.epoch)
    if response.leader_id != NOBODY and response.leader_endpoints:
        leader.host, leader.port = response.leader_endpoints[0].host, response.leader_endpoints[0].port
    return of.UpdateRaftVoterResponse(error_code=response.error, current_leader=leader)


def _update_answer_of(message: update_raft_voter_response.UpdateRaftVoterResponse) -> Response:
    leader = message.current_leader
    return ChangeVotersResponse(
        error=error_of(message.error_code), epoch=max(leader.leader_epoch, 0), leader_id=leader.leader_id,
        leader_endpoints=(Endpoint("", leader.host, leader.port),) if leader.host else ())


def names_metadata(request: alter_partition_reassignments_request.AlterPartitionReassignmentsRequest) -> bool:
    """Return whether a reassignment concerns the voters, alone or among other topics."""
    return any(topic.name == TOPIC for topic in request.topics)


def split_reassignment(
    request: alter_partition_reassignments_request.AlterPartitionReassignmentsRequest
) -> alter_partition_reassignments_request.AlterPartitionReassignmentsRequest | None:
    """Split a request that names the metadata log and other topics: remove the other topics, which belong to the
    controller, and return them. None if it names the metadata log alone."""
    others = [topic for topic in request.topics if topic.name != TOPIC]
    if not others:
        return None
    request.topics = [topic for topic in request.topics if topic.name == TOPIC]
    return alter_partition_reassignments_request.AlterPartitionReassignmentsRequest(
        timeout_ms=request.timeout_ms, allow_replication_factor_change=request.allow_replication_factor_change,
        topics=others)


def _reassign_request(request: ReassignVotersRequest, _version: int) -> Message:
    of = alter_partition_reassignments_request
    return of.AlterPartitionReassignmentsRequest(timeout_ms=request.timeout_ms, topics=[
        of.ReassignableTopic(name=TOPIC, partitions=[of.ReassignablePartition(
            partition_index=PARTITION, replicas=None if request.targets is None else list(request.targets))])])


def _reassign_of(
    message: alter_partition_reassignments_request.AlterPartitionReassignmentsRequest, _version: int
) -> Request:
    """Decode the request; raise `WrongPartitionError` when it has partitions beside the metadata log's, which belong to
    the controller."""
    parts = [(topic.name, part) for topic in message.topics for part in topic.partitions]
    if len(parts) != 1 or parts[0][0] != TOPIC or parts[0][1].partition_index != PARTITION:
        raise WrongPartitionError(f"{TOPIC}-{PARTITION} is reassigned alone")
    replicas = parts[0][1].replicas
    return ReassignVotersRequest(
        targets=None if replicas is None else tuple(replicas), timeout_ms=max(0, message.timeout_ms))


def _reassign_response(response: ChangeVotersResponse, _version: int) -> Message:
    return _reassigned(response.error, _text(response))


def _reassigned(code: ErrorCode, text: str | None) -> Message:
    of = alter_partition_reassignments_response
    return of.AlterPartitionReassignmentsResponse(error_message=None, responses=[
        of.ReassignableTopicResponse(name=TOPIC, partitions=[of.ReassignablePartitionResponse(
            partition_index=PARTITION, error_code=code, error_message=text)])])


def _reassign_answer_of(
    message: alter_partition_reassignments_response.AlterPartitionReassignmentsResponse
) -> Response:
    parts = [part for topic in message.responses for part in topic.partitions]
    if message.error_code or not parts:
        return ChangeVotersResponse(error=error_of(message.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
    return ChangeVotersResponse(error=error_of(parts[0].error_code), text=parts[0].error_message or "")


REASSIGN_CODEC: Final = Codec(
    ReassignVotersRequest, alter_partition_reassignments_response.AlterPartitionReassignmentsResponse,
    _reassign_request, _reassign_of, _reassign_response, _reassign_answer_of,
    lambda code: _reassigned(code, f"{TOPIC}-{PARTITION} is reassigned alone"))
"""Not among `CODECS`: the core handles only those requests of this API for which `names_metadata` is true."""

CODECS: Final[Mapping[type[Request], Codec]] = {codec.request: codec for codec in (
    *REPLICA_CODECS,
    DISCOVER_CODEC,
    Codec(AddVoterRequest, add_raft_voter_response.AddRaftVoterResponse, _add_request, _add_of, _add_response,
          _add_answer_of, lambda code: add_raft_voter_response.AddRaftVoterResponse(
              error_code=code, error_message=code.message)),
    Codec(RemoveVoterRequest, remove_raft_voter_response.RemoveRaftVoterResponse, _remove_request, _remove_of,
          _remove_response, _remove_answer_of, lambda code: remove_raft_voter_response.RemoveRaftVoterResponse(
              error_code=code, error_message=code.message)),
    Codec(UpdateVoterRequest, update_raft_voter_response.UpdateRaftVoterResponse, _update_request, _update_of,
          _update_response, _update_answer_of,
          lambda code: update_raft_voter_response.UpdateRaftVoterResponse(error_code=code)),
)}
"""Codecs by the core's class of the request."""

CODEC_BY_KEY: Final[Mapping[int, Codec]] = {codec.key: codec for codec in CODECS.values()}
"""Codecs by Kafka's API key."""


def codec_of(request: Message) -> Codec | None:
    """Return the codec for a request; None for a request that the core does not answer."""
    if isinstance(request, alter_partition_reassignments_request.AlterPartitionReassignmentsRequest):
        return REASSIGN_CODEC if names_metadata(request) else None
    return CODEC_BY_KEY.get(request.API_KEY)
