"""Deadlines by key, against a plain list."""

import random

from kraft.broker.coordinator.timers import Timers


def test_actions_run_in_the_order_of_their_deadlines() -> None:
    timers = Timers()
    ran: list[str] = []
    for name, deadline_ms in (("c", 30), ("a", 10), ("b", 20), ("a2", 10)):
        timers.schedule((name,), deadline_ms, lambda name=name: ran.append(name))
    assert timers.deadline_ms == 10
    assert timers.take_due(9, timers.armed) is None
    while (action := timers.take_due(20, timers.armed)) is not None:
        action()
    assert ran == ["a", "a2", "b"]
    assert timers.deadline_ms == 30
    assert len(timers) == 1


def test_a_timer_is_put_off_brought_forward_and_cancelled() -> None:
    timers = Timers()
    ran: list[int] = []
    timers.schedule(("k",), 10, lambda: ran.append(1))
    timers.schedule(("k",), 50, lambda: ran.append(2))
    assert timers.deadline_ms == 50
    timers.schedule(("k",), 5, lambda: ran.append(3))
    assert timers.deadline_ms == 5
    action = timers.take_due(5, timers.armed)
    assert action is not None
    action()
    assert ran == [3]
    assert timers.deadline_ms is None
    timers.schedule(("k",), 7, lambda: None)
    timers.cancel(("k",))
    timers.cancel(("never",))
    assert ("k",) not in timers
    assert timers.take_due(100, timers.armed) is None


def test_a_timer_armed_later_waits() -> None:
    timers = Timers()
    timers.schedule(("k",), 10, lambda: None)
    armed = timers.armed
    assert timers.take_due(10, armed) is not None
    timers.schedule(("k",), 10, lambda: None)
    assert timers.take_due(10, armed) is None
    assert timers.take_due(10, timers.armed) is not None


def test_many_random_changes_agree_with_a_dictionary() -> None:
    rng = random.Random(7)
    timers = Timers()
    model: dict[tuple[str, ...], int] = {}
    now_ms = 0
    for _ in range(20_000):
        key = (str(rng.randrange(40)),)
        choice = rng.random()
        if choice < 0.7:
            deadline_ms = now_ms + rng.randrange(200)
            timers.schedule(key, deadline_ms, lambda key=key: model.pop(key))
            model[key] = deadline_ms
        elif choice < 0.8:
            timers.cancel(key)
            model.pop(key, None)
        else:
            now_ms += rng.randrange(20)
            due = sorted(deadline for deadline in model.values() if deadline <= now_ms)
            before = len(model)
            while (action := timers.take_due(now_ms, timers.armed)) is not None:
                action()
            assert before - len(model) == len(due)
        assert timers.deadline_ms == min(model.values(), default=None)
        assert len(timers) == len(model)
    assert len(timers._heap) < 64 + 3 * 40
