"""Connections to other nodes: names, limits of time, pauses, TLS."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kraft.protocol.api_keys import ApiKey
from kraft.raft.messages import Lost
from kraft.raft.types import Endpoint
from kraft.raft.wire import FETCH_CODEC
from kraft.runtime.net.dialer import Backoff, Dialer, is_address
from kraft.runtime.net.peers import Peers
from tests.client.secure_broker import make_certificates, needs_openssl
from tests.runtime.net.test_peers import FETCHED, FakePeer, Receiver, fetch, lease, not_followed
from tools.tree import ROOT, files

KEYS = (ApiKey.API_VERSIONS, FETCH_CODEC.key)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have every name resolve to these addresses."""
    async def getaddrinfo(_loop: Any, _host: str, port: int, **_options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.SelectorEventLoop, "getaddrinfo", getaddrinfo)


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")

    async def run() -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            port = listening.getsockname()[1]
            transport = await Dialer().connect(Endpoint("C", "name", port), asyncio.Protocol)
            assert transport.get_extra_info("peername") == ("127.0.0.1", port)
            transport.abort()
        with pytest.raises(ConnectionRefusedError):
            await Dialer().connect(Endpoint("C", "name", port), asyncio.Protocol)

    asyncio.run(run())


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "no-such-host.invalid", ""])
def test_an_impossible_host_is_an_oserror(host: str) -> None:
    """A peer announces host names, so none of them may end the task that connects."""
    async def run() -> None:
        with pytest.raises(OSError, match=r"."):
            await Dialer().connect(Endpoint("C", host, 1), asyncio.Protocol)

    uvloop.run(run())


def test_a_failure_of_the_event_loop_is_an_oserror(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop raises RuntimeError for a connection that is closed while it is being opened. The tasks that connect
    handle OSError. A task that ended by anything else would never connect again."""
    async def create_connection(*_: Any, **__: Any) -> None:
        raise RuntimeError("closed Transport handle and unset waiter")

    monkeypatch.setattr(asyncio.SelectorEventLoop, "create_connection", create_connection)
    with pytest.raises(ConnectionError, match="closed Transport handle"):
        asyncio.run(Dialer().connect(Endpoint("C", "127.0.0.1", 1), asyncio.Protocol))  # type: ignore[arg-type]


def test_an_address_without_an_answer_costs_its_limit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        with socket.socket() as full:      # its queue is full: further connection requests are dropped
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            waiting = []
            for _ in range(4):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
                waiting.append(each)
            with pytest.raises(TimeoutError):
                await Dialer().connect(Endpoint("C", "127.0.0.1", port), asyncio.Protocol, seconds=0.05)
            for each in waiting:
                each.close()

    asyncio.run(run())


def test_pauses_grow_until_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        pauses = []

        async def sleep(seconds: float) -> None:
            pauses.append(round(seconds))

        monkeypatch.setattr("kraft.runtime.net.dialer.asyncio.sleep", sleep)
        backoff = Backoff(100, 300)
        await backoff.wait()
        for _ in range(3):
            backoff.failed()
            await backoff.wait()
        backoff.reset()
        await backoff.wait()
        assert pauses == [100, 200, 300]

    asyncio.run(run())


def test_the_pause_is_measured_by_any_clock() -> None:
    backoff = Backoff(10, 30)
    assert backoff.left(0) == 0
    assert [backoff.failed(now) for now in (100, 200, 300)] == [10, 20, 30]
    assert (backoff.left(320), backoff.left(340)) == (10, -10)
    backoff.reset()
    assert backoff.left(300) == 0


def test_numeric_addresses_need_no_resolver() -> None:
    assert [host for host in ("127.0.0.1", "::1", "localhost", "1.2.3", "", "a\0b") if is_address(host)] == [
        "127.0.0.1", "::1"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


@needs_openssl
@pytest.mark.parametrize(("authority", "listener"), [("ca", "C"), ("ca", ""), ("other", "C"), (None, "C")])
def test_the_context_of_a_listener_secures_its_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, certificates: Path, authority: str | None,
    listener: str
) -> None:
    """Requests that another thread writes would bypass TLS, so there are none on an encrypted connection. An endpoint
    without a name is one of controllers."""
    resolve_to(monkeypatch, "127.0.0.1")

    async def run() -> None:
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(certificates / "server.pem")
        contexts = {} if authority is None else {"C": ssl.create_default_context(
            cafile=str(certificates / f"{authority}.pem"))}
        receiver = Receiver()
        async with FakePeer(KEYS, server) as peer:
            address = Endpoint(listener, "localhost", peer.address.port)
            peers = Peers("test", receiver, Dialer(contexts, unnamed="C"))
            peers.send(fetch(1, address, 7))
            _, _, answer = await receiver.next()
            if authority == "ca":
                assert answer == FETCHED
                assert not peers.follow(lease(2, 7), not_followed())
                peers.send(fetch(3, None, 7))
                assert (await receiver.next())[2] == FETCHED
            else:
                assert isinstance(answer, Lost)
            assert ("the TLS handshake at listener C fails: " in caplog.text) is (authority == "other")
            peers.close()

    asyncio.run(run())


def test_one_place_reads_the_descriptor_of_a_transport() -> None:
    """It returns none for an encrypted connection. A second place might forget that, and send plain bytes."""
    reading = [path.relative_to(ROOT).as_posix() for top in ("kraft/runtime", "kraft_native")
               for path in files(ROOT / top) if path.suffix in (".py", ".pyx") and ".fileno()" in path.read_text()]
    assert reading == ["kraft_native/net/outgoing.pyx"]
