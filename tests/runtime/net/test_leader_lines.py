"""Checks of leaders on real sockets: closed connections and refused ones, with a process that lives or does not."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import uvloop

from kraft.broker.leader_checks import Checked
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, BrokerRegistration
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kraft.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.net.leader_lines import LeaderLines

EPOCH = 12
SECONDS = 20


class Leader(asyncio.Protocol):
    """A broker that answers ApiVersions. It closes the next `closes` connections instead when data arrives."""

    closes = 0
    opened = 0
    all_closed: asyncio.Event
    """Set while no connection is open."""
    latest: asyncio.Transport
    _open = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = Leader.latest = cast("asyncio.Transport", transport)
        Leader.opened += 1
        Leader._open += 1
        Leader.all_closed.clear()

    def connection_lost(self, error: Exception | None) -> None:
        assert error is None or isinstance(error, OSError)
        Leader._open -= 1
        if not Leader._open:
            Leader.all_closed.set()

    def data_received(self, data: bytes) -> None:
        if Leader.closes:
            Leader.closes -= 1
            self.transport.abort()
            return
        body = data[8:12] + ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4)]).encode(4)
        self.transport.write(len(body).to_bytes(4, "big") + body)


def registered(port: int) -> BrokerRegistration:
    delta = MetadataDelta(EMPTY)
    delta.replay(RegisterBrokerRecord(
        broker_id=2, broker_epoch=EPOCH, fenced=False,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0)]))
    return delta.finish(0, 0, 0).brokers[2]


class Lines:
    """Lines to the leader under test. `ended` checks broker 2 and returns those that ended."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.failures: list[BaseException] = []
        self.lines = LeaderLines(1, 200, "PLAINTEXT", Dialer(), self.failures.append)
        self.lines.checks.applied(replace(EMPTY, brokers={2: registered(port)}))
        self.found: list[Checked] = []
        self.news = asyncio.Event()
        checked = self.lines.checks.checked

        def noted(broker_id: int, epoch: int, found: Checked) -> None:
            self.found.append(found)
            checked(broker_id, epoch, found)
            self.news.set()

        self.lines.checks.checked = noted  # type: ignore[method-assign]

    async def close(self) -> None:
        tasks = list(self.lines._tasks)
        self.lines.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def checks_again(self) -> Checked:
        """Wait for the result of a check that no answer waits for."""
        self.news.clear()
        async with asyncio.timeout(SECONDS):
            await self.news.wait()
        return self.found[-1]

    async def ended(self) -> tuple[int, ...]:
        answered: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self.lines.checks.submit((2,), answered.set_result)
        async with asyncio.timeout(SECONDS):
            return await answered


def with_leader(work: Callable[[Lines, asyncio.Server], Awaitable[None]]) -> None:
    async def run() -> None:
        Leader.opened = Leader.closes = Leader._open = 0
        Leader.all_closed = asyncio.Event()
        server = await asyncio.get_running_loop().create_server(Leader, "127.0.0.1", 0)
        lines = Lines(server.sockets[0].getsockname()[1])
        try:
            await work(lines, server)
        finally:
            await lines.close()
            server.close()
            await Leader.all_closed.wait()
        assert lines.failures == []

    uvloop.run(run())


def test_a_leader_that_runs_is_checked_on_one_connection() -> None:
    async def work(lines: Lines, _server: asyncio.Server) -> None:
        assert [await lines.ended(), await lines.ended()] == [(), ()]
        assert (lines.found, Leader.opened) == ([Checked.ANSWERED] * 2, 1)

    with_leader(work)


def test_a_closed_connection_of_a_leader_that_runs_is_opened_again() -> None:
    async def work(lines: Lines, _server: asyncio.Server) -> None:
        assert await lines.ended() == ()
        Leader.closes = 2
        assert await lines.ended() == ()
        assert lines.found == [Checked.ANSWERED] * 2

    with_leader(work)


def test_a_leader_that_ended_is_left_out() -> None:
    async def work(lines: Lines, server: asyncio.Server) -> None:
        assert await lines.ended() == ()
        server.close()
        await server.wait_closed()
        Leader.closes = 1              # its connections close with its listener
        assert await lines.ended() == (2,)
        assert lines.found == [Checked.ANSWERED, Checked.REFUSED]
        assert await lines.ended() == (2,)
        restarted = await asyncio.get_running_loop().create_server(Leader, "127.0.0.1", lines.port)
        assert await lines.ended() == ()
        restarted.close()

    with_leader(work)


def test_a_leader_that_closes_its_connection_is_checked_without_a_request() -> None:
    async def work(lines: Lines, server: asyncio.Server) -> None:
        assert await lines.ended() == ()
        server.close()
        await server.wait_closed()
        Leader.latest.abort()
        assert await lines.checks_again() is Checked.REFUSED
        assert list(lines.lines.checks.refusing) == [2]

    with_leader(work)


def test_a_leader_that_answers_and_closes_each_time_is_not_checked_without_pause() -> None:
    async def work(lines: Lines, _server: asyncio.Server) -> None:
        assert await lines.ended() == ()
        Leader.latest.abort()
        assert await lines.checks_again() is Checked.ANSWERED
        Leader.latest.abort()
        await Leader.all_closed.wait()
        assert await lines.ended() == ()
        assert lines.found == [Checked.ANSWERED] * 3, "the second closed connection caused no check of its own"

    with_leader(work)


def test_a_leader_that_accepts_and_says_nothing_is_named() -> None:
    async def run() -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            lines = Lines(listening.getsockname()[1])
            assert [await lines.ended(), await lines.ended()] == [(), ()]
            assert lines.found == []
            await lines.close()

    uvloop.run(run())
