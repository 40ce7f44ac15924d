"""Times at which a replica that cannot be served is tried again."""

from kraft.runtime.replicas.retries import FIRST_SECONDS, PAUSE_SECONDS_MAX, Retries

ONE, OTHER = ("t", 0), ("u", 0)


def test_the_pause_doubles_up_to_a_bound() -> None:
    retries = Retries()
    assert retries.is_due(ONE, 0.0)
    pause, now = FIRST_SECONDS, 0.0
    for _ in range(20):
        retries.failed(ONE, now)
        assert not retries.is_due(ONE, now + pause - 1)
        now += pause
        assert retries.is_due(ONE, now)
        assert retries.is_due(OTHER, now)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
    assert pause == PAUSE_SECONDS_MAX


def test_a_success_and_a_change_of_the_topic_end_the_pause() -> None:
    retries = Retries()
    for _ in range(5):
        retries.failed(ONE, 0.0)
        retries.failed(OTHER, 0.0)
    retries.forget(ONE)
    retries.hasten("u")
    for key in (ONE, OTHER):
        assert retries.is_due(key, 0.0)
        retries.failed(key, 0.0)
        assert retries.is_due(key, FIRST_SECONDS)
