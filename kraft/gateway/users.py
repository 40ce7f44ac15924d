"""The cluster as each identity sees it: a producer, the feeds, and the readers of older records."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException

from kraft.gateway import history, library
from kraft.gateway.errors import RequestError, cluster_failure, library_failure
from kraft.gateway.history import History
from kraft.gateway.identity import SHARED, Identity
from kraft.gateway.live import Live
from kraft.gateway.producing import Producing, producer_settings
from kraft.gateway.settings import Settings
from kraft_native.base.errors import KraftError

LIVE_QUEUED_KIB: Final = 16_384
LOGIN_STEP_SECONDS: Final = 0.2
PARTITIONS_SECONDS: Final = 3.0
TOPICS_MAX: Final = 10_000


class User:
    """Connections of one identity; a context manager, inside of which they are not closed for others. `uses`: requests
    and subscribers that are inside."""

    def __init__(self, settings: Settings, identity: Identity, make_room: Callable[[], bool]) -> None:
        """`make_room`: returns whether one more feed may exist."""
        limits = settings.limits
        self.uses = 0
        self._limits = limits
        self._partitions: OrderedDict[str, tuple[float, asyncio.Future[list[int]]]] = OrderedDict()
        self.live = Live(library.consumer_settings(settings, identity, LIVE_QUEUED_KIB), make_room,
                         limits.feed_bytes, limits.request_seconds)
        self.history = History(library.consumer_settings(settings, identity, history.QUEUED_KIB),
                               limits.history_readers, limits.history_bytes, limits.request_seconds)
        self._producing: Producing | None = None
        self._produced = 0
        """Records of producers that were replaced."""
        self._producer = partial(Producing, producer_settings(library.base_settings(settings, identity),
                                                              limits.body_bytes, limits.request_seconds))

    def __enter__(self) -> Self:
        self.uses += 1
        return self

    def __exit__(self, *exception: object) -> None:
        self.uses -= 1

    async def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions, at most some seconds old. Raises `RequestError`."""
        now = time.monotonic()
        if topic not in self._partitions or self._partitions[topic][0] < now:
            question = partial(library.partitions_of, topic=topic, seconds=self._limits.request_seconds)
            self._partitions[topic] = now + PARTITIONS_SECONDS, asyncio.ensure_future(self.history.query(question))
            if len(self._partitions) > TOPICS_MAX:
                self._partitions.popitem(last=False)
        try:
            found: list[int] = await asyncio.shield(self._partitions[topic][1])
        except RequestError:
            self._partitions.pop(topic, None)
            raise
        return found

    @property
    def producing(self) -> Producing:
        """The producer, which exists from its first use on; another one after an error that it does not survive."""
        if self._producing is not None and self._producing.is_broken:
            self._produced += self._producing.records
            asyncio.get_running_loop().run_in_executor(None, self._producing.close)
            self._producing = None
        if self._producing is None:
            self._producing = self._producer()
        return self._producing

    @property
    def produced(self) -> int:
        """Records that were stored."""
        return self._produced + (0 if self._producing is None else self._producing.records)

    def close(self) -> None:
        """Close the connections. Blocks."""
        for close in (self.live.close, self.history.close, *([self._producing.close] if self._producing else [])):
            close()


class Users:
    """The identities that have connections, at most `Limits.users`; those that are not in use are closed for others.
    Used on the loop's thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._users: OrderedDict[bytes, asyncio.Task[User]] = OrderedDict()
        self._closing: set[asyncio.Future[None]] = set()
        self._is_closed = False

    async def of(self, identity: Identity) -> User:
        """Return the connections of an identity, which the caller enters before it waits for anything. The first time
        it is checked that the cluster accepts its login. Raises `RequestError`."""
        key = identity.key
        while True:
            task = self._users.get(key) or self._begin(key, identity)
            self._users.move_to_end(key)
            user = await asyncio.shield(task)
            if self._users.get(key) is task:        # else they were closed for another user while this one waited
                return user

    def _begin(self, key: bytes, identity: Identity) -> "asyncio.Task[User]":
        """Log in. A login that fails is forgotten at once, so that it takes nobody's place."""
        if self._is_closed:
            raise RequestError(503, "BROKER_NOT_AVAILABLE", "the gateway ends", retry_after=1)
        if len(self._users) >= self._settings.limits.users and not self._drop_idle():
            raise RequestError(503, "THROTTLING_QUOTA_EXCEEDED", f"{self._settings.limits.users} users have "
                               "connections; the gateway's limit is reached", retry_after=5)

        def ended(task: "asyncio.Task[User]") -> None:
            if (task.cancelled() or task.exception() is not None) and self._users.get(key) is task:
                del self._users[key]

        task = self._users[key] = asyncio.ensure_future(self._login(identity))
        task.add_done_callback(ended)
        return task

    def make_room(self) -> bool:
        """Return whether one more feed may exist, of all users together; close one that is not in use for that."""
        users = self.all()
        return sum(user.live.count for user in users) < self._settings.limits.feeds or any(
            user.live.drop_idle() for user in users)

    def all(self) -> list[User]:
        """Return the identities that are logged in."""
        return [task.result() for task in self._users.values()
                if task.done() and not task.cancelled() and task.exception() is None]

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        users, self._users = self.all(), OrderedDict()
        await asyncio.gather(*self._closing, *(asyncio.to_thread(user.close) for user in users),
                             return_exceptions=True)

    async def _login(self, identity: Identity) -> User:
        if identity != SHARED:
            await asyncio.to_thread(self._check_login, identity)
        try:
            return User(self._settings, identity, self.make_room)
        except KafkaException as error:
            raise library_failure("the client", error.args[0]) from error
        except KraftError as error:
            raise cluster_failure(error) from error

    def _check_login(self, identity: Identity) -> None:
        """Raise `RequestError` when the cluster does not accept the login, or does not answer."""
        refused: list[KafkaError] = []

        def note(error: KafkaError) -> None:
            if error.code() == KafkaError._AUTHENTICATION:
                refused.append(error)

        settings: dict[str, Any] = {**library.consumer_settings(self._settings, identity, history.QUEUED_KIB),
                                    "error_cb": note}
        consumer = Consumer(settings)
        until = time.monotonic() + self._settings.limits.request_seconds
        try:
            while True:
                try:
                    consumer.list_topics(timeout=LOGIN_STEP_SECONDS)
                except KafkaException as error:
                    consumer.poll(0)
                    if refused:
                        raise library_failure("login", refused[0]) from error
                    if time.monotonic() > until:
                        raise library_failure("the cluster", error.args[0]) from error
                else:
                    return
        finally:
            consumer.close()

    def _drop_idle(self) -> bool:
        """Close the connections of the identity that was not used for longest; return whether there was one."""
        for key, task in list(self._users.items()):
            if not task.done():
                continue
            failed = task.cancelled() or task.exception() is not None
            if failed or not task.result().uses:
                del self._users[key]
                if not failed:
                    self._close_later(task.result().close)
                return True
        return False

    def _close_later(self, close: Callable[[], None]) -> None:
        future = asyncio.ensure_future(asyncio.to_thread(close))
        self._closing.add(future)
        future.add_done_callback(self._closing.discard)
