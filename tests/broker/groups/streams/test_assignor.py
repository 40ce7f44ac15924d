"""Assignor `sticky`: balance, stickiness, standby tasks on other processes."""

import random
from collections import Counter

import pytest

from kraft.broker.groups.streams.assignor import Part, Spec, Subject, assign_sticky
from kraft.broker.groups.streams.tasks import NOTHING, TaskSet, count, each_task
from kraft.steps import finish


def assign(members: dict[str, str], parts: dict[str, tuple[int, bool]], replicas: int = 0,
           previous: dict[str, TaskSet] | None = None) -> dict[str, TaskSet]:
    """Assign tasks to members, by id with their processes, and check what always holds."""
    previous = previous or {}
    spec = Spec({each: Subject(process, previous.get(each, NOTHING)) for each, process in members.items()},
                {each: Part(*part) for each, part in parts.items()}, replicas)
    found = finish(assign_sticky(spec))
    assert found == finish(assign_sticky(spec))
    check(members, parts, replicas, found)
    return found


def check(members: dict[str, str], parts: dict[str, tuple[int, bool]], replicas: int,
          found: dict[str, TaskSet]) -> None:
    active = [task for each in found.values() for task in each_task(each.active)]
    assert sorted(active) == [(each, index) for each in sorted(parts) for index in range(parts[each][0])]
    sizes = [count(each.active) for each in found.values()]
    on_process: Counter[tuple[str, tuple[str, int]]] = Counter()
    standby: Counter[tuple[str, int]] = Counter()
    for member_id, tasks in found.items():
        for task in (*each_task(tasks.active), *each_task(tasks.standby)):
            on_process[members[member_id], task] += 1
        standby.update(each_task(tasks.standby))
        assert not tasks.warmup
    assert set(on_process.values()) <= {1}, "a process has a task in one role"
    wanted = min(replicas, len(set(members.values())) - 1)
    assert standby == Counter({task: wanted for task in active if parts[task[0]][1] and wanted})
    if len(set(members.values())) == len(members) and sizes:
        assert max(sizes) - min(sizes) <= 1


def test_members_have_as_many_active_tasks_as_each_other() -> None:
    found = assign({"a": "p", "b": "q", "c": "r"}, {"0": (4, False), "1": (4, True)})
    assert sorted(count(each.active) for each in found.values()) == [2, 3, 3]


def test_processes_with_more_members_get_more_tasks() -> None:
    found = assign({"a": "p", "b": "p", "c": "q"}, {"0": (9, False)})
    assert {each: count(tasks.active) for each, tasks in found.items()} == {"a": 3, "b": 3, "c": 3}


def test_members_keep_their_tasks_when_another_joins() -> None:
    before = assign({"a": "p", "b": "q"}, {"0": (6, False)})
    after = assign({"a": "p", "b": "q", "c": "r"}, {"0": (6, False)}, previous=before)
    for member_id in ("a", "b"):
        assert set(each_task(after[member_id].active)) < set(each_task(before[member_id].active))
    assert count(after["c"].active) == 2


def test_a_standby_task_becomes_active_where_it_was() -> None:
    before = {"a": TaskSet({"0": (0, 1)}, {"0": (5,)}), "b": TaskSet({"0": (2, 3)}, {"0": (4,)})}
    after = assign({"a": "p", "b": "q"}, {"0": (6, True)}, 1, before)
    assert {each: tasks.active for each, tasks in after.items()} == {"a": {"0": (0, 1, 5)}, "b": {"0": (2, 3, 4)}}


def test_standby_tasks_are_fewer_where_processes_are_few() -> None:
    assert assign({"a": "p", "b": "p"}, {"0": (3, True)}, 2)["a"].standby == {}
    assert count(assign({"a": "p", "b": "q"}, {"0": (3, True)}, 2)["a"].standby) > 0


def test_without_members_or_tasks_nothing_is_assigned() -> None:
    assert finish(assign_sticky(Spec({}, {"0": Part(3, True)}, 1))) == {}
    assert assign({"a": "p"}, {}) == {"a": NOTHING}


@pytest.mark.parametrize("seed", range(60))
def test_random_groups_stay_balanced_through_changes(seed: int) -> None:
    rng = random.Random(seed)
    parts = {str(each): (rng.randrange(1, 12), rng.random() < 0.5) for each in range(rng.randrange(1, 5))}
    replicas = rng.randrange(3)
    members = {f"m{each}": f"p{each if rng.random() < 0.7 else 0}" for each in range(rng.randrange(1, 8))}
    found: dict[str, TaskSet] = {}
    for _ in range(4):
        found = assign(members, parts, replicas, found)
        if rng.random() < 0.5 and len(members) > 1:
            del members[rng.choice(sorted(members))]
        else:
            members[f"n{rng.randrange(100)}"] = f"p{rng.randrange(6)}"


def test_a_large_group_is_assigned_in_short_steps() -> None:
    spec = Spec({f"m{each}": Subject(f"p{each}", NOTHING) for each in range(300)}, {"0": Part(3_000, True)}, 1)
    assert sum(1 for _ in assign_sticky(spec)) > 3_000 // 64
