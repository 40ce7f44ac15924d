"""State of a replica in each of its roles. The epoch, the vote and the leader's id belong to the replica, because they
outlive roles. Deadlines are absolute times in milliseconds.

The modules `elections`, `following` and `leading` hold what a role does; `transitions` holds which role follows.
"""

from dataclasses import field
from typing import ClassVar

from kraft.deadlines import NEVER_MS
from kraft.raft.messages import FetchRequest, FetchResponse
from kraft.raft.progress import Progress
from kraft.raft.tally import Tally
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, UNKNOWN_OFFSET, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Assignment, Voter, VoterSet
from kraft.structs import immutable, mutable


@mutable
class Unattached:
    """Role of a replica that knows no leader it could follow. A voter campaigns at `election_ms`; until then, and an
    observer always, it searches for a leader.

    `inquiries` counts the voters that answered or were passed over. `queried` is the voter queried last, which is
    passed over at `passes_ms`.
    """

    role: ClassVar[Role] = Role.UNATTACHED
    election_ms: int
    inquiries: int = 0
    queried: int = NOBODY
    passes_ms: int = 0


@immutable
class Refusal:
    """Refusals of a pre-vote by one voter: how many, and when the request is repeated (NEVER_MS: not again)."""

    count: int
    repeat_ms: int


@mutable
class Prospective:
    """Role of a voter that finds out whether it could win (KIP-996's pre-vote); its epoch is not raised.

    `refusals`: the refusals by voter, if this replica knows that its leader leads no longer. None if it campaigns for
    another reason: then each voter is queried once.
    """

    role: ClassVar[Role] = Role.PROSPECTIVE
    election_ms: int
    tally: Tally
    refusals: dict[int, Refusal] | None = None

    def repeat_ms(self, node_id: int) -> int:
        """Return when the pre-vote that a voter refused is requested again."""
        if self.refusals is None or node_id not in self.refusals:
            return NEVER_MS
        return self.refusals[node_id].repeat_ms

    def deadline_ms(self, now_ms: int) -> int:
        """Return the next time at which something is due. A request that is due already, and waits for the answer to
        another one, needs no clock."""
        repeats = [each.repeat_ms for each in (self.refusals or {}).values() if each.repeat_ms > now_ms]
        return min(self.election_ms, *repeats, NEVER_MS)


@mutable
class Candidate:
    """Role of a voter that campaigns in an epoch that it has raised. `lost`: enough voters refused, and it tries again
    at `election_ms`."""

    role: ClassVar[Role] = Role.CANDIDATE
    election_ms: int
    tally: Tally
    lost: bool = False


@mutable
class Download:
    """Snapshot that is being fetched. `position` is the count of bytes present, `size` is -1 before the first part."""

    snapshot: OffsetAndEpoch
    position: int = 0
    size: int = -1

    @property
    def is_whole(self) -> bool:
        """Return whether all bytes are present. The snapshot is being checked then."""
        return self.position == self.size


@mutable
class Follower:
    """Role of a replica that fetches from the leader.

    - `fetch_ms`: when the fetch time-out expires.
    - `has_fetched`: the leader has answered at least once, so this replica refuses pre-votes.
    - `losses`: how often in succession the connection to the leader broke or could not be opened.
    - `dismissed`: the leader says that this replica is no longer a voter.
    - `inquiries`, `queried`, `passes_ms`: as in `Unattached`. The search is for another leader (by an observer whose
      leader is unresponsive) or for the leader's address.
    - `announced`: the leader knows where this replica listens.
    - `refused_ms`: when it last refused a pre-vote only because its leader answers it.
    """

    role: ClassVar[Role] = Role.FOLLOWER
    fetch_ms: int
    update_voter_ms: int
    has_fetched: bool = False
    losses: int = 0
    dismissed: bool = False
    download: Download | None = None
    inquiries: int = 0
    queried: int = NOBODY
    passes_ms: int = 0
    announced: bool = False
    refused_ms: int | None = None


@mutable
class ParkedFetch:
    """Fetch that the leader holds until it has news."""

    source: int
    correlation: int
    request: FetchRequest
    expires_ms: int


@mutable
class VoterChange:
    """Addition or removal of a voter, and the request that waits for it (`source` -1: none).

    `offset`: of the record; -1 while the versions of the new voter (`joining`) are unknown or it has not caught up.
    """

    source: int
    correlation: int
    expires_ms: int
    joining: Voter | None = None
    offset: int = UNKNOWN_OFFSET
    ack_when_committed: bool = True
    versions_known: bool = False


@mutable
class Reassignment:
    """New targets for the voters, and the request that waits until they are committed. `offset`: of their record; -1
    while an earlier record is not committed."""

    source: int
    correlation: int
    expires_ms: int
    targets: tuple[int, ...] | None
    offset: int = UNKNOWN_OFFSET


@mutable
class Leader:
    """Role of the leader.

    - `epoch_start`: offset of its LeaderChange.
    - `since_ms`: when its leadership began.
    - `progress`: of every replica that fetched, and of every other voter.
    - `is_established`: the high watermark has passed `epoch_start`.
    - `reported`: what static voters reported of themselves (see `upgrading`).
    - `acknowledged_by`: the replica whose log has just become durable further, this one or one that fetched; -1: none.

    Caches:

    - `others`: the other voters of the set `others_of`, with their progress. `votes_itself`: this replica is in that
      set. `is_replaced`: its node is, with another disk.
    - `majority_until_ms`: until when the check of the quorum need not be repeated.
    - `at_rest`: the assignment for which nothing is left to do.
    - `answered`: the last records sent, and the Fetch that they answered. Followers that keep up are sent the same.
    """

    role: ClassVar[Role] = Role.LEADER
    epoch_start: int
    since_ms: int
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    parked: list[ParkedFetch] = field(default_factory=list)
    change: VoterChange | None = None
    reassignments: list[Reassignment] = field(default_factory=list)
    is_established: bool = False
    others: tuple[tuple[Voter, Progress], ...] = ()
    others_of: VoterSet | None = None
    votes_itself: bool = False
    is_replaced: bool = False
    majority_until_ms: int = 0
    at_rest: Assignment | None = None
    answered: tuple[tuple[int, ...], FetchResponse] | None = None
    reported: dict[int, Voter] = field(default_factory=dict)
    acknowledged_by: int = NOBODY


@mutable
class Resigned:
    """Role of a replica that led this epoch and leads no more. Until `election_ms` it announces the end of the epoch to
    the voters that have not acknowledged it (`unnotified`). `unreachable`: voters that could not be notified because
    nothing accepts a connection there."""

    role: ClassVar[Role] = Role.RESIGNED
    election_ms: int
    preferred: tuple[ReplicaKey, ...] = ()
    unnotified: list[int] = field(default_factory=list)
    unreachable: list[int] = field(default_factory=list)


RoleState = Unattached | Prospective | Candidate | Follower | Leader | Resigned
