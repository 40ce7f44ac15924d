"""Target assignments that are computed by a clock, in steps between requests: common to all groups with a target."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.timers import Key
from kraft.broker.groups.epochs import EpochGroup
from kraft.broker.groups.shard import GroupShard

C = TypeVar("C")

RETRY_MS: Final = 1_000
"""Time until a clock's change that could not be written is tried again."""
STEPS_OF_A_STEP: Final = 16
"""Steps of a tick that one step of an assignor, or one batch of records, uses up."""
RECORDS_AT_ONCE: Final = 128


class TargetJob(NamedTuple):
    """Work on a group's next target. `steps` computes and writes it; they raise RefusedError when a batch could not be
    written. `over` is called when they end, and when the work is outdated."""

    group: EpochGroup[Any]
    steps: Callable[[], Generator[None, None, None]]
    over: Callable[[], None]


class Batch(NamedTuple, Generic[C]):
    """Some changes of members' targets."""

    changes: Sequence[C]
    is_last: bool


def batches(changes: Sequence[C]) -> Iterator[Batch[C]]:
    """Yield the changes of a target in batches, at least one. Each is about members that were in the group when the
    target was computed."""
    for start_at in range(0, max(len(changes), 1), RECORDS_AT_ONCE):
        end = start_at + RECORDS_AT_ONCE
        yield Batch(changes[start_at:end], end >= len(changes))


def is_behind(state: GroupShard, group: EpochGroup[Any]) -> bool:
    """Return whether a group with members needs a target that nothing computes yet. False once it was replaced."""
    return (state.groups.get(group.group_id) is group and not group.is_empty and group.job is None
            and group.epoch > group.target_epoch)


def assign_key(group_id: str) -> Key:
    return "assign", group_id


def schedule(state: GroupShard, job: TargetJob, due_ms: int) -> None:
    """Begin the job at `due_ms`, in place of one that has not begun."""
    state.shard.at(assign_key(job.group.group_id), due_ms, partial(_begin, state, job))


def _begin(state: GroupShard, job: TargetJob) -> None:
    """Begin to compute the group's target, unless it is no longer needed."""
    group = job.group
    if not is_behind(state, group):
        return
    group.job = job.steps()
    _continue(state, job, group.job)


def _continue(state: GroupShard, job: TargetJob, steps: Generator[None, None, None]) -> None:
    """Do as many steps as this tick has room for, and leave the others to the next one."""
    group = job.group
    if state.groups.get(group.group_id) is not group or group.job is not steps:
        job.over()
        return
    while True:
        try:
            next(steps)
        except StopIteration:
            group.job = None
            job.over()
            return
        except RefusedError:
            group.job = None
            schedule(state, job, state.now_ms + RETRY_MS)
            return
        state.shard.steps_left -= STEPS_OF_A_STEP
        if state.shard.steps_left <= 0:
            state.shard.after(assign_key(group.group_id), 0, partial(_continue, state, job, steps))
            return
