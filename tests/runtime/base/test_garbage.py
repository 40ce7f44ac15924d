"""Times of a node's garbage collections."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kraft.runtime.base.garbage import (
    EVERYTHING_MS,
    FULL_MS,
    MANY_WAIT_MS_MAX,
    OLD_AT_ONCE_MAX,
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
    gc.unfreeze()
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


class Examined:
    """Spy on the collections: how many objects each one examines at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: list[int] = []
        real = gc.collect
        self._base = [len(gc.get_objects(each)) for each in range(3)]

        def collect(generation: int = 2) -> int:
            self.counts.append(sum(max(0, len(gc.get_objects(each)) - (self._base[2] if each == 2 else 0))
                                   for each in range(generation + 1)))
            found = real(generation)
            self._base[2] *= generation < 2        # what survives is frozen
            return found

        monkeypatch.setattr(gc, "collect", collect)


def test_no_collection_examines_very_many_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there become."""
    schedule = GarbageSchedule(0)
    examined, kept, now_ms = Examined(monkeypatch), [], 0
    for _ in range(40):
        kept += [[] for _ in range(YOUNG_AT_ONCE_MAX - 1_000)]  # type: ignore[var-annotated]
        now_ms += 1_000
        schedule.run(now_ms, idle=True)
    assert len(kept) > 10 * OLD_AT_ONCE_MAX
    assert max(examined.counts) <= OLD_AT_ONCE_MAX + 3 * YOUNG_AT_ONCE_MAX
    assert len(examined.counts) > 30


def test_survivors_are_examined_once_a_day() -> None:
    schedule = GarbageSchedule(0)
    old = Cycle()
    garbage = weakref.ref(old)
    schedule.run(FULL_MS, idle=True)
    del old
    schedule.run(EVERYTHING_MS - 1, idle=True)
    assert garbage() is not None
    schedule.run(EVERYTHING_MS + FULL_MS, idle=True)
    assert garbage() is None


def test_a_full_collection_waits_for_the_end_of_a_large_request() -> None:
    schedule = GarbageSchedule(0)
    garbage, kept = cycle(), [[] for _ in range(YOUNG_AT_ONCE_MAX + 1)]  # type: ignore[var-annotated]
    schedule.run(FULL_MS, idle=True)
    assert garbage() is not None
    kept.clear()
    schedule.run(FULL_MS + 1, idle=True)
    assert garbage() is None
