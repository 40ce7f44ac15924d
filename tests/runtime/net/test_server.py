"""Listeners on real sockets: limits, time-outs, slow peers, closing; and that no Python runs per request."""

import asyncio
import resource
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import uvloop

from kraft.broker.client_quotas import ConnectionRates
from kraft.metadata.client_quotas import CONNECTION_RATE
from kraft.runtime.base.descriptors import default_connections_max, logs_max
from kraft.runtime.net.server import Server, ServerLimits
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.net.channel import RequestChannel
from kraft_native.net.connection import Connection
from kraft_native.request.reply import Reply
from tests.native.wires import API_VERSIONS, BODIES, INVALID, METADATA, PIPELINED, UNSUPPORTED, replies, request

MIB = 1 << 20
Handler = Callable[[Reply, int, int, bytes], object]


def on_uvloop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run the test on the kind of loop that nodes use, for at most a minute."""

    def run() -> None:
        uvloop.run(asyncio.wait_for(test(), 60))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def echo(reply: Reply, api_key: int, version: int, body: bytes) -> None:
    reply.answer(body, 0)


class Node:
    """A server with one listener, and the errors that its failure callback received."""

    def __init__(self, server: Server, channel: RequestChannel, port: int, failures: list[BaseException]) -> None:
        self.server, self.channel, self.port, self.failures = server, channel, port, failures

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until the condition holds."""
        for _ in range(30_000):
            if condition():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("it did not happen")


@asynccontextmanager
async def node(on_request: Handler = echo, **limits: Any) -> AsyncIterator[Node]:
    failures: list[BaseException] = []
    server = Server(ServerLimits(**limits), failures.append)
    channel = server.channel("broker", on_request)
    channel.serve_api_versions(BODIES, INVALID, UNSUPPORTED)
    channel.serve(METADATA, 0, 13, 9)
    channel.serve(PIPELINED, 0, 0, 32767, pipelined=True)
    listener = await server.listen("broker", "127.0.0.1", 0, channel)
    try:
        yield Node(server, channel, listener.port, failures)
    finally:
        await server.close(timeout_s=0.1)
        assert server.connections == 0 and server.memory.used_bytes == 0


async def reply_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    data = await reader.readexactly(size)
    return struct.unpack_from(">i", data)[0], data[4:]


@on_uvloop
async def test_every_address_of_ipv6_is_every_address_of_ipv4_as_well() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    server = Server(ServerLimits(), pytest.fail)
    channel = server.channel("broker", echo)
    channel.serve_api_versions(BODIES, INVALID, UNSUPPORTED)
    try:
        listener = await server.listen("broker", "::", 0, channel)
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, listener.port)
            writer.write(request(API_VERSIONS, 0, 7))
            assert await reply_of(reader) == (7, BODIES[0])
            writer.close()
            await writer.wait_closed()
    finally:
        await server.close(timeout_s=0.1)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@on_uvloop
async def test_hot_and_cold_requests_are_answered_in_order() -> None:
    tasks: set[asyncio.Task[None]] = set()

    async def later(reply: Reply, body: bytes) -> None:
        await asyncio.sleep(0)
        reply.answer(body, 0)

    def on_request(reply: Reply, api_key: int, version: int, body: bytes) -> None:
        task = asyncio.get_running_loop().create_task(later(reply, body))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async with node(on_request) as it:
        reader, writer = await it.connect()
        expected = []
        for n in range(0, 300, 3):
            writer.write(request(API_VERSIONS, 0, n) + request(METADATA, 1, n + 1, b"m%d" % n)
                         + request(PIPELINED, 0, n + 2, b"p%d" % n))
            expected += [(n, BODIES[0]), (n + 1, b"m%d" % n), (n + 2, b"p%d" % n)]
        assert [await reply_of(reader) for _ in expected] == expected
        writer.close()
        await it.until(lambda: it.server.connections == 0)
        assert it.server.closed() == {"peer": 1}
        assert it.server.requests() == {API_VERSIONS: 100, METADATA: 100, PIPELINED: 100}
        counters = it.server.counters()
        assert counters["connections_opened"] == 1 and counters["requests_in_progress"] == 0
        assert counters["bytes_in"] > 0 < counters["bytes_out"]


def test_no_python_runs_for_a_hot_request() -> None:
    """1,000 requests run one by one without a Python frame, except those of the test that starts and ends them."""
    frames: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            frames.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        started, done = asyncio.Event(), loop.create_future()

        def client(port: int) -> None:
            with socket.create_connection(("127.0.0.1", port)) as peer, peer.makefile("rb") as stream:
                peer.sendall(request(API_VERSIONS, 0, 0))
                stream.read(8 + len(BODIES[0]))
                loop.call_soon_threadsafe(started.set)
                go.wait()
                for n in range(1000):
                    peer.sendall(request(API_VERSIONS, 0, n))
                    got = stream.read(8 + len(BODIES[0]))
                    assert got[4:8] == struct.pack(">i", n)
                loop.call_soon_threadsafe(done.set_result, None)
                finish.wait()

        go, finish = threading.Event(), threading.Event()
        async with node() as it:
            it.server._sweeper.cancel()
            thread = threading.Thread(target=client, args=(it.port,))
            thread.start()
            await started.wait()
            sys.setprofile(note)
            go.set()
            await done
            sys.setprofile(None)
            finish.set()
            thread.join()
            assert it.channel.requests() == {API_VERSIONS: 1001}

    async def apart() -> None:
        """Serve in a task of its own, so that its awaiter does not resume together with it."""
        await asyncio.create_task(serve())

    uvloop.run(apart())
    ours = [frame for frame in frames if "threading.py" not in frame and __file__ not in frame]
    assert ours == [], ours[:5]
    assert len(frames) < 20


@on_uvloop
async def test_a_thousand_connections_announce_100_mib_each() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2_500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2_500), hard))
    async with node(connections_max=1_200) as it:
        announcement = struct.pack(">i", 100 * MIB) + bytes(1000)
        peers = []
        before = None
        for n in range(1000):
            peer = socket.create_connection(("127.0.0.1", it.port))
            peers.append(peer)
            peer.sendall(announcement)
            if n == 99:
                await it.until(lambda: it.server.memory.used_bytes > 0)
                before = resident_bytes()
        await it.until(lambda: it.channel.bytes_in == 1000 * len(announcement))
        assert resident_bytes() - before < 24 * MIB
        assert it.server.memory.peak_bytes <= 1000 * 4096
        reader, writer = await it.connect()
        writer.write(request(API_VERSIONS, 0, 1))
        assert await reply_of(reader) == (1, BODIES[0]), "others are served"
        writer.close()
        for peer in peers:
            peer.close()
        await it.until(lambda: it.server.connections == 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@on_uvloop
async def test_a_peer_that_never_reads_costs_one_reply() -> None:
    """The peer requests 200 MB and reads nothing: the node reads no further requests. Then the peer reads, and receives
    everything."""
    made = 0

    def on_request(reply: Reply, api_key: int, version: int, body: bytes) -> None:
        nonlocal made
        made += 1
        reply.answer(struct.pack(">i", made) * (MIB // 4), 0)

    async with node(on_request) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port, limit=MIB)
        writer.write(b"".join(request(METADATA, 1, n) for n in range(200)))
        seen = -1
        while made != seen:
            seen = made
            for _ in range(20):
                await asyncio.sleep(0.001)
        assert 0 < made < 50, "what sockets and the test's own reader hold, and one more"
        for n in range(200):
            assert await reply_of(reader) == (n, struct.pack(">i", n + 1) * (MIB // 4))
        writer.close()


@on_uvloop
async def test_parts_stay_pinned_until_the_socket_has_taken_them() -> None:
    """The real transport's queue: memory in which a reply still lies cannot be resized or released."""
    memory = [bytearray(bytes([n]) * 700_000) for n in range(12)]
    expected = b"".join(memory)

    async with node(lambda reply, *_: reply.finish([struct.pack(">i", reply.correlation_id), *memory])) as it:
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        peer.connect(("127.0.0.1", it.port))
        peer.sendall(request(METADATA, 1, 5))
        await it.until(lambda: it.channel.bytes_out > 0)
        for part in memory[-2:]:
            with pytest.raises(BufferError):
                part.append(0)
        peer.setblocking(False)
        got = bytearray()
        while len(got) < 8 + len(expected):
            got += await asyncio.get_running_loop().sock_recv(peer, 1 << 20)
        assert got[8:] == expected
        peer.close()
        await it.until(lambda: it.server.connections == 0)
        for part in memory:
            part.append(0)


@on_uvloop
async def test_connections_over_the_limits_are_refused_and_come_back() -> None:
    async with node(connections_max=3) as it:
        kept = [await it.connect() for _ in range(3)]
        for _, writer in kept:
            writer.write(request(API_VERSIONS, 0, 1))
        for reader, _ in kept:
            await reply_of(reader)
        for _ in range(5):
            reader, writer = await it.connect()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
        kept.pop()[1].close()
        await it.until(lambda: it.server.connections == 2)
        reader, writer = await it.connect()
        writer.write(request(API_VERSIONS, 0, 2))
        assert await reply_of(reader) == (2, BODIES[0])
        for _, open_writer in [*kept, (reader, writer)]:
            open_writer.close()
        await it.until(lambda: it.server.connections == 0)
        assert it.server.closed() == {"connections": 5, "peer": 4}


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
@on_uvloop
async def test_every_ipv6_address_is_every_ipv4_address_too() -> None:
    async with node() as it:
        port = (await it.server.listen("both", "::", 0, it.channel)).port
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(request(API_VERSIONS, 0, 1))
            assert await reply_of(reader) == (1, BODIES[0])
            connections: list[Any] = list(it.channel.connections)
            assert [each.peer_host for each in connections] == [host]
            writer.close()
            await it.until(lambda: it.server.connections == 0)


@on_uvloop
async def test_connections_over_the_limit_of_a_listener_are_refused_there_only() -> None:
    async with node(connections_by_listener={"broker": 2}) as it:
        other = it.server.channel("other", echo)
        other.serve_api_versions(BODIES, INVALID, UNSUPPORTED)
        port = (await it.server.listen("other", "127.0.0.1", 0, other)).port
        kept = [await it.connect() for _ in range(2)]
        kept += [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in kept:
            writer.write(request(API_VERSIONS, 0, 1))
            assert await reply_of(reader) == (1, BODIES[0])
        reader, refused = await it.connect()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        for _, writer in [*kept, (reader, refused)]:
            writer.close()
        await it.until(lambda: it.server.connections == 0)
        assert it.channel.closed == {"connections": 1, "peer": 2}
        assert other.closed == {"peer": 3}


@pytest.mark.parametrize(("limits", "served"), [
    ({"connections_per_ip_max": 1}, 1),
    ({"connections_per_ip_max": 0, "connections_per_ip_overrides": {"127.0.0.1": 2}}, 2),
])
def test_connections_per_address(limits: dict[str, Any], served: int) -> None:
    async def run() -> None:
        async with node(**limits) as it:
            peers = []
            for _ in range(served + 2):
                peers.append(await it.connect())
                await it.until(lambda: it.channel.connections_opened == len(peers))
            await it.until(lambda: it.server.connections == served)
            assert it.server.closed() == {"connections_per_ip": 2}
            for _, writer in peers:
                writer.close()

    uvloop.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(("sent", "limits", "reason"), [
    (struct.pack(">i", 500) + b"x" * 20, {"frame_timeout_ms": 30}, "frame_timeout"),
    (request(API_VERSIONS, 0, 1), {"idle_timeout_ms": 30}, "idle"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), {}, "frame_size"),
    (b"GET / HTTP/1.1\r\n\r\n", {}, "frame_size"),
    (request(4, 0, 1), {}, "api_key"),
    (request(METADATA, 99, 1), {}, "header"),
    (request(METADATA, 99, 1, tags=b"\0"), {}, "api_version"),
])
def test_closed_connections_and_their_causes(sent: bytes, limits: dict[str, int], reason: str) -> None:
    async def run() -> None:
        async with node(rate_min_bytes_per_second=1 << 30, **limits) as it:
            reader, writer = await it.connect()
            writer.write(sent)
            try:
                rest = await reader.read()
            except ConnectionResetError:
                rest = b""
            assert rest == (b"" if reason != "idle" else struct.pack(">ii", 4 + len(BODIES[0]), 1) + BODIES[0])
            await it.until(lambda: it.server.connections == 0)
            assert it.server.closed() == {reason: 1} and it.failures == []
            writer.close()

    uvloop.run(asyncio.wait_for(run(), 60))


@on_uvloop
async def test_a_fault_of_our_own_reaches_the_node_once() -> None:
    fault = ZeroDivisionError("ours")

    def on_request(reply: Reply, *_: object) -> None:
        raise fault

    async with node(on_request) as it:
        for _ in range(2):
            reader, writer = await it.connect()
            writer.write(request(METADATA, 1, 1))
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
        assert it.failures == [fault] and it.server.failure is fault
        assert it.server.closed() == {"failure": 2}
    fault.__traceback__ = None


@on_uvloop
async def test_closing_sends_what_clients_await() -> None:
    waiting: list[Reply] = []
    async with node(lambda reply, *_: waiting.append(reply)) as it:
        reader, writer = await it.connect()
        writer.write(request(METADATA, 1, 1) + request(METADATA, 1, 2))
        await it.until(lambda: len(waiting) == 1)
        closing = asyncio.get_running_loop().create_task(it.server.close(timeout_s=30))
        await asyncio.sleep(0)
        waiting.pop().answer(b"x" * 3_000_000, 0)
        data = await reader.read()
        assert list(replies(data)) == [(1, b"x" * 3_000_000)]
        assert await closing is True
        with pytest.raises(OSError):
            await it.connect()
        writer.close()
        assert it.server.closed() == {"drained": 1}


@on_uvloop
async def test_closing_does_not_wait_indefinitely() -> None:
    waiting: list[Reply] = []
    async with node(lambda reply, *_: waiting.append(reply)) as it:
        reader, writer = await it.connect()
        writer.write(request(METADATA, 1, 1))
        await it.until(lambda: len(waiting) == 1)
        assert await it.server.close(timeout_s=0.01) is False
        assert waiting[0].abandoned
        waiting.pop().answer(b"too late", 0)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        assert it.server.closed() == {"shutdown": 1}


def test_limits_are_checked() -> None:
    for name in ("connections_max", "connections_per_ip_max", "backlog"):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be at least"):
            Server(ServerLimits(**{name: -1}), print)
    with pytest.raises(InvalidArgumentError, match="listener INSIDE must be at least 1, not 0"):
        Server(ServerLimits(connections_by_listener={"OUTSIDE": 1, "INSIDE": 0}), print)
    with pytest.raises(InvalidArgumentError, match="limit_bytes"):
        Server(ServerLimits(memory_bytes_max=0), print)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < default_connections_max() < (1 << 20) + 1
    assert soft == resource.RLIM_INFINITY or default_connections_max() < logs_max(soft) < soft


@on_uvloop
async def test_a_watcher_is_notified_of_the_end_of_a_connection() -> None:
    watched: list[str] = []

    def on_request(reply: Reply, api_key: int, version: int, body: bytes) -> None:
        assert reply.sink is not None
        it.server.watch(reply.sink, lambda: watched.append("first"))
        it.server.watch(reply.sink, lambda: watched.append("second"))
        reply.answer(b"", 0)

    async with node(on_request) as it:
        reader, writer = await it.connect()
        other = await it.connect()
        writer.write(request(METADATA, 0, 1))
        await reply_of(reader)
        other[1].close()
        await it.until(lambda: it.server.connections == 1)
        assert watched == []
        writer.close()
        await it.until(lambda: it.server.connections == 0)
        assert watched == ["second"]


@on_uvloop
async def test_a_host_that_connects_too_often_waits_and_is_closed() -> None:
    """The node reads nothing that the client sends; other addresses are served at once."""
    async with node() as it:
        it.server.rates = ConnectionRates(samples=2, sample_ms=20)
        it.server.rates.update({(("ip", "127.0.0.1"),): {CONNECTION_RATE: 1e-9}}, [(("ip", "127.0.0.1"),)])
        first, refused = await it.connect(), await it.connect()
        other = await asyncio.open_connection("127.0.0.1", it.port, local_addr=("127.0.0.2", 0))
        for _, writer in (first, refused, other):
            writer.write(request(API_VERSIONS, 0, 1))
        assert await other[0].readexactly(8 + len(BODIES[0]))
        for reader, writer in (first, refused):
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        assert it.server.closed() == {"connection_rate": 2}
        assert it.server.requests() == {API_VERSIONS: 1}
        other[1].close()
        await it.until(lambda: it.server.connections == 0)
        assert it.failures == []


@on_uvloop
async def test_connections_over_the_limit_wait() -> None:
    """All clients wait, except those on the brokers' own channel."""
    async with node() as it:
        rates = it.server.rates = ConnectionRates(samples=2, sample_ms=1000)
        rates.update_all(20)
        clients = [await it.connect() for _ in range(25)]
        for _, writer in clients:
            writer.write(request(API_VERSIONS, 0, 1))
        begun = asyncio.get_running_loop().time()
        for reader, _ in clients:
            assert await reader.readexactly(8 + len(BODIES[0]))
        assert asyncio.get_running_loop().time() - begun > 0.15, "five of them at twenty in a second"
        it.server.exempt_channel = it.channel
        reader, writer = await it.connect()
        assert rates.delay_ms("broker", lambda: int(it.server._clock() * 1000)) > 0
        writer.write(request(API_VERSIONS, 0, 1))
        assert await asyncio.wait_for(reader.readexactly(8 + len(BODIES[0])), 0.04)
        for _, each in [*clients, (reader, writer)]:
            each.close()
        await it.until(lambda: it.server.connections == 0)
        assert it.failures == []


@on_uvloop
async def test_limits_of_connections_change_while_running() -> None:
    async with node() as it:
        first = await it.connect()
        await it.until(lambda: it.server.connections == 1)
        it.server.limit_connections(ServerLimits(connections_max=1))
        refused = await it.connect()
        with suppress(ConnectionError):
            assert await refused[0].read() == b""
        with pytest.raises(InvalidArgumentError, match="connections_max must be at least 1"):
            it.server.limit_connections(ServerLimits(connections_max=0))
        first[1].write(request(API_VERSIONS, 0, 1))
        assert await first[0].readexactly(8 + len(BODIES[0])), "established connections stay"
        assert it.server.closed() == {"connections": 1}
        for _, writer in (first, refused):
            writer.close()
        await it.until(lambda: it.server.connections == 0)


@on_uvloop
async def test_a_connection_accepted_while_the_server_closes_is_refused() -> None:
    """The loop reports the connection only after the close."""
    async with node() as it:
        await it.server.close(timeout_s=30)
        with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as late:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(it.channel, it.server), door.accept()[0])  # type: ignore[arg-type, return-value]
            await it.until(lambda: it.server.connections == 0)
            assert late.recv(1) == b""
        assert it.server.closed() == {"shutdown": 1}
