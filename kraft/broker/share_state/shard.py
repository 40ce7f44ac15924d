"""States of the share partitions of one partition of `__share_group_state`, and the decisions about them.

A decision reads a state and writes one record, or none. Epochs fence requests:

| request | refused when |
|---|---|
| initialize | its state epoch is lower: FENCED_STATE_EPOCH |
| read | its leader epoch is lower: FENCED_LEADER_EPOCH |
| write | its leader epoch or its state epoch is lower |

An initialization begins a state epoch. Repeated in the same epoch it changes nothing, unless it raises the start offset
(KAFKA-19204): a request that arrives twice must not drop what was written meanwhile. A read by a leader with another
epoch writes that epoch, so the previous leader is fenced before the new one delivers a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from uuid import UUID

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Shard, StoredRecord
from kraft.broker.share_state import upkeep
from kraft.broker.share_state.batches import NO_OFFSET, StateBatch, combined
from kraft.broker.share_state.config import ShareCoordinatorConfig
from kraft.broker.share_state.records import decode, record_of, tombstone_of
from kraft.broker.share_state.state import NO_COUNT, NO_EPOCH, ShareKey, ShareState, Snapshot, Update, first_state
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.write_share_group_state_request import PartitionData

NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
NEGATIVE_STATE_EPOCH: Final = "The state epoch cannot be a negative number."
READ_UNINITIALIZED: Final = "Read operation on uninitialized share partition not allowed."
WRITE_UNINITIALIZED: Final = "Write operation on uninitialized share partition not allowed."
FIRST_LEADER_EPOCH: Final = 0
"""Leader epoch of a state that no leader has read yet."""


class TopicView(Protocol):
    """Queries of the coordinator to the cluster's metadata."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic; None when no topic has this id."""

    def has_partition(self, name: str, partition: int) -> bool:
        """Return whether the topic exists and has that partition."""

    @property
    def is_current(self) -> bool:
        """Return whether the metadata has all that was committed before this process started."""


class LogPruning(Protocol):
    """Function that removes what the log of a partition of `__share_group_state` has below an offset."""

    def __call__(self, partition: int, before_offset: int) -> None:
        """Remove the records. They are committed, and nothing needs them."""


class Environment:
    """Common parts of all shards of a coordinator. `config` may be replaced at runtime."""

    __slots__ = ("config", "prune", "topics")

    def __init__(self, config: ShareCoordinatorConfig, topics: TopicView, prune: LogPruning) -> None:
        self.config = config
        self.topics = topics
        self.prune = prune


class ShareStateShard:
    """State machine of one partition. Only `replay` and what `_write` applies change what outlives a restart."""

    def __init__(self, shard: Shard, environment: Environment) -> None:
        self.shard = shard
        self.environment = environment
        self.states: dict[ShareKey, ShareState] = {}
        """States in the order of their snapshots in the log."""
        self.keys_of: dict[UUID, dict[ShareKey, None]] = {}
        """Keys of the states by topic."""
        self.needed_count = 0
        """Records that a load needs: the last snapshot of each state, and the updates behind it."""
        self.pruned_offset = 0
        """Offset below which the log was pruned last."""
        self.lost_keys: dict[ShareKey, None] = {}
        """Share partitions of deleted topics whose states are to be deleted."""
        self.unknown_topics: dict[UUID, None] = {}
        """Topics that the metadata did not have at the last upkeep."""

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    # ---------------------------------------------------------------- decisions

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Begin a state epoch, with this start offset. Raises RefusedError; then nothing changed."""
        if state_epoch < 0:
            raise RefusedError(ErrorCode.INVALID_REQUEST, NEGATIVE_STATE_EPOCH)
        state = self.states.get(key)
        if state is not None and state.state_epoch > state_epoch:
            raise RefusedError(ErrorCode.FENCED_STATE_EPOCH)
        self.require_partition(key)
        if state is not None and state.state_epoch == state_epoch and start_offset <= state.start_offset:
            return
        self._write(key, Snapshot(
            0 if state is None else state.snapshot_epoch + 1, state_epoch, FIRST_LEADER_EPOCH, start_offset,
            NO_COUNT if start_offset == NO_OFFSET else 0, self.now_ms, self.now_ms, ()))

    def write(self, key: ShareKey, written: PartitionData) -> None:
        """Add what a leader decided. The start offset never decreases within a state epoch. Raises RefusedError; then
        nothing changed."""
        state = self._initialized(key, WRITE_UNINITIALIZED)
        self._fence_leader(state, written.leader_epoch)
        if written.state_epoch != NO_EPOCH and written.state_epoch < state.state_epoch:
            raise RefusedError(ErrorCode.FENCED_STATE_EPOCH)
        self.require_partition(key)
        count = written.delivery_complete_count
        if written.start_offset < state.start_offset:
            count = state.delivery_complete_count
        elif written.start_offset == state.start_offset:
            count = max(count, state.delivery_complete_count)
        self._advance(key, state, state.leader_epoch, max(written.start_offset, state.start_offset), count, (
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in written.state_batches))

    def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state for the leader with that epoch, and write the epoch when it is a new one. Raises
        RefusedError; then nothing changed."""
        state = self._initialized(key, READ_UNINITIALIZED)
        self._fence_leader(state, leader_epoch)
        self.require_partition(key)
        if leader_epoch not in (NO_EPOCH, state.leader_epoch):
            self._advance(key, state, leader_epoch, state.start_offset, state.delivery_complete_count, ())
        return state

    def summary(self, key: ShareKey) -> ShareState | None:
        """Return the state; None when it is not initialized. Raises RefusedError."""
        self.require_partition(key)
        return self.states.get(key)

    def delete(self, key: ShareKey) -> None:
        """Delete the state, if there is one. Raises RefusedError; then nothing changed."""
        self.require_partition(key)
        if key in self.states:
            self.remove([key])

    def require_partition(self, key: ShareKey) -> None:
        """Refuse a share partition whose partition does not exist."""
        topics = self.environment.topics
        name = topics.topic_name(key.topic_id)
        if name is None or not topics.has_partition(name, key.partition):
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _initialized(self, key: ShareKey, refusal: str) -> ShareState:
        state = self.states.get(key)
        if state is None:
            raise RefusedError(ErrorCode.INVALID_REQUEST, refusal)
        return state

    def _fence_leader(self, state: ShareState, leader_epoch: int) -> None:
        if leader_epoch != NO_EPOCH and leader_epoch < state.leader_epoch:
            raise RefusedError(ErrorCode.FENCED_LEADER_EPOCH)

    def _advance(self, key: ShareKey, state: ShareState, leader_epoch: int, start_offset: int, count: int,
                 batches: Iterable[StateBatch]) -> None:
        """Write an update, or a snapshot when the last one has its number of updates."""
        added = tuple(combined(batches, start_offset))
        if state.updates < self.environment.config.updates_per_snapshot:
            self._write(key, Update(state.snapshot_epoch, leader_epoch, start_offset, count, added))
        else:
            self._write(key, Snapshot(
                state.snapshot_epoch + 1, state.state_epoch, leader_epoch, start_offset, count, self.now_ms,
                self.now_ms, tuple(combined((*state.batches, *added), start_offset))))

    def snapshot(self, key: ShareKey) -> None:
        """Write the state as it is, so that older records of it are not needed. Raises RefusedError."""
        self._write(key, self.states[key].snapshot(self.now_ms))

    def _write(self, key: ShareKey, content: Snapshot | Update) -> None:
        self.shard.write([record_of(key, content, self.now_ms)],
                         apply=lambda: self._apply(key, content, self.shard.end_offset - 1))

    def remove(self, keys: list[ShareKey]) -> None:
        """Delete states, in one batch. Raises RefusedError; then nothing changed."""
        def apply() -> None:
            for key in keys:
                self._drop(key)

        self.shard.write([tombstone_of(key, self.now_ms) for key in keys], apply=apply)

    # ---------------------------------------------------------------- replay

    def replay(self, record: StoredRecord) -> None:
        """Apply a record of the log. Raises a KraftError when it is malformed; then nothing changed."""
        replayed = decode(record)
        if replayed is None:
            return
        if replayed.content is None:
            self._drop(replayed.key)
        else:
            self._apply(replayed.key, replayed.content, record.offset)

    def _apply(self, key: ShareKey, content: Snapshot | Update, offset: int) -> None:
        state = self.states.get(key)
        if state is None:
            self.keys_of.setdefault(key.topic_id, {})[key] = None
            self.states[key] = ShareState(content, offset) if isinstance(content, Snapshot) else first_state(
                content, offset)
        elif isinstance(content, Snapshot):
            self.needed_count -= 1 + state.updates
            del self.states[key]
            self.states[key] = ShareState(content, offset)
        else:
            state.apply_update(content)
        self.needed_count += 1

    def _drop(self, key: ShareKey) -> None:
        state = self.states.pop(key, None)
        if state is not None:
            self.needed_count -= 1 + state.updates
            keys = self.keys_of[key.topic_id]
            del keys[key]
            if not keys:
                del self.keys_of[key.topic_id]

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Do nothing: no transaction writes to this topic."""

    def loaded(self) -> None:
        """Schedule the upkeep."""
        upkeep.schedule(self)

    def unloaded(self) -> None:
        """Forget the states: this node stopped coordinating them."""
        self.states.clear()
        self.keys_of.clear()
        self.lost_keys.clear()
        self.needed_count = 0
