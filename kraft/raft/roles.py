"""What a replica knows in each of its roles. The epoch, the vote and the leader's id belong to the replica: they
outlive roles. Deadlines are absolute times in milliseconds.

What is done in a role is in `elections`, `following`, `leading`; which role follows is in `transitions`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kraft.raft.messages import FetchRequest, FetchResponse
from kraft.raft.progress import Progress
from kraft.raft.tally import Tally
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, UNKNOWN_OFFSET, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Assignment, Voter, VoterSet


@dataclass(slots=True)
class Unattached:
    """Knows no leader it could follow. A voter stands at `election_ms`; until then, and an observer always, it asks
    around for a leader. `inquiries` counts the voters that answered or were passed over, `asked` is the voter asked
    last, which is passed over at `passes_ms`."""

    role: ClassVar[Role] = Role.UNATTACHED
    election_ms: int
    inquiries: int = 0
    asked: int = NOBODY
    passes_ms: int = 0


@dataclass(slots=True)
class Prospective:
    """Asks whether it could win (KIP-996's pre-vote); its epoch is not raised."""

    role: ClassVar[Role] = Role.PROSPECTIVE
    election_ms: int
    tally: Tally


@dataclass(slots=True)
class Candidate:
    """Stands in an epoch that it has raised. `lost`: enough voters refused; `election_ms` is then when it tries
    again."""

    role: ClassVar[Role] = Role.CANDIDATE
    election_ms: int
    tally: Tally
    lost: bool = False


@dataclass(slots=True)
class Download:
    """A snapshot on its way in; `position` is how much of it is here, `size` -1 before the first part."""

    snapshot: OffsetAndEpoch
    position: int = 0
    size: int = -1


@dataclass(slots=True)
class Follower:
    """Fetches from the leader. `fetch_ms`: when the fetch time-out expires. `has_fetched`: the leader has answered it
    at least once, so it refuses pre-votes. `losses`: how often in a row the connection to the leader broke or could
    not be made. `dismissed`: the leader says that it votes no more. `inquiries`, `asked`, `passes_ms`: as when
    unattached, for another leader (an observer whose leader is unresponsive) or for its address. `announced`: the
    leader knows where it listens. `refused_ms`: when it last refused a pre-vote for no other reason than that its
    leader answers it."""

    role: ClassVar[Role] = Role.FOLLOWER
    fetch_ms: int
    update_voter_ms: int
    has_fetched: bool = False
    losses: int = 0
    dismissed: bool = False
    download: Download | None = None
    inquiries: int = 0
    asked: int = NOBODY
    passes_ms: int = 0
    announced: bool = False
    refused_ms: int | None = None


@dataclass(slots=True)
class ParkedFetch:
    """A Fetch that waits for something to tell."""

    source: int
    correlation: int
    request: FetchRequest
    expires_ms: int


@dataclass(slots=True)
class VoterChange:
    """A voter on its way in, or a removal, and who waits for it (`source` -1: nobody).

    `offset`: of the record, -1 while the new voter (`joining`) has not told its versions or not caught up.
    """

    source: int
    correlation: int
    expires_ms: int
    joining: Voter | None = None
    offset: int = UNKNOWN_OFFSET
    ack_when_committed: bool = True
    versions_known: bool = False


@dataclass(slots=True)
class Reassignment:
    """New targets for the voters and who waits until they are committed. `offset`: of their record, -1 while an earlier
    record is not committed."""

    source: int
    correlation: int
    expires_ms: int
    targets: tuple[int, ...] | None
    offset: int = UNKNOWN_OFFSET


@dataclass(slots=True)
class Leader:
    """Leads. `epoch_start`: offset of its LeaderChange. `since_ms`: since when. `progress`: of every replica that
    fetched, and of every other voter. `is_established`: the high watermark has passed `epoch_start`.
    `told`: what static voters said of themselves (see `upgrading`). `acknowledged_by`: whose log has just become
    durable further, this replica's or that of who fetched; -1 when nobody's has.

    What is kept to be looked up quickly: `others`, the other voters of the set `others_of` with their progress,
    and whether this replica is one (`votes_itself`), or its node with another disk (`is_replaced`);
    `heard_until_ms`, until when at least they need not be heard of again;
    `at_rest`, the assignment for which nothing is left to be done; `answered`, the last records sent and the Fetch they
    answered, because followers that keep up are sent the same.
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
    heard_until_ms: int = 0
    at_rest: Assignment | None = None
    answered: tuple[tuple[int, ...], FetchResponse] | None = None
    told: dict[int, Voter] = field(default_factory=dict)
    acknowledged_by: int = NOBODY


@dataclass(slots=True)
class Resigned:
    """Led this epoch and leads no more. Until `election_ms` it tells the voters, who have not yet heard of it
    (`untold`), that the epoch has ended. `unreachable`: those who could not be told because nobody is there."""

    role: ClassVar[Role] = Role.RESIGNED
    election_ms: int
    preferred: tuple[ReplicaKey, ...] = ()
    untold: list[int] = field(default_factory=list)
    unreachable: list[int] = field(default_factory=list)


RoleState = Unattached | Prospective | Candidate | Follower | Leader | Resigned
