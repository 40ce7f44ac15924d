"""The queue of requests to the active controller continues, whatever happens to one of them."""

import asyncio
import logging
from typing import cast

import pytest
import uvloop

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.raft.types import Endpoint
from kraft.runtime.net.controller_channel import ControllerChannel, Line
from kraft.runtime.net.dialer import Dialer


def test_a_fault_of_ours_ends_one_request_and_not_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    async def send_twice() -> list[int]:
        faults = [AttributeError("no socket"), AttributeError("again")]

        def find() -> Endpoint | None:
            raise faults.pop(0)

        channel = ControllerChannel("test", Dialer(), find, lambda *_request: False, timeout_seconds=10)
        answers: list[int] = []
        done = asyncio.Event()

        def answered(response: Message) -> None:
            answers.append(response.error_code)  # type: ignore[attr-defined]
            if len(answers) == 2:
                done.set()

        for _ in range(2):
            channel.submit(BrokerHeartbeatRequest(), 1, answered)
        async with asyncio.timeout(10):
            await done.wait()
        channel.close()
        return answers

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(send_twice()) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["BrokerHeartbeatRequest ends by a fault of our own"] * 2


def test_a_callback_that_fails_ends_one_request_and_not_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    """A channel that ended unnoticed would leave the broker without heartbeats or without in-sync replicas."""
    async def send_twice() -> None:
        channel = ControllerChannel("test", Dialer(), lambda: None, lambda *_request: False, timeout_seconds=0)
        done = asyncio.Event()

        def failing(_response: Message) -> None:
            raise AttributeError("no partition")

        channel.submit(BrokerHeartbeatRequest(), 1, failing)
        channel.submit(BrokerHeartbeatRequest(), 1, lambda _response: done.set())
        async with asyncio.timeout(10):
            await done.wait()
        channel.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(send_twice())
    assert caplog.messages == ["the answer to BrokerHeartbeatRequest ends by a fault of our own"]


def test_a_local_controller_that_fails_ends_one_request_and_not_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    """The first request is refused by `here` and waits; the second attempt for it fails."""
    async def send() -> int:
        calls: list[object] = []
        answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def here(*_request: object) -> bool:
            calls.append(_request)
            if len(calls) == 2:
                raise AttributeError("no controller")
            return False

        channel = ControllerChannel("test", Dialer(), lambda: None, here, timeout_seconds=10)
        channel.submit(BrokerHeartbeatRequest(), 1,
                       lambda response: answered.set_result(response.error_code))  # type: ignore[attr-defined]
        async with asyncio.timeout(10):
            code = await answered
        channel.close()
        return code

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(send()) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.messages == ["BrokerHeartbeatRequest ends by a fault of our own"]


@pytest.mark.parametrize("host", ["x" * 64, "a..b", "a\0b", ".", "é" * 70])
def test_a_host_that_is_none_is_a_node_that_cannot_be_reached(host: str) -> None:
    """The node that claims to be the leader also announces this host."""
    async def reach() -> None:
        line = Line("test", Dialer())
        with pytest.raises((OSError, TimeoutError)):
            await line.open(Endpoint("CONTROLLER", host, 9093))
        line.close()

    uvloop.run(reach())


class Greeter(asyncio.Protocol):
    """A controller that reports its versions and answers nothing else."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        body = data[8:12] + ApiVersionsResponse().encode(int.from_bytes(data[6:8]))
        self.transport.write(len(body).to_bytes(4) + body)


def test_a_line_that_was_closed_since_it_was_opened_is_not_waited_for() -> None:
    """The controller may move between the greeting and the first request."""
    async def reach() -> None:
        async with await asyncio.get_running_loop().create_server(Greeter, "127.0.0.1", 0) as server:
            line = Line("test", Dialer())
            await line.open(Endpoint("CONTROLLER", *server.sockets[0].getsockname()))
            line.close()
            with pytest.raises(ConnectionError):
                await line.request(BrokerHeartbeatRequest(), 1, timeout_seconds=0.2)

    asyncio.run(reach())


class Echo(Greeter):
    """A controller that answers the first request with its own bytes, and no other."""

    def __init__(self) -> None:
        self.count = 0

    def data_received(self, data: bytes) -> None:
        self.count += 1
        if self.count == 1:
            super().data_received(data)
        elif self.count == 2:
            body = data[8:12] + b"\0" + b"answer"
            self.transport.write(len(body).to_bytes(4) + body)


async def called(line: Line, timeout_seconds: float) -> bytes | None:
    answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    line.call(BrokerHeartbeatRequest(), 1, timeout_seconds,
              lambda body: answer.set_result(None if body is None else bytes(body)))
    assert not answer.done()
    return await answer


def test_a_call_gets_the_answer_or_none_when_none_comes() -> None:
    async def reach() -> None:
        async with await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0) as server:
            line = Line("test", Dialer())
            assert not line.is_open
            await line.open(Endpoint("CONTROLLER", *server.sockets[0].getsockname()))
            assert line.is_open
            assert await called(line, 20) == b"answer"
            assert await called(line, 0.01) is None
            assert not line.is_open
            assert await called(line, 20) is None

    uvloop.run(reach())
