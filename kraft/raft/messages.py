"""Messages between replicas, as the core sees them: one frozen object per message, whatever its version on the wire.

`kraft.raft.wire` converts them to Kafka's messages and back. A request carries what the receiver needs to check it.
Every answer of the quorum carries the leader and the epoch, because that is how epochs spread.
"""

from enum import StrEnum
from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.address_book import Known
from kraft.raft.types import ANYBODY, NOBODY, START, UNKNOWN_OFFSET, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import NO_RECONFIGURATION, VersionRange, Voter
from kraft.structs import immutable

HIGH_WATERMARK_UNREPORTED: Final = (1 << 63) - 1


@immutable(kw_only=True)
class Request:
    """Request to a replica. It is answered once, unless one of the two goes offline."""

    cluster_id: str | None = None


@immutable(kw_only=True)
class Response:
    """Answer to a request. `error` is Kafka's; with any but NONE the other fields are valid only where they say so."""

    error: ErrorCode = ErrorCode.NONE


class Loss(StrEnum):
    """Reason for which an answer will not come."""

    DISCONNECTED = "disconnected"                   # the connection broke, or could not be opened
    TIMED_OUT = "timed out"
    UNSUPPORTED = "unsupported"                     # the peer does not support this version: nothing was sent


@immutable
class Lost:
    """Stands in for the answer to a request. The driver creates it; it is never sent."""

    reason: Loss


@immutable(kw_only=True)
class QuorumResponse(Response):
    """Answer with the leader (-1: none known) in the answering replica's epoch. It has them with any error except
    INCONSISTENT_CLUSTER_ID: they belong to another cluster then, and are not revealed."""

    epoch: int = 0
    leader_id: int = NOBODY
    leader_endpoints: Endpoints = ()


@immutable(kw_only=True)
class VoteRequest(Request):
    """Request for a vote. `epoch` is the candidate's: raised already for a vote, not raised for a pre-vote.

    `voter` is the receiver, with the zero directory where its directory is not known. Id -1 means any receiver.
    """

    candidate: ReplicaKey
    epoch: int
    log_end: OffsetAndEpoch
    voter: ReplicaKey = ANYBODY
    pre_vote: bool = False


@immutable(kw_only=True)
class VoteResponse(QuorumResponse):
    """Answer to a vote. `pre_vote` is the kind of the request; None: not given, as by Java (its schema has no such
    field)."""

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
    """`preferred`: successors, best first."""

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

    `replica.node_id` is -1 for readers that are not replicas. `high_watermark` is the one that the replica knows, so
    that the leader answers at once when it knows a higher one. `is_follower`: the replica considers itself a voter
    (KIP-595's IsFollower).
    """

    replica: ReplicaKey
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int = 8 << 20
    max_wait_ms: int = 0
    high_watermark: int = HIGH_WATERMARK_UNREPORTED
    is_follower: bool = False


@immutable(kw_only=True)
class FetchResponse(QuorumResponse):
    """Answer to a Fetch. If `error` is NONE, it is one of three:

    - `snapshot`: fetch it, because the log does not reach so far back.
    - `diverging`: truncate. The largest epoch not above the replica's, and where it ends.
    - `records`: None when there are none.

    `high_watermark` is -1 while the leader has not committed a record of its own epoch. `not_follower`: the replica is
    no longer a voter (KIP-642's NOT_FOLLOWER); the data is valid.
    """

    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = 0
    records: object = None
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    not_follower: bool = False

    @property
    def is_plain(self) -> bool:
        """Return whether it has records, perhaps none, and nothing else to report."""
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
    """`size` is that of the whole snapshot in bytes; `data` is its part that begins at `position`."""

    snapshot: OffsetAndEpoch = START
    size: int = 0
    position: int = 0
    data: bytes = b""


@immutable(kw_only=True)
class DiscoverRequest(Request):
    """KIP-642's DiscoverBrokers: `sender` announces its address, and considers `leader_id` the leader of `epoch`."""

    sender: Known
    epoch: int = 0
    leader_id: int = NOBODY


@immutable(kw_only=True)
class DiscoverResponse(QuorumResponse):
    """Everything that the answering replica knows: the nodes, itself included, and the voters of its log."""

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
    """AlterPartitionReassignments on the metadata partition (KIP-642): move to these nodes. None stops a reassignment
    that is in progress."""

    targets: tuple[int, ...] | None
    timeout_ms: int = 60_000


@immutable(kw_only=True)
class ChangeVotersResponse(QuorumResponse):
    """Answer to all four requests that change the voters. `text` is the reason of a refusal."""

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
