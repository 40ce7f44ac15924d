"""Events of transactions, for the flight recorder of the broker that coordinates them. Names and words are in
`kraft.recorder.transaction_words`.

A state machine reports what happened to a transaction; it formats nothing. The recorder makes words of events only when
they are read, because each transaction has several.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, TypeAlias


class EndReason(Enum):
    """Cause of a decision."""

    CLIENT = auto()
    TIMED_OUT = auto()
    NEW_CLIENT = auto()


class Began(NamedTuple):
    """A transaction got its first partition."""

    transactional_id: str
    producer_id: int
    epoch: int


class Decided(NamedTuple):
    """A transaction is to be committed or aborted: its *Prepare* record. `epoch` is that of the markers."""

    transactional_id: str
    producer_id: int
    epoch: int
    commits: bool
    partitions: int
    reason: EndReason


class Completed(NamedTuple):
    """All markers of a transaction are written: its *Complete* record."""

    transactional_id: str
    producer_id: int
    epoch: int
    commits: bool


class Fenced(NamedTuple):
    """A request of a client with an older identity was refused."""

    transactional_id: str
    error: int


class MarkerWritten(NamedTuple):
    """A partition needs no marker of this transaction any more. `error` is NONE, or why it needs none."""

    producer_id: int
    epoch: int
    topic: str
    partition: int
    error: int


class MarkerDelayed(NamedTuple):
    """A marker is sent again later; repetitions with the same error are not reported."""

    producer_id: int
    epoch: int
    topic: str
    partition: int
    error: int


class VerificationRefused(NamedTuple):
    """A batch was refused, because the coordinator did not confirm that its transaction has the partition."""

    transactional_id: str
    producer_id: int
    epoch: int
    topic: str
    partition: int
    error: int


class CoordinatorLoaded(NamedTuple):
    """This broker coordinates the transactions of a partition of `__transaction_state` from here on."""

    partition: int
    leader_epoch: int
    transactional_ids: int


class CoordinatorResigned(NamedTuple):
    """This broker stopped coordinating them."""

    partition: int
    leader_epoch: int


TransactionEvent: TypeAlias = (Began | Decided | Completed | Fenced | MarkerWritten | MarkerDelayed
                               | VerificationRefused | CoordinatorLoaded | CoordinatorResigned)
OnEvent: TypeAlias = Callable[[TransactionEvent], None]


def ignore(_event: TransactionEvent) -> None:
    """Record nothing: the node has no recorder yet."""
