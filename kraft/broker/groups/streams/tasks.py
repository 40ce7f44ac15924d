"""Tasks of a streams application: one for each partition that a subtopology reads (KIP-1071)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

Task: TypeAlias = tuple[str, int]
"""A task by its subtopology and partition."""
Tasks: TypeAlias = Mapping[str, tuple[int, ...]]
"""Partitions by subtopology. Both are in order, and no entry is empty."""
Owned: TypeAlias = Mapping[str, Mapping[int, int]]
"""Partitions by subtopology, each with the epoch in which its member got it (KIP-1251). No entry is empty."""

NO_TASKS: Final[Tasks] = {}
NO_OWNED: Final[Owned] = {}


class TaskSet(NamedTuple):
    """Tasks of one member by role."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NOTHING: Final = TaskSet()


class Held(NamedTuple):
    """Tasks that a member has, by role."""

    active: Owned = NO_OWNED
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> TaskSet:
        """The same without epochs."""
        return TaskSet({subtopology: tuple(sorted(partitions)) for subtopology, partitions in self.active.items()},
                       self.standby, self.warmup)

    @property
    def passive(self) -> Iterator[Task]:
        """Tasks that the member does not process: standby and warm-up tasks."""
        yield from each_task(self.standby)
        yield from each_task(self.warmup)


HOLDS_NOTHING: Final = Held()


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    """Yield every task."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


def count(tasks: Mapping[str, Collection[int]]) -> int:
    """Return the number of tasks."""
    return sum(len(partitions) for partitions in tasks.values())


def sorted_tasks(listed: Iterable[tuple[str, Iterable[int]]]) -> dict[str, tuple[int, ...]]:
    """Return tasks by subtopology, each once and in order, without empty entries."""
    found: dict[str, dict[int, None]] = {}
    for subtopology, partitions in listed:
        found.setdefault(subtopology, {}).update(dict.fromkeys(partitions))
    return {subtopology: tuple(sorted(found[subtopology])) for subtopology in sorted(found) if found[subtopology]}


def names_any(named: TaskSet, held: Held) -> bool:
    """Return whether a member that names its tasks still has any of `held` in the same role."""
    return any(not dict.fromkeys(partitions).keys().isdisjoint(of_role.get(subtopology, ()))
               for role, of_role in zip(named, (held.active, held.standby, held.warmup), strict=True)
               for subtopology, partitions in role.items())


def has_all(held: Held, named: TaskSet) -> bool:
    """Return whether a member has all the tasks that it names, in the same role."""
    return all(dict.fromkeys(partitions).keys() <= dict.fromkeys(of_role.get(subtopology, ())).keys()
               for role, of_role in zip(named, (held.active, held.standby, held.warmup), strict=True)
               for subtopology, partitions in role.items())
