"""Connections of the HTTP gateway: TLS of its own, the limit of all of them, and logins passed to the cluster."""

import base64
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.gateway.settings import Limits
from tests.integration import admin
from tests.integration.gateway import SECONDS, Answer, GatewayClient, running_gateway
from tests.integration.process import NodeProcess
from tests.integration.secure_quorum import (
    ADMIN,
    OAUTH,
    PASSWORD,
    SecureMember,
    client_properties,
    library_settings,
    prepare,
    write_properties,
)
from tests.oauth.provider import SigningKey
from tests.tls.files import write_pem

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

TOPIC: Final = "guarded"
REQUEST_SECONDS: Final = Limits().request_seconds


def eventually(check: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < until


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    write_pem(directory)
    return directory


def trusting(files: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files / "ca.pem"))


def tls_options(files: Path) -> list[str]:
    return ["--tls-certificate", str(files / "server.pem"), "--tls-key", str(files / "server.pem")]


def metric(gateway: GatewayClient, name: str) -> float:
    lines = gateway.request("GET", "/metrics").body.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"kraft_gateway_{name} "))


# --- TLS --------------------------------------------------------------------------------------------------------------

def test_records_over_tls(node: NodeProcess, name: str, files: Path) -> None:
    admin.create(node, name, 1)
    with running_gateway(node.address, *tls_options(files), context=trusting(files)) as gateway:
        with gateway.events(f"/topics/{name}/events") as events:
            assert next(events).id == "0:0"
            assert gateway.request("POST", f"/topics/{name}/records", {"value": "a"}).status == 200
            assert next(events).data["value"] == "a"
            large = gateway.request("POST", f"/topics/{name}/records", b"x" * 900_000)
            assert large.body["records"] == [{"partition": 0, "offset": 1}]
            assert len(next(events).data["value"]) == 900_000
        with pytest.raises(ssl.SSLCertVerificationError):
            GatewayClient(gateway.host, gateway.port, ssl.create_default_context()).request("GET", "/health")
        plain = GatewayClient(gateway.host, gateway.port)
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.request("GET", "/health")
        assert gateway.request("GET", "/health").body == "ok\n"


def test_connections_count_before_their_handshake(node: NodeProcess, files: Path) -> None:
    """An address that begins handshakes and ends none gets no further than with plain connections."""
    with running_gateway(node.address, *tls_options(files), "--limit", "connections_per_address=3",
                         context=trusting(files)) as gateway, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection((gateway.host, gateway.port), SECONDS))
                  for _ in range(3)]
        refused = stack.enter_context(socket.create_connection((gateway.host, gateway.port), SECONDS))
        assert is_closed(refused)
        silent.pop().close()
        eventually(lambda: _connections(gateway) == 3.0)
        garbage = silent.pop()
        garbage.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(garbage)
        eventually(lambda: _connections(gateway) == 2.0)


def is_closed(connection: socket.socket) -> bool:
    """Return whether the other side closes a connection; what it sends before does not matter."""
    try:
        while connection.recv(4_096):
            pass
    except ConnectionResetError:
        pass
    return True


def _connections(gateway: GatewayClient) -> float:
    """Return the number of open connections, this one included; 0 when this one was refused."""
    try:
        return metric(gateway, "connections")
    except (http.client.HTTPException, OSError):
        return 0.0


def test_files_that_cannot_be_used(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kraft.cli.command import run

    (tmp_path / "text").write_text("no certificate")
    for certificate, key, text in ((files / "server.pem", files / "client.pem", "not that of the certificate"),
                                   (tmp_path / "text", files / "server.pem", "text")):
        assert run(["gateway", "--check", "--tls-certificate", str(certificate), "--tls-key", str(key)]) == 1
        assert text in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = tmp_path / "client.properties"
        write_properties(config, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                                  "sasl.username": "a", "sasl.password": "b"})
        assert run(["gateway", "--login", "user", "--client-config", str(config), "--listen", address]) == 1
        assert f"--listen {address}: the address cannot be used" in capsys.readouterr().err


# --- the limit of all connections -------------------------------------------------------------------------------------

@pytest.mark.parametrize("has_tls", [False, True])
def test_connections_beyond_the_limit_are_answered(node: NodeProcess, files: Path, has_tls: bool) -> None:
    """They get 503 with the time to wait, and the next one after an end is served. Health is no matter of the limit."""
    options = tls_options(files) if has_tls else []
    context = trusting(files) if has_tls else None
    with running_gateway(node.address, *options, "--limit", "connections=2", context=context) as gateway, \
            ExitStack() as stack:
        for _ in range(2):
            held = gateway.connection()
            stack.callback(held.close)
            held.request("GET", "/health")
            assert held.getresponse().read() == b"ok\n"
        for method, path, body in (("GET", "/", None), ("POST", "/topics/x/records", {"value": "a" * 30_000}),
                                   ("GET", "/topics/x/events", None)):
            refused = gateway.request(method, path, body)
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert refused.headers["connection"] == "close"
            assert refused.body["error"] == {"code": "THROTTLING_QUOTA_EXCEEDED", "message":
                                             "2 connections; the gateway's limit is reached"}
        healthy = gateway.request("GET", "/health")
        assert (healthy.status, healthy.headers["connection"]) == (200, "close")
        held.request("GET", "/metrics")         # a connection that is served stays so
        text = held.getresponse().read().decode()
        assert "kraft_gateway_connections_turned_away_total 4.0" in text
        held.close()
        eventually(lambda: gateway.request("GET", "/").status == 200)


def test_descriptors_limit_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    from kraft.cli import gateway

    monkeypatch.setattr(gateway, "default_connections_max", lambda: 700)
    assert gateway._possible(Limits()).connections == 700
    assert gateway._possible(Limits(connections=20)).connections == 20


# --- logins that are passed on ----------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, key: SigningKey) -> Iterator[SecureMember]:
    """A node with SASL over TLS on every listener, and ACLs: alice may write to a topic, bob may read it."""
    node, = prepare(tmp_path_factory.mktemp("secured"), key, 1)
    node.settings |= {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                      "super.users": f"User:{ADMIN};User:node"}
    node.start()
    topics = AdminClient(library_settings([node]))
    topics.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS)
    yield node
    node.stop()
    assert PASSWORD not in node.log(1_000_000)


def properties(directory: Path, node: SecureMember, mechanism: str, jaas: str = "") -> str:
    file = directory / f"{mechanism}.properties"
    write_properties(file, client_properties([node], mechanism, jaas))
    return str(file)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_the_cluster_decides_about_each_user(secured: SecureMember, key: SigningKey, tmp_path: Path,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    """SCRAM over TLS: users of HTTP are those of the cluster, with their rights, and none has another's."""
    from kraft.cli.command import run

    config = properties(tmp_path, secured, "SCRAM-SHA-512")
    for user in ("alice", "bob"):
        (tmp_path / user).write_text(f"{user}'s secret\n")
        assert run(["users", "add", user, "--password-file", str(tmp_path / user), "--mechanism", "SCRAM-SHA-512",
                    "--client-config", config]) == 0
    for right in (("alice", "--producer"), ("bob", "--consumer")):
        groups = ["--group", "none"] if right[0] == "bob" else []
        assert run(["acls", "add", "--allow-principal", f"User:{right[0]}", right[1], "--topic", TOPIC, *groups,
                    "--client-config", config]) == 0
    capsys.readouterr()
    with running_gateway(secured.address, "--login", "user", "--client-config", config, *tls_options(secured.files),
                         context=trusting(secured.files)) as gateway:
        def send(authorization: str) -> Answer:
            return gateway.request("POST", f"/topics/{TOPIC}/records", {"value": "a"}, Authorization=authorization)

        began = time.monotonic()
        alice, bob = basic("alice", "alice's secret"), basic("bob", "bob's secret")
        eventually(lambda: send(alice).status == 200)
        refused = send(bob)         # without a right to write anywhere: the cluster gives no producer id either
        assert (refused.status, refused.body["error"]["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        assert time.monotonic() - began < REQUEST_SECONDS, "the refusal waited for the end of the time"
        with gateway.events(f"/topics/{TOPIC}/events?from=beginning", Authorization=bob) as events:
            while (event := next(events)).data is None:
                pass
            assert event.data["value"] == "a"
        for wrong in ("", "Basic", basic("alice", "bob's secret"), basic("carol", "x"), basic("", ""), "Bearer x"):
            answer = send(wrong)
            assert (answer.status, answer.body["error"]["code"]) == (401, "SASL_AUTHENTICATION_FAILED"), wrong
            assert answer.headers["www-authenticate"].startswith("Basic ")
            assert "secret" not in answer.body["error"]["message"]
        assert gateway.request("GET", f"/topics/{TOPIC}", Authorization=basic("alice", "wrong")).status == 401
        assert send(alice).status == 200        # the refusals of others do not concern it
        assert gateway.request("GET", "/metrics").status == 401


def test_tokens_are_passed_on(secured: SecureMember, key: SigningKey, tmp_path: Path) -> None:
    config = properties(tmp_path, secured, "OAUTHBEARER",
                        f'{OAUTH} required unsecuredLoginStringClaim_sub="none";')
    with running_gateway(secured.address, "--login", "user", "--client-config", config) as gateway:
        def read(token: str) -> Answer:
            return gateway.request("GET", "/metrics", Authorization=f"Bearer {token}")

        assert read(key.sign(sub=ADMIN)).status == 200
        refused = read(SigningKey("other").sign(sub=ADMIN))
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")


def test_one_login_for_all(secured: SecureMember, tmp_path: Path) -> None:
    """It is the login of the gateway's own file; a wrong one stops it before it serves."""
    config = properties(tmp_path, secured, "SCRAM-SHA-512")
    with running_gateway(secured.address, "--client-config", config) as gateway:
        assert gateway.request("GET", f"/topics/{TOPIC}").status == 200
    wrong = Path(config)
    wrong.write_text(wrong.read_text().replace(PASSWORD, "wrong"))
    with pytest.raises(AssertionError, match="not accepted"), running_gateway(
            secured.address, "--client-config", config):
        pass
