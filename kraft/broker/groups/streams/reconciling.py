"""Step of one member from its current tasks towards its target (KIP-1071, CurrentAssignmentBuilder).

A member first gives up what its target does not have, and says so by no longer naming it. Then it enters the epoch of
the target, with those tasks of it that are free. It gets the others as they become free.

An active task is free under two conditions: no other member has it as active, and no other member of the same process
has it in another role. One thread of a process locks the state of a task. A standby or
warm-up task is free once no other member of the same process has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.streams.member import Current, MemberState
from kraft.broker.groups.streams.tasks import HOLDS_NOTHING, Held, Owned, Task, Tasks, TaskSet, names_any
from kraft.protocol.error_codes import ErrorCode


class Target(NamedTuple):
    """Target of one member."""

    epoch: int
    tasks: TaskSet


class Holders(Protocol):
    """Tasks of the other members."""

    def is_active_free(self, task: Task) -> bool:
        """Return whether the member may process the task."""

    def is_passive_free(self, task: Task) -> bool:
        """Return whether the member may have the task as a standby or warm-up task."""


def next_tasks(current: Current, target: Target, holders: Holders, named: TaskSet | None) -> Current:
    """Return the member's next tasks; `current` itself when it has to wait, or nothing is to be done.

    `named` are the tasks that the member has, as its heartbeat says; None when it says nothing about them. Refuses with
    FENCED_MEMBER_EPOCH a member in an unknown state that has tasks.
    """
    if current.state is MemberState.STABLE:
        if current.epoch == target.epoch:
            return current
        return _towards(current, current.epoch, target, holders, named)
    if current.state is MemberState.UNREVOKED_TASKS:
        if named is None or names_any(named, current.revoking):
            return current
        # A task that comes back to this member was given up by it, so nobody else has it (KAFKA-16147).
        return _towards(current._replace(revoking=HOLDS_NOTHING), min(current.epoch + 1, target.epoch), target, holders,
                        named)
    if current.state is MemberState.UNRELEASED_TASKS:
        return _towards(current, current.epoch, target, holders, named)
    if named is None or not named.is_empty:
        raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, "The streams group member is in a unknown state. The member "
                           "must abandon all its tasks and rejoin.")
    return _towards(current, target.epoch, target, holders, named)


class _Split(NamedTuple):
    """Tasks of one role: those that the member keeps, and those to give up."""

    kept: Tasks
    revoked: Tasks


def _split(tasks: Tasks, wanted: Tasks) -> _Split:
    kept, revoked = {}, {}
    for subtopology, partitions in tasks.items():
        of_target = dict.fromkeys(wanted.get(subtopology, ()))
        kept[subtopology] = tuple(each for each in partitions if each in of_target)
        revoked[subtopology] = tuple(each for each in partitions if each not in of_target)
    return _Split(*({subtopology: each for subtopology, each in part.items() if each} for part in (kept, revoked)))


def _towards(current: Current, epoch: int, target: Target, holders: Holders, named: TaskSet | None) -> Current:
    """Return the next tasks of a member that is in `epoch`."""
    has, wanted = current.assigned, target.tasks
    active, standby, warmup = (_split(tasks, of_target) for tasks, of_target in zip(has.tasks, wanted, strict=True))
    since = has.active
    revoking = Held(_since(since, active.revoked), standby.revoked, warmup.revoked)
    kept = Held(_since(since, active.kept), standby.kept, warmup.kept)
    if not revoking.is_empty and (named is None or names_any(named, revoking)):
        return _entering(current, epoch, MemberState.UNREVOKED_TASKS, kept, revoking)
    got_active, waits_active = _added(active.kept, wanted.active, holders.is_active_free)
    got_standby, waits_standby = _added(standby.kept, wanted.standby, holders.is_passive_free)
    got_warmup, waits_warmup = _added(warmup.kept, wanted.warmup, holders.is_passive_free)
    assigned = Held(
        {subtopology: {index: since.get(subtopology, {}).get(index, target.epoch) for index in partitions}
         for subtopology, partitions in got_active.items()}, got_standby, got_warmup)
    is_waiting = waits_active or waits_standby or waits_warmup
    state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
    return _entering(current, target.epoch, state, assigned, HOLDS_NOTHING)


def _since(since: Owned, tasks: Tasks) -> Owned:
    return {subtopology: {index: since[subtopology][index] for index in partitions}
            for subtopology, partitions in tasks.items()}


def _added(kept: Tasks, wanted: Tasks, is_free: Callable[[Task], bool]) -> tuple[Tasks, bool]:
    """Return the kept tasks with those wanted ones that are free, and whether others are not."""
    found = {}
    is_waiting = False
    for subtopology, partitions in wanted.items():
        has = dict.fromkeys(kept.get(subtopology, ()))
        free = tuple(index for index in partitions if index in has or is_free((subtopology, index)))
        is_waiting = is_waiting or len(free) < len(partitions)
        if free:
            found[subtopology] = free
    return found, is_waiting


def _entering(current: Current, epoch: int, state: MemberState, assigned: Held, revoking: Held) -> Current:
    """Return the tasks in `epoch`. The epoch before it stays known: the answer with the new one may be lost."""
    previous = current.previous_epoch if epoch == current.epoch else current.epoch
    return Current(epoch, previous, state, assigned, revoking)
