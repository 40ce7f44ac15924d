"""Loop of one partition of an internal topic: write, replay, and answers that wait for their records.

A handler reads the state, writes its records as one batch (`write`), and answers (`reply`). The state changes only by
replay, immediately after a successful append. So a failed append leaves nothing to undo, and the next request already
sees everything written before it.

One rule keeps uncommitted state invisible: **an answer leaves when every record that was appended before it is
committed**, its own or not. Reads obey it too. Otherwise a client could learn an offset or a generation that a new
leader might not have.

A commit may be reported in the middle of an append, by the only in-sync replica for one. It is noted; the answers and
actions that it releases continue when the append is replayed. An action that writes is over before the next one begins.
So records are replayed in the order of the log, however many actions wait for one commit.

- When leadership is lost, the waiting answers become NOT_COORDINATOR and the state is dropped; the next leader rebuilds
  it from the records.
- An answer that waits longer than `commit_timeout_ms` becomes COORDINATOR_NOT_AVAILABLE. Its records stay, as they may
  still be committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.deadlines import Deadlines
from kraft.broker.coordinator.errors import RefusedError, append_error
from kraft.broker.coordinator.timers import Action, Key, Timers
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import KraftError

M = TypeVar("M")


class Record(NamedTuple):
    """A record to append. `value` None deletes the value of `key`."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


class Producer(NamedTuple):
    """Id and epoch of a producer whose transaction a batch belongs to."""

    producer_id: int
    epoch: int


class StoredRecord(NamedTuple):
    """A record of the partition's log for replay. `producer_id` is -1 outside transactions."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int = -1


class AppendPort(Protocol):
    """Interface to the partitions' logs."""

    def append(self, partition: int, records: Sequence[Record], producer: Producer | None = None) -> int:
        """Append `records` as one batch to the log of `partition` and return the offset of the first. With `producer`
        the batch belongs to the open transaction of that producer.

        Raises a `KraftError` with Kafka's code when nothing was appended. `committed` reports the commit later, or
        before this returns when there is nothing to wait for.
        """

    def watch(self, partition: int, end_offset: int) -> None:
        """Report with `committed`, now or later, that everything below `end_offset` is committed."""


class StateMachine(Protocol):
    """State of a coordinator for one partition."""

    def replay(self, record: StoredRecord) -> None:
        """Apply a record that is in the log."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Apply the marker that ends a transaction of `producer_id`."""

    def loaded(self) -> None:
        """Arm the timers: the whole log was replayed and the shard serves."""

    def unloaded(self) -> None:
        """Refuse every answer that the state holds: the shard stops serving."""


class _Waiting(NamedTuple):
    """An answer that waits for the high watermark to reach `end_offset`."""

    end_offset: int
    deadline_ms: int
    answer: Answer[Any]
    response: Any


class Shard:
    """Log end of one partition, its waiting answers, and its timers. Used by one thread, which passes the time."""

    def __init__(self, partition: int, leader_epoch: int, port: AppendPort, commit_timeout_ms: int,
                 deadlines: Deadlines | None = None) -> None:
        """`deadlines` are those of all shards of the coordinator."""
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.now_ms = 0
        self.timers = Timers()
        self.steps_left = 0         # of this `tick`; longer actions subtract their other steps
        self.end_offset = 0         # after the last record that was appended or loaded
        self.committed_offset = 0   # the high watermark: the end of what is committed
        self._port = port
        self._deadlines = Deadlines() if deadlines is None else deadlines
        self._commit_timeout_ms = commit_timeout_ms
        self._waiting: deque[_Waiting] = deque()
        self._after_commit: deque[tuple[int, Action]] = deque()
        self._is_busy = False       # a write or a release is under way, which releases at its end what is committed
        self._replay: Callable[[StoredRecord], None] | None = None

    def attach(self, replay: Callable[[StoredRecord], None]) -> None:
        """Set the function that applies records once they are appended."""
        self._replay = replay

    # ---------------------------------------------------------------- for handlers

    def write(self, records: Sequence[Record], producer: Producer | None = None,
              apply: Action | None = None) -> None:
        """Append `records` as one batch, in the transaction of `producer`, and replay them; do nothing for none.
        `apply` does what their replay would do, for a caller that has their content decoded.

        Raises RefusedError, with the error for the client, when the append failed; then nothing changed.
        """
        if not records:
            return
        was_busy, self._is_busy = self._is_busy, True
        try:
            self._append(records, producer, apply)
        finally:
            self._is_busy = was_busy
        self._release()

    def _append(self, records: Sequence[Record], producer: Producer | None, apply: Action | None) -> None:
        try:
            base_offset = self._port.append(self.partition, records, producer)
        except KraftError as error:
            raise RefusedError(append_error(error.code), str(error)) from error
        assert base_offset >= self.end_offset, f"appended at {base_offset}, below the end {self.end_offset}"
        self.end_offset = base_offset + len(records)
        if apply is not None:
            apply()
            return
        assert self._replay is not None
        producer_id = -1 if producer is None else producer.producer_id
        for index, record in enumerate(records):
            self._replay(StoredRecord(base_offset + index, record.key, record.value, producer_id))

    def reply(self, answer: Answer[M], response: M) -> None:
        """Send `response` as soon as everything appended until now is committed."""
        if not self._waiting and self.end_offset <= self.committed_offset:
            answer.give(response)
        else:
            deadline_ms = self.now_ms + self._commit_timeout_ms
            self._waiting.append(_Waiting(self.end_offset, deadline_ms, answer, response))
            self._deadlines.note(self, deadline_ms)

    def refuse(self, answer: Answer[M], error: ErrorCode, message: str | None = None) -> None:
        """Send the response for `error` with `reply`."""
        self.reply(answer, answer.refusal(error, message))

    def after_commit(self, action: Action) -> None:
        """Run `action` as soon as everything appended until now is committed; never when this leadership ends before.
        Unlike an answer it waits without limit."""
        self._after_commit.append((self.end_offset, action))
        self._release()

    def after(self, key: Key, delay_ms: int, action: Action) -> None:
        """Run `action` in `delay_ms` from now, replacing the timer of `key`."""
        self.at(key, self.now_ms + delay_ms, action)

    def at(self, key: Key, deadline_ms: int, action: Action) -> None:
        """Run `action` at `deadline_ms`, replacing the timer of `key`."""
        self.timers.schedule(key, deadline_ms, action)
        self._deadlines.note(self, deadline_ms)

    # ---------------------------------------------------------------- for the driver

    def loaded(self, records: Iterable[StoredRecord]) -> None:
        """Replay records of the log, in its order, before the shard serves."""
        assert self._replay is not None
        for record in records:
            self._replay(record)

    def appended(self, end_offset: int, apply: Action) -> None:
        """Count what another part of the node appended up to `end_offset`, and replay it by `apply`: later answers wait
        for its commit too."""
        assert end_offset >= self.end_offset, f"appended up to {end_offset}, below the end {self.end_offset}"
        self.end_offset = end_offset
        apply()
        self._port.watch(self.partition, end_offset)

    def committed(self, offset: int) -> None:
        """Send the answers, and run the actions, that waited for the high watermark `offset`; later when this is called
        during a write or by one of them."""
        self.committed_offset = max(self.committed_offset, offset)
        self._release()

    def _release(self) -> None:
        """Send the answers, then run the actions, whose records are committed. Both may write, and wait for what is
        committed at once."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while True:
                if self._waiting and self._waiting[0].end_offset <= self.committed_offset:
                    waiting = self._waiting.popleft()
                    waiting.answer.give(waiting.response)
                elif self._after_commit and self._after_commit[0][0] <= self.committed_offset:
                    self._after_commit.popleft()[1]()
                else:
                    return
        finally:
            self._is_busy = False

    def tick(self, steps_max: int) -> int:
        """Refuse answers that waited too long, then run due timers until `steps_max` steps are used. Timers armed
        meanwhile are not run. Return the remaining steps."""
        while self._waiting and self._waiting[0].deadline_ms <= self.now_ms:
            answer = self._waiting.popleft().answer
            answer.give(answer.refusal(append_error(ErrorCode.REQUEST_TIMED_OUT), None))
        self.steps_left = steps_max
        armed = self.timers.armed
        while self.steps_left > 0 and (action := self.timers.take_due(self.now_ms, armed)) is not None:
            self.steps_left -= 1
            action()
        return self.steps_left

    @property
    def deadline_ms(self) -> int | None:
        """Time when `tick` has something to do; None for never."""
        deadline_ms = self.timers.deadline_ms
        if self._waiting and (deadline_ms is None or self._waiting[0].deadline_ms < deadline_ms):
            return self._waiting[0].deadline_ms
        return deadline_ms

    def close(self) -> None:
        """Refuse every waiting answer: this node stopped leading the partition. Later answers leave at once."""
        self.timers.clear()
        self._after_commit.clear()
        self.committed_offset = self.end_offset
        while self._waiting:
            answer = self._waiting.popleft().answer
            answer.give(answer.refusal(ErrorCode.NOT_COORDINATOR, None))
