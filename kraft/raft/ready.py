"""Work for the driver after it has called the core."""

from typing import NamedTuple

from kraft.raft.messages import Request, Response
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, Endpoint, OffsetAndEpoch, ReplicaKey
from kraft.structs import immutable


class HardState(NamedTuple):
    """Durable state of a replica: the content of `quorum-state`. `voted`: the replica that got its vote in `epoch`.
    `leader_id`: the leader of `epoch`, -1 when that is not known."""

    epoch: int = 0
    voted: ReplicaKey | None = None
    leader_id: int = NOBODY


class OutgoingRequest(NamedTuple):
    """Request for a node; `address` is the best one known, None where the driver may know better. The driver passes the
    answer to `Raft.step` with the same `node_id` and `correlation`, or a `Lost` when no answer comes."""

    node_id: int
    address: Endpoint | None
    correlation: int
    request: Request


class Answer(NamedTuple):
    """Response to the request that came with this `source` and `correlation`."""

    source: int
    correlation: int
    response: Response


class FollowLease(NamedTuple):
    """Permission to follow the leader without the core, from `Raft.lease` to `Raft.revoke`.

    `fetch` is the Fetch from the log end, `from_offset`. It has been sent already, or (`is_sent` is false) is to be
    sent when the log is durable up to there.
    """

    leader_id: int
    epoch: int
    from_offset: int
    fetch: OutgoingRequest
    is_sent: bool


class Outcome(NamedTuple):
    """Result of a lease. `end_offset`: the log end. `high_watermark`: that of the last answer, -1 if none was accepted.
    `is_outstanding`: the Fetch from the log end was sent and is unanswered; otherwise it was not and will not be
    sent."""

    end_offset: int
    high_watermark: int
    is_outstanding: bool


class Leadership(NamedTuple):
    """Role of this replica, and the leader. `epoch_start` is the offset of this replica's LeaderChange record, -1 when
    it does not lead. The state machine may lead when the high watermark has passed it."""

    role: Role
    epoch: int
    leader_id: int
    epoch_start: int


@immutable
class Ready:
    """Work to be carried out in this order; no later `Ready` overtakes an earlier one. None or empty: nothing to do.

    1. `hard_state` is made durable.
    2. `messages` are sent, in order. Any of them may get lost; none may be sent before 1 is done.
    3. `flush` is started: the log is to be durable up to this offset. The driver does not wait for it, and reports its
       end with `Raft.log_flushed`; the next one is requested after that.
    4. `installed`: a snapshot has replaced the log: the state machine restarts from it.
    5. `high_watermark`: everything below is committed and may be applied. It never goes back while a node runs.
    6. `leadership` is reported to the state machine. A leadership that ends is reported before 4, so that nothing is
       proposed because of 5.
    """

    hard_state: HardState | None = None
    messages: tuple[OutgoingRequest | Answer, ...] = ()
    flush: int | None = None
    installed: OffsetAndEpoch | None = None
    high_watermark: int | None = None
    leadership: Leadership | None = None
