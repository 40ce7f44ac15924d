"""State of one transactional id, an immutable value.

    Empty --> Ongoing --> PrepareCommit --> CompleteCommit --> Ongoing ...
                  '-----> PrepareAbort ---> CompleteAbort ---> Ongoing ...

- In *Prepare* states the decision is final, and markers are being written to the partitions.
- In *Complete* states all markers are written.
- InitProducerId returns an ended transaction to Empty, with a higher epoch.

Two identities exist. `producer_id` and `producer_epoch` are those that the partitions know; the markers carry them.
`client` is the identity that the client must present. It differs after an epoch was exhausted, and after a recovered
client kept its prepared transaction (KIP-939); then it is in `next_producer_id` and `next_producer_epoch`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from kraft.structs import immutable

NO_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
EPOCH_MAX: Final = 32_767
"""Epoch of markers only: a client never gets it, so a fence is always possible."""
LAST_CLIENT_EPOCH: Final = EPOCH_MAX - 1
NO_TIMEOUT_MS: Final = 2**31 - 1
"""Time-out of a transaction of two-phase commit, which never times out (KIP-939)."""
EPOCH_PER_TRANSACTION: Final = 2
"""First transaction.version whose clients get a new epoch with each transaction (KIP-890)."""

TopicPartition: TypeAlias = tuple[str, int]


class Status(IntEnum):
    """State of a transaction, with its number in the record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    is_prepared: bool
    """True while markers are being written. An attribute, because every request reads it."""

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return self.name.title().replace("_", "")


for _status in Status:
    _status.is_prepared = _status in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)
LABELS: Final = {status.label: status for status in Status}


class Identity(NamedTuple):
    """Producer id and epoch that a client presents."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """True when the id has no further epoch for a client."""
        return self.epoch >= LAST_CLIENT_EPOCH


@immutable
class Transaction:
    """State of one transactional id. `partitions` keeps the order in which they were added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = NO_TIME
    update_ms: int = NO_TIME
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    next_producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    """Epoch of the client before its present one, if a request with it is a repetition; else NO_EPOCH."""
    client_version: int = 0
    """transaction.version of the client, or of the coordinator that aborted."""

    @property
    def client(self) -> Identity:
        """Identity that the client must present."""
        if self.next_producer_id == NO_ID:
            return Identity(self.producer_id, self.producer_epoch)
        return Identity(self.next_producer_id, max(0, self.next_producer_epoch))

    @property
    def is_two_phase(self) -> bool:
        """True when only its owner or an operator ends the transaction."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def bumps_epoch(self) -> bool:
        """True when the epoch increases with each transaction."""
        return self.client_version >= EPOCH_PER_TRANSACTION

    @property
    def deadline_ms(self) -> int | None:
        """Time when an open transaction times out; None when it does not."""
        if self.status is not Status.ONGOING or self.is_two_phase:
            return None
        return self.start_ms + self.timeout_ms
