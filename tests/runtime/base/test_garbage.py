"""Times of a node's garbage collections."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kraft.runtime.base.garbage import (
    FULL_MS,
    MANY_WAIT_MS_MAX,
    WAIT_MS_MAX,
    YOUNG_AT_ONCE_MAX,
    YOUNG_MIN,
    GarbageSchedule,
)


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def manual() -> Iterator[None]:
    """Disable the automatic collections, as a node does."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def cycle() -> "weakref.ref[Cycle]":
    return weakref.ref(Cycle())


def test_a_node_that_is_idle_frees_cycles() -> None:
    schedule = GarbageSchedule(0)
    garbage, kept = cycle(), [[] for _ in range(YOUNG_MIN)]  # type: ignore[var-annotated]
    schedule.run(1_000, idle=False)
    assert garbage() is not None, "requests wait"
    schedule.run(1_000, idle=True)
    assert garbage() is None and len(kept) == YOUNG_MIN


def test_few_objects_are_not_worth_a_collection() -> None:
    garbage = cycle()
    GarbageSchedule(0).run(1_000, idle=True)
    assert garbage() is not None


@pytest.mark.parametrize(("count", "wait_ms"), [
    (YOUNG_MIN, WAIT_MS_MAX), (YOUNG_AT_ONCE_MAX, MANY_WAIT_MS_MAX)])
def test_a_node_that_is_never_idle_frees_cycles_at_last(count: int, wait_ms: int) -> None:
    """Or one that has very many objects, which take long to examine: those of a large request are not examined."""
    schedule = GarbageSchedule(0)
    garbage, kept = cycle(), [[] for _ in range(count + 1)]  # type: ignore[var-annotated]
    schedule.run(wait_ms - 1, idle=False)
    assert garbage() is not None
    schedule.run(wait_ms, idle=False)
    assert garbage() is None and kept


def test_old_objects_are_collected_now_and_then() -> None:
    schedule = GarbageSchedule(0)
    old = Cycle()
    garbage = weakref.ref(old)
    gc.collect()
    del old
    schedule.run(FULL_MS - 1, idle=True)
    schedule.run(FULL_MS, idle=False)
    assert garbage() is not None
    schedule.run(FULL_MS, idle=True)
    assert garbage() is None
