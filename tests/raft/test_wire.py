"""Messages of replicas survive the way through Kafka's messages, as far as each version can carry them."""

from typing import Any

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import vote_request
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.raft.address_book import Known
from kraft.raft.messages import (
    HIGH_WATERMARK_UNREPORTED,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ChangeVotersResponse,
    DiscoverRequest,
    DiscoverResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReassignVotersRequest,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.types import Endpoint, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import NO_RECONFIGURATION, Voter
from kraft.raft.wire import WAIT_MS_MAX, Codec, WrongPartitionError, whole_batches
from kraft.raft.wire_changes import CODEC_BY_KEY, CODECS, REASSIGN_CODEC, names_metadata
from kraft_native.base.errors import UnsupportedVersionError
from kraft_native.batch.records import BatchBuilder
from tests.raft.world import CLUSTER, address, key

HERE = address(3)
LEADER_FIELDS: dict[str, Any] = {"epoch": 4, "leader_id": 2, "leader_endpoints": (Endpoint("", "node2", 9093),)}

REQUESTS: list[Request] = [
    VoteRequest(cluster_id=CLUSTER, candidate=key(3), epoch=4, log_end=OffsetAndEpoch(10, 3), voter=key(1),
                pre_vote=True),
    BeginQuorumEpochRequest(cluster_id=CLUSTER, epoch=3, leader_id=2, voter=key(3), leader_endpoints=HERE),
    EndQuorumEpochRequest(cluster_id=CLUSTER, epoch=3, leader_id=2, preferred=(key(3), key(1)), leader_endpoints=HERE),
    FetchRequest(cluster_id=CLUSTER, replica=key(3), epoch=3, fetch_offset=7, last_fetched_epoch=2, max_bytes=100,
                 max_wait_ms=500, high_watermark=5, is_follower=True),
    FetchSnapshotRequest(cluster_id=CLUSTER, replica=key(3), epoch=3, snapshot=OffsetAndEpoch(5, 2), position=9,
                         max_bytes=10),
    DiscoverRequest(cluster_id=CLUSTER, sender=Known(key(3), 1 << 40, HERE), epoch=4, leader_id=2),
    AddVoterRequest(cluster_id=CLUSTER, voter=Voter(key(3), HERE, NO_RECONFIGURATION), timeout_ms=5,
                    ack_when_committed=False),
    RemoveVoterRequest(cluster_id=CLUSTER, voter=key(3)),
    UpdateVoterRequest(cluster_id=CLUSTER, epoch=3, voter=Voter(key(3), HERE)),
]
RESPONSES: dict[type[Request], list[Response]] = {
    VoteRequest: [VoteResponse(granted=True, pre_vote=False, **LEADER_FIELDS),
                  VoteResponse(pre_vote=True, **LEADER_FIELDS)],
    DiscoverRequest: [
        DiscoverResponse(epoch=4, leader_id=2, leader_endpoints=address(2), cluster_id=CLUSTER, voters=(key(1), key(2)),
                         targets=(key(2), key(3)), nodes=(Known(key(2), 5, address(2)), Known(key(3), 6, HERE))),
        DiscoverResponse(epoch=1)],
    BeginQuorumEpochRequest: [BeginQuorumEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, **LEADER_FIELDS)],
    EndQuorumEpochRequest: [EndQuorumEpochResponse(**LEADER_FIELDS)],
    FetchRequest: [
        FetchResponse(high_watermark=4, log_start_offset=1, not_follower=True, **LEADER_FIELDS),
        FetchResponse(diverging=OffsetAndEpoch(3, 1), **LEADER_FIELDS),
        FetchResponse(snapshot=OffsetAndEpoch(4, 1), **LEADER_FIELDS),
        FetchResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, **LEADER_FIELDS)],
    FetchSnapshotRequest: [
        FetchSnapshotResponse(snapshot=OffsetAndEpoch(3, 4), size=9, position=3, data=b"abc", **LEADER_FIELDS)],
    AddVoterRequest: [ChangeVotersResponse(), ChangeVotersResponse(error=ErrorCode.DUPLICATE_VOTER, text="it votes")],
    RemoveVoterRequest: [ChangeVotersResponse(error=ErrorCode.VOTER_NOT_FOUND, text="it does not vote")],
    UpdateVoterRequest: [ChangeVotersResponse(**LEADER_FIELDS)],
}


def newest(codec: Codec) -> int:
    return API_BY_KEY[codec.key].latest_stable


def request_after(request: Request, version: int) -> Request:
    codec = CODECS[type(request)]
    data = codec.encode_request(request, version).encode(version)
    return codec.decode_request(API_BY_KEY[codec.key].request.decode(data, version), version)


def response_after(codec: Codec, response: Response, version: int) -> Response:
    data = codec.encode_response(response, version).encode(version)
    return codec.decode_response(codec.answer.decode(data, version))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_newest_version_carries_everything(request_: Request) -> None:
    codec = CODECS[type(request_)]
    assert codec.answer is API_BY_KEY[codec.key].response
    assert request_after(request_, newest(codec)) == request_
    for response in RESPONSES[type(request_)]:
        assert response_after(codec, response, newest(codec)) == response


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.request.__name__)
def test_other_clusters_and_bad_requests_are_refused_at_the_top(codec: Codec) -> None:
    answer = type(RESPONSES[codec.request][0])
    for version in range(API_BY_KEY[codec.key].versions.start, newest(codec) + 1):
        if codec.key == ApiKey.FETCH and version < 12:
            continue  # no replica sends that
        other = answer(error=ErrorCode.INCONSISTENT_CLUSTER_ID)
        assert response_after(codec, other, version).error is ErrorCode.INCONSISTENT_CLUSTER_ID
        refused = codec.refuse(ErrorCode.INVALID_REQUEST)
        assert codec.decode_response(codec.answer.decode(refused.encode(version), version)).error \
            is ErrorCode.INVALID_REQUEST


def test_pre_vote_is_not_sent_as_a_vote() -> None:
    vote = REQUESTS[0]
    for version in (0, 1):
        with pytest.raises(UnsupportedVersionError):
            request_after(vote, version)


def test_old_versions_leave_out_what_does_no_harm() -> None:
    begin = request_after(REQUESTS[1], 0)
    assert isinstance(begin, BeginQuorumEpochRequest)
    assert (begin.leader_id, begin.epoch, begin.voter) == (2, 3, ReplicaKey(-1))
    end = request_after(REQUESTS[2], 0)
    assert isinstance(end, EndQuorumEpochRequest)
    assert [each.node_id for each in end.preferred] == [3, 1]
    for version in (12, 14, 16):
        fetch = request_after(REQUESTS[3], version)
        assert isinstance(fetch, FetchRequest)
        assert (fetch.replica.node_id, fetch.fetch_offset, fetch.high_watermark) == (3, 7, HIGH_WATERMARK_UNREPORTED)


def test_only_the_metadata_partition() -> None:
    codec = CODEC_BY_KEY[52]
    for topics in ([], [vote_request.TopicData(topic_name="orders", partitions=[vote_request.PartitionData()])],
                   [vote_request.TopicData(topic_name="__cluster_metadata", partitions=[
                       vote_request.PartitionData(partition_index=1)])]):
        with pytest.raises(WrongPartitionError):
            codec.decode_request(vote_request.VoteRequest(topics=topics), 2)


def test_no_client_waits_indefinitely() -> None:
    fetch = request_after(FetchRequest(replica=key(3), epoch=1, fetch_offset=0, last_fetched_epoch=0,
                                       max_wait_ms=2**31 - 1, max_bytes=-5), 18)
    assert isinstance(fetch, FetchRequest)
    assert (fetch.max_wait_ms, fetch.max_bytes) == (WAIT_MS_MAX, 0)


def test_cut_off_batch_is_left_out() -> None:
    builder = BatchBuilder()
    builder.append(b"value", timestamp_ms=1)
    batch = builder.build(0, leader_epoch=1)
    assert whole_batches(batch + batch[:-1]) == batch
    assert whole_batches(batch + batch[:5]) == batch
    assert whole_batches(batch * 2) == batch * 2
    assert whole_batches(batch[:-1]) is None
    assert whole_batches(None) is None


def test_unknown_errors_are_errors() -> None:
    codec = CODEC_BY_KEY[81]
    message = codec.encode_response(ChangeVotersResponse(), 0)
    message.error_code = 9999  # type: ignore[attr-defined]
    assert codec.decode_response(message).error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("targets", [None, (), (4, 5, 6)])
def test_reassignments_of_the_metadata_partition(version: int, targets: tuple[int, ...] | None) -> None:
    request = ReassignVotersRequest(targets=targets, timeout_ms=7)
    message = REASSIGN_CODEC.encode_request(request, version)
    decoded = type(message).decode(message.encode(version), version)
    assert isinstance(decoded, AlterPartitionReassignmentsRequest)
    assert names_metadata(decoded)
    assert REASSIGN_CODEC.decode_request(decoded, version) == request
    for response in (ChangeVotersResponse(), ChangeVotersResponse(error=ErrorCode.REQUEST_TIMED_OUT, text="late")):
        encoded = REASSIGN_CODEC.encode_response(response, version)
        assert REASSIGN_CODEC.decode_response(type(encoded).decode(encoded.encode(version), version)) == response


def test_other_reassignments_are_not_the_cores() -> None:
    part = ReassignablePartition(partition_index=0, replicas=[1])
    other = ReassignableTopic(name="t", partitions=[part])
    voters = ReassignableTopic(name="__cluster_metadata", partitions=[part])
    assert not names_metadata(AlterPartitionReassignmentsRequest(topics=[other]))
    for topics in ([voters, other], [voters.replace(partitions=[part, part])],
                   [voters.replace(partitions=[part.replace(partition_index=1)])]):
        request = AlterPartitionReassignmentsRequest(topics=topics)
        assert names_metadata(request)
        with pytest.raises(WrongPartitionError):
            REASSIGN_CODEC.decode_request(request, 1)
