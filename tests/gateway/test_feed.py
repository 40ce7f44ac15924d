"""The newest records of a partition: those in memory, those dropped, and the subscribers that are woken."""

import asyncio

from kraft.gateway.feed import ENTRY_BYTES, Entry, Feed


def entries(*offsets: int, size: int = 10) -> list[Entry]:
    return [Entry(offset, None, b"x" * size) for offset in offsets]


def offsets(feed: Feed, offset: int, bytes_max: int = 1 << 20) -> list[int] | None:
    piece = feed.read(offset, bytes_max)
    return None if piece is None else [each.offset for each in piece.entries]


def test_reading() -> None:
    feed = Feed(5, 1 << 20)
    assert offsets(feed, 4) is None
    piece = feed.read(5, 100)
    assert piece is not None and (list(piece.entries), piece.next_offset) == ([], 5)
    feed.publish(entries(5, 7, 8))      # 6 is the marker of a transaction
    assert offsets(feed, 5) == [5, 7, 8]
    assert offsets(feed, 6) == [7, 8]
    assert offsets(feed, 5, 1) == [5]
    assert offsets(feed, 5, 15) == [5, 7]
    assert offsets(feed, 9) == []
    piece = feed.read(20, 100)
    assert piece is not None and piece.next_offset == 20


def test_the_oldest_are_dropped() -> None:
    feed = Feed(0, 10 * (ENTRY_BYTES + 10))
    for number in range(100):
        feed.publish(entries(number))
        assert feed.size <= 10 * (ENTRY_BYTES + 10)
    assert feed.next == 100
    assert 90 <= feed.start <= 93
    assert offsets(feed, feed.start) == list(range(feed.start, 100))
    assert offsets(feed, feed.start - 1) is None


def test_one_record_may_be_larger_than_the_feed() -> None:
    feed = Feed(0, 100)
    feed.publish(entries(0, size=1_000))
    assert (feed.start, feed.next, feed.size) == (1, 1, 0)
    assert offsets(feed, 0) is None     # a subscriber reads it from the cluster


def test_waiting_subscribers_are_woken_once() -> None:
    async def main() -> None:
        feed, first, second = Feed(0, 1_000), asyncio.Event(), asyncio.Event()
        feed.wake_later(first)
        feed.wake_later(second)
        feed.forget(second)
        feed.publish(entries(0))
        assert (first.is_set(), second.is_set()) == (True, False)
        first.clear()
        feed.fail(ValueError())
        assert not first.is_set()

    asyncio.run(main())
