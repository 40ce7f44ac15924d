"""Fetches that follow each other without the core."""

from kraft_native.replica.fetch_chain import FetchChain


class Around:
    """Surroundings of the chain: the log, the append, the transport of the next Fetch, and the receiver of the
    outcome."""

    def __init__(self) -> None:
        self.has_left = True
        self.end_offset = 0
        self.sends = True
        self.withdrawals = 0
        self.events: list[object] = []
        self.chain = FetchChain(self, self.append, lambda sends: self.events.append(("later", sends)))

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

    def take(self, high_watermark: int, records: object) -> bool:
        return self.chain.take(self, "like", high_watermark, records)


def test_it_appends_and_sends_the_next() -> None:
    around = Around()
    around.chain.begin()
    around.end_offset = 5
    assert around.take(3, "a")
    around.end_offset = 9
    assert around.take(12, "b")
    assert around.events == ["a", (5, 3, b"from 5, hw 3"), ("later", True), "b", (9, 3, b"from 9, hw 9"),
                            ("later", True)]
    assert around.chain.end() == (True, ("like", 12, "b"))
    assert around.withdrawals == 3


def test_nothing_is_taken_before_it_begins_and_when_it_has_ended() -> None:
    around = Around()
    assert not around.take(3, "a")
    around.chain.begin()
    assert around.chain.end() == (True, None)
    assert not around.take(3, "a")
    assert around.events == []


def test_nothing_is_taken_when_the_fetch_has_not_left() -> None:
    """A Fetch that has not left never will: this is the last query about it."""
    around = Around()
    around.has_left = False
    around.chain.begin()
    assert not around.take(3, "a")
    assert (around.chain.end(), around.events, around.withdrawals) == ((False, None), [], 1)


def test_what_is_not_appended_is_not_taken() -> None:
    """The chain remembers that the previous Fetch has left."""
    around = Around()
    around.chain.begin()
    around.end_offset = -1
    assert not around.take(3, "a")
    assert (around.chain.end(), around.events, around.withdrawals) == ((True, None), ["a"], 1)


def test_what_is_durable_already_is_not_waited_for() -> None:
    around = Around()
    around.chain.begin()
    around.end_offset, around.sends = 5, False
    assert around.take(3, "a")
    assert around.events[-1] == ("later", False)
