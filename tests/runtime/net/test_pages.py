"""Replies that leave as pages of a log's files: complete and in order, however much the socket accepts at once."""

import asyncio
import random
import socket
import struct
from pathlib import Path
from typing import Any, Literal

import pytest

from kraft.runtime.net.server import SO_BUF_LOCK, SOCK_SNDBUF_LOCK, ServerLimits
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.facade.log import Log
from kraft_native.file.buffer import counters
from kraft_native.request.reply import Reply
from tests.native.logs import batch, read_all
from tests.native.wires import METADATA, PIPELINED, request
from tests.runtime.net.test_server import Handler, Node, node, on_uvloop

SLICE_BYTES_MAX = 700_000
SOCK_RCVBUF_LOCK = 2
BATCHES = 40


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Directory of a log with a few megabytes in which no two places have the same bytes."""
    values = random.Random(7)
    with Log(tmp_path / "t-0") as log:
        for size in range(BATCHES):
            log.append(batch(value=values.randbytes(20_000 + 3_001 * size)))
        log.flush()
    return tmp_path / "t-0"


def of_log(log: Log, bytes_max: int = SLICE_BYTES_MAX,
           isolation: Literal["high_watermark", "log_end"] = "high_watermark") -> Handler:
    """Return a handler that answers with what follows the requested offset, between bytes of its own."""

    def answer(reply: Reply, api_key: int, version: int, body: bytes) -> None:
        piece = log.read(struct.unpack(">q", body)[0], bytes_max, isolation)
        reply.finish([struct.pack(">i", reply.correlation_id), b"<", piece, b">"])

    return answer


def fetches(offsets: list[int], api_key: int = METADATA) -> bytes:
    return b"".join(request(api_key, 0, n, struct.pack(">q", offset)) for n, offset in enumerate(offsets))


def expected(log: Log, offsets: list[int], bytes_max: int = SLICE_BYTES_MAX) -> bytes:
    """Return what the peer is to receive."""
    found = b""
    for n, offset in enumerate(offsets):
        data = struct.pack(">i", n) + b"<" + bytes(log.read(offset, bytes_max)) + b">"
        found += struct.pack(">i", len(data)) + data
    return found


def peer_of(it: Node, buffer_bytes: int = 65_536) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    peer.connect(("127.0.0.1", it.port))
    peer.setblocking(False)
    return peer


async def received(peer: socket.socket, size: int, at_once: int = 1 << 20) -> bytes:
    """Receive so many bytes, or fewer if the stream ends before."""
    got = bytearray()
    while len(got) < size:
        data = await asyncio.get_running_loop().sock_recv(peer, min(at_once, size - len(got)))
        if not data:
            break
        got += data
    return bytes(got)


@pytest.mark.parametrize("buffers", [{}, {"send_buffer_bytes": 8_192}, {"send_buffer_bytes": 102_400}])
@pytest.mark.parametrize("at_once", [1 << 20, 30_011])
def test_all_arrives_in_order(directory: Path, buffers: dict[str, int], at_once: int) -> None:
    offsets = [random.Random(at_once).randrange(BATCHES) for _ in range(30)]

    @on_uvloop
    async def run() -> None:
        before = counters()["mapped_files"]
        with Log(directory) as log:
            wanted = expected(log, offsets)
            async with node(of_log(log), **buffers) as it:
                peer = peer_of(it)
                await asyncio.get_running_loop().sock_sendall(peer, fetches(offsets))
                assert await received(peer, len(wanted), at_once) == wanted
                assert counters()["mapped_files"] == before + 1, "they left from memory"
                peer.close()
        assert counters()["mapped_files"] == before

    run()


@pytest.mark.parametrize(("bytes_max", "as_pages"), [(24_000, 0), (64 * 1024, 1)])
def test_small_replies_are_copied(directory: Path, bytes_max: int, as_pages: int) -> None:
    @on_uvloop
    async def run() -> None:
        before = counters()["mapped_files"]
        with Log(directory) as log:
            wanted = expected(log, [0, 1, 2], bytes_max)
            async with node(of_log(log, bytes_max)) as it:
                peer = peer_of(it)
                await asyncio.get_running_loop().sock_sendall(peer, fetches([0, 1, 2]))
                assert await received(peer, len(wanted)) == wanted
                assert counters()["mapped_files"] == before + as_pages
                peer.close()

    run()


def test_requests_of_one_read_are_answered_in_their_order(directory: Path) -> None:
    offsets = list(range(0, BATCHES, 3))

    @on_uvloop
    async def run() -> None:
        with Log(directory) as log:
            wanted = expected(log, offsets)
            async with node(of_log(log)) as it:
                peer = peer_of(it, 1 << 22)
                await asyncio.get_running_loop().sock_sendall(peer, fetches(offsets, PIPELINED))
                assert await received(peer, len(wanted)) == wanted
                peer.close()

    run()


def test_a_file_that_is_not_there_any_more_is_sent_from_memory(directory: Path) -> None:
    path, = directory.glob("*.log")
    size = path.stat().st_size

    @on_uvloop
    async def run() -> None:
        before = counters()["mapped_files"]
        with Log(directory) as log:
            wanted = expected(log, [0, 5])
            path.rename(directory / "elsewhere")
            path.write_bytes(bytes(size))       # another file of that name
            async with node(of_log(log)) as it:
                peer = peer_of(it)
                await asyncio.get_running_loop().sock_sendall(peer, fetches([0, 5]))
                assert await received(peer, len(wanted)) == wanted
                assert counters()["mapped_files"] == before
                peer.close()
            (directory / "elsewhere").rename(path)

    run()


def test_bytes_that_may_still_be_cut_are_copied(directory: Path) -> None:
    """A replica could otherwise read what its leader's successor has since written into the same pages."""

    @on_uvloop
    async def run() -> None:
        before = counters()["mapped_files"]
        with Log(directory) as log:
            wanted = expected(log, [0, 5])
            async with node(of_log(log, isolation="log_end")) as it:
                peer = peer_of(it)
                await asyncio.get_running_loop().sock_sendall(peer, fetches([0, 5]))
                assert await received(peer, len(wanted)) == wanted
                assert counters()["mapped_files"] == before
                peer.close()

    run()


def test_a_log_that_is_cut_keeps_what_is_on_its_way(directory: Path) -> None:
    """Data that the socket has not accepted is pinned: the file is replaced, not cut."""

    @on_uvloop
    async def run() -> None:
        with Log(directory) as log:
            wanted = expected(log, [20])
            async with node(of_log(log, isolation="log_end"), send_buffer_bytes=8_192) as it:
                peer = peer_of(it)
                await asyncio.get_running_loop().sock_sendall(peer, fetches([20]))
                await it.until(lambda: it.channel.bytes_out > 0)
                log.truncate_to(10)
                log.append(batch(value=b"other" * 9_000))
                assert await received(peer, len(wanted)) == wanted
                peer.close()
            assert len(read_all(log)) > 0

    run()


def test_a_refused_request_closes_behind_the_replies_before_it(directory: Path) -> None:
    """The reply is so small that both requests are read before it is sent, and larger than what the socket accepts."""
    bytes_max = 250_000

    @on_uvloop
    async def run() -> None:
        with Log(directory) as log:
            wanted = expected(log, [3], bytes_max)
            async with node(of_log(log, bytes_max), send_buffer_bytes=8_192) as it:
                peer = peer_of(it, 8_192)
                unknown = struct.pack(">ihhih", 10, 999, 0, 1, -1)
                await asyncio.get_running_loop().sock_sendall(peer, fetches([3], PIPELINED) + unknown)
                assert await received(peer, len(wanted) + 1) == wanted
                await it.until(lambda: it.channel.closed == {"api_key": 1})
                peer.close()

    run()


def test_a_peer_that_does_not_read_is_closed_and_pins_nothing(directory: Path) -> None:
    @on_uvloop
    async def run() -> None:
        before = counters()["slices"]
        with Log(directory) as log:
            async with node(of_log(log), send_buffer_bytes=8_192, reply_timeout_ms=50,
                            rate_min_bytes_per_second=1 << 30) as it:
                peer = peer_of(it)
                await asyncio.get_running_loop().sock_sendall(peer, fetches([0] * 20))
                await it.until(lambda: it.channel.closed == {"slow_reader": 1})
                await it.until(lambda: counters()["slices"] == before)
                peer.close()

    run()


def test_buffers_are_those_of_the_connections() -> None:
    @on_uvloop
    async def run() -> None:
        async with node(send_buffer_bytes=20_000, receive_buffer_bytes=30_000) as it:
            accepting, = it.server.listeners[0].acceptor.sockets     # connections inherit its buffer sizes
            # The system counts its own records too, and doubles the requested size.
            assert accepting.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 40_000
            assert accepting.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 60_000

    run()


@pytest.mark.parametrize("follower_bytes", [-1, 20_000])
def test_a_followers_send_buffer_is_the_systems_where_nobody_set_it(directory: Path, follower_bytes: int) -> None:
    @on_uvloop
    async def run() -> None:
        with Log(directory) as log:
            async with node(of_log(log), send_buffer_bytes=20_000, receive_buffer_bytes=30_000,
                            follower_send_buffer_bytes=follower_bytes) as it:
                with peer_of(it, 1 << 20) as peer:
                    await asyncio.sleep(0)
                    fetch, data = fetches([0]), expected(log, [0])
                    await asyncio.get_running_loop().sock_sendall(peer, fetch)
                    assert await received(peer, len(data)) == data
                    connections: list[Any] = list(it.channel.connections)
                    connection, = connections
                    buffers = connection.transport.get_extra_info("socket")
                    assert buffers.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK) == SOCK_SNDBUF_LOCK | SOCK_RCVBUF_LOCK

                    it.server.serve_follower(connection)
                    for _ in range(4):
                        await asyncio.get_running_loop().sock_sendall(peer, fetch)
                        assert await received(peer, len(data)) == data
                    free = follower_bytes == -1
                    assert buffers.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK) == (
                        SOCK_RCVBUF_LOCK if free else SOCK_SNDBUF_LOCK | SOCK_RCVBUF_LOCK)
                    assert (buffers.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > 40_000) == free

    run()


@pytest.mark.parametrize("name", ["send_buffer_bytes", "follower_send_buffer_bytes", "receive_buffer_bytes"])
@pytest.mark.parametrize("value", [0, -2])
def test_buffers_out_of_range_are_named(name: str, value: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be at least 1, or -1"):
        ServerLimits(**{name: value}).validate()
