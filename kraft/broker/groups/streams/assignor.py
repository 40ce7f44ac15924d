"""Assignor `sticky` for tasks, by the rules of Kafka's StickyTaskAssignor:

1. A member keeps its active tasks, and gets those that it had as standby tasks, up to its part of all active tasks.
2. The remaining active tasks go to the process with the fewest tasks per member, and there to the member with fewest.
3. Standby tasks of stateful subtopologies go to processes that do not have the task: first to its previous members up
   to their part of all tasks, then by load. There are fewer of them when there are fewer processes.

It is pure, gives the same result for the same input, and works in steps. It assigns no warm-up tasks: version 0 of the
protocol has no offsets by which they would end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple

from kraft.broker.groups.streams.tasks import Task, TaskSet, each_task, sorted_tasks

STEP: Final = 64
"""Tasks or members that one step visits."""


class Subject(NamedTuple):
    """Member of a group, its process and its previous target."""

    process_id: str
    previous: TaskSet


class Part(NamedTuple):
    """Number of tasks of a subtopology, and whether they have a state."""

    tasks: int
    is_stateful: bool


class Spec(NamedTuple):
    """Members by id, subtopologies by id, and the number of standby tasks for each task with a state."""

    members: Mapping[str, Subject]
    parts: Mapping[str, Part]
    standby_replicas: int = 0


def assign_sticky(spec: Spec) -> Generator[None, None, dict[str, TaskSet]]:
    """Return the tasks of each member, in steps."""
    if not spec.members:
        return {}
    work = _Work(spec)
    yield from work.remember()
    active = [(subtopology, partition) for subtopology, part in spec.parts.items() for partition in range(part.tasks)]
    yield from work.assign_active(active)
    if spec.standby_replicas > 0:
        yield from work.assign_standby([task for task in active if spec.parts[task[0]].is_stateful])
    return {member_id: TaskSet(_by_subtopology(work.active[member_id]), _by_subtopology(work.standby[member_id]))
            for member_id in spec.members}


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, tuple[int, ...]]:
    return sorted_tasks((subtopology, (partition,)) for subtopology, partition in tasks)


class _Process:
    """Members of one process, and how many tasks each has."""

    __slots__ = ("_by_load", "counts", "number", "tasks", "total")

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts: dict[str, int] = {}
        self.tasks: dict[Task, None] = {}
        self.total = 0
        self._by_load: list[tuple[int, str]] | None = None

    @property
    def load(self) -> float:
        """Tasks for each member."""
        return self.total / len(self.counts)

    def add(self, member_id: str, task: Task) -> int:
        """Give the task to a member; return how many it has now."""
        self._by_load = None
        return self._add(member_id, task)

    def _add(self, member_id: str, task: Task) -> int:
        self.total += 1
        self.tasks[task] = None
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_to_least(self, task: Task) -> tuple[str, int]:
        """Give the task to the member with the fewest; return it, and how many it has now."""
        if self._by_load is None:
            self._by_load = [(count, member_id) for member_id, count in self.counts.items()]
            heapify(self._by_load)
        member_id = self._by_load[0][1]
        count = self._add(member_id, task)
        heapreplace(self._by_load, (count, member_id))
        return member_id, count


class _Quota:
    """Number of tasks that each member may have, so that none has more than it must."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = -(-tasks // members) if members else 0

    def note(self, count: int) -> None:
        """Count a member that has `count` tasks now. Once it has its part, the others share what is left."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = -(-self._tasks // self._members) if self._members else 0


class _Work:
    """An assignment in the making."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[Task, str] = {}
        self._had_standby: dict[Task, list[str]] = {}
        active = sum(part.tasks for part in spec.parts.values())
        standby = spec.standby_replicas * sum(part.tasks for part in spec.parts.values() if part.is_stateful)
        self._active_quota = _Quota(active, len(spec.members))
        self._quota = _Quota(active + standby, len(spec.members))
        self.active: dict[str, list[Task]] = {member_id: [] for member_id in spec.members}
        self.standby: dict[str, list[Task]] = {member_id: [] for member_id in spec.members}

    def remember(self) -> Generator[None, None, None]:
        """Note which members had a task."""
        for number, member_id in enumerate(sorted(self._spec.members)):
            process_id, previous = self._spec.members[member_id]
            process = self._processes.setdefault(process_id, _Process(len(self._processes)))
            process.counts[member_id] = 0
            self._had_active.update((task, member_id) for task in each_task(previous.active))
            for task in each_task(previous.standby):
                self._had_standby.setdefault(task, []).append(member_id)
            if number % STEP == STEP - 1:
                yield

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._spec.members[member_id].process_id]

    def _heap(self) -> list[tuple[float, int, _Process]]:
        """Return the processes by load."""
        heap = [(each.load, each.number, each) for each in self._processes.values()]
        heapify(heap)
        return heap

    def _least_loaded(self, member_ids: Iterable[str], task: Task | None = None) -> str | None:
        """Return the member with the lowest load, among those whose process does not have `task`."""
        members = []
        for member_id in member_ids:
            process = self._process_of(member_id)
            if task is None or task not in process.tasks:
                members.append((process.load, process.counts[member_id], member_id))
        return min(members)[2] if members else None

    # ---------------------------------------------------------------- active tasks

    def assign_active(self, tasks: list[Task]) -> Generator[None, None, None]:
        """Assign each of these tasks to a member that processes it."""
        tasks.sort()
        remaining = yield from self._keep(tasks, self._had_active.get)
        remaining = yield from self._keep(remaining, lambda task: self._least_loaded(self._had_standby.get(task, ())))
        remaining.sort(key=lambda task: (task[1], task[0]))
        heap = self._heap()
        for number, task in enumerate(remaining):
            process = heap[0][2]
            member_id, count = process.add_to_least(task)
            self._note_active(member_id, task, count)
            heapreplace(heap, (process.load, process.number, process))
            if number % STEP == STEP - 1:
                yield

    def _keep(self, tasks: list[Task], previous: Callable[[Task], str | None]) -> Generator[None, None, list[Task]]:
        """Assign tasks to their previous members that have room; return the others."""
        others = []
        for number, task in enumerate(tasks):
            member_id = previous(task)
            if member_id is not None and self._process_of(member_id).counts[member_id] < self._active_quota.each:
                self._note_active(member_id, task, self._process_of(member_id).add(member_id, task))
            else:
                others.append(task)
            if number % STEP == STEP - 1:
                yield
        return others

    def _note_active(self, member_id: str, task: Task, count: int) -> None:
        self.active[member_id].append(task)
        self._active_quota.note(count)
        self._quota.note(count)

    # ---------------------------------------------------------------- standby tasks

    def assign_standby(self, tasks: list[Task]) -> Generator[None, None, None]:
        """Assign standby tasks for each of these tasks, as many as there are processes for."""
        remaining: list[tuple[Task, int]] = []
        tasks.sort(reverse=True)
        for number, task in enumerate(tasks):
            for done in range(self._spec.standby_replicas):
                member_id = self._previous_for_standby(task)
                if member_id is None:
                    remaining.append((task, self._spec.standby_replicas - done))
                    break
                self._note_standby(member_id, task, self._process_of(member_id).add(member_id, task))
            if number % STEP == STEP - 1:
                yield
        heap = self._heap()
        for number, (task, replicas) in enumerate(remaining):
            for _ in range(replicas):
                if not self._to_least_loaded(heap, task):
                    break
            if number % STEP == STEP - 1:
                yield

    def _previous_for_standby(self, task: Task) -> str | None:
        """Return a member that had the task, has room, and whose process does not have the task now."""
        active = self._had_active.get(task)
        for candidates in ((active,) if active is not None else (), self._had_standby.get(task, ())):
            member_id = self._least_loaded(candidates, task)
            if member_id is not None and self._process_of(member_id).counts[member_id] < self._quota.each:
                return member_id
        return None

    def _to_least_loaded(self, heap: list[tuple[float, int, _Process]], task: Task) -> bool:
        """Assign a standby task to the process with the lowest load that does not have the task; False without any."""
        passed = []
        while heap and task in heap[0][2].tasks:
            passed.append(heappop(heap))
        found = bool(heap)
        if found:
            process = heap[0][2]
            member_id, count = process.add_to_least(task)
            self._note_standby(member_id, task, count)
            heapreplace(heap, (process.load, process.number, process))
        for each in passed:
            heappush(heap, each)
        return found

    def _note_standby(self, member_id: str, task: Task, count: int) -> None:
        self.standby[member_id].append(task)
        self._quota.note(count)
