"""TLS handshakes of listeners: limits before them, their order, time-outs, users, and what is counted and logged."""

import asyncio
import logging
import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import pytest

from kraft.broker.client_quotas import ConnectionRates
from kraft.runtime.net import handshakes
from kraft.runtime.net.handshakes import RefusedClientError, reason_of, sentence_of
from kraft.runtime.net.server import Server, ServerLimits
from kraft.runtime.net.tls_contexts import ListenerTls
from kraft.security.principal import ANONYMOUS, Principal
from kraft.security.principal_mapping import parse_mapping
from kraft.tls.certificates import facts_of
from kraft.tls.contexts import client_context, server_context
from kraft.tls.settings import TlsSettings
from kraft_native.net.connection import Connection
from kraft_native.net.tls import TlsTransport
from kraft_native.request.reply import Reply
from tests.cycles import alive, without_collections
from tests.native.wires import API_VERSIONS, BODIES, INVALID, METADATA, UNSUPPORTED, request
from tests.runtime.net.test_server import Node, on_uvloop, reply_of
from tests.tls.files import LOCAL, client_settings, issued, node_settings

pytestmark = pytest.mark.usefixtures("library")

DEFAULT = "DEFAULT"
HANDSHAKE_NS = 200_000


def listener_tls(settings: TlsSettings, rules: str = DEFAULT) -> ListenerTls:
    return ListenerTls(settings, server_context(settings), parse_mapping(rules),
                       facts_of(issued("node", *LOCAL).certificate))


def counted(node: "TlsNode", reason: str, count: int) -> bool:
    return node.tls.failures[reason] == count


async def ended(reader: asyncio.StreamReader) -> None:
    """The other side ends the connection, without any byte of a request's answer."""
    with suppress(ConnectionError):
        await reader.read()


class Client(NamedTuple):
    """A client's connection, as the queue of handshakes sees it."""

    peer_host: str
    number: int


class TlsNode(Node):
    """A server with one listener with TLS, and the users of its requests."""

    users: list[object]
    writers: list[asyncio.StreamWriter]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await super().connect()
        self.writers.append(found[1])
        return found

    @property
    def tls(self) -> handshakes.TlsListener:
        return self.server.tls["broker"]

    async def encrypted(self, settings: TlsSettings) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await asyncio.open_connection("127.0.0.1", self.port, ssl=client_context(settings),
                                              server_hostname="localhost")
        self.writers.append(found[1])
        return found

    async def user_of(self, settings: TlsSettings) -> object:
        reader, writer = await self.encrypted(settings)
        writer.write(request(API_VERSIONS, 0, 1) + request(METADATA, 0, 2, b"body"))
        assert await reply_of(reader) == (1, BODIES[0])
        assert await reply_of(reader) == (2, b"body")
        writer.transport.abort()
        return self.users[-1]


@asynccontextmanager
async def tls_node(settings: TlsSettings | None = None, rules: str = DEFAULT, clock: Callable[[], float] | None = None,
                   **limits: Any) -> AsyncIterator[TlsNode]:
    failures: list[BaseException] = []
    found = listener_tls(settings or node_settings(), rules)
    given = {} if clock is None else {"clock": clock}
    server = Server(ServerLimits(**limits), failures.append, tls={"broker": found}, **given)
    users: list[object] = []

    def answer(reply: Reply, _key: int, _version: int, body: bytes) -> None:
        users.append(reply.sink.principal)  # type: ignore[union-attr]
        reply.answer(body, 0)

    channel = server.channel("broker", answer)
    channel.serve_api_versions(BODIES, INVALID, UNSUPPORTED)
    channel.serve(METADATA, 0, 13, 9)
    listener = await server.listen("broker", "127.0.0.1", 0, channel)
    node = TlsNode(server, channel, listener.port, failures)
    node.users = users
    node.writers = []
    try:
        yield node
    finally:
        for writer in node.writers:
            writer.transport.abort()
        await server.close(timeout_s=0.5)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (server.connections, server.memory.used_bytes, node.tls.waiting) == (0, 0, 0)
        assert failures == []


@on_uvloop
async def test_a_certificate_names_the_user() -> None:
    async with tls_node(node_settings("requested"), "RULE:^CN=(al.*)$/$1/U, RULE:^CN=(b.*)$/$1/") as node:
        assert await node.user_of(client_settings("alice")) == Principal("User", "ALICE")
        assert await node.user_of(client_settings("bob")) == Principal("User", "bob")
        assert await node.user_of(client_settings()) == ANONYMOUS
        assert node.tls.handshakes == 3
        # A user without a name is none, and is not anonymous either.
        reader, _ = await node.encrypted(client_settings("carol"))
        await ended(reader)
        await node.until(lambda: node.tls.failures == Counter({"principal": 1}))
    async with tls_node() as node:
        assert await node.user_of(client_settings("alice")) == ANONYMOUS       # its certificate is not requested


@on_uvloop
async def test_a_closed_connection_is_freed_without_a_garbage_collection() -> None:
    async with tls_node(node_settings("requested")) as node:
        with without_collections():
            await node.user_of(client_settings("alice"))
            for sent in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\3\1\0\4\1\0\0\0"):
                reader, writer = await node.connect()
                writer.write(sent)
                writer.write_eof()
                await ended(reader)
            reader, writer = await node.encrypted(client_settings("alice"))
            await node.until(lambda: bool(node.channel.connections))
            os.write(writer.get_extra_info("socket").fileno(), b"\x17\3\3\0\x20" + bytes(32))     # not encrypted
            with pytest.raises(ssl.SSLError, match=r"(?i)bad record mac"):
                await reader.read()
            await node.until(lambda: alive(TlsTransport, Connection) == 0)


@on_uvloop
async def test_connections_count_before_their_handshake() -> None:
    async with tls_node(connections_per_ip_max=2, connections_max=9) as node:
        first = await node.connect()
        second = await node.connect()
        await node.until(lambda: node.tls.waiting == 2)
        assert node.server.connections == 2
        third, _ = await node.connect()
        await ended(third)
        await node.until(lambda: node.tls.failures["limit"] == 1)
        for _, writer in (first, second):
            writer.transport.abort()
        await node.until(lambda: node.tls.failures["closed"] == 2)
        assert node.server.connections == 0
        await node.user_of(client_settings())
    async with tls_node(connections_by_listener={"broker": 1}) as node:
        _, writer = await node.connect()
        await node.until(lambda: node.tls.waiting == 1)
        reader, _ = await node.connect()
        await ended(reader)
        writer.transport.abort()


@on_uvloop
async def test_a_handshake_has_a_time_limit() -> None:
    now = [100.0]
    async with tls_node(clock=lambda: now[0], handshake_timeout_ms=5_000) as node:
        silent, _ = await node.connect()
        slow, writer = await node.connect()
        writer.write(b"\x16\x03\x01\x01\x00")
        await node.until(lambda: node.tls.waiting == 2)
        now[0] += 4.9
        node.tls.sweep(node.server.clock_ms())
        assert node.tls.failures["timeout"] == 0
        now[0] += 0.2
        node.tls.sweep(node.server.clock_ms())
        await ended(silent)
        await ended(slow)
        await node.until(lambda: node.tls.failures["timeout"] == 2)
        # Another client was served all the time.
        await node.user_of(client_settings())


@on_uvloop
async def test_handshakes_begin_for_a_slice_of_time() -> None:
    """Requests of others are served between them, so no number of clients stops the loop for long."""
    async with tls_node() as node:
        begun: list[Client] = []
        node.tls.begin = begun.append  # type: ignore[method-assign]
        queue = handshakes.HandshakeQueue(lambda: len(begun) * HANDSHAKE_NS)
        for number in range(11):
            queue.add(node.tls, Client("10.0.0.1", number))  # type: ignore[arg-type]
        counts = []
        while len(begun) < 11:
            await asyncio.sleep(0)
            counts.append(len(begun))
        assert [each.number for each in begun] == list(range(11))
        assert counts == [3, 6, 9, 11]


@on_uvloop
async def test_addresses_take_turns_in_beginning_handshakes() -> None:
    async with tls_node() as node:
        begun: list[Client] = []
        node.tls.begin = begun.append  # type: ignore[method-assign]
        queue = handshakes.HandshakeQueue(lambda: len(begun) * HANDSHAKE_NS)
        for number in range(100):
            queue.add(node.tls, Client("10.0.0.1", number))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        for host in ("10.0.0.2", "10.0.0.3"):
            queue.add(node.tls, Client(host, 0))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert {each.peer_host for each in begun[3:6]} == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}


@on_uvloop
async def test_a_new_certificate_is_for_new_connections() -> None:
    """The old ones continue."""
    found = {"broker": listener_tls(node_settings())}
    server = Server(ServerLimits(), pytest.fail, tls=found)
    channel = server.channel("broker", lambda reply, _key, _version, body: reply.answer(body, 0))
    channel.serve_api_versions(BODIES, INVALID, UNSUPPORTED)
    listener = await server.listen("broker", "127.0.0.1", 0, channel)
    certificates = []
    writers = []
    for name in ("node", "other"):
        found["broker"] = listener_tls(node_settings(name=name))
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=client_context(
            client_settings()), server_hostname="localhost")
        certificates.append(writer.get_extra_info("peercert")["subject"][0][0][1])
        writers.append((reader, writer))
    assert certificates == ["node", "other"]
    for reader, writer in writers:
        writer.write(request(API_VERSIONS, 0, 1))
        assert await reply_of(reader) == (1, BODIES[0])
        writer.transport.abort()
    await server.close(timeout_s=1)
    for _ in range(5):
        await asyncio.sleep(0)


@on_uvloop
async def test_addresses_that_connect_too_often_wait_before_their_handshake() -> None:
    async with tls_node() as node:
        node.server.rates = ConnectionRates(11, 1000)
        node.server.rates.update_all(1)
        delays = [(0, 60), (50, 0)]
        node.server.slow_down = lambda *_: delays.pop() if delays else (0, 0)  # type: ignore[method-assign]
        reader, _ = await node.connect()
        await ended(reader)                       # throttled, and closed without a handshake
        assert node.tls.failures["limit"] == 1
        started = asyncio.get_running_loop().time()
        await node.user_of(client_settings())                   # delayed, then served
        assert asyncio.get_running_loop().time() - started >= 0.05


@on_uvloop
async def test_failures_are_counted_and_logged_at_a_limited_rate() -> None:
    now = [100.0]
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    kept = Kept()
    handshakes.log.addHandler(kept)
    try:
        async with tls_node(clock=lambda: now[0]) as node:
            for number in range(handshakes.LOGGED_MAX + 3):
                reader, writer = await node.connect()
                port = writer.get_extra_info("sockname")[1]
                writer.write(request(API_VERSIONS, 0, 1))
                await ended(reader)
                await node.until(partial(counted, node, "plaintext", number + 1))
                if number == 0:
                    assert records[0].getMessage() == (
                        f"listener broker: no TLS connection with 127.0.0.1:{port}: the client does not speak TLS; is "
                        "its security.protocol PLAINTEXT?")
            assert len(records) == handshakes.LOGGED_MAX
            now[0] += 60
            reader, writer = await node.connect()
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            await ended(reader)
            await node.until(lambda: len(records) == handshakes.LOGGED_MAX + 2)
            assert records[-2].getMessage() == "listener broker: 3 more TLS handshakes failed"
    finally:
        handshakes.log.removeHandler(kept)


def failure(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "failed")
    error.reason = reason
    return error


@pytest.mark.parametrize(("error", "reason", "says"), [
    (None, "closed", ""), (ConnectionResetError(), "closed", ""), (RefusedClientError("connections"), "limit", "limit"),
    (TimeoutError("longer"), "timeout", "longer"), (failure("NO_SHARED_CIPHER"), "cipher", "no common cipher suite"),
    (failure("UNSUPPORTED_PROTOCOL"), "version", "no common version"),
    (failure("PEER_DID_NOT_RETURN_A_CERTIFICATE"), "no_certificate", "ssl.client.auth=required"),
    (failure("CERTIFICATE_VERIFY_FAILED"), "certificate", "is not trusted"),
    (failure("TLSV1_ALERT_UNKNOWN_CA"), "refused_by_peer", "the client refused"),
    (failure("HTTP_REQUEST"), "plaintext", "does not speak TLS"), (failure("BAD_DIGEST_LENGTH"), "protocol", "failed"),
])
def test_reasons(error: BaseException | None, reason: str, says: str) -> None:
    assert reason_of(error) == reason
    assert says in sentence_of(reason, error)


@on_uvloop
async def test_the_end_of_a_server_ends_handshakes() -> None:
    async with tls_node() as node:
        reader, _ = await node.connect()
        await node.until(lambda: node.tls.waiting == 1)
        assert await node.server.close(timeout_s=5)
        await ended(reader)


def test_windows_are_shared() -> None:
    assert handshakes.HandshakeQueue().memory is not handshakes.HandshakeQueue().memory
