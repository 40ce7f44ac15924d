"""Connections of a follower to its leaders, against servers that behave as the test requires."""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
import uvloop

from kraft.broker.replica_roles import key_of
from kraft.config.node_config import NodeConfig
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.replication import Replication
from kraft_native.partition.partition import Partition
from tests.native.logs import batch
from tests.native.serving import Node

SECONDS = 10.0
LEADER, FOLLOWER = 1, 2


class Leader:
    """Accepts connections, and answers nothing. With `dribbles` it sends the start of an answer that never ends;
    `dribble` adds a byte."""

    def __init__(self, *, dribbles: bool = False) -> None:
        self.connections: asyncio.Queue[socket.socket] = asyncio.Queue()
        self.answered = asyncio.Event()
        self._dribbles = dribbles
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for each in self._writers:
            each.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connections.put_nowait(writer.get_extra_info("socket"))
        if self._dribbles:
            writer.write((1 << 20).to_bytes(4, "big"))
        while await reader.read(1 << 16):
            self.answered.set()

    def dribble(self) -> None:
        self._writers[-1].write(b"\0")

    async def next_connection(self) -> None:
        async with asyncio.timeout(SECONDS):
            await self.connections.get()


def replication(tmp_path: Path, port: int, **settings: str) -> Replication:
    """Build the replication of a broker that knows one other broker."""
    changed = {name.replace("_", "."): text for name, text in settings.items()}
    config = NodeConfig({"log.dirs": str(tmp_path), "replica.fetch.wait.max.ms": "10", **changed})
    endpoint = SimpleNamespace(name="PLAINTEXT", host="127.0.0.1", port=port)
    broker: Any = SimpleNamespace(
        node_id=FOLLOWER, epoch=7, config=config, layers=config.layers, integer=config.integer,
        image=SimpleNamespace(brokers={LEADER: SimpleNamespace(endpoints=(endpoint,))}))
    return Replication(broker, Dialer(), lambda: 0, pytest.fail)


def follow(node: Node, made: Replication) -> Partition:
    partition = node.partition(leader=False, high_watermark="manual")
    partition.become_follower(0, LEADER)
    made.begin(LEADER, key_of(partition), partition)
    return partition


def test_a_fetch_to_an_unresponsive_leader_uses_another_connection(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The leader's machine may be down, or a device in between may have dropped the connection: nothing reports
    that."""
    async def run() -> None:
        node = Node(tmp_path)
        async with Leader() as leader:
            made = replication(tmp_path, leader.port, replica_socket_timeout_ms="100")
            made.start()
            follow(node, made)
            for _ in range(3):
                await leader.next_connection()
            made.close()
        node.close()

    with caplog.at_level(logging.WARNING):
        uvloop.run(run())
    assert "broker 1 has not answered a Fetch for 100 ms: requests go to another connection" in caplog.messages


def test_a_leader_that_sends_slowly_is_waited_for(tmp_path: Path) -> None:
    """The time-out restarts with each part that arrives; the whole answer need not arrive within it."""
    async def run() -> None:
        node = Node(tmp_path)
        async with Leader(dribbles=True) as leader:
            made = replication(tmp_path, leader.port, replica_socket_timeout_ms="1000")
            made.start()
            follow(node, made)
            await leader.next_connection()
            leader_side = next(iter(made._leaders.values()))
            async with asyncio.timeout(SECONDS):
                await leader.answered.wait()
            for _ in range(8):
                fetcher = leader_side._fetcher
                assert fetcher is not None
                async with asyncio.timeout(SECONDS):
                    while fetcher.silent_ms < 20:  # noqa: ASYNC110 - no event marks the time
                        await asyncio.sleep(0)
                leader.dribble()
                async with asyncio.timeout(SECONDS):
                    while fetcher.silent_ms >= 20:  # noqa: ASYNC110 - no event marks a byte
                        await asyncio.sleep(0)
                leader_side.look(1000)
            assert leader_side._fetcher is fetcher
            leader_side.look(0)
            assert leader_side._fetcher is None, "it still owes an answer"
            made.close()
        node.close()

    uvloop.run(run())


@pytest.mark.parametrize(("text", "sized"), [(None, False), ("-1", False), ("131072", True)])
def test_the_receive_buffer_is_the_systems_unless_it_is_set(tmp_path: Path, text: str | None, *, sized: bool) -> None:
    made = replication(tmp_path, 1, **({} if text is None else {"replica_socket_receive_buffer_bytes": text}))
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
        made.size_buffer(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == (2 * 131072 if sized else 40_000)


def test_a_connection_may_take_longer_to_open_after_it_failed(tmp_path: Path) -> None:
    made = replication(tmp_path, 1, socket_connection_setup_timeout_ms="300",
                       socket_connection_setup_timeout_max_ms="1000")
    assert [made.connect_seconds(failures) for failures in (0, 1, 2, 50)] == [0.3, 0.6, 1.0, 1.0]


def test_a_connection_that_breaks_while_it_is_opened_is_replaced(tmp_path: Path) -> None:
    """The loss may be reported before the task that opened the connection runs again."""
    async def run() -> None:
        node, opened = Node(tmp_path), list[Any]()

        async def connect(_address: object, make: Callable[[], Any], *, seconds: float) -> Any:
            protocol = make()
            opened.append(protocol)
            transport = SimpleNamespace(get_extra_info=lambda _name: None, abort=lambda: None, write=lambda _data: None)
            protocol.connection_made(transport)
            if len(opened) == 1:
                protocol.connection_lost(None)
            return transport

        made = replication(tmp_path, 1)
        made.dialer = cast("Dialer", SimpleNamespace(connect=connect))
        partition = follow(node, made)
        async with asyncio.timeout(SECONDS):
            while len(opened) < 2:  # noqa: ASYNC110 - no event marks the second connection
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert [each.partitions() for each in opened] == [[], [partition]]
        made.close()
        node.close()

    asyncio.run(run())


def test_a_fault_while_a_connection_is_opened_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the task would end unnoticed, and nothing of that leader would be fetched again."""
    async def run() -> list[BaseException]:
        node, faults = Node(tmp_path), list[BaseException]()
        async with Leader() as leader:
            made = replication(tmp_path, leader.port)
            made.on_failure = faults.append
            def fail(_socket: socket.socket) -> None:
                raise IndexError("none")

            monkeypatch.setattr(made, "size_buffer", fail)
            follow(node, made)
            await leader.next_connection()
            async with asyncio.timeout(SECONDS):
                while not faults:  # noqa: ASYNC110 - no event marks a fault
                    await asyncio.sleep(0)
            made.close()
        node.close()
        return faults

    assert [type(each) for each in uvloop.run(run())] == [IndexError]


def test_pauses_of_a_partition_whose_fetch_fails_grow_to_the_setting(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[float]:
        node = Node(tmp_path)
        pauses: list[float] = []
        made = replication(tmp_path, 1, replica_fetch_backoff_ms="100")
        partition = follow(node, made)
        with monkeypatch.context() as patched:
            loop, timer = asyncio.get_running_loop(), SimpleNamespace(cancel=lambda: None)
            patched.setattr(loop, "call_later", lambda pause, *_: (pauses.append(pause), timer)[1])
            for _ in range(4):
                made._failed(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        made.close()
        node.close()
        return pauses

    assert asyncio.run(run()) == [0.02, 0.04, 0.08, 0.1]


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("answers", [True, False])
def test_an_outdated_answer_about_the_leaders_log_cuts_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int, *, answers: bool) -> None:
    """While the query was under way, records were fetched, in another leader epoch or over another connection. The
    leader counts them."""
    async def run() -> None:
        node, made = Node(tmp_path), replication(tmp_path, 1)
        partition = follow(node, made)
        key = key_of(partition)

        async def log_bounds(*_: object) -> tuple[int, int]:
            if epoch:
                made.end(LEADER, key)
                partition.become_follower(epoch, LEADER)
                made.begin(LEADER, key, partition)
            partition.log.append_as_follower(batch(3, leader_epoch=epoch))
            if not answers:
                raise TimeoutError
            return 0, 1

        monkeypatch.setattr("kraft.runtime.replicas.replication.log_bounds", log_bounds)
        await made._find_place(key, LEADER, partition)
        assert (partition.log.log_end_offset, made._retries) == (3, {})
        made.close()
        node.close()

    asyncio.run(run())
