"""Broken TLS records and SASL frames, from a seed. Each case is one connection, or a few frames on one.

A case does no harm: the node lives, logs no fault, serves others, and its memory stays flat. A client whose token was
changed is never served.
"""

import random
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from kraft.client import Cluster
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft_native.base.errors import KraftError
from tests.fuzz.mutate import MUTATIONS
from tests.fuzz_wire.frames import framed
from tests.hostile_tls.hellos import APPLICATION, HANDSHAKE, hello, old_hello, record
from tests.hostile_tls.run import PASSWORD, USER, HostileNode, Report, check_node, frame

THREADS: Final = 4
ANSWER_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 5.0
GROWTH_BYTES_MAX: Final = 32 << 20
HANDSHAKE_SHARE: Final = 0.1
"""Share of the TLS cases that break a session after its handshake, which costs much more."""
KINDS: Final = (20, 21, HANDSHAKE, APPLICATION, 24, 0, 255)
LENGTHS: Final = (0, 1, 2**14, 2**14 + 256, 2**14 + 257, 0xFFFF)
METADATA_ID: Final = 0x5EED
METADATA: Final = frame(MetadataRequest(topics=[]), METADATA_ID, 1)
"""Request that only a client with a login is served."""
TOKENS: Final = {
    "PLAIN": f"\0{USER}\0{PASSWORD}".encode(),
    "SCRAM-SHA-256": f"n,,n={USER},r=fyko+d2lbbFgONRv9qkxdawL".encode(),
    "OAUTHBEARER": b"n,,\1auth=Bearer x\1\1",
}


class Served(Exception):
    """A client was served that has not logged in."""


def mutated(source: random.Random, data: bytes) -> bytes:
    """Return other bytes than `data`."""
    while True:
        changed = bytearray(data)
        for _ in range(source.randrange(1, 4)):
            if changed:
                source.choice(MUTATIONS)(source, changed)
        if bytes(changed) != data:
            return bytes(changed)


class TlsCases:
    """Cases for the listener with TLS."""

    def __init__(self, node: HostileNode) -> None:
        self._port = node.tls_port
        self._hellos = (hello(), hello(ssl.TLSVersion.TLSv1_2), old_hello())
        self._context = ssl.create_default_context(cafile=str(node.authority))

    def run(self, source: random.Random) -> str:
        """Run one case. Returns its end."""
        with socket.create_connection(("127.0.0.1", self._port), ANSWER_SECONDS) as connection:
            if source.random() < HANDSHAKE_SHARE:
                return self._after_handshake(source, connection)
            data = self._data(source)
            at = source.randrange(len(data) + 1)
            connection.sendall(data[:at])
            connection.sendall(data[at:])
            if source.random() < 0.5:
                return "left"
            connection.shutdown(socket.SHUT_WR)
            return _drained(connection)

    def _data(self, source: random.Random) -> bytes:
        match source.randrange(4):
            case 0:
                return mutated(source, source.choice(self._hellos))
            case 1:                        # one byte in each record
                whole = source.choice(self._hellos)[5:]
                return b"".join(record(HANDSHAKE, whole[at:at + 1]) for at in range(source.randrange(1, len(whole))))
            case 2:
                return b"".join(record(source.choice(KINDS), source.randbytes(source.randrange(64)),
                                       source.choice((None, *LENGTHS))) for _ in range(source.randrange(1, 20)))
            case _:
                return source.choice(self._hellos) + mutated(source, record(source.choice(KINDS), source.randbytes(80)))

    def _after_handshake(self, source: random.Random, connection: socket.socket) -> str:
        received, written = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self._context.wrap_bio(received, written, server_hostname="localhost")
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(written.read())
                received.write(connection.recv(1 << 16))
        session.write(METADATA)
        connection.sendall(mutated(source, written.read()))
        connection.shutdown(socket.SHUT_WR)
        return f"after a handshake {_drained(connection)}"


class SaslCases:
    """Cases for the listener with SASL."""

    def __init__(self, node: HostileNode) -> None:
        self._port = node.sasl_port

    def run(self, source: random.Random) -> str:
        """Run one case. Returns its end. Raises `Served`."""
        mechanism = source.choice(list(TOKENS))
        token = mutated(source, TOKENS[mechanism])
        version = source.randrange(2)
        frames = [frame(SaslHandshakeRequest(mechanism=mechanism), 1, version)]
        authenticate = frame(SaslAuthenticateRequest(auth_bytes=token), 2, 1)
        frames.append(framed(token) if version == 0 else authenticate)
        match source.randrange(5):
            case 0:                        # frames of the exchange in any order and number
                frames = [source.choice((*frames, frame(ApiVersionsRequest(), 3, 1)))
                          for _ in range(source.randrange(1, 6))]
            case 1:
                frames = [mutated(source, each) for each in frames]
            case 2:
                frames.append(struct.pack(">i", source.choice((-1, 0, 1, 2**31 - 1, 600_000))) + token)
            case _:
                pass
        return self._sent(b"".join(frames))

    def _sent(self, data: bytes) -> str:
        with socket.create_connection(("127.0.0.1", self._port), ANSWER_SECONDS) as connection:
            connection.sendall(data + METADATA)
            connection.shutdown(socket.SHUT_WR)
            answer = _received(connection)
        if METADATA_ID.to_bytes(4, "big") in answer:
            raise Served(f"a client without a login is served after {data.hex()}")
        return "answered" if answer else "closed"


def _received(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


def _drained(connection: socket.socket) -> str:
    return "answered" if _received(connection) else "closed"


class Feeder(threading.Thread):
    """Thread that runs cases until there are none."""

    def __init__(self, run: Callable[[random.Random], str], seed: str, take: Callable[[], int | None],
                 ends: Counter[str], report: Report) -> None:
        super().__init__(daemon=True)
        self._run, self._seed, self._take, self._ends, self._report = run, seed, take, ends, report

    def run(self) -> None:
        while (number := self._take()) is not None and not self._report.wrong:
            try:
                end = self._run(random.Random(f"{self._seed} {number}"))
            except TimeoutError:
                self._report.wrong.append(f"case {number} of {self._seed}: no end within {ANSWER_SECONDS} s")
                return
            except (ConnectionRefusedError, Served) as error:
                self._report.wrong.append(f"case {number} of {self._seed}: {error!r}")
                return
            except OSError:                # the node closed the connection before all was sent
                end = "reset"
            self._ends[end] += 1


def fuzz(node: HostileNode, cases: int, seed: int, first: int = 0) -> Report:
    """Run so many cases of each kind. The node runs, without a delay after failed logins."""
    report = Report()
    for name, kind in (("TLS", TlsCases(node)), ("SASL", SaslCases(node))):
        numbers = iter(range(first, first + cases))
        lock = threading.Lock()

        def take(numbers: object = numbers, lock: threading.Lock = lock) -> int | None:
            with lock:
                return next(numbers, None)  # type: ignore[call-overload, no-any-return]

        ends: Counter[str] = Counter()
        feeders = [Feeder(kind.run, f"{name} {seed}", take, ends, report) for _ in range(THREADS)]
        began = time.monotonic()
        for each in feeders:
            each.start()
        memory = _watched(node, feeders, report)
        report.lines.append(f"{sum(ends.values())} cases of {name} in {time.monotonic() - began:.0f} s: {dict(ends)}; "
                            f"resident MiB {[each >> 20 for each in memory]}")
    return report


def _watched(node: HostileNode, feeders: list[Feeder], report: Report) -> list[int]:
    """Check the node while the feeders run. Returns its memory at each check."""
    memory: list[int] = []
    while True:
        is_over = not any(each.is_alive() for each in feeders)
        check_node(node, report)
        if report.wrong:
            return memory
        try:
            with Cluster(node.address, timeout=ANSWER_SECONDS * 5) as cluster:
                cluster.metadata([])
        except KraftError as error:
            report.wrong.append(f"others are not served: {error}")
            return memory
        memory.append(node.resident_bytes())
        settled = memory[min(1, len(memory) - 1)]
        if memory[-1] - settled > GROWTH_BYTES_MAX:
            report.wrong.append(f"memory grew: {memory}")
        if is_over:
            return memory
        next((each for each in feeders if each.is_alive()), feeders[0]).join(CHECK_SECONDS)
