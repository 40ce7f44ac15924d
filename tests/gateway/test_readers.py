"""Readers of the library, with one in memory: what ends them, and how long a piece is kept."""

import asyncio
import threading
from typing import Any

import pytest

from kraft.gateway.errors import RequestError

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from kraft.gateway import history, live
from kraft.gateway.feed import Entry, Feed, Piece
from kraft.gateway.history import History
from kraft.gateway.live import Live
from kraft.gateway.settings import Limits
from kraft.gateway.subscriber import Subscriber


class Broken:
    """Consumer that fails in `poll` once it may."""

    may_fail = threading.Event()

    def __init__(self, _settings: dict[str, Any]) -> None:
        pass

    def get_watermark_offsets(self, _partition: object, timeout: float) -> tuple[int, int]:
        return 0, 5

    def incremental_assign(self, _partitions: object) -> None:
        pass

    def poll(self, _seconds: float) -> None:
        if self.may_fail.wait(0.01):
            raise RuntimeError("the library is broken")

    def close(self) -> None:
        pass


def test_subscribers_learn_that_the_reader_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would wait for records indefinitely otherwise, and the next ones for their feed."""
    monkeypatch.setattr(live, "Consumer", Broken)
    Broken.may_fail.clear()

    async def main() -> None:
        feeds = Live({}, lambda: True, 1_000, 1.0)
        feed = await feeds.feed(("t", 0))
        woken = asyncio.Event()
        feed.wake_later(woken)
        Broken.may_fail.set()
        await asyncio.wait_for(woken.wait(), 20)
        assert isinstance(feed.failure, RequestError) and "broken" in str(feed.failure)
        assert feeds.count == 0
        Broken.may_fail.clear()
        again = await asyncio.wait_for(feeds.feed(("t", 0)), 20)
        assert again is not feed and again.failure is None
        await asyncio.to_thread(feeds.close)
        with pytest.raises(RequestError, match="closed"):
            await feeds.feed(("t", 1))

    asyncio.run(main())


def test_a_full_gateway_opens_no_feed() -> None:
    async def main() -> None:
        with pytest.raises(RequestError) as caught:
            await Live({}, lambda: False, 1_000, 1.0).feed(("t", 0))
        assert caught.value.status == 503

    asyncio.run(main())


def test_a_piece_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not longer: its records may be deleted, or those of a topic that was created again."""
    async def main() -> None:
        pieces = History({}, 1, 1 << 20, 1.0)
        reads = []

        def read(_place: object, offset: int) -> Piece:
            reads.append(offset)
            return Piece([Entry(offset, None, b"x")], offset + 1)

        pieces._read = read  # type: ignore[method-assign]
        for _ in range(3):
            await pieces.read(("t", 0), 7)
        assert reads == [7]
        monkeypatch.setattr(history, "KEPT_SECONDS", -1.0)
        pieces._kept.clear()
        pieces._size = 0
        for _ in range(3):
            await pieces.read(("t", 0), 7)
        assert reads == [7] * 4
        assert pieces._size == history._size_of(Piece([Entry(7, None, b"x")], 8))
        pieces.close()

    asyncio.run(main())


def subscriber(feed: Feed, partitions: int, **limits: int) -> Subscriber:
    found = Subscriber(None, "t", dict.fromkeys(range(partitions), 0), None,  # type: ignore[arg-type]
                       Limits(**limits))  # type: ignore[arg-type]
    found._feeds[0] = feed
    return found


def test_ids_count_as_bytes_that_are_sent() -> None:
    """The id of each event names all partitions, so that it is far longer than a small record."""
    async def main() -> None:
        feed = Feed(0, 1 << 20)
        feed.publish([Entry(offset, None, b"data: 1\n\n") for offset in range(500)])
        sent: list[bytes] = []

        async def send(data: bytes) -> None:
            sent.append(data)

        assert await subscriber(feed, 256, send_bytes=10_000)._advance(send, 0, feed)
        assert b"".join(sent).count(b"data: ") == 500
        assert max(map(len, sent)) < 12_000

    asyncio.run(main())


def test_a_filter_that_omits_everything_lets_others_run() -> None:
    async def main() -> None:
        feed = Feed(0, 1 << 20)
        feed.publish([Entry(offset, b"other", b"data: 1\n\n") for offset in range(500)])
        filtered = subscriber(feed, 1, send_bytes=100)
        filtered._wanted = lambda key: key == b"wanted"
        running = asyncio.create_task(filtered.run(_refuse_data))
        await asyncio.sleep(0)
        assert 0 < filtered.positions[0] < 500
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def _refuse_data(data: bytes) -> None:
        assert b"data: " not in data

    asyncio.run(main())


def test_the_id_of_an_event_is_the_next_offset() -> None:
    """It is that of its partition; the others keep their positions."""
    async def main() -> None:
        feed = Feed(0, 1 << 20)
        feed.publish([Entry(5, None, b"data: 1\n\n"), Entry(7, None, b"data: 2\n\n")])
        sent: list[bytes] = []

        async def send(data: bytes) -> None:
            sent.append(data)

        await subscriber(feed, 2)._advance(send, 0, feed)
        assert sent == [b"id: 1:0,0:6\ndata: 1\n\nid: 1:0,0:8\ndata: 2\n\n"]

    asyncio.run(main())


class FakeMessage:
    """Record, or an error of the group that the library looks for."""

    def __init__(self, place: tuple[str, int] | None, offset: int, error: int | None = None) -> None:
        self._place = place or (None, None)
        self._offset = offset
        self._error = None if error is None else KafkaError(error)

    def topic(self) -> str | None:
        return self._place[0]

    def partition(self) -> int | None:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"x"

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 5


class Denied(Broken):
    """Consumer of a user without rights on groups, which need none here."""

    def poll(self, _seconds: float) -> Any:
        return FakeMessage(None, -1, KafkaError.GROUP_AUTHORIZATION_FAILED)

    def consume(self, _count: int, _seconds: float) -> list[Any]:
        return [FakeMessage(("t", 0), 5)]


def test_rights_on_groups_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "Consumer", Denied)

    async def main() -> None:
        feeds = Live({}, lambda: True, 1_000, 1.0)
        feed = await feeds.feed(("t", 0))
        while feed.next == 5 and feed.failure is None:
            woken = asyncio.Event()
            feed.wake_later(woken)
            await asyncio.wait_for(woken.wait(), 20)
        assert (feed.failure, feed.next) == (None, 6)
        await asyncio.to_thread(feeds.close)

    asyncio.run(main())
