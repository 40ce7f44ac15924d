"""SASL on the listeners of a node: clients that are served, those that are not, and hostile ones."""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs, describe_configs
from kraft.client.connection import AuthenticationError, Connection
from kraft.client.refusals import RefusedError
from kraft.client.security import PLAINTEXT, Security
from kraft.client.topics import create_topic
from kraft.client.users import remove_credentials, set_password
from kraft.config.node_config import NodeConfig
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.runtime.net.sasl import AuthenticationLog, SaslGate
from kraft.runtime.server_node import ServerNode
from kraft.security.principal import Principal
from kraft_native.net.channel import RequestChannel
from kraft_native.net.connection import Connection as NodeConnection
from tests.cycles import alive, without_collections
from tests.runtime.nodes import config, with_node

USER, PASSWORD = "alice, =", "s3cret\u00fc"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENER = "LOGIN"
TOKEN = b"\0bob\0hush"
DELAY_MS = 20
TIMER_SECONDS = 0.002   # an event loop counts whole milliseconds, and from the start of its iteration
TLS_HELLO = b"\x16\3\1\2\0\1\0\1\xfc\3\3"


def secured(data: Path, **settings: str) -> NodeConfig:
    """Return the configuration of a node with a plain listener and one with SASL."""
    return config(data, **{
        "listeners": f"PLAINTEXT://127.0.0.1:0,{LISTENER}://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl_enabled_mechanisms": f"PLAIN,{','.join(SCRAM)}",
        "connection_failed_authentication_delay_ms": str(DELAY_MS),
        "listener.name.login.plain.sasl.jaas.config": f'{MODULE} required user_bob="hush" user_eve="hush";',
        **settings})


def gate(node: ServerNode) -> SaslGate:
    sasl = node.parts.serving.gates.sasl
    assert sasl is not None
    return sasl.by_listener[LISTENER]


def connect(node: ServerNode, mechanism: str = "", user: str = USER, password: str = PASSWORD) -> Connection:
    security = Security(mechanism=mechanism, username=user, password=password) if mechanism else PLAINTEXT
    return Connection("127.0.0.1", node.listeners[LISTENER].port, timeout=10, security=security)


@contextmanager
def plain_socket(node: ServerNode) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", node.listeners[LISTENER].port), 10) as opened:
        yield opened


def received(opened: socket.socket, count: int) -> bytes:
    """Return that many bytes, or fewer where the node closes the connection."""
    found = b""
    try:
        while len(found) < count and (part := opened.recv(count - len(found))):
            found += part
    except ConnectionResetError:
        pass
    return found


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def header(key: int, version: int, correlation: int = 7) -> bytes:
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation.to_bytes(4, "big") + b"\0\1c"


def handshake(mechanism: str, version: int) -> bytes:
    return framed(header(ApiKey.SASL_HANDSHAKE, version) + SaslHandshakeRequest(mechanism=mechanism).encode(1))


def exchange_step(connection: Connection, message: bytes) -> SaslAuthenticateResponse:
    return connection.send(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)


def handshaken(node: ServerNode, mechanism: str = "PLAIN") -> Connection:
    connection = connect(node)
    answer = connection.send(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    assert answer.error_code == ErrorCode.NONE
    return connection


def connections(node: ServerNode) -> list[NodeConnection]:
    return [each for each in channel_of(node).connections if isinstance(each, NodeConnection)]


def principals(node: ServerNode) -> list[object]:
    return [each.principal for each in connections(node)]


def channel_of(node: ServerNode) -> RequestChannel:
    channel, = node.parts.path.server.gates
    return channel


def closed_reasons(node: ServerNode) -> dict[str, int]:
    return channel_of(node).closed


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_users_with_their_passwords_are_served_and_others_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture
                                                                   ) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "events", partitions=1)
        set_password(cluster, USER, PASSWORD, SCRAM)
        for mechanism, user, password in [*((each, USER, PASSWORD) for each in SCRAM), ("PLAIN", "bob", "hush")]:
            with connect(node, mechanism, user, password) as connection:
                topics = connection.send(MetadataRequest(topics=None), MetadataResponse).topics
                assert [each.name for each in topics] == ["events"]
                assert principals(node) == [Principal.user(user)]
            until(lambda: not principals(node))
        assert gate(node).successes == {**dict.fromkeys(SCRAM, 1), "PLAIN": 1}
        texts = set()
        for mechanism, user, password in [*((each, USER, "wrong") for each in SCRAM),
                                          *((each, "nobody", PASSWORD) for each in SCRAM), ("PLAIN", "bob", "wrong"),
                                          ("PLAIN", "nobody", "hush")]:
            with pytest.raises(AuthenticationError, match="not accepted") as refused:
                connect(node, mechanism, user, password)
            texts.add(str(refused.value).partition(": user")[2].partition(" by ")[2])
        assert len(texts) == 3, "a wrong password and an unknown user have one text for each mechanism"
        assert gate(node).failures == {**dict.fromkeys(SCRAM, 2), "PLAIN": 2}
        remove_credentials(cluster, USER, SCRAM[:1])
        with pytest.raises(AuthenticationError):
            connect(node, SCRAM[0])
        connect(node, SCRAM[1]).close()

    with caplog.at_level(logging.INFO):
        with_node(secured(tmp_path), work)
    assert "on listener LOGIN by PLAIN failed: the user 'nobody' is unknown, or" in caplog.text
    assert not [word for word in (PASSWORD, "hush", "wrong") if word in caplog.text]


def test_nothing_is_served_before_the_exchange(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        for key in (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS, ApiKey.ENVELOPE, 999):
            with plain_socket(node) as opened:
                opened.sendall(framed(header(key, 0)))
                assert received(opened, 1) == b"", key
        with pytest.raises(AuthenticationError, match=r"requires SASL \(PLAIN, SCRAM-SHA-256, SCRAM-SHA-512\)"):
            connect(node).send(MetadataRequest(topics=[]), MetadataResponse)
        assert closed_reasons(node)["unauthenticated"] == 7
        with connect(node) as connection:
            answer = connection.send(SaslHandshakeRequest(mechanism="GSSAPI"), SaslHandshakeResponse)
            assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN", *SCRAM])
            assert received(connection.socket, 1) == b""
        with handshaken(node) as connection:
            refused = connection.send(ApiVersionsRequest(client_software_name="c", client_software_version="1"),
                                      ApiVersionsResponse)
            assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert received(connection.socket, 1) == b""
        with handshaken(node) as connection:
            answer = connection.send(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert received(connection.socket, 1) == b""
        with connect(node, "PLAIN", "bob", "hush") as connection:      # as on a plain listener, once it is open
            answer = connection.send(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers

    with_node(secured(tmp_path), work)


def test_tokens_without_a_header(tmp_path: Path) -> None:
    """All is sent at once: a token is no request, even where it looks like one."""
    def work(_cluster: Cluster, node: ServerNode) -> None:
        with plain_socket(node) as opened:
            metadata = framed(header(ApiKey.METADATA, 0) + bytes(4))
            opened.sendall(handshake("PLAIN", 0) + framed(TOKEN) + metadata)
            size = int.from_bytes(received(opened, 4), "big")
            assert received(opened, size)[4:6] == bytes(2)
            assert received(opened, 4) == bytes(4), "the answer to PLAIN is an empty token"
            assert int.from_bytes(received(opened, 4), "big") > 20
            assert principals(node) == [Principal.user("bob")]
        with plain_socket(node) as opened:
            opened.sendall(handshake("PLAIN", 0) + framed(header(ApiKey.METADATA, 0)))
            size = int.from_bytes(received(opened, 4), "big")
            assert len(received(opened, size)) == size
            assert received(opened, 1) == b""

    with_node(secured(tmp_path), work)


def test_a_closed_connection_is_freed_without_a_garbage_collection(tmp_path: Path) -> None:
    """A node seldom collects garbage while requests wait: a cycle for each refused client fills its memory."""
    def work(_cluster: Cluster, node: ServerNode) -> None:
        with without_collections():
            before = alive(NodeConnection)
            for sent in (b"", framed(header(ApiKey.METADATA, 0)), handshake("PLAIN", 1),
                         handshake("PLAIN", 0) + framed(b"\0bob\0wrong"), handshake("PLAIN", 0) + framed(TOKEN),
                         handshake("PLAIN", 0) + b"\x80\0\0\0", handshake(SCRAM[0], 0) + framed(b"n,,n=eve,r=1"),
                         framed(header(ApiKey.SASL_HANDSHAKE, 1) + b"\x7f\xff")):
                with plain_socket(node) as opened:
                    opened.sendall(sent)
                    opened.shutdown(socket.SHUT_WR)
                    received(opened, 1 << 16)
                until(lambda: alive(NodeConnection) == before)

    with_node(secured(tmp_path), work)


def test_hostile_exchanges_end_in_a_closed_connection(tmp_path: Path) -> None:
    garbage = bytes(range(256)) * 8
    small = 4_096
    too_large = (small + 1).to_bytes(4, "big")

    def work(_cluster: Cluster, node: ServerNode) -> None:
        for sent in (framed(garbage), framed(b""), framed(b"\0"), b"\xff" * 8, too_large + b"\0\x11",
                     handshake("PLAIN", 1) + too_large + b"\0\x24\0\1",
                     handshake("PLAIN", 9), framed(header(ApiKey.SASL_HANDSHAKE, 1) + b"\x7f\xff"),
                     framed(header(ApiKey.SASL_AUTHENTICATE, 1) + b"\0\0\0\0"),
                     handshake("PLAIN", 0) + b"\x80\0\0\0", b"GET / HTTP/1.1\r\n\r\n", TLS_HELLO + garbage):
            with plain_socket(node) as opened:
                opened.sendall(sent)
                assert len(received(opened, 1 << 16)) < 200, sent
        for mechanism in ("PLAIN", *SCRAM):
            for message in (b"", b"\0", garbage, b"n,,n=user,r=" + b"x" * 3_000 + b",", b"\0" * 4_000):
                with handshaken(node, mechanism) as connection:
                    assert exchange_step(connection, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                    assert received(connection.socket, 1) == b""
        with connect(node, "PLAIN", "bob", "hush") as connection:     # the limit is one of the exchange
            request = MetadataRequest(topics=[MetadataRequestTopic(name=f"{at:0100}") for at in range(100)],
                                      allow_auto_topic_creation=False)
            assert len(connection.send(request, MetadataResponse).topics) == 100
        with plain_socket(node) as slow:                               # the time is limited, whatever is sent
            slow.sendall(handshake("PLAIN", 1)[:-1])
            assert received(slow, 1) == b""
        assert closed_reasons(node)["authentication_timeout"] >= 1
        assert node.parts.path.server.connections <= 1

    with_node(secured(tmp_path, sasl_server_max_receive_size=str(small), kraft_authentication_timeout_ms="1500"), work)


def test_a_failure_is_answered_after_the_delay(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        with handshaken(node) as connection:
            began = time.monotonic()
            assert exchange_step(connection, b"\0bob\0wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert time.monotonic() - began >= 0.3 - TIMER_SECONDS
        with handshaken(node) as connection:                           # one that does not wait for the answer
            connection.post(SaslAuthenticateRequest(auth_bytes=b"\0bob\0wrong"), 1)
        until(lambda: gate(node).failures["PLAIN"] == 2 and not principals(node))

    with_node(secured(tmp_path, connection_failed_authentication_delay_ms="300"), work)


def test_sessions_end_unless_they_are_renewed(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> Any:
        with handshaken(node) as idle, handshaken(node) as renewed, connect(node, "PLAIN", "bob", "hush") as client:
            for connection in (idle, renewed):
                assert exchange_step(connection, TOKEN).session_lifetime_ms == 1_500
            assert client._authenticate_at is not None
            early = renewed.send(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
            assert early.error_code == ErrorCode.ILLEGAL_SASL_STATE, "within the first second it is refused"
            until(lambda: not any(each.is_authenticated for each in connections(node)))
            idle.post(MetadataRequest(topics=[]), idle.version(ApiKey.METADATA))
            assert received(idle.socket, 1) == b""
            assert closed_reasons(node)["session"] == 1
            later = renewed.send(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
            assert later.error_code == ErrorCode.NONE
            assert exchange_step(renewed, TOKEN).error_code == ErrorCode.NONE
            assert renewed.send(MetadataRequest(topics=[]), MetadataResponse).brokers
            assert client.send(MetadataRequest(topics=[]), MetadataResponse).brokers, "our client renews its session"
            assert gate(node).successes["PLAIN"] == 5

    with_node(secured(tmp_path, **{"listener.name.login.plain.connections.max.reauth.ms": "1500"}), work)


def test_users_and_mechanisms_change_while_the_node_runs(tmp_path: Path) -> None:
    jaas = "listener.name.login.plain.sasl.jaas.config"
    enabled = "listener.name.login.sasl.enabled.mechanisms"

    def work(cluster: Cluster, node: ServerNode) -> None:
        def alter(name: str, value: str) -> None:
            alter_configs(cluster, "broker", "1", [Change(name, Operation.SET, value)])

        before = gate(node).listener
        alter(jaas, f'{MODULE} required user_carol="hush";')
        until(lambda: gate(node).listener is not before)
        connect(node, "PLAIN", "carol", "hush").close()
        with pytest.raises(AuthenticationError):
            connect(node, "PLAIN", "bob", "hush")
        for name, value in ((jaas, "hush"), (jaas, f'{MODULE} required user_x="hush'), (enabled, "GSSAPI"),
                            ("listener.name.login.digest-md5.sasl.jaas.config", f"{MODULE} required user_a=hush;")):
            with pytest.raises(RefusedError, match="INVALID_REQUEST") as refused:
                alter(name, value)
            assert "hush" not in str(refused.value)
        before = gate(node).listener
        alter(enabled, "SCRAM-SHA-512")
        until(lambda: gate(node).listener is not before)
        with pytest.raises(AuthenticationError, match="only SCRAM-SHA-512"):
            connect(node, "PLAIN", "carol", "hush")
        shown = {each.name: each for each in describe_configs(cluster, "broker", ["1"])["1"]}
        assert (shown[jaas].value, shown[jaas].is_sensitive, shown[enabled].value) == (None, True, "SCRAM-SHA-512")

    with_node(secured(tmp_path), work)


def test_another_user_does_not_renew_a_session(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        with handshaken(node) as connection:
            assert exchange_step(connection, TOKEN).error_code == ErrorCode.NONE
            begin = SaslHandshakeRequest(mechanism="PLAIN")
            until(lambda: connection.send(begin, SaslHandshakeResponse).error_code == ErrorCode.NONE)
            assert exchange_step(connection, b"\0eve\0hush").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert received(connection.socket, 1) == b""

    with_node(secured(tmp_path, connections_max_reauth_ms="60000"), work)


def test_the_log_has_a_bounded_rate(caplog: pytest.LogCaptureFixture) -> None:
    class Peer:
        peer_host, peer_port = "10.0.0.1", 4

    now_ms = 500
    failures = AuthenticationLog(lambda: now_ms)
    for _ in range(1_000):
        failures.failed(Peer(), "A", "PLAIN", "x" * 100_000)  # type: ignore[arg-type]
    assert len(caplog.records) == 10
    assert len(caplog.text) < 30_000
    now_ms = 1_000
    failures.failed(Peer(), "A", "PLAIN", "y")  # type: ignore[arg-type]
    assert "990 more failed authentications are not logged" in caplog.text
    assert caplog.messages[-1] == "authentication of 10.0.0.1:4 on listener A by PLAIN failed: y"
