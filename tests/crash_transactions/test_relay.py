"""The relay: each of its faults reaches the broker as it says, and all other requests pass."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.crash_transactions import relay
from tests.crash_transactions.relay import END_TXN, EPOCH_PER_TRANSACTION, LATE, LOSE_ANSWER, REPEAT, Relay

SECONDS = 20.0
Request = tuple[int, int, bytes]


def frame(key: int, version: int, correlation: int, body: bytes = b"body") -> bytes:
    content = struct.pack(">hhi", key, version, correlation) + body
    return struct.pack(">i", len(content)) + content


def receive(connection: socket.socket) -> bytes:
    """Receive one frame without its size; empty at the end."""
    head = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL) if head else b""


class Broker:
    """Answers every request with its correlation id, and keeps all requests."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while content := receive(connection):
                key, _, correlation = struct.unpack_from(">hhi", content)
                with self.changed:
                    self.requests.append((key, correlation, content[8:]))
                    self.changed.notify_all()
                connection.sendall(struct.pack(">ii", 4, correlation))

    def await_requests(self, count: int) -> list[Request]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, SECONDS), self.requests
            return list(self.requests)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._threads:
            each.join()


@contextmanager
def relayed(monkeypatch: pytest.MonkeyPatch, kind: str) -> Iterator[tuple[Broker, socket.socket]]:
    """A relay with one fault for every EndTxn, and a client's connection."""
    monkeypatch.setattr(Relay, "_draw", lambda self, version: kind)
    monkeypatch.setattr(relay, "LATE_SECONDS", (0.0,))
    broker = Broker()
    between = Relay([broker.address], 1)
    try:
        with socket.create_connection(("127.0.0.1", between.ports[0]), SECONDS) as client:
            yield broker, client
        assert between.counts == ({kind: 1} if kind else {})
    finally:
        between.close()
        broker.close()


def test_a_request_without_a_fault_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    with relayed(monkeypatch, "") as (broker, client):
        client.sendall(frame(0, 12, 5) + frame(END_TXN, 5, 6))
        assert [receive(client), receive(client)] == [struct.pack(">i", 5), struct.pack(">i", 6)]
        assert broker.requests == [(0, 5, b"body"), (END_TXN, 6, b"body")]


def test_a_repeated_request_has_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with relayed(monkeypatch, REPEAT) as (broker, client):
        client.sendall(frame(END_TXN, 4, 6) + frame(0, 12, 7))
        assert [receive(client), receive(client)] == [struct.pack(">i", 6), struct.pack(">i", 7)]
        (_, first, body), (_, second, same), (key, last, _) = broker.await_requests(3)
        assert (first, last, key) == (6, 7, 0)
        assert body == same
        assert second not in (6, 7)


def test_a_lost_answer_closes_the_connection_after_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with relayed(monkeypatch, LOSE_ANSWER) as (broker, client):
        client.sendall(frame(END_TXN, 4, 6))
        assert receive(client) == b""
        assert broker.requests == [(END_TXN, 6, b"body")]


def test_a_late_request_arrives_by_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with relayed(monkeypatch, LATE) as (broker, client):
        client.sendall(frame(END_TXN, 5, 6))
        assert receive(client) == b""
        assert broker.await_requests(1) == [(END_TXN, 6, b"body")]


def test_only_requests_with_an_epoch_for_each_transaction_are_late() -> None:
    for late_for_all in (False, True):
        between = Relay([], 1, chance=1.0, late_for_all=late_for_all)
        try:
            old, new = ([between._draw(version) for _ in range(200)]
                        for version in (EPOCH_PER_TRANSACTION - 1, EPOCH_PER_TRANSACTION))
        finally:
            between.close()
        assert sorted(dict.fromkeys(new)) == sorted((REPEAT, LOSE_ANSWER, LATE))
        assert (LATE in old) is late_for_all
