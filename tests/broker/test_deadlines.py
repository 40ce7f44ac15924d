"""The first deadline of many owners."""

import random

from kraft.broker.coordinator.deadlines import Deadlines


class Clock:
    """An owner whose deadline the test sets."""

    def __init__(self) -> None:
        self.deadline_ms: int | None = None


def test_no_owner_has_no_deadline() -> None:
    assert Deadlines().first_ms is None


def test_a_later_or_cancelled_deadline_need_not_be_noted() -> None:
    deadlines, first, second = Deadlines(), Clock(), Clock()
    for clock, at in ((first, 10), (second, 20)):
        clock.deadline_ms = at
        deadlines.note(clock, at)
    assert deadlines.first_ms == 10
    first.deadline_ms = 30
    assert deadlines.first_ms == 20
    second.deadline_ms = None
    assert deadlines.first_ms == 30
    first.deadline_ms = None
    assert deadlines.first_ms is None
    second.deadline_ms = 5
    deadlines.note(second, 5)
    assert deadlines.first_ms == 5


def test_equals_a_look_at_each_owner_after_any_changes() -> None:
    chance = random.Random(7)
    deadlines, clocks = Deadlines(), [Clock() for _ in range(8)]
    for _ in range(5_000):
        clock = chance.choice(clocks)
        clock.deadline_ms = chance.choice([None, *range(50)])
        if clock.deadline_ms is not None:
            deadlines.note(clock, clock.deadline_ms)
        if chance.random() < 0.5:
            assert deadlines.first_ms == min(
                (each.deadline_ms for each in clocks if each.deadline_ms is not None), default=None)


def test_entries_of_one_owner_do_not_pile_up() -> None:
    deadlines, clock = Deadlines(), Clock()
    for time_ms in range(10_000):
        clock.deadline_ms = time_ms + 5_000
        deadlines.note(clock, clock.deadline_ms)
        assert deadlines.first_ms == clock.deadline_ms
    assert len(deadlines._heap) == 1


def test_an_alarm_that_is_set_only_for_earlier_deadlines_is_never_late() -> None:
    chance = random.Random(8)
    deadlines, clocks = Deadlines(), [Clock() for _ in range(4)]
    alarm_ms, skipped = 1_000, 0
    for _ in range(5_000):
        clock = chance.choice(clocks)
        clock.deadline_ms = chance.choice([None, *range(1, 50)])
        if clock.deadline_ms is not None:
            deadlines.note(clock, clock.deadline_ms)
        first_ms = deadlines.first_ms if chance.random() < 0.5 else None
        if deadlines.is_earlier or chance.random() < 0.1:       # noted, or the alarm rings
            deadlines.is_earlier, alarm_ms = False, deadlines.first_ms or 1_000
        elif first_ms is not None:
            assert alarm_ms <= first_ms
            skipped += 1
    assert skipped > 1_000
