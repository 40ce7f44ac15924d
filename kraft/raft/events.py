"""Events of the consensus core, for its flight recorder.

A replica reports each one through `Ports.trace`, with its time, and never reads them. Reasons are enums; `detail` is
the object that a reason names. Names and words of events are in `kraft.recorder.words`.
"""

from enum import Enum, auto

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.transitions import Cause, Role
from kraft.raft.types import OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import VoterSet
from kraft.structs import immutable


class VoteRefusal(Enum):
    """Reason for which a replica refuses a vote or a pre-vote. Details: its log end, the leader, the candidate that has
    its vote, its role."""

    SHORTER_LOG = auto()
    HAS_LEADER = auto()
    HAS_VOTED = auto()
    ROLE = auto()


class ChangeReason(Enum):
    """Reason for which a leader writes other voters to the log. Details: the key of the voter, the targets, the step of
    the reassignment."""

    REMOVAL = auto()
    ADDITION = auto()
    REPORT = auto()
    OWN_ADDRESS = auto()
    TARGETS = auto()
    TARGETS_CANCELLED = auto()
    STEP = auto()


class SnapshotLoss(Enum):
    """Reason for which a follower gives up a snapshot. Details: the error that the leader answered, or its message."""

    REFUSED = auto()
    TOO_OLD = auto()
    UNUSABLE = auto()


class Event:
    """Base of all events."""

    __slots__ = ()


@immutable
class Started(Event):
    role: Role
    epoch: int
    end: OffsetAndEpoch
    voters: VoterSet


@immutable
class RoleChanged(Event):
    """`source` is the node whose message caused it."""

    role: Role
    epoch: int
    leader: int | None
    cause: Cause
    source: int | None


@immutable
class Voted(Event):
    """The candidate's log does not end before this replica's `end`."""

    candidate: ReplicaKey
    epoch: int
    end: OffsetAndEpoch


@immutable
class VoteAnswered(Event):
    """`end` is the end of the candidate's log. `refusal`: None when the vote is granted."""

    candidate: ReplicaKey
    epoch: int
    end: OffsetAndEpoch
    pre_vote: bool
    refusal: VoteRefusal | None = None
    detail: object = None

    @property
    def granted(self) -> bool:
        return self.refusal is None


@immutable
class Committed(Event):
    """`leader`: the leader that reports it. `by`: the replica with which a majority has it now."""

    high_watermark: int
    leader: int | None = None
    by: int | None = None


@immutable
class VotersWritten(Event):
    reason: ChangeReason
    detail: object = None


@immutable
class VotersApplied(Event):
    """The record at `offset` is in force; `leader` led at the time."""

    offset: int
    kraft_version: int
    voters: VoterSet
    leader: int


@immutable
class VotersReverted(Event):
    """The record of later voters was truncated."""

    kraft_version: int
    voters: VoterSet


@immutable
class VoterChangeRefused(Event):
    """`text` is the message of the answer."""

    error: ErrorCode
    text: str


@immutable
class LeadershipHandedOver(Event):
    """Only the leader is left to be removed."""


@immutable
class MajorityLost(Event):
    epoch: int


@immutable
class ConnectionLost(Event):
    """The connection of a follower to its leader."""

    leader: int


@immutable
class LogTruncated(Event):
    to: int
    end: int


@immutable
class LogTrimmed(Event):
    start: OffsetAndEpoch


@immutable
class SnapshotRequested(Event):
    snapshot: OffsetAndEpoch


@immutable
class SnapshotGivenUp(Event):
    snapshot: OffsetAndEpoch | None
    loss: SnapshotLoss
    detail: object = None


@immutable
class SnapshotInstalled(Event):
    snapshot: OffsetAndEpoch
    voters: VoterSet


@immutable
class RecordsRefused(Event):
    """`error` is the message of the log."""

    error: str


@immutable
class DivergenceRefused(Event):
    at: OffsetAndEpoch
    end: OffsetAndEpoch


@immutable
class LeaderRefused(Event):
    """A request names another leader of the epoch than the known one."""

    leader: int
    epoch: int
    known: int


@immutable
class VersionRaised(Event):
    kraft_version: int
