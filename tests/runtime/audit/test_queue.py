"""Bounded queue of audit events."""

from kraft.runtime.audit.queue import EventQueue


def queue(count_max: int) -> EventQueue:
    return EventQueue(count_max, lambda count: {"lost": count})


def test_events_that_do_not_fit_are_counted_and_reported() -> None:
    some = queue(2)
    for number in range(5):
        some.put({"n": number})
    assert (some.dropped, len(some)) == (3, 2)
    assert some.take(1) == [{"n": 0}]
    some.put({"n": 5})
    assert some.take(9) == [{"n": 1}, {"lost": 3}, {"n": 5}]
    some.report_loss()
    assert len(some) == 0


def test_a_loss_is_reported_without_a_further_event() -> None:
    some = queue(1)
    some.lose(4)
    some.report_loss()
    assert some.take(9) == [{"lost": 4}]
