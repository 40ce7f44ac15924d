"""TLS between a socket's transport and a protocol, on both loops: bytes, back-pressure, ends, and failures."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Self

import pytest
import uvloop

from kraft.tls.contexts import client_context, server_context
from kraft.tls.settings import TlsSettings
from kraft_native.net.outgoing import plain_descriptor
from kraft_native.net.tls import TlsTransport
from kraft_native.net.tls_session import TlsMemory
from tests.tls.files import client_settings, node_settings

pytestmark = pytest.mark.usefixtures("library")

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
WINDOW_BYTES = 64 * 1024
# The first loop of a process opens a pipe for signals, which stays open.
uvloop.new_event_loop().close()


class Echo(asyncio.BufferedProtocol):
    """Sends back what it receives, through a buffer of a few bytes."""

    def __init__(self, buffer_bytes: int = 1000) -> None:
        self.buffer = bytearray(buffer_bytes)
        self.transport: Any = None
        self.events: list[str] = []
        self.received = bytearray()
        self.echoes = True
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        if self.echoes:
            self.transport.write(bytes(self.buffer[:nbytes]))

    def eof_received(self) -> None:
        self.events.append("eof")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exception: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exception)


class BufferedTls(TlsTransport, asyncio.BufferedProtocol):
    """A transport for asyncio's own loop."""


class Owner:
    """Owner of connections, which notes what it is called with."""

    def __init__(self, context: ssl.SSLContext, protocol: Echo, server_name: str | None = None) -> None:
        self.context = context
        self.protocol = protocol
        self.server_name = server_name
        self.calls: list[str] = []
        self.ended: asyncio.Future[TlsTransport] = asyncio.get_running_loop().create_future()
        self.begins = True
        self.made: list[TlsTransport] = []

    def transport(self) -> TlsTransport:
        kind = TlsTransport if isinstance(asyncio.get_running_loop(), uvloop.Loop) else BufferedTls
        self.made.append(kind(self, TlsMemory(WINDOW_BYTES), asyncio.get_running_loop().call_soon,
                              is_server=self.server_name is None))
        return self.made[-1]

    def arrived(self, transport: TlsTransport) -> None:
        self.calls.append("arrived")
        assert transport.peer_host == "127.0.0.1"
        assert transport.peer_port > 0
        if self.server_name is not None:
            transport.begin(self.context, self.server_name)

    def hello(self, transport: TlsTransport) -> None:
        self.calls.append("hello")
        if self.begins:
            transport.begin(self.context)

    def opened(self, _transport: TlsTransport) -> Echo:
        self.calls.append("opened")
        return self.protocol

    def failed(self, transport: TlsTransport) -> None:
        self.calls.append("failed")
        self.ended.set_result(transport)


def run(loop: Callable[[], asyncio.AbstractEventLoop], test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await test()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(limited())


class Served:
    """A listener with one owner for all its connections, and its port."""

    def __init__(self, settings: TlsSettings, buffer_bytes: int = 1000) -> None:
        self.owner = Owner(server_context(settings), Echo(buffer_bytes))

    async def __aenter__(self) -> Self:
        self.server = await asyncio.get_running_loop().create_server(
            self.owner.transport, "127.0.0.1", 0)  # type: ignore[arg-type]
        self.port: int = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for each in self.owner.made:
            each.abort()
        await self.server.wait_closed()
        for _ in range(100):               # the ends of both sides are reported in later iterations
            await asyncio.sleep(0)


@pytest.mark.parametrize("loop", LOOPS)
def test_bytes_of_both_sides(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Megabytes pass in both directions, in records of any size."""
    data = bytes(range(256)) * 8192

    async def test() -> None:
        async with Served(node_settings(), 50_000) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=client_context(
                client_settings()), server_hostname="localhost")
            for size in (1, 17_000, len(data)):
                writer.write(data[:size])
                assert await reader.readexactly(size) == data[:size]
            transport = served.owner.protocol.transport
            assert plain_descriptor(transport) == -1
            assert plain_descriptor(transport.plain) >= 0
            assert transport.get_extra_info("sslcontext") is served.owner.context
            assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"
            assert transport.get_extra_info("peername") == writer.get_extra_info("sockname")
            transport.close()
            assert transport.is_closing()
            transport.write(b"too late")
            assert await reader.read() == b""
            await served.owner.protocol.lost
            writer.transport.abort()
            assert served.owner.calls == ["arrived", "hello", "opened"]
            assert transport.get_extra_info("peername", 7) == 7

    run(loop, test)


@pytest.mark.parametrize("loop", LOOPS)
def test_both_sides_by_this_transport(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    data = b"x" * 1_000_000

    async def test() -> None:
        async with Served(node_settings("required")) as served:
            own = Echo(100_000)
            own.echoes = False
            client = Owner(client_context(client_settings("alice")), own, "localhost")
            await asyncio.get_running_loop().create_connection(
                client.transport, "127.0.0.1", served.port)  # type: ignore[arg-type]
            while own.transport is None:  # noqa: ASYNC110 - each iteration is a step of the handshake
                await asyncio.sleep(0)
            own.transport.writelines([data[:5], data[5:], b""])
            while len(own.received) < len(data):  # noqa: ASYNC110
                await asyncio.sleep(0)
            own.transport.abort()
            await own.lost
            await served.owner.protocol.lost
            assert client.calls == ["arrived", "opened"]

    run(loop, test)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slow_reader_pauses_the_protocol_and_costs_little(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Bytes that the socket does not accept are not encrypted, so they need no second copy."""
    data = b"y" * 8_000_000

    async def test() -> None:
        async with Served(node_settings()) as served:
            context = client_context(client_settings())
            plain = socket.create_connection(("127.0.0.1", served.port))
            client = await asyncio.to_thread(context.wrap_socket, plain, server_hostname="localhost")
            protocol = served.owner.protocol
            while protocol.transport is None:  # noqa: ASYNC110
                await asyncio.sleep(0)
            protocol.transport.writelines([data, b"end"])
            assert protocol.events == ["made", "pause"]
            assert protocol.transport.get_write_buffer_size() > 1_000_000
            assert protocol.transport.plain.get_write_buffer_size() <= 140_000
            assert await asyncio.to_thread(read_all, client, len(data) + 3) == data + b"end"
            while "resume" not in protocol.events:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert protocol.transport.get_write_buffer_size() == 0
            # What is written before the close arrives.
            protocol.transport.write(data)
            protocol.transport.close()
            assert await asyncio.to_thread(read_all, client, len(data)) == data
            assert await asyncio.to_thread(client.recv, 1) == b""
            client.close()
            await protocol.lost

    run(loop, test)


def read_all(source: ssl.SSLSocket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        found += source.recv(min(1 << 16, size - len(found)))
    return bytes(found)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_paused_protocol_receives_nothing(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def test() -> None:
        async with Served(node_settings()) as served:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=client_context(
                client_settings()), server_hostname="localhost")
            protocol = served.owner.protocol
            protocol.echoes = False
            writer.write(b"a" * 100)
            while len(protocol.received) < 100:  # noqa: ASYNC110
                await asyncio.sleep(0)
            protocol.transport.pause_reading()
            writer.write(b"b" * 100_000)
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(protocol.received) == 100
            protocol.transport.resume_reading()
            while len(protocol.received) < 100_100:  # noqa: ASYNC110
                await asyncio.sleep(0)
            writer.transport.abort()
            await protocol.lost
            assert protocol.events[-1] == "lost"

    run(loop, test)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_ends_a_handshake(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def failed(settings: TlsSettings, connect: Callable[[int], None]) -> BaseException | None:
        async with Served(settings) as served:
            await asyncio.to_thread(connect, served.port)
            transport = await served.owner.ended
            assert served.owner.calls[-1] == "failed"
            return transport.error

    def plain(data: bytes) -> Callable[[int], None]:
        def connect(port: int) -> None:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(data)
                client.settimeout(10)
                if data:
                    try:
                        client.recv(100)
                    except ConnectionResetError:
                        return
        return connect

    def encrypted(settings: TlsSettings) -> Callable[[int], None]:
        def connect(port: int) -> None:
            try:
                with client_context(settings).wrap_socket(socket.create_connection(("127.0.0.1", port)),
                                                          server_hostname="localhost") as client:
                    client.recv(1)
            except OSError:
                return
        return connect

    async def test() -> None:
        assert await failed(node_settings(), plain(b"")) is None
        assert "does not speak TLS" in str(await failed(node_settings(), plain(b"\0\0\0\x10\0\x12")))
        for settings, client, reason in (
                (node_settings("required"), client_settings(), "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
                (node_settings(), client_settings(of="other"), "TLSV1_ALERT_UNKNOWN_CA")):
            error = await failed(settings, encrypted(client))
            assert isinstance(error, ssl.SSLError)
            assert error.reason == reason
        broken = await failed(node_settings(), plain(b"\x16\x03\x01\0\x05hello" * 10))
        assert isinstance(broken, ssl.SSLError)

    run(loop, test)


def test_a_client_that_sends_no_whole_record_costs_no_session() -> None:
    async def test() -> None:
        async with Served(node_settings()) as served:
            served.owner.begins = False
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            while not served.owner.calls:  # noqa: ASYNC110
                await asyncio.sleep(0)
            for part in (b"\x16\x03\x01", b"\0", b"\5", b"hell"):
                writer.write(part)
                for _ in range(20):
                    await asyncio.sleep(0)
                assert served.owner.calls == ["arrived"], "the first record is not whole"
            writer.write(b"o")
            while served.owner.calls == ["arrived"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
            writer.transport.abort()

    run(uvloop.new_event_loop, test)


def test_damaged_records_end_the_connection() -> None:
    async def test() -> None:
        async with Served(node_settings()) as served:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=client_context(
                client_settings()), server_hostname="localhost")
            writer.write(b"fine")
            while not served.owner.protocol.received:  # noqa: ASYNC110
                await asyncio.sleep(0)
            os.write(writer.get_extra_info("socket").fileno(), b"\x17\x03\x03\0\x05wrong")
            error = await served.owner.protocol.lost
            assert isinstance(error, ssl.SSLError)
            assert served.owner.protocol.events[-1] == "lost"
            writer.transport.abort()

    run(uvloop.new_event_loop, test)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_answer_before_a_damaged_record_is_no_fault(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The session is broken when the answer to the whole record before is written."""
    async def test() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        async with Served(node_settings()) as served:
            await asyncio.to_thread(send_damage, served.port)
            error = await served.owner.protocol.lost
            assert isinstance(error, ssl.SSLError)
            assert error.reason == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
            assert served.owner.protocol.received == b"whole"
            assert served.owner.protocol.events == ["made", "lost"]
        assert faults == []

    run(loop, test)


def send_damage(port: int) -> None:
    """Send a whole record and a damaged one at once, after a handshake."""
    received, written = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = client_context(client_settings()).wrap_bio(received, written, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(written.read())
                received.write(connection.recv(1 << 16))
        session.write(b"whole")
        connection.sendall(written.read() + b"\x17\x03\x03\0\x05wrong")
        while connection.recv(1 << 16):
            pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(version: ssl.TLSVersion) -> None:
    """A client with a certificate connects again without a full handshake."""
    def connect(port: int) -> list[bool | None]:
        context = client_context(client_settings("alice"))
        context.maximum_version = version
        session: ssl.SSLSession | None = None
        found: list[bool | None] = []
        for _ in range(2):
            plain = socket.create_connection(("127.0.0.1", port), 10)
            with context.wrap_socket(plain, server_hostname="localhost", session=session) as client:
                client.sendall(b"hi")
                assert read_all(client, 2) == b"hi"
                session = client.session
                found.append(client.session_reused)
        return found

    async def test() -> None:
        async with Served(node_settings("required")) as served:
            served.owner.opened = lambda _transport: Echo()  # type: ignore[method-assign]
            assert await asyncio.to_thread(connect, served.port) == [False, True]

    run(uvloop.new_event_loop, test)
