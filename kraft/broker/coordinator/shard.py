"""The loop of one partition of an internal topic: write, replay, and answers that wait for their records.

A handler looks at the state, writes its records as one batch (`write`), and answers (`reply`). The state changes only
by replay, which follows at once when the append succeeded; so a failed append leaves nothing to undo, and the next
request already sees what was written before it.

One rule keeps what was not committed unseen: **an answer leaves when every record that was appended before it is
committed**, its own or not. Reads obey it too, so that nobody is told an offset or a generation that a new leader might
not have. When leadership is lost, the answers that wait turn into NOT_COORDINATOR and the state is dropped; the next
leader has it from the records. An answer that waits longer than `commit_timeout_ms` turns into
COORDINATOR_NOT_AVAILABLE; its records stay, as they may be committed yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError, append_error
from kraft.broker.coordinator.timers import Action, Key, Timers
from kraft.protocol.error_codes import ErrorCode
from kraft_native.errors import KraftError

M = TypeVar("M")


class Record(NamedTuple):
    """A record to append. `value` None deletes what `key` had."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


class StoredRecord(NamedTuple):
    """A record of the partition's log, as replay sees it. `producer_id` is -1 outside transactions."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int = -1


class AppendPort(Protocol):
    """The way to the partitions' logs."""

    def append(self, partition: int, records: Sequence[Record]) -> int:
        """Appends `records` as one batch to the log of `partition` and gives the offset of the first.

        Raises a `KraftError` with Kafka's code when nothing was appended. That they are committed is told later with
        `committed` (or, where nothing has to be waited for, before this returns).
        """


class StateMachine(Protocol):
    """What a coordinator keeps for one partition."""

    def replay(self, record: StoredRecord) -> None:
        """Applies a record that is in the log."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Applies the marker that ends a transaction of `producer_id`."""

    def loaded(self) -> None:
        """The whole log was replayed and the shard serves: arm the timers."""

    def unloaded(self) -> None:
        """The shard stops serving: refuse every answer the state holds."""


class _Waiting(NamedTuple):
    """An answer that waits for the high watermark to reach `end_offset`."""

    end_offset: int
    deadline_ms: int
    answer: Answer[Any]
    response: Any


class Shard:
    """One partition's log end, its answers that wait, and its timers. Used by one thread, which tells it the time."""

    def __init__(self, partition: int, leader_epoch: int, port: AppendPort, commit_timeout_ms: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.now_ms = 0
        self.timers = Timers()
        self.steps_left = 0         # of this `tick`; an action that takes more than one step subtracts the others
        self.end_offset = 0         # after the last record that was appended or loaded
        self.committed_offset = 0   # the high watermark: the end of what is committed
        self._port = port
        self._commit_timeout_ms = commit_timeout_ms
        self._waiting: deque[_Waiting] = deque()
        self._replay: Callable[[StoredRecord], None] | None = None

    def attach(self, replay: Callable[[StoredRecord], None]) -> None:
        """Says where records go once they are appended."""
        self._replay = replay

    # ---------------------------------------------------------------- for handlers

    def write(self, records: Sequence[Record]) -> None:
        """Appends `records` as one batch and replays them; nothing for none.

        Raises RefusedError, with the error that the client gets, when the append failed; then nothing changed.
        """
        if not records:
            return
        try:
            base_offset = self._port.append(self.partition, records)
        except KraftError as error:
            raise RefusedError(append_error(error.code), str(error)) from error
        assert base_offset >= self.end_offset, f"appended at {base_offset}, below the end {self.end_offset}"
        self.end_offset = base_offset + len(records)
        assert self._replay is not None
        for index, record in enumerate(records):
            self._replay(StoredRecord(base_offset + index, record.key, record.value))

    def reply(self, answer: Answer[M], response: M) -> None:
        """Gives `response` as soon as everything that was appended until now is committed."""
        if not self._waiting and self.end_offset <= self.committed_offset:
            answer.give(response)
        else:
            deadline_ms = self.now_ms + self._commit_timeout_ms
            self._waiting.append(_Waiting(self.end_offset, deadline_ms, answer, response))

    def refuse(self, answer: Answer[M], error: ErrorCode, message: str | None = None) -> None:
        """`reply` with the response that tells `error`."""
        self.reply(answer, answer.refusal(error, message))

    def after(self, key: Key, delay_ms: int, action: Action) -> None:
        """Runs `action` in `delay_ms` from now, in place of what `key` had before."""
        self.timers.schedule(key, self.now_ms + delay_ms, action)

    # ---------------------------------------------------------------- for the driver

    def loaded(self, records: Iterable[StoredRecord]) -> None:
        """Replays records of the log, in its order, before the shard serves."""
        assert self._replay is not None
        for record in records:
            self._replay(record)

    def committed(self, offset: int) -> None:
        """The high watermark is `offset`: gives the answers that waited for it."""
        self.committed_offset = max(self.committed_offset, offset)
        while self._waiting and self._waiting[0].end_offset <= self.committed_offset:
            waiting = self._waiting.popleft()
            waiting.answer.give(waiting.response)

    def tick(self, steps_max: int) -> int:
        """Refuses answers that waited too long and runs the timers that are due until `steps_max` steps are taken, and
        none that is armed meanwhile. Gives the steps that are left."""
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
        """When `tick` has something to do; None for never."""
        deadline_ms = self.timers.deadline_ms
        if self._waiting and (deadline_ms is None or self._waiting[0].deadline_ms < deadline_ms):
            return self._waiting[0].deadline_ms
        return deadline_ms

    def close(self) -> None:
        """Refuses every answer that waits: this node does not lead the partition any more. Later ones leave at once."""
        self.timers.clear()
        self.committed_offset = self.end_offset
        while self._waiting:
            answer = self._waiting.popleft().answer
            answer.give(answer.refusal(ErrorCode.NOT_COORDINATOR, None))
