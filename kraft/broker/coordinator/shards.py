"""Partitions of an internal topic that this node leads: loading, serving, unloading, and lookup by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.deadlines import Deadlines
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.hashing import partition_of
from kraft.broker.coordinator.shard import AppendPort, Shard, StateMachine, StoredRecord
from kraft.protocol.error_codes import ErrorCode

S = TypeVar("S", bound=StateMachine)

# Limit of one `tick` over all shards together, in timers, groups and offsets that it visits. So an iteration of the
# loop stays short even when thousands of members expire together, or a group has a hundred thousand offsets.
STEPS_PER_TICK = 256


class Phase(Enum):
    """Phase in the life of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class _Entry(Generic[S]):
    __slots__ = ("phase", "shard", "state")

    def __init__(self, shard: Shard, state: S) -> None:
        self.shard = shard
        self.state = state
        self.phase = Phase.LOADING


class Shards(Generic[S]):
    """State machines by partition. The driver reports the events of the partitions; one thread uses it."""

    def __init__(self, port: AppendPort, make_state: Callable[[Shard], S], commit_timeout_ms: int) -> None:
        self.partition_count: int | None = None     # None while the topic does not exist
        self._port = port
        self._make_state = make_state
        self._commit_timeout_ms = commit_timeout_ms
        self._entries: dict[int, _Entry[S]] = {}
        self.deadlines = Deadlines()

    # ---------------------------------------------------------------- lookup

    def partition_for(self, key: str) -> int:
        """Return the partition that serves `key`; refuse with NOT_COORDINATOR while the topic does not exist."""
        if not self.partition_count:
            raise RefusedError(ErrorCode.NOT_COORDINATOR)
        return partition_of(key, self.partition_count)

    def serving(self, partition: int, now_ms: int) -> tuple[Shard, S]:
        """Return the shard of `partition`; refuse with NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        entry = self._entries.get(partition)
        if entry is None or entry.phase is Phase.FAILED:
            raise RefusedError(ErrorCode.NOT_COORDINATOR)
        if entry.phase is Phase.LOADING:
            raise RefusedError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        entry.shard.now_ms = max(entry.shard.now_ms, now_ms)
        return entry.shard, entry.state

    def for_key(self, key: str, now_ms: int) -> tuple[Shard, S]:
        """Return the shard that serves `key`; refuse like `partition_for` and `serving`."""
        return self.serving(self.partition_for(key), now_ms)

    def run(self, partition: int, answer: Answer[Any], now_ms: int, act: Callable[[S], None]) -> None:
        """Run `act` on the state of `partition`. A refusal, also one of `act`, becomes the answer."""
        try:
            shard, state = self.serving(partition, now_ms)
        except RefusedError as refused:
            answer.give(answer.refusal(refused.error))
            return
        _act(shard, state, answer, act)

    def run_for_key(self, key: str, answer: Answer[Any], now_ms: int, act: Callable[[S], None]) -> None:
        """Run `act` on the state that serves `key`, like `run`."""
        try:
            shard, state = self.for_key(key, now_ms)
        except RefusedError as refused:
            answer.give(answer.refusal(refused.error))
            return
        _act(shard, state, answer, act)

    def partitions(self) -> list[int]:
        """Return the partitions that this node leads, including loading ones, in order."""
        return sorted(self._entries)

    def phase(self, partition: int) -> Phase | None:
        """Return the phase of the shard of `partition`; None when this node does not lead it."""
        entry = self._entries.get(partition)
        return entry.phase if entry else None

    # ---------------------------------------------------------------- leadership

    def start_load(self, partition: int, leader_epoch: int) -> bool:
        """Begin to load a partition that this node leads now: requests get COORDINATOR_LOAD_IN_PROGRESS until
        `finish_load`.

        Return False when there is nothing to load: the shard serves or loads already. A leader that stays leader in a
        newer epoch has all of its log, so its memory state and its waiting answers stay valid.
        """
        entry = self._entries.get(partition)
        if entry is not None and entry.phase is not Phase.FAILED:
            entry.shard.leader_epoch = max(entry.shard.leader_epoch, leader_epoch)
            return False
        shard = Shard(partition, leader_epoch, self._port, self._commit_timeout_ms, self.deadlines)
        state = self._make_state(shard)
        shard.attach(state.replay)
        self._entries[partition] = _Entry(shard, state)
        return True

    def loading(self, partition: int) -> Shard | None:
        """Return the shard of `partition` while it loads. It is a new object each time that this node becomes the
        leader."""
        entry = self._entries.get(partition)
        return entry.shard if entry is not None and entry.phase is Phase.LOADING else None

    def load(self, partition: int, records: Iterable[StoredRecord]) -> None:
        """Replay records of the log, in its order, data and markers alternating with `load_marker`."""
        self._loading(partition).shard.loaded(records)

    def load_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        """Replay the marker that ends a transaction."""
        self._loading(partition).state.replay_marker(producer_id, committed)

    def finish_load(self, partition: int, end_offset: int, high_watermark: int, now_ms: int) -> None:
        """Let the shard serve: everything below `end_offset` was replayed."""
        entry = self._loading(partition)
        shard = entry.shard
        shard.now_ms = now_ms
        shard.end_offset = end_offset
        shard.committed_offset = min(high_watermark, end_offset)
        entry.phase = Phase.ACTIVE
        entry.state.loaded()

    def fail_load(self, partition: int) -> None:
        """Give up a log that could not be read: requests get NOT_COORDINATOR until the next election."""
        self._loading(partition).phase = Phase.FAILED

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        """Drop a partition that this node stopped leading in `leader_epoch` (None: it was deleted). Older epochs are
        ignored."""
        entry = self._entries.get(partition)
        if entry is not None and (leader_epoch is None or leader_epoch > entry.shard.leader_epoch):
            self._drop(partition)

    # ---------------------------------------------------------------- time and progress

    def committed(self, partition: int, high_watermark: int, now_ms: int) -> None:
        """Advance the high watermark of `partition`; ignored for partitions that do not serve."""
        entry = self._entries.get(partition)
        if entry is not None and entry.phase is Phase.ACTIVE:
            entry.shard.now_ms = max(entry.shard.now_ms, now_ms)
            entry.shard.committed(high_watermark)

    def marker_appended(self, partition: int, producer_id: int, committed: bool, end_offset: int, now_ms: int) -> None:
        """Apply a transaction's marker that another part of the node appended; it ends at `end_offset`. Ignored for
        partitions that do not serve: one that loads reads the marker from the log."""
        entry = self._entries.get(partition)
        if entry is not None and entry.phase is Phase.ACTIVE:
            entry.shard.now_ms = max(entry.shard.now_ms, now_ms)
            entry.shard.appended(end_offset, partial(entry.state.replay_marker, producer_id, committed))

    def tick(self, now_ms: int) -> None:
        """Run what is due, at most `STEPS_PER_TICK`; the shards that have waited longest come first."""
        due = [(deadline_ms, shard.partition, shard) for shard, _ in self.active(now_ms)
               if (deadline_ms := shard.deadline_ms) is not None and deadline_ms <= now_ms]
        steps = STEPS_PER_TICK
        for _, _, shard in sorted(due):
            steps = shard.tick(steps)

    @property
    def deadline_ms(self) -> int | None:
        """Latest time for the next `tick`; None when none is needed."""
        return self.deadlines.first_ms

    def active(self, now_ms: int) -> Iterator[tuple[Shard, S]]:
        """Yield every shard that serves, by partition."""
        for partition in self.partitions():
            entry = self._entries.get(partition)
            if entry is not None and entry.phase is Phase.ACTIVE:
                entry.shard.now_ms = max(entry.shard.now_ms, now_ms)
                yield entry.shard, entry.state

    def _loading(self, partition: int) -> _Entry[S]:
        entry = self._entries.get(partition)
        assert entry is not None, f"partition {partition} is not loading"
        assert entry.phase is Phase.LOADING, f"partition {partition} is not loading but {entry.phase.value}"
        return entry

    def _drop(self, partition: int) -> None:
        entry = self._entries.pop(partition)
        if entry.phase is Phase.ACTIVE:
            entry.shard.close()
            entry.state.unloaded()


def _act(shard: Shard, state: S, answer: Answer[Any], act: Callable[[S], None]) -> None:
    try:
        act(state)
    except RefusedError as refused:
        shard.refuse(answer, refused.error, str(refused))
