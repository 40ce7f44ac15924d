"""Heads of HTTP requests that do not come, or do not end: the connections of the gateway and the console are closed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kraft import http_heads
from tests.http_transport import Transport, connected

SOON = 20.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def gateways() -> type[Any]:
    door = pytest.importorskip("kraft.gateway.door")
    return door.protocol_of(door.Door(2, 2))


def consoles() -> type[Any]:
    return pytest.importorskip("kraft.console.serving").TimedProtocol


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def wait_for_answer(transport: Transport) -> None:
    async with asyncio.timeout(SOON):
        while b"204" not in transport.written:  # noqa: ASYNC110 - the transport has no event
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", [gateways, consoles])
@pytest.mark.parametrize("sent", [b"", b"GET / HTT"])
def test_a_connection_without_a_request_is_closed(kind: Callable[[], type[Any]], sent: bytes,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_heads, "HEAD_SECONDS", 0.01)

    async def main() -> None:
        protocol, transport = connected(kind(), answer)
        if sent:
            protocol.data_received(sent)
        await asyncio.wait_for(transport.aborted.wait(), SOON)
        protocol.connection_lost(None)

    asyncio.run(main())


@pytest.mark.parametrize("kind", [gateways, consoles])
def test_a_request_in_progress_has_no_timer(kind: Callable[[], type[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the head of a second request has one, however few bytes of it came."""
    gate = []

    async def held(scope: Any, receive: Any, send: Any) -> None:
        gate.append(asyncio.Event())
        await gate[-1].wait()
        await answer(scope, receive, send)

    async def main() -> None:
        protocol, transport = connected(kind(), held)
        assert protocol.timer._timer is not None
        protocol.data_received(REQUEST)
        assert protocol.timer._timer is None
        await asyncio.sleep(0)
        gate[0].set()
        await wait_for_answer(transport)
        monkeypatch.setattr(http_heads, "HEAD_SECONDS", 0.01)
        protocol.data_received(REQUEST[:-1])
        await asyncio.wait_for(transport.aborted.wait(), SOON)
        protocol.connection_lost(None)

    asyncio.run(main())
