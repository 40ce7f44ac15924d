"""Temporary errors are tried again until the limit, others at once raise."""

from types import SimpleNamespace

import pytest

from kraft.client import AuthenticationError, ConnectionFailedError, RefusedError, retries
from kraft.client.retries import Attempts, is_temporary, persist
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import KraftError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: found.now, sleep=found.sleep))
    return found


@pytest.mark.parametrize(("error", "expected"), [
    (RefusedError("t", ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
    (RefusedError("t", ErrorCode.NOT_ENOUGH_REPLICAS), True), (RefusedError("t", ErrorCode.INVALID_RECORD), False),
    (RefusedError("t", 30_000), False),
    (ConnectionFailedError("closed"), True), (AuthenticationError("no"), False), (KraftError("other"), False)])
def test_which_errors_are_temporary(error: KraftError, expected: bool) -> None:
    assert is_temporary(error) is expected


def test_the_limit_counts_from_the_last_progress(clock: Clock) -> None:
    attempts, error = Attempts(1.0, 0.25), ConnectionFailedError("closed")
    for _ in range(3):
        attempts.again(error)
    attempts.progress()
    for _ in range(4):
        attempts.again(error)
    assert (clock.now, attempts.elapsed, attempts.left, attempts.over) == (1.75, 1.0, 0.0, True)
    with pytest.raises(ConnectionFailedError):
        attempts.again(error)


def test_connections_are_new_for_each_attempt(clock: Clock) -> None:
    answers = iter([ConnectionFailedError("closed"), RefusedError("t", ErrorCode.REQUEST_TIMED_OUT), 7])
    resets: list[float] = []

    def act() -> int:
        found = next(answers)
        if isinstance(found, KraftError):
            raise found
        return found

    assert persist(10.0, act, lambda: resets.append(clock.now)) == 7
    assert resets == [0.1, 0.2]
