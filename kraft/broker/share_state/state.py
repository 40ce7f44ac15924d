"""State of one share partition, and the contents of its records.

    Snapshot --> Update --> Update ... --> Snapshot --> Update ...

A snapshot is the whole state. An update has what one write adds, and the new start offset. The state after a load
follows from the last snapshot and the updates behind it. Nothing else fences requests, so it is the same whatever older
records the log still has.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from kraft.broker.share_state.batches import NO_OFFSET, StateBatch, combine, combined
from kraft.protocol.ids import id_text

NO_COUNT: Final = -1
"""Count of finished deliveries that is not known."""
NO_EPOCH: Final = -1
"""Epoch that a request does not state."""


class ShareKey(NamedTuple):
    """Share partition: a partition of a topic as one group reads it."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def text(self) -> str:
        """Key by which its coordinator is found."""
        return f"{self.group_id}:{id_text(self.topic_id)}:{self.partition}"


class Snapshot(NamedTuple):
    """Content of a ShareSnapshot record. Times are milliseconds since 1970."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_ms: int
    write_ms: int
    batches: tuple[StateBatch, ...]


class Update(NamedTuple):
    """Content of a ShareUpdate record."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareState:
    """State of one share partition. `offset` is that of its last snapshot in the log, `updates` the number of updates
    behind that."""

    __slots__ = ("batches", "create_ms", "delivery_complete_count", "leader_epoch", "offset", "snapshot_epoch",
                 "start_offset", "state_epoch", "updates", "write_ms")

    def __init__(self, snapshot: Snapshot, offset: int) -> None:
        self.apply_snapshot(snapshot, offset)

    def apply_snapshot(self, snapshot: Snapshot, offset: int) -> None:
        """Replace the state by that of a snapshot at `offset` of the log."""
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.delivery_complete_count = snapshot.delivery_complete_count
        self.create_ms = snapshot.create_ms
        self.write_ms = snapshot.write_ms
        self.batches = combined(snapshot.batches, snapshot.start_offset)
        self.offset = offset
        self.updates = 0

    def apply_update(self, update: Update) -> None:
        """Apply what a write adds. An epoch or offset that the update does not state remains."""
        if update.start_offset != NO_OFFSET:
            self.start_offset = update.start_offset
        if update.leader_epoch != NO_EPOCH:
            self.leader_epoch = update.leader_epoch
        self.delivery_complete_count = update.delivery_complete_count
        combine(self.batches, update.batches, self.start_offset)
        self.updates += 1

    def snapshot(self, write_ms: int) -> Snapshot:
        """Return the next snapshot of this state."""
        return Snapshot(self.snapshot_epoch + 1, self.state_epoch, self.leader_epoch, self.start_offset,
                        self.delivery_complete_count, self.create_ms, write_ms, tuple(self.batches))


def first_state(update: Update, offset: int) -> ShareState:
    """Return the state of an update without a snapshot before it, as a damaged log may have."""
    return ShareState(Snapshot(update.snapshot_epoch, 0, update.leader_epoch, update.start_offset,
                               update.delivery_complete_count, NO_EPOCH, NO_EPOCH, update.batches), offset)
