"""Events of the keeper of in-sync replicas, for the flight recorder of the leader's broker.

Each has the `epoch` of the leadership: what happened in an earlier one says nothing about this one. Reasons are enums;
`details` are the numbers that a reason names. Names and words are in `kraft.recorder.isr_words`.
"""

from enum import Enum, auto

from kraft.immutable import immutable


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


class IsrEvent:
    """Base of these events."""

    __slots__ = ()


@immutable
class IsrProposed(IsrEvent):
    epoch: int
    isr: tuple[int, ...]
    proposed: tuple[int, ...]
    reason: ProposalReason
    details: tuple[int, ...] = ()


@immutable
class IsrDecided(IsrEvent):
    """The controller's answer or the metadata has the outcome."""

    epoch: int
    isr: tuple[int, ...]


@immutable
class IsrRefused(IsrEvent):
    """The proposal has ended. `error` is Kafka's code."""

    epoch: int
    proposed: tuple[int, ...]
    error: int


@immutable
class IsrUnanswered(IsrEvent):
    """The proposal is sent again. `error` is Kafka's code."""

    epoch: int
    proposed: tuple[int, ...]
    error: int


@immutable
class ProposalWithheld(IsrEvent):
    epoch: int
    replica: int
    reason: WithheldReason
    details: tuple[int, ...] = ()
