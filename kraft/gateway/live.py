"""The newest records of all partitions that somebody follows: one consumer in one thread, one feed for each partition.

The thread hands records over to the loop and waits until they are in the feeds, so that at most one portion is on its
way. Subscribers read the feeds; none of them delays the thread.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kraft.gateway.errors import RequestError, library_failure
from kraft.gateway.feed import Entry, Feed
from kraft.gateway.library import PASSING, Place, entry_of, range_of

PORTION: Final = 500
POLL_SECONDS: Final = 0.1
IDLE_SECONDS: Final = 60.0
"""Time for which a feed without subscribers is kept."""


class Live:
    """Feeds of one identity. Created and used on the loop's thread; `close` blocks."""

    def __init__(self, settings: dict[str, Any], make_room: Callable[[], bool], feed_bytes: int,
                 seconds: float) -> None:
        """`make_room`: returns whether one more feed may exist, and closes one that is not in use for that."""
        self.records = 0
        self._settings = settings
        self._make_room = make_room
        self._feed_bytes = feed_bytes
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._feeds: dict[Place, asyncio.Task[Feed]] = {}
        self._filled: dict[Place, Feed] = {}
        """The feeds that the thread may fill, before their tasks return them."""
        self._commands: deque[_Command] = deque()
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        """Feeds that exist."""
        return len(self._feeds)

    async def feed(self, place: Place) -> Feed:
        """Return the feed of a partition for one subscriber, which calls `release` in the end. A new one begins at the
        partition's end. Raises `RequestError`."""
        task = self._feeds.get(place)
        if task is not None and task.done() and (
                task.cancelled() or task.exception() is not None or task.result().failure is not None):
            self._close(place)
            task = None
        if task is None:
            if not self._make_room():
                raise RequestError(503, "THROTTLING_QUOTA_EXCEEDED", "as many partitions are followed as the gateway's "
                                                                     "limit allows", retry_after=5)
            task = self._feeds[place] = self._loop.create_task(self._open(place))
        feed = await asyncio.shield(task)
        feed.subscribers += 1
        return feed

    def release(self, place: Place, feed: Feed) -> None:
        """Take note that a subscriber has ended."""
        feed.subscribers -= 1
        if not feed.subscribers and not self._stopping:
            self._loop.call_later(IDLE_SECONDS, self._close_idle, place, feed)

    def close(self) -> None:
        """End the thread. Blocks."""
        self._stopping = True
        thread = self._thread
        if thread is not None:
            thread.join()

    async def _open(self, place: Place) -> Feed:
        _, end = await self._run(lambda consumer: range_of(consumer, place, self._seconds))
        feed = self._filled[place] = Feed(end, self._feed_bytes)
        await self._run(lambda consumer: consumer.incremental_assign([TopicPartition(*place, end)]))
        return feed

    async def _run(self, function: Callable[[Consumer], Any]) -> Any:
        if self._stopping:
            raise _closed()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._commands.append(_Command(function, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="kraft gateway", daemon=True)
            self._thread.start()
        return await future

    def drop_idle(self) -> bool:
        """Close a feed without subscribers; return whether there was one."""
        for place, task in self._feeds.items():
            if task.done() and not task.cancelled() and (task.exception() is not None or not task.result().subscribers):
                self._close(place)
                return True
        return False

    def _close_idle(self, place: Place, feed: Feed) -> None:
        task = self._feeds.get(place)
        if not feed.subscribers and task is not None and task.done() and task.exception() is None \
                and task.result() is feed:
            self._close(place)

    def _close(self, place: Place) -> None:
        del self._feeds[place]
        self._filled.pop(place, None)

        def unassign(consumer: Consumer) -> None:
            with suppress(KafkaException):      # it was not assigned: opening it has failed
                consumer.incremental_unassign([TopicPartition(*place)])

        self._commands.append(_Command(unassign, None))

    def _ended(self, error: RequestError) -> None:
        """End all feeds and pending commands: the thread has ended. The next feed has a new one."""
        self._thread = None
        feeds, self._feeds, self._filled = self._filled, {}, {}
        for feed in feeds.values():
            feed.fail(error)
        while self._commands:
            if (future := self._commands.popleft().future) is not None:
                _fail(future, error)

    def _publish(self, portion: dict[Place, list[Entry]], failures: dict[Place, RequestError],
                 done: threading.Event) -> None:
        try:
            for place, error in failures.items():
                if (failed := self._filled.get(place)) is not None:
                    failed.fail(error)
                    self._close(place)
            for place, entries in portion.items():
                feed = self._filled.get(place)
                new = [each for each in entries if feed is not None and each.offset >= feed.next]
                if feed is not None and new:
                    feed.publish(new)
                    self.records += len(new)
        finally:
            done.set()

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        error = _closed()
        try:
            consumer = Consumer(self._settings)
            try:
                self._follow(consumer)
            finally:
                consumer.close()
        except Exception as raised:  # noqa: BLE001 - the subscribers get it
            error = RequestError(502, "BROKER_NOT_AVAILABLE", f"the consumer: {raised}", retry_after=1)
        self._call(self._ended, error)

    def _follow(self, consumer: Consumer) -> None:
        while not self._stopping:
            while self._commands:
                self._carry_out(self._commands.popleft(), consumer)
            self._pass_on(consumer)

    def _carry_out(self, command: "_Command", consumer: Consumer) -> None:
        try:
            result = command.function(consumer)
        except Exception as error:  # noqa: BLE001 - its future has it
            if command.future is not None:
                self._call(_fail, command.future, library_failure("the consumer", error.args[0])
                           if isinstance(error, KafkaException) else error)
        else:
            if command.future is not None:
                self._call(_complete, command.future, result)

    def _pass_on(self, consumer: Consumer) -> None:
        first = consumer.poll(POLL_SECONDS)
        if first is None:
            return
        portion: dict[Place, list[Entry]] = {}
        failures: dict[Place, RequestError] = {}
        for message in (first, *consumer.consume(PORTION, 0)):
            place = (message.topic() or "", message.partition() or 0)
            if (error := message.error()) is None:
                portion.setdefault(place, []).append(entry_of(message))
            elif error.code() != KafkaError._PARTITION_EOF and error.code() not in PASSING:
                failures.update(dict.fromkeys(self._failed(message), library_failure(_name(message), error)))
        done = threading.Event()
        if self._call(self._publish, portion, failures, done):
            while not done.wait(POLL_SECONDS) and not self._stopping:
                pass

    def _failed(self, message: Message) -> list[Place]:
        """Return the feeds that an error ends: one partition, the partitions of a topic, or all."""
        topic, partition = message.topic(), message.partition()
        places = list(self._feeds)
        if topic is None:
            return places
        return [place for place in places if place[0] == topic and partition in (None, -1, place[1])]

    def _call(self, function: Callable[..., object], *arguments: object) -> bool:
        with suppress(RuntimeError):        # the loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)
            return True
        return False


class _Command(NamedTuple):
    """Function for the thread. `future`, where somebody waits, gets what it returns."""

    function: Callable[[Consumer], Any]
    future: "asyncio.Future[Any] | None"


def _closed() -> RequestError:
    return RequestError(503, "BROKER_NOT_AVAILABLE", "the connections were closed", retry_after=1)


def _name(message: Message) -> str:
    topic, partition = message.topic(), message.partition()
    if topic is None:
        return "the cluster"
    return f"topic {topic}" if partition in (None, -1) else f"partition {topic}-{partition}"


def _complete(future: "asyncio.Future[Any]", result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
