"""TLS beside the load generator: both sides see the same bytes, and an end on one side ends the other."""

import random
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft.load.relay import Relay
from tests.client.secure_broker import make_certificates, needs_openssl

pytestmark = needs_openssl

PIECES = 40


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


@contextmanager
def echoing(certificates: Path, bytes_max: int) -> Iterator[ssl.SSLSocket]:
    """A TLS connection to a server that echoes up to so many bytes and then ends."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates / "server.pem")
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with server.wrap_socket(theirs, server_side=True) as secure:
            left = bytes_max
            while left > 0 and (data := secure.recv(min(left, 1 << 16))):
                secure.sendall(data)
                left -= len(data)

    thread = threading.Thread(target=serve)
    thread.start()
    client = ssl.create_default_context(cafile=certificates / "ca.pem")
    with client.wrap_socket(ours, server_hostname="localhost") as secure:
        yield secure
    thread.join()


def test_bytes_pass_both_ways(certificates: Path) -> None:
    """The sides send many more bytes than the buffers hold, on two connections, at the same time."""
    pieces = [random.Random(number).randbytes(100_000) for number in range(PIECES)]
    total = sum(map(len, pieces))
    with echoing(certificates, total) as one, echoing(certificates, total) as other, Relay([one, other]) as relay:
        ends = [socket.socket(fileno=socket.dup(fileno)) for fileno in relay.filenos()]
        for end in ends:
            end.settimeout(30)
        senders = [threading.Thread(target=lambda end=end: [end.sendall(piece) for piece in pieces]) for end in ends]
        for sender in senders:
            sender.start()
        for end in ends:
            found = bytearray()
            while len(found) < total:
                found += end.recv(1 << 20)
            assert found == b"".join(pieces)
        for sender in senders:
            sender.join()
        assert relay.computed_seconds() > 0
        for end in ends:
            assert end.recv(1) == b""      # the server ended, so the core sees an end
            end.close()


def test_it_ends_while_connections_live(certificates: Path) -> None:
    with echoing(certificates, 1 << 20) as secure:
        with Relay([secure]) as relay:
            assert len(relay.filenos()) == 1
        secure.settimeout(30)
        secure.sendall(b"still open")
        assert secure.recv(100) == b"still open"
