"""Connections to brokers that may be offline, on real sockets."""

import socket

import uvloop

from kraft.controller.sessions import Found
from kraft.metadata.image import Endpoint
from kraft.runtime.net.broker_connections import probe


def endpoint(port: int, host: str = "127.0.0.1") -> Endpoint:
    return Endpoint("PLAINTEXT", host, port, 0)


def test_parts_of_an_address() -> None:
    async def run() -> None:
        with socket.socket() as listening, socket.socket() as bound:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            bound.bind(("127.0.0.1", 0))
            open_endpoint, closed = endpoint(listening.getsockname()[1]), endpoint(bound.getsockname()[1])
            unknown = endpoint(1, "no-such-host.invalid")
            assert await probe([open_endpoint]) is Found.ACCEPTED       # although nothing accepts: the process may hang
            assert await probe([closed]) is Found.REFUSED
            assert await probe([closed, open_endpoint]) is Found.ACCEPTED
            assert await probe([closed, unknown]) is Found.UNANSWERED
            assert await probe([endpoint(1, "a..b")]) is Found.UNANSWERED
            assert await probe([]) is Found.UNANSWERED

    uvloop.run(run())
