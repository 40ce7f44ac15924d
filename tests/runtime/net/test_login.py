"""Logins of a node to listeners of others."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kraft.client import Cluster
from kraft.client.users import set_password
from kraft.config.node_config import NodeConfig
from kraft.config.sasl_settings import Credentials
from kraft.log_dir import new_cluster_id
from kraft.metadata.image import Endpoint as MetadataEndpoint
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.raft.types import Endpoint
from kraft.runtime.controller_node import ControllerNode
from kraft.runtime.net.controller_channel import Line
from kraft.runtime.net.dialer import Dialer, LoginError
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage.formatting import FormatRequest, format_storage
from kraft.security.sasl.first_credentials import first_credential
from tests.runtime.net.test_sasl import LISTENER, MODULE, secured
from tests.runtime.nodes import config

VERSION = 12


def on_node(settings: Any, work: Callable[[ServerNode], Awaitable[None]]) -> None:
    async def main() -> None:
        node = ServerNode(settings)
        await node.start()
        try:
            await work(node)
        finally:
            node.stop()
            await node.run()

    uvloop.run(main())


def address(node: ServerNode, listener: str = LISTENER) -> Endpoint:
    return Endpoint(LISTENER, "127.0.0.1", node.listeners[listener].port)


def dialer(mechanism: str, password: str = "hush") -> Dialer:
    return Dialer(logins={LISTENER: Credentials(mechanism, "bob", password)})


def test_users_of_connections_get_them_after_the_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(node: ServerNode) -> None:
        def add() -> None:
            with Cluster(f"127.0.0.1:{node.listeners['PLAINTEXT'].port}") as cluster:
                set_password(cluster, "bob", "hush", ["SCRAM-SHA-512"])

        await asyncio.to_thread(add)
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            lost = asyncio.Event()
            line = Line("test", dialer(mechanism), lost.set)
            await line.open(address(node))
            body = await line.request(MetadataRequest(topics=[]), VERSION, 10)
            assert MetadataResponse.decode(body, VERSION).brokers
            async with asyncio.timeout(10):
                await lost.wait()                  # before the end of the session, so that the next request has another
            assert "session" not in node.parts.path.server.closed()
        refused = dialer("SCRAM-SHA-512", "wrong")
        for _ in range(3):
            with pytest.raises(LoginError, match="user 'bob' by SCRAM-SHA-512: Authentication failed"):
                await refused.connect(address(node), lambda: pytest.fail("the protocol was created"))
        with pytest.raises(LoginError, match="the listener has only PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
            await dialer("GSSAPI").connect(address(node), asyncio.Protocol)
        with pytest.raises(LoginError, match="the listener has no SASL"):
            await dialer("PLAIN").connect(address(node, "PLAINTEXT"), asyncio.Protocol)

    with caplog.at_level(logging.WARNING):
        on_node(secured(tmp_path, connections_max_reauth_ms="1000"), work)
    assert len([text for text in caplog.messages if "the login at listener LOGIN fails" in text]) == 3
    assert "hush" not in caplog.text


@pytest.mark.parametrize("answer", [
    b"", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\4\0\0\0\0", b"\0\0\0\x8c" + bytes(140), b"HTTP/1.1 400\r\n\r\n",
])
def test_listeners_that_answer_with_something_else(answer: bytes) -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            where = Endpoint(LISTENER, *server.sockets[0].getsockname()[:2])
            with pytest.raises(OSError, match=r"closed|cannot|LOGIN|user"):
                await dialer("PLAIN").connect(where, lambda: pytest.fail("the protocol was created"))

    uvloop.run(main())


def test_a_controller_without_a_broker_demands_a_login(tmp_path: Path) -> None:
    """Its credentials for SCRAM are those of its own metadata log, from `--add-scram`."""
    jaas = "listener.name.login.plain.sasl.jaas.config"
    settings = NodeConfig({
        "process.roles": "controller", "node.id": "1", "log.dirs": str(tmp_path),
        "listeners": f"{LISTENER}://127.0.0.1:0",
        "controller.listener.names": LISTENER, "listener.security.protocol.map": f"{LISTENER}:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512", "sasl.mechanism.controller.protocol": "PLAIN",
        "connection.failed.authentication.delay.ms": "1", "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        jaas: f'{MODULE} required username="bob" password="hush" user_bob="hush";'})
    format_storage(FormatRequest(
        1, new_cluster_id(), (tmp_path,), (MetadataEndpoint(LISTENER, "127.0.0.1", 9093, 2),),
        credentials=(first_credential("SCRAM-SHA-512=[name=bob,password=hush]", lambda: b"salt"),)), 0, uuid.uuid4)

    async def main() -> None:
        node = ControllerNode(settings)
        await node.start()
        try:
            where = Endpoint(LISTENER, "127.0.0.1", node.listeners[LISTENER].port)
            async with asyncio.timeout(20):
                while (2, "bob") not in node.parts.quorum.metadata.image.scram:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0)
            for mechanism in ("PLAIN", "SCRAM-SHA-512"):
                line = Line("test", dialer(mechanism))
                await line.open(where)
                assert await line.request(DescribeClusterRequest(endpoint_type=2), 1, 10)
                line.close()
            line = Line("test", Dialer())
            await line.open(where)                 # versions are reported to every client
            with pytest.raises(ConnectionError):
                await line.request(DescribeClusterRequest(endpoint_type=2), 1, 10)
            line.close()
            with pytest.raises(LoginError):
                await dialer("PLAIN", "wrong").connect(where, asyncio.Protocol)
        finally:
            node.stop()
            await node.run()

    uvloop.run(main())


def test_a_node_without_logins_is_as_before(tmp_path: Path) -> None:
    async def work(node: ServerNode) -> None:
        transport = await Dialer().connect(address(node, "PLAINTEXT"), asyncio.Protocol)
        transport.abort()

    on_node(config(tmp_path), work)
