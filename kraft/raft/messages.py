"""What replicas tell each other, as the core sees it: one frozen object per message, whatever its version on the wire.

`kraft.raft.wire` makes Kafka's messages of them and back. A request carries what the receiver needs to check it; every
answer of the quorum carries who leads in which epoch, because that is how epochs spread.
"""

from enum import StrEnum
from typing import Final

from kraft.immutable import immutable
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.directory import Known
from kraft.raft.types import ANYBODY, NOBODY, START, UNKNOWN_OFFSET, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import NO_RECONFIGURATION, VersionRange, Voter

HIGH_WATERMARK_NOT_TOLD: Final = (1 << 63) - 1


@immutable(kw_only=True)
class Request:
    """A question to a replica. It is answered once, unless one of the two goes away."""

    cluster_id: str | None = None


@immutable(kw_only=True)
class Response:
    """An answer. `error` is Kafka's; with any but NONE the other fields count only where they say so."""

    error: ErrorCode = ErrorCode.NONE


class Loss(StrEnum):
    """Why an answer will not come."""

    DISCONNECTED = "disconnected"                   # the connection broke, or could not be made
    TIMED_OUT = "timed out"
    UNSUPPORTED = "unsupported"                     # the peer does not know this version: nothing was sent


@immutable
class Lost:
    """Stands in the place of the answer to a request. The driver makes it; it does not travel."""

    reason: Loss


@immutable(kw_only=True)
class QuorumResponse(Response):
    """An answer that tells who leads (-1 nobody known) in the answering replica's epoch, with any error but
    INCONSISTENT_CLUSTER_ID, where the two belong to another cluster and are not told."""

    epoch: int = 0
    leader_id: int = NOBODY
    leader_endpoints: Endpoints = ()


@immutable(kw_only=True)
class VoteRequest(Request):
    """`epoch` is the candidate's: raised already for a vote, not raised for a pre-vote. `voter` is who is asked, with
    the zero directory where that is not known; id -1 asks whoever it reaches."""

    candidate: ReplicaKey
    epoch: int
    log_end: OffsetAndEpoch
    voter: ReplicaKey = ANYBODY
    pre_vote: bool = False


@immutable(kw_only=True)
class VoteResponse(QuorumResponse):
    """`pre_vote` tells what kind of request was answered; None: not told, as by Java (its schema has no such field)."""

    granted: bool = False
    pre_vote: bool | None = None


@immutable(kw_only=True)
class BeginQuorumEpochRequest(Request):
    epoch: int
    leader_id: int
    voter: ReplicaKey = ANYBODY
    leader_endpoints: Endpoints = ()


@immutable(kw_only=True)
class BeginQuorumEpochResponse(QuorumResponse):
    pass


@immutable(kw_only=True)
class EndQuorumEpochRequest(Request):
    """`preferred`: who should take over, best first."""

    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...] = ()
    leader_endpoints: Endpoints = ()


@immutable(kw_only=True)
class EndQuorumEpochResponse(QuorumResponse):
    pass


@immutable(kw_only=True)
class FetchRequest(Request):
    """`fetch_offset` is the replica's log end, all of it durable: this request is also the acknowledgement.

    `replica.node_id` is -1 for readers that are no replicas. `high_watermark` is what the replica knows already, so
    that the leader answers at once when it knows more. `is_follower`: the replica holds itself for a voter (KIP-595's
    IsFollower).
    """

    replica: ReplicaKey
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int = 8 << 20
    max_wait_ms: int = 0
    high_watermark: int = HIGH_WATERMARK_NOT_TOLD
    is_follower: bool = False


@immutable(kw_only=True)
class FetchResponse(QuorumResponse):
    """Without an error one of three: `snapshot` (fetch that instead, the log does not reach so far back), `diverging`
    (the largest epoch not above the replica's, and where it ends: truncate), or `records`, None when there are none.

    `high_watermark` is -1 while the leader has not committed a record of its own epoch. `not_follower`: the replica
    votes no more (KIP-642's NOT_FOLLOWER); the data is valid.
    """

    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = 0
    records: object = None
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    not_follower: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it has records, perhaps none, and nothing else to tell."""
        return self.error is ErrorCode.NONE and self.diverging is None and self.snapshot is None


@immutable(kw_only=True)
class FetchSnapshotRequest(Request):
    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int = 8 << 20


@immutable(kw_only=True)
class FetchSnapshotResponse(QuorumResponse):
    """`size` is that of the whole snapshot in bytes, `data` what it has from `position` on."""

    snapshot: OffsetAndEpoch = START
    size: int = 0
    position: int = 0
    data: bytes = b""


@immutable(kw_only=True)
class DiscoverRequest(Request):
    """KIP-642's DiscoverBrokers: `sender` listens there, and holds `leader_id` for the leader of `epoch`."""

    sender: Known
    epoch: int = 0
    leader_id: int = NOBODY


@immutable(kw_only=True)
class DiscoverResponse(QuorumResponse):
    """Everything that the answering replica knows: of nodes, itself among them, and who votes in its log."""

    nodes: tuple[Known, ...] = ()
    voters: tuple[ReplicaKey, ...] = ()
    targets: tuple[ReplicaKey, ...] | None = None
    cluster_id: str | None = None


@immutable(kw_only=True)
class VersionsRequest(Request):
    """ApiVersions, for the range of `kraft.version` that a node supports."""


@immutable(kw_only=True)
class VersionsResponse(Response):
    kraft_versions: VersionRange = NO_RECONFIGURATION


@immutable(kw_only=True)
class AddVoterRequest(Request):
    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


@immutable(kw_only=True)
class RemoveVoterRequest(Request):
    voter: ReplicaKey


@immutable(kw_only=True)
class UpdateVoterRequest(Request):
    epoch: int
    voter: Voter


@immutable(kw_only=True)
class ReassignVotersRequest(Request):
    """AlterPartitionReassignments on the metadata partition (KIP-642): go to these nodes; None stops a reassignment
    that is under way."""

    targets: tuple[int, ...] | None
    timeout_ms: int = 60_000


@immutable(kw_only=True)
class ChangeVotersResponse(QuorumResponse):
    """The answer to all four requests that change the voters. `text` says why not."""

    text: str = ""


Message = Request | Response | Lost

ANSWERS: Final[dict[type[Request], type[Response]]] = {
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    FetchRequest: FetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
    DiscoverRequest: DiscoverResponse,
    VersionsRequest: VersionsResponse,
    AddVoterRequest: ChangeVotersResponse,
    RemoveVoterRequest: ChangeVotersResponse,
    UpdateVoterRequest: ChangeVotersResponse,
    ReassignVotersRequest: ChangeVotersResponse,
}
