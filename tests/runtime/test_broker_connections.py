"""Connections to brokers that may be offline, on real sockets."""

import socket

import uvloop

from kraft.controller.sessions import Found
from kraft.metadata.image import Endpoint
from kraft.runtime.broker_connections import probe


def endpoint(port: int, host: str = "127.0.0.1") -> Endpoint:
    return Endpoint("PLAINTEXT", host, port, 0)


def test_what_an_address_says() -> None:
    async def run() -> None:
        with socket.socket() as listening, socket.socket() as bound:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            bound.bind(("127.0.0.1", 0))
            there, gone = endpoint(listening.getsockname()[1]), endpoint(bound.getsockname()[1])
            unknown = endpoint(1, "no-such-host.invalid")
            assert await probe([there]) is Found.THERE       # although nothing accepts: the process may hang
            assert await probe([gone]) is Found.GONE
            assert await probe([gone, there]) is Found.THERE
            assert await probe([gone, unknown]) is Found.SILENT
            assert await probe([endpoint(1, "a..b")]) is Found.SILENT
            assert await probe([]) is Found.SILENT

    uvloop.run(run())
