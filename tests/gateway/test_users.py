"""Identities with connections: at most so many, and none loses them while it waits for its login."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, Self

import pytest

from kraft.gateway.errors import RequestError
from kraft.gateway.identity import Identity
from kraft.gateway.settings import Limits, Settings

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException

from kraft.gateway import producing
from kraft.gateway.records import Outgoing
from kraft.gateway.users import User, Users


class Fake:
    """Connections that note their end."""

    def __init__(self, feeds: int = 0, idle: int = 0) -> None:
        self.uses = 0
        self.closed = False
        self.live = SimpleNamespace(count=feeds, drop_idle=lambda: self.drop_idle())
        self.idle = idle

    def __enter__(self) -> Self:
        assert not self.closed
        self.uses += 1
        return self

    def __exit__(self, *exception: object) -> None:
        self.uses -= 1

    def close(self) -> None:
        self.closed = True

    def drop_idle(self) -> bool:
        self.idle -= 1
        self.live.count -= self.idle >= 0
        return self.idle >= 0


class LoggedIn(Users):
    """Users whose logins end in the same step of the loop."""

    def __init__(self, users: int = 1, feeds: int = 2) -> None:
        super().__init__(Settings("x", limits=Limits(users=users, feeds=feeds)))
        self.gate = asyncio.Event()
        self.gate.set()

    async def _login(self, identity: Identity) -> Any:
        await self.gate.wait()
        if identity.password == "wrong":
            raise RequestError(401, "SASL_AUTHENTICATION_FAILED", "wrong")
        return Fake()


def test_a_user_whose_connections_were_closed_meanwhile_gets_others() -> None:
    """They look unused from the end of the login until its request continues."""
    async def main() -> None:
        users = LoggedIn()
        users.gate.clear()
        waiting: asyncio.Task[Any] = asyncio.create_task(users.of(Identity("a", "p")))
        await asyncio.sleep(0)
        key = Identity("a", "p").key
        first = users._users[key]

        def closed_for_another(_: object) -> None:
            del users._users[key]
            first.result().close()

        first.add_done_callback(closed_for_another)
        users.gate.set()
        assert not (await waiting).closed
        assert users._users[key] is not first
        await users.close()

    asyncio.run(main())


def test_a_failed_login_takes_nobodys_place() -> None:
    async def main() -> None:
        users = LoggedIn(users=2)
        one: Any = await users.of(Identity("a", "p"))
        with one:
            for number in range(5):
                with pytest.raises(RequestError, match="wrong"):
                    await users.of(Identity(f"user {number}", "wrong"))
            assert len(users._users) == 1
            other: Any = await users.of(Identity("b", "p"))
            with other, pytest.raises(RequestError) as caught:
                await users.of(Identity("c", "p"))
            assert caught.value.status == 503
            assert not one.closed and not other.closed
        await users.close()
        with pytest.raises(RequestError, match="ends"):
            await users.of(Identity("d", "p"))

    asyncio.run(main())


def test_feeds_of_all_users_are_bounded() -> None:
    async def main() -> None:
        users = LoggedIn(users=2, feeds=4)
        one: Any = await users.of(Identity("a", "p"))
        other: Any = await users.of(Identity("b", "p"))
        one.live.count = 2
        assert users.make_room()
        other.live.count = 2
        assert not users.make_room()
        other.idle = 1
        assert users.make_room()        # it closed a feed that nobody reads
        assert other.live.count == 1
        await users.close()

    asyncio.run(main())


class Failing:
    """Producer of the library that gives up with its first record."""

    def __init__(self, _settings: dict[str, Any]) -> None:
        self.fatal = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "x", True)  # type: ignore[call-arg]

    def produce(self, *_: object, **__: object) -> None:
        raise KafkaException(self.fatal)

    def poll(self, _seconds: float) -> None:
        pass

    def flush(self, _seconds: float) -> None:
        pass


def test_a_producer_that_has_given_up_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every later record would be refused until the gateway starts again."""
    monkeypatch.setattr(producing, "Producer", Failing)

    async def main() -> None:
        user = User(Settings("127.0.0.1:1"), Identity(), lambda: True)
        first = user.producing
        assert user.producing is first
        with pytest.raises(RequestError):
            await first.send("t", [Outgoing(b"x")])
        second = user.producing
        assert second is not first and not second.is_broken
        await asyncio.to_thread(user.close)
        await asyncio.to_thread(first._thread.join)

    asyncio.run(main())


class Refused:
    """Producer of the library to which the cluster gives no producer id. Its error is raised by `poll`, once."""

    def __init__(self, _settings: dict[str, Any]) -> None:
        self.waiting: list[Any] = []
        self.errors = [KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "x", True)]  # type: ignore[call-arg]

    def produce(self, *_: object, on_delivery: Any, **__: object) -> None:
        self.waiting.append(on_delivery)

    def poll(self, seconds: float) -> None:
        if self.waiting and self.errors:
            raise KafkaException(self.errors.pop())
        time.sleep(seconds / 10)

    def purge(self) -> None:
        message = SimpleNamespace(partition=lambda: 0, offset=lambda: None)
        for each in self.waiting:
            each(KafkaError(KafkaError._PURGE_QUEUE), message)

    def flush(self, _seconds: float) -> None:
        pass


def test_records_of_a_user_without_a_producer_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would keep them until their time is up, and its error would end the thread that polls."""
    monkeypatch.setattr(producing, "Producer", Refused)

    async def main() -> None:
        user = User(Settings("127.0.0.1:1"), Identity(), lambda: True)
        for _ in range(2):
            sender = user.producing
            found, = await asyncio.wait_for(sender.send("t", [Outgoing(b"x")]), 20)
            assert found.error is not None
            assert (found.error.status, found.error.name) == (403, "CLUSTER_AUTHORIZATION_FAILED")
            assert sender.is_broken and sender._thread.is_alive()
        await asyncio.to_thread(user.close)

    asyncio.run(main())
