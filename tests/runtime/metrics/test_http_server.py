"""Metrics and health over HTTP: TLS, tokens, and certificates that are replaced."""

import http.client
import json
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import METRICS
from kraft.runtime.metrics.http_server import TokenFile
from kraft.runtime.net.access import access_sentences
from kraft.runtime.server_node import ServerNode
from tests.runtime.nodes import config, with_node
from tests.tls.files import LOCAL, issued, write_pem

TOKEN = "a-token-of-24-characters"
NEXT = "another-token-of-27-letters"
OPEN = "/health and /ready are open to each client that can connect"


def get(node: ServerNode, path: str = "/metrics", authorization: str = "", context: ssl.SSLContext | None = None
        ) -> tuple[int, str]:
    assert node.metrics is not None
    address = "127.0.0.1", node.metrics.port
    connection = http.client.HTTPConnection(*address, timeout=10) if context is None else \
        http.client.HTTPSConnection(*address, timeout=10, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def settings(tmp_path: Path, **more: str) -> Any:
    return config(tmp_path / "data", **{"kraft.metrics.listener": "127.0.0.1:0", **more})


def with_tls(tmp_path: Path, **more: str) -> Any:
    write_pem(tmp_path)
    return settings(tmp_path, **{
        "kraft.metrics.security.protocol": "SSL", "listener.name.metrics.ssl.keystore.type": "PEM",
        "listener.name.metrics.ssl.keystore.location": f"{tmp_path}/server.pem",
        "listener.name.metrics.ssl.truststore.type": "PEM",
        "listener.name.metrics.ssl.truststore.location": f"{tmp_path}/ca.pem", **more})


def trusting(tmp_path: Path, own: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=f"{tmp_path}/ca.pem")
    if own:
        context.load_cert_chain(f"{tmp_path}/{own}.pem")
    return context


def test_only_a_token_opens_the_metrics_and_health_needs_none(tmp_path: Path) -> None:
    tokens, audit = tmp_path / "tokens", tmp_path / "audit.jsonl"
    tokens.write_text(f"{TOKEN}\n")

    def work(_cluster: Cluster, node: ServerNode) -> list[int]:
        found = [get(node, authorization=each)[0] for each in ("", "Bearer x", TOKEN, f"Bearer {TOKEN}x", "Bearer ",
                                                               f"Bearer {TOKEN}", f"bearer {TOKEN}")]
        assert get(node, "/health") == (200, "ok\n")
        assert get(node, "/other")[0] == 404
        tokens.write_text(f"{TOKEN}\n{NEXT}\n")
        found += [get(node, authorization=f"Bearer {each}")[0] for each in (TOKEN, NEXT)]
        tokens.write_text(NEXT)
        found += [get(node, authorization=f"Bearer {each}")[0] for each in (TOKEN, NEXT)]
        tokens.unlink()
        found.append(get(node, authorization=f"Bearer {NEXT}")[0])
        assert access_sentences(node.config, node.server)[METRICS] == (
            f"HTTP: only a client with a token may read metrics, the token and the metrics are not encrypted; {OPEN}")
        return found

    found = with_node(settings(tmp_path, **{"kraft.metrics.token.file": str(tokens), "kraft.audit.file": str(audit)}),
                      work)
    assert found == [401, 401, 401, 401, 401, 200, 200, 200, 200, 401, 200, 401]
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {(each["class_uid"], each["auth_protocol"], each["unmapped"]["listener"]) for each in events} == {
        (3002, "bearer token", METRICS)}
    assert TOKEN not in audit.read_text()


def test_metrics_with_tls_and_a_certificate_that_is_replaced(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        context = trusting(tmp_path)
        status, text = get(node, context=context)
        assert status == 200
        assert 'kraft_tls_certificate_remaining_seconds{listener="METRICS"}' in text
        with pytest.raises((http.client.HTTPException, OSError)):
            get(node)
        assert access_sentences(node.config, node.server)[METRICS] == (
            f"HTTP: any client may read metrics, over TLSv1.2 and TLSv1.3; {OPEN}")
        other = issued("server", *LOCAL, of="other")
        (tmp_path / "new.pem").write_text(other.key + other.certificate)
        os.replace(tmp_path / "new.pem", tmp_path / "server.pem")
        node.reload()
        with pytest.raises(ssl.SSLCertVerificationError):
            get(node, context=context)
        assert get(node, context=ssl.create_default_context(cafile=f"{tmp_path}/other.pem"))[0] == 200

    with_node(with_tls(tmp_path), work)


def test_clients_of_metrics_with_certificates(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        with pytest.raises((http.client.HTTPException, OSError)):
            get(node, context=trusting(tmp_path))
        assert get(node, context=trusting(tmp_path, "client"))[0] == 200

    with_node(with_tls(tmp_path, **{"listener.name.metrics.ssl.client.auth": "required"}), work)


@pytest.mark.parametrize("content", [None, "", "short", f"{TOKEN}\nshort"])
def test_a_file_of_tokens_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidConfigError, match=r"kraft\.metrics\.token\.file: .*tokens"):
        TokenFile(path)
    with pytest.raises(InvalidConfigError):
        with_node(settings(tmp_path, **{"kraft.metrics.token.file": str(path)}), lambda _cluster, _node: None)


def test_the_name_of_the_metrics_listener_is_reserved(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="METRICS is the name of the metrics listener"):
        with_tls(tmp_path, listeners=f"{METRICS}://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                 **{"listener.security.protocol.map": f"{METRICS}:PLAINTEXT,CONTROLLER:PLAINTEXT"})
