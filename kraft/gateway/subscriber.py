"""One subscriber: reads feeds at its own pace and sends events. It holds what it is sending, and nothing else.

The id of every event has the next offset of each partition. So a request with the last id continues exactly after that
event, in all partitions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kraft.gateway.errors import RequestError
from kraft.gateway.feed import Entry, Feed, Piece
from kraft.gateway.history import OutOfRangeError
from kraft.gateway.library import range_of
from kraft.gateway.records import Filter, positions_text
from kraft.gateway.settings import Limits
from kraft.gateway.text import event, id_line
from kraft.gateway.users import User

AT_END: Final = -1
"""Position at the end of a partition, until its feed is open."""
OPEN_TRANSACTION_SECONDS: Final = 0.5
OFFSET_BYTES: Final = 20
"""An offset in decimal digits, at most."""

Send = Callable[[bytes], Awaitable[None]]


class SlowSubscriberError(Exception):
    """The subscriber has not received what was sent in time."""


class Subscriber:
    """Events of some partitions of a topic, from `positions` on. `open` first, then `run`, and `close` in any case."""

    def __init__(self, user: User, topic: str, positions: Mapping[int, int], wanted: Filter | None,
                 limits: Limits) -> None:
        self.topic = topic
        self.positions = dict(positions)
        self.sent = 0
        self._user = user
        self._wanted = wanted
        self._limits = limits
        self._feeds: dict[int, Feed] = {}
        self._woken = asyncio.Event()
        self._known = ""
        """The id that was sent last."""

    async def open(self) -> None:
        """Open the feeds. Raises `RequestError` when one cannot be opened, or a position lies past the end."""
        for partition, offset in self.positions.items():
            place = (self.topic, partition)
            feed = self._feeds[partition] = await self._user.live.feed(place)
            if offset == AT_END:
                self.positions[partition] = feed.next
            elif offset > feed.next:
                low, high = await self._user.history.query(
                    partial(range_of, place=place, seconds=self._limits.request_seconds))
                if offset > high:
                    raise OutOfRangeError(place, offset, low, high)

    def close(self) -> None:
        """Release the feeds."""
        for partition, feed in self._feeds.items():
            feed.forget(self._woken)
            self._user.live.release((self.topic, partition), feed)
        self._feeds.clear()

    async def run(self, send: Send) -> None:
        """Send events indefinitely. Raises `SlowSubscriberError`, and the `RequestError` that ended a feed."""
        await self._deliver(send, b"retry: 1000\n" + self._position() + b"\n")
        while True:
            moved = False
            for partition, feed in self._feeds.items():
                moved = await self._advance(send, partition, feed) or moved
            if not moved:
                await self._wait(send)

    async def _advance(self, send: Send, partition: int, feed: Feed) -> bool:
        """Send what the partition has now, up to some size; return whether the position has moved."""
        offset = self.positions[partition]
        piece = feed.read(offset, self._limits.send_bytes)
        if piece is None:
            return await self._advance_from_history(send, partition)
        if piece.entries:
            await self._send_entries(send, partition, piece)
        elif feed.failure is not None:
            raise feed.failure
        return bool(piece.entries)

    async def _advance_from_history(self, send: Send, partition: int) -> bool:
        offset = self.positions[partition]
        try:
            piece = await self._user.history.read((self.topic, partition), offset)
        except OutOfRangeError as error:
            if error.low <= offset:
                raise
            self.positions[partition] = error.low
            gap = {"partition": partition, "from": offset, "to": error.low}
            await self._deliver(send, self._position() + event("gap", gap))
            return True
        if piece.next_offset <= offset:     # the rest up to the feed's start is of open transactions
            await asyncio.sleep(OPEN_TRANSACTION_SECONDS)
            return True
        await self._send_entries(send, partition, piece)
        return True

    async def _send_entries(self, send: Send, partition: int, piece: Piece) -> None:
        others = positions_text({each: offset for each, offset in self.positions.items() if each != partition})
        head = f"id: {others}{',' if others else ''}{partition}:".encode()
        parts: list[bytes] = []
        size = 0
        for entry in self._chosen(piece.entries):
            parts += (head, b"%d\n" % (entry.offset + 1), entry.event)
            size += len(head) + OFFSET_BYTES + len(entry.event)
            self.sent += 1
            if size >= self._limits.send_bytes:
                self.positions[partition] = entry.offset + 1
                await self._deliver(send, b"".join(parts))
                parts, size = [], 0
        self.positions[partition] = piece.next_offset
        if parts:
            await self._deliver(send, b"".join(parts))
        else:
            await asyncio.sleep(0)      # a filter may omit all of many pieces, and other tasks run between them

    def _chosen(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        wanted = self._wanted
        return entries if wanted is None else [each for each in entries if wanted(each.key)]

    async def _wait(self, send: Send) -> None:
        """Wait for records, and send a heartbeat when none come."""
        if any(feed.next > self.positions[partition] or feed.failure is not None
               for partition, feed in self._feeds.items()):
            return
        self._woken.clear()
        for feed in self._feeds.values():
            feed.wake_later(self._woken)
        try:
            async with asyncio.timeout(self._limits.heartbeat_seconds):
                await self._woken.wait()
        except TimeoutError:
            await self._deliver(send, self._position() + b"\n" if positions_text(self.positions) != self._known
                                else b":\n\n")

    def _position(self) -> bytes:
        self._known = positions_text(self.positions)
        return id_line(self._known)

    async def _deliver(self, send: Send, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._limits.slow_seconds):
                await send(data)
        except TimeoutError as error:
            raise SlowSubscriberError from error


def error_event(error: RequestError) -> bytes:
    """Return the event that ends the stream of a subscriber."""
    return event("error", error.body["error"])
