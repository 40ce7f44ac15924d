"""One connection: its answers, and bytes that are none."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kraft.client.connection import AuthenticationError, ClosedError, Connection, ConnectionFailedError
from kraft.client.security import Security
from kraft.protocol.apis import API_BY_KEY, Api
from kraft.protocol.headers import encode_response_header
from kraft.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.client.secure_broker import make_certificates, needs_openssl, secure_door
from tests.ports import free_ports

FETCH = API_BY_KEY[FetchRequest.API_KEY]
HANDSHAKE = API_BY_KEY[SaslHandshakeRequest.API_KEY]
VERSION = 12
REQUEST = FetchRequest(max_wait_ms=0, min_bytes=0)


def answer_of(records: bytes, correlation_id: int) -> bytes:
    partition = PartitionData(partition_index=0, high_watermark=0, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    return encode_response_header(FETCH, VERSION, correlation_id) + response.encode(VERSION)


def versions(*apis: Api) -> bytes:
    """The first answer on a connection: these APIs, and no others."""
    own = API_BY_KEY[ApiVersionsResponse.API_KEY]
    answer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=each.key, min_version=0, max_version=VERSION)
                                           for each in apis])
    return encode_response_header(own, own.latest_stable, 1) + answer.encode(own.latest_stable)


@contextmanager
def peer(answers: Sequence[bytes]) -> Iterator[int]:
    """The port of a server that gives these answers to one connection, after its ApiVersions."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(10)

        def serve() -> None:
            with door.accept()[0] as client, client.makefile("rb") as received:
                for each in (versions(FETCH), *answers):
                    received.read(int.from_bytes(received.read(4), "big"))
                    client.sendall(len(each).to_bytes(4, "big") + each)
                received.read()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield door.getsockname()[1]
        finally:
            thread.join()


def records_of(connection: Connection) -> bytes | None:
    connection.post(REQUEST, VERSION)
    return connection.answer(REQUEST, FetchResponse, VERSION).responses[0].partitions[0].records


def test_answers_stay_as_they_are_when_others_come() -> None:
    sent = [b"a" * 1000, b"b" * 1000, b"c" * 10, b"d" * 5000]
    with peer([answer_of(each, number) for number, each in enumerate(sent, 2)]) as port, \
            Connection("127.0.0.1", port) as connection:
        assert [records_of(connection) for _ in sent] == sent


def test_an_answer_to_something_else_ends_the_connection() -> None:
    with peer([answer_of(b"", 7)]) as port, Connection("127.0.0.1", port) as connection:
        with pytest.raises(ConnectionFailedError, match="answered request 7, not 2"):
            records_of(connection)
        assert connection.socket.fileno() == -1


@pytest.mark.parametrize("size", [3, (1 << 30) + 1, -1])
def test_an_impossible_size_ends_the_connection(size: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=lambda: announce(door, size))
        thread.start()
        with pytest.raises(ConnectionFailedError, match=f"announced an answer of {size} bytes"):
            Connection("127.0.0.1", door.getsockname()[1])
        thread.join()


def announce(door: socket.socket, size: int) -> None:
    door.settimeout(10)
    with door.accept()[0] as client:
        client.sendall(size.to_bytes(4, "big", signed=True))
        client.recv(1 << 16)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


@contextmanager
def closing_peer(*apis: Api) -> Iterator[int]:
    """The port of a server that answers ApiVersions on every connection, and closes it at any other request."""
    threads: list[threading.Thread] = []

    def serve(client: socket.socket) -> None:
        with client, client.makefile("rb") as received:
            received.read(int.from_bytes(received.read(4), "big"))
            client.sendall(len(versions(*apis)).to_bytes(4, "big") + versions(*apis))
            received.read(1)

    def accept(door: socket.socket) -> None:
        while (client := door.accept()[0]).getpeername() != end.getsockname():
            threads.append(threading.Thread(target=serve, args=(client,)))
            threads[-1].start()
        client.close()

    with socket.create_server(("127.0.0.1", 0)) as door, socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        threads.append(threading.Thread(target=accept, args=(door,)))
        threads[0].start()
        try:
            yield door.getsockname()[1]
        finally:
            end.connect(door.getsockname())
            for thread in threads:
                thread.join()


@needs_openssl
@pytest.mark.parametrize(("door", "client", "cause"), [
    ({"tls": True}, {}, "requires TLS, and security.protocol is PLAINTEXT"),
    ({"tls": True}, {"mechanism": "PLAIN"}, "requires TLS, and security.protocol is SASL_PLAINTEXT"),
    ({"sasl": True}, {}, r"requires SASL \(PLAIN, SCRAM-SHA-256, SCRAM-SHA-512\), and security.protocol is PLAINTEXT"),
    ({"tls": True, "sasl": True}, {"tls": True}, r"requires SASL \(PLAIN, .*\), and security.protocol is SSL"),
    ({"tls": True, "wants_client": True}, {"tls": True}, "require a client certificate|ALERT.*CERTIFICATE"),
    ({}, {"tls": True}, "is this a listener with TLS?"),
    ({}, {"mechanism": "PLAIN", "username": "u"}, "user 'u' by PLAIN: the listener has no SASL"),
    ({"sasl": True}, {"mechanism": "OTHER"}, "the listener has only PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
])
def test_a_listener_with_another_security_protocol_is_named(certificates: Path, door: dict[str, bool],
                                                            client: dict[str, Any], cause: str) -> None:
    """Such a listener only closes the connection, as Kafka's do."""
    port, = free_ports(1)
    trusted = {"ca_file": str(certificates / "ca.pem")} if "tls" in client else {}
    with closing_peer(FETCH, *([HANDSHAKE] if door.get("sasl") else [])) as behind, secure_door(
            port, behind, certificates=certificates if door.get("tls") else None, sasl=door.get("sasl", False),
            wants_client=door.get("wants_client", False)), pytest.raises(AuthenticationError, match=cause), \
            Connection("localhost", port, security=Security(**client, **trusted)) as connection:
        records_of(connection)


def test_a_closed_connection_is_not_a_matter_of_security_by_itself() -> None:
    with closing_peer(FETCH) as port, Connection("127.0.0.1", port) as connection, \
            pytest.raises(ClosedError, match="closed the connection"):
        records_of(connection)


def test_a_listener_that_closes_every_connection_is_queried_once() -> None:
    with closing_peer(FETCH, HANDSHAKE) as port, Connection("127.0.0.1", port) as connection, \
            pytest.raises(ClosedError, match="closed the connection"):
        records_of(connection)
