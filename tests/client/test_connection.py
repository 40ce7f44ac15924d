"""One connection: its answers, and bytes that are none."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kraft.client.connection import Connection, ConnectionFailedError
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import encode_response_header
from kraft.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData

FETCH = API_BY_KEY[FetchRequest.API_KEY]
VERSION = 12
REQUEST = FetchRequest(max_wait_ms=0, min_bytes=0)


def answer_of(records: bytes, correlation_id: int) -> bytes:
    partition = PartitionData(partition_index=0, high_watermark=0, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    return encode_response_header(FETCH, VERSION, correlation_id) + response.encode(VERSION)


@contextmanager
def peer(answers: Sequence[bytes]) -> Iterator[int]:
    """The port of a server that gives these answers to one connection, after its ApiVersions."""
    versions = ApiVersionsResponse(api_keys=[ApiVersion(api_key=FETCH.key, min_version=0, max_version=VERSION)])
    api = API_BY_KEY[ApiVersionsResponse.API_KEY]
    hello = encode_response_header(api, api.latest_stable, 1) + versions.encode(api.latest_stable)
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(10)

        def serve() -> None:
            with door.accept()[0] as client, client.makefile("rb") as asked:
                for each in (hello, *answers):
                    asked.read(int.from_bytes(asked.read(4), "big"))
                    client.sendall(len(each).to_bytes(4, "big") + each)
                asked.read()

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
