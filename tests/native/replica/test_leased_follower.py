"""A follower during a lease: answers, Fetches and the outcome."""

import pytest

from kraft_native.replica.leased_follower import LeasedFollower


class Around:
    """Surroundings of the follower: the log, the append, the transport of the next Fetch, and the receiver of the
    news."""

    def __init__(self) -> None:
        self.has_left = True
        self.end_offset = 0
        self.sends = True
        self.withdrawals = 0
        self.events: list[object] = []
        self.follower = LeasedFollower(self, self.append, lambda sends: self.events.append(("accepted", sends)))

    def take_back(self) -> bool:
        self.withdrawals += 1
        return self.has_left

    def append(self, records: object) -> int:
        self.events.append(records)
        return self.end_offset

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        return 3, b"from %d, hw %d" % (end_offset, high_watermark)

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool:
        self.events.append((end_offset, fd, message))
        return self.sends

    def begin(self, *, is_sent: bool = False) -> bool:
        return self.follower.begin(2, None if is_sent else (3, b"first"))

    def accept(self, high_watermark: int, records: object) -> bool:
        return self.follower.accept(self, high_watermark, records)


def test_it_appends_and_sends_the_next() -> None:
    around = Around()
    assert around.begin()
    around.end_offset = 5
    assert around.accept(3, "a")
    around.end_offset = 9
    assert around.accept(12, "b")
    assert around.events == [
        (2, 3, b"first"), "a", (5, 3, b"from 5, hw 3"), ("accepted", True), "b", (9, 3, b"from 9, hw 9"),
        ("accepted", True)]
    assert around.follower.end() == (9, 12, True)
    assert around.withdrawals == 3


@pytest.mark.parametrize("is_sent", [True, False])
def test_nothing_is_accepted_before_it_begins_and_after_its_end(is_sent: bool) -> None:
    around = Around()
    assert not around.accept(3, "a")
    assert around.begin(is_sent=is_sent)
    assert around.follower.end() == (2, -1, True)
    assert not around.accept(3, "a")
    assert around.events == [(2, 3, b"first")][is_sent:]
    assert around.withdrawals == (0 if is_sent else 1), "one that was sent before is not in the log's hands"


def test_a_fetch_that_was_sent_before_is_answered() -> None:
    around = Around()
    around.begin(is_sent=True)
    around.end_offset, around.has_left = 5, False
    assert around.accept(3, "a")
    assert around.follower.end() == (5, 3, False), "the one after it was not sent"


def test_nothing_is_accepted_when_the_fetch_has_not_left() -> None:
    """A Fetch that has not left never will: this is the last query about it."""
    around = Around()
    around.has_left = False
    around.begin()
    assert not around.accept(3, "a")
    assert (around.follower.end(), around.withdrawals) == ((2, -1, False), 1)


def test_refused_records_are_not_accepted() -> None:
    """The follower remembers that the previous Fetch has left."""
    around = Around()
    around.begin()
    around.end_offset = -1
    assert not around.accept(3, "a")
    assert (around.follower.end(), around.events[1:], around.withdrawals) == ((2, -1, True), ["a"], 1)


def test_a_flush_that_has_ended_is_not_waited_for() -> None:
    around = Around()
    around.begin()
    around.end_offset, around.sends = 5, False
    assert around.accept(3, "a")
    assert around.events[-1] == ("accepted", False)
    assert around.follower.end()[:2] == (5, 3)
    assert not around.begin(), "the log is durable: the Fetch has to be sent now"
    assert not around.accept(3, "a")
