"""Events of a broker's replicas, for its flight recorder. Names and words are in `kraft.recorder.replica_words`.

Events of the keeper of in-sync replicas have the `epoch` of the leadership: what happened in an earlier one says
nothing about this one. Reasons are enums; `details` are the numbers that a reason names. Followers report their
connections to leaders, and Fetches that fail.
"""

from enum import Enum, auto

from kraft.structs import immutable


class ProposalReason(Enum):
    """Reason for which a leader proposes other in-sync replicas. Details: the broker that has everything, the longest
    lag in milliseconds."""

    CAUGHT_UP = auto()
    LAGGING = auto()
    RECOVERED = auto()


class WithheldReason(Enum):
    """Reason for which a replica with everything is not proposed. Details: the broker epoch that fetched, and the one
    of the metadata."""

    NOT_ACTIVE = auto()
    OTHER_PROCESS = auto()


class ReplicaEvent:
    """Base of these events."""

    __slots__ = ()


@immutable
class IsrProposed(ReplicaEvent):
    epoch: int
    isr: tuple[int, ...]
    proposed: tuple[int, ...]
    reason: ProposalReason
    details: tuple[int, ...] = ()


@immutable
class IsrDecided(ReplicaEvent):
    """The controller's answer or the metadata has the outcome."""

    epoch: int
    isr: tuple[int, ...]


@immutable
class IsrRefused(ReplicaEvent):
    """The proposal has ended. `error` is Kafka's code."""

    epoch: int
    proposed: tuple[int, ...]
    error: int


@immutable
class IsrUnanswered(ReplicaEvent):
    """The proposal is sent again. `error` is Kafka's code."""

    epoch: int
    proposed: tuple[int, ...]
    error: int


@immutable
class ProposalWithheld(ReplicaEvent):
    epoch: int
    replica: int
    reason: WithheldReason
    details: tuple[int, ...] = ()


@immutable
class LeaderConnected(ReplicaEvent):
    address: str


@immutable
class LeaderUnreachable(ReplicaEvent):
    """A failed attempt to connect. No address: the leader is not registered, or not with the listener of brokers."""

    address: str | None = None
    cause: OSError | None = None


@immutable
class LeaderLost(ReplicaEvent):
    """The connection to the leader broke."""


@immutable
class LeaderUnresponsive(ReplicaEvent):
    timeout_ms: int


@immutable
class FetchFailed(ReplicaEvent):
    """`error` is Kafka's code; `cause` is the follower's own fault, if it is one."""

    leader: int
    error: int
    cause: BaseException | None = None


@immutable
class LogCut(ReplicaEvent):
    """A follower's log ended at `before`, and now ends at `end`."""

    before: int
    end: int
    because: str
