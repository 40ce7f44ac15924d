"""OAUTHBEARER on the listeners of a node: signed and unsecured tokens, sessions, keys that change, our own logins."""

import asyncio
import json
import logging
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.connection import AuthenticationError, Connection
from kraft.client.security import Security, security_of
from kraft.config.node_config import NodeConfig
from kraft.config.oauth_settings import Provider, TokenLogin
from kraft.config.sasl_settings import Credentials
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.raft.types import Endpoint
from kraft.runtime.net.dialer import Dialer, LoginError
from kraft.runtime.net.token_checks import TokenChecks
from kraft.runtime.server_node import ServerNode
from kraft.security.principal import Principal
from tests.oauth.provider import CLIENT, SECRET, SigningKey, key_set, now_s, provider_server, unsecured
from tests.runtime.net.test_sasl import (
    LISTENER,
    closed_reasons,
    connections,
    exchange_step,
    gate,
    handshaken,
    principals,
    received,
    secured,
    until,
)
from tests.runtime.nodes import with_node

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MECHANISM = "OAUTHBEARER"
JAAS = "listener.name.login.oauthbearer.sasl.jaas.config"
UNSECURED = f'{MODULE} required unsecuredValidatorPrincipalClaimName="sub";'


def tokens_on(data: Path, url: str = "", jaas: str = f"{MODULE} required;", **settings: str) -> NodeConfig:
    """Return the configuration of a node whose second listener has OAUTHBEARER."""
    keys = {"sasl_oauthbearer_jwks_endpoint_url": url, "sasl_oauthbearer_expected_audience": "kafka"} if url else {}
    return secured(data, **{"sasl_enabled_mechanisms": f"PLAIN,{MECHANISM}", JAAS: jaas, **keys, **settings})


def keys_file(data: Path, *keys: SigningKey) -> str:
    data.mkdir(exist_ok=True)
    new, path = data / "keys.new", data / "keys.json"
    new.write_bytes(key_set(*keys))
    new.replace(path)
    return path.as_uri()


def first(token: str) -> bytes:
    return f"n,,\1auth=Bearer {token}\1\1".encode()


def try_token(node: ServerNode, token: str) -> bool:
    """Return whether the node accepts the token."""
    with handshaken(node, MECHANISM) as connection:
        answer = exchange_step(connection, first(token))
        assert answer.error_code == ErrorCode.NONE
        if not answer.auth_bytes:
            return bool(connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers)
        assert json.loads(answer.auth_bytes) == {"status": "invalid_token"}
        last = exchange_step(connection, b"\1")
        assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert last.error_message == "Authentication failed: OAUTHBEARER does not accept these credentials"
        assert received(connection.socket, 1) == b""
        return False


def test_signed_tokens_are_accepted_and_others_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key, other = SigningKey(), SigningKey(number=1)

    def work(_cluster: Cluster, node: ServerNode) -> None:
        with handshaken(node, MECHANISM) as connection:
            answer = exchange_step(connection, first(key.sign(exp=now_s() + 100)))
            assert answer.auth_bytes == b""
            assert 90_000 < answer.session_lifetime_ms <= 100_000, "the session ends with the token"
            assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers
            assert principals(node) == [Principal.user("alice")]
        refused = (other.sign(), key.sign(exp=now_s() - 100), key.sign(aud="x"), unsecured(), "opaque")
        for token in refused:
            assert not try_token(node, token)
        assert (gate(node).successes, gate(node).failures) == ({MECHANISM: 1}, {MECHANISM: len(refused)})
        for message in (b"", b"\1", b"n,,\1\1", b"\xff" * 9):
            with handshaken(node, MECHANISM) as connection:
                assert exchange_step(connection, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    with caplog.at_level(logging.WARNING):
        with_node(tokens_on(tmp_path / "n", keys_file(tmp_path, key)), work)
    assert "by OAUTHBEARER failed: the token of 'alice' expired" in caplog.text
    assert "eyJ" not in caplog.text, "no token is in the log"


def test_keys_are_exchanged_under_logins_and_old_ones_end(tmp_path: Path) -> None:
    """No client with a valid token is refused, whichever key comes next; a removed key ends within a second."""
    keys = [SigningKey(f"k{number}", number=number % 2) for number in range(4)]

    def work(_cluster: Cluster, node: ServerNode) -> None:
        assert try_token(node, keys[0].sign())
        for before, after in pairwise(keys):
            keys_file(tmp_path, before, after)
            assert try_token(node, after.sign())
            keys_file(tmp_path, after)
            began = time.monotonic()
            while try_token(node, before.sign()):
                assert time.monotonic() - began < 5

    with_node(tokens_on(tmp_path / "n", keys_file(tmp_path, keys[0])), work)


def test_rules_that_change_do_not_leave_the_thread_of_the_previous_ones(tmp_path: Path) -> None:
    key = SigningKey()

    def work(cluster: Cluster, node: ServerNode) -> None:
        for kind in ("PEM", "PKCS12", "PEM"):
            jaas = f'{MODULE} required ssl.truststore.type="{kind}";'
            alter_configs(cluster, "broker", "1", [Change(JAAS, Operation.SET, jaas)])
            until(lambda kind=kind: gate(node).listener.settings.tokens.keys.tls  # type: ignore[misc,union-attr]
                  == (("ssl.truststore.type", kind),))
        assert [each.name for each in threading.enumerate()].count("kraft-token-keys") == 1
        assert try_token(node, key.sign())

    with_node(tokens_on(tmp_path, keys_file(tmp_path, key)), work)


def test_a_key_that_appears_at_the_provider_is_fetched_for_the_first_token(tmp_path: Path) -> None:
    new = SigningKey("k9", number=1)
    with provider_server() as server:
        def work(_cluster: Cluster, node: ServerNode) -> None:
            assert try_token(node, server.signing.sign())
            server.keys = key_set(server.signing, new)
            assert try_token(node, new.sign())
            fetches = len(server.seen)
            assert not try_token(node, SigningKey("invented").sign())
            assert len(server.seen) <= fetches + 8, "an invented key causes few requests"
            server.status = 500
            assert try_token(node, new.sign()), "known keys stay in use without the provider"

        with_node(tokens_on(tmp_path, server.url("keys")), work)


def test_unsecured_tokens_only_where_the_listener_accepts_them(tmp_path: Path, caplog: pytest.LogCaptureFixture
                                                               ) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        assert try_token(node, unsecured())
        assert not try_token(node, SigningKey().sign())
        jaas = f'{MODULE} required unsecuredLoginStringClaim_sub="carol" unsecuredLoginExtension_traceId="7";'
        with connect(node, **{"sasl.jaas.config": jaas}) as connection:
            assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers
            assert principals(node) == [Principal.user("carol")]

    with_node(tokens_on(tmp_path, jaas=UNSECURED), work)
    assert "unsecured tokens of OAUTHBEARER are accepted" in caplog.text


def connect(node: ServerNode, **properties: str) -> Connection:
    security = security_of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM, **properties})
    return Connection("127.0.0.1", node.listeners[LISTENER].port, timeout=10, security=security)


def test_our_client_fetches_its_token_and_renews_its_session(tmp_path: Path) -> None:
    with provider_server() as server:
        def settings(secret: str) -> dict[str, str]:
            return {"sasl.oauthbearer.token.endpoint.url": server.url("token"),
                    "sasl.jaas.config": f'{MODULE} required clientId="{CLIENT}" clientSecret="{secret}" scope="s";'}

        def work(_cluster: Cluster, node: ServerNode) -> None:
            server.life_s = 4
            with connect(node, **settings(SECRET)) as connection, connect(node, **settings(SECRET)):
                assert principals(node) == [Principal.user(CLIENT)] * 2
                assert [path for path, _ in server.seen].count("/token") == 1, "connections share a token"
                ends = connection._authenticate_at
                assert ends is not None
                until(lambda: time.monotonic() > ends)
                assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers
                assert [path for path, _ in server.seen].count("/token") == 2
            with pytest.raises(AuthenticationError, match="status 401") as refused:
                connect(node, **settings("wrong"))
            assert "wrong" not in str(refused.value)
            server.signing = SigningKey("unknown", number=1)
            bad = settings(SECRET) | {"sasl.oauthbearer.scope": "another source"}
            with pytest.raises(AuthenticationError, match="does not accept these credentials"):
                connect(node, **bad)

        with_node(tokens_on(tmp_path, server.url("keys")), work)


def test_a_node_logs_in_with_tokens(tmp_path: Path) -> None:
    with provider_server() as server:
        login = TokenLogin(provider=Provider(url=server.url("token")), client_id=CLIENT, client_secret=SECRET)

        async def work(node: ServerNode) -> None:
            address = Endpoint(LISTENER, "127.0.0.1", node.listeners[LISTENER].port)
            dialer = Dialer(logins={LISTENER: Credentials(MECHANISM, login.user, "", login)})
            for transport in await asyncio.gather(*(dialer.connect(address, asyncio.Protocol) for _ in range(9))):
                transport.abort()
            assert gate(node).successes == {MECHANISM: 9}
            assert [path for path, _ in server.seen].count("/token") == 1
            for bad, why in ((replace(login, client_secret="x"), "no token for 'kraft': .*status 401"),
                             (TokenLogin(claims=(("sub", "eve"),)), "does not accept these credentials")):
                refused = Dialer(logins={LISTENER: Credentials(MECHANISM, bad.user, "", bad)})
                with pytest.raises(LoginError, match=why):
                    await refused.connect(address, asyncio.Protocol)

        async def main() -> None:
            node = ServerNode(tokens_on(tmp_path, server.url("keys")))
            await node.start()
            try:
                await work(node)
            finally:
                node.stop()
                await node.run()

        uvloop.run(main())


def test_a_session_ends_with_its_token_unless_another_token_renews_it(tmp_path: Path) -> None:
    key = SigningKey()

    def work(_cluster: Cluster, node: ServerNode) -> None:
        with handshaken(node, MECHANISM) as idle, handshaken(node, MECHANISM) as renewed:
            for connection in (idle, renewed):
                answer = exchange_step(connection, first(key.sign(exp=now_s() + 2)))
                assert 0 < answer.session_lifetime_ms <= 2_000
            begin = SaslHandshakeRequest(mechanism=MECHANISM)
            until(lambda: renewed.send(begin, SaslHandshakeResponse).error_code == ErrorCode.NONE)
            assert exchange_step(renewed, first(key.sign())).session_lifetime_ms > 3_000_000
            until(lambda: sum(each.is_authenticated for each in connections(node)) == 1)
            idle.post(MetadataRequest(topics=[]), 12)
            assert received(idle.socket, 1) == b""
            assert closed_reasons(node)["session"] == 1
            assert renewed.send(MetadataRequest(topics=[]), MetadataResponse).brokers

    with_node(tokens_on(tmp_path / "n", keys_file(tmp_path, key)), work)


def test_a_client_that_leaves_during_the_check_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    key = SigningKey()
    original = TokenChecks._checked

    def checked(self: TokenChecks, token: str) -> Any:
        assert released.wait(20)
        return original(self, token)

    monkeypatch.setattr(TokenChecks, "_checked", checked)

    def work(_cluster: Cluster, node: ServerNode) -> None:
        with handshaken(node, MECHANISM) as connection:
            connection.socket.sendall(connection.frame(SaslAuthenticateRequest(auth_bytes=first(key.sign())), 1))
        until(lambda: not connections(node))
        released.set()
        assert try_token(node, key.sign())

    with_node(tokens_on(tmp_path / "n", keys_file(tmp_path, key)), work)


def test_library_settings_of_tokens() -> None:
    jaas = f'{MODULE} required clientId="c" clientSecret="s" extension_a="b" ssl.truststore.location="ca.pem";'
    found = security_of({"security.protocol": "SASL_SSL", "sasl.mechanism": MECHANISM, "sasl.jaas.config": jaas,
                         "sasl.oauthbearer.token.endpoint.url": "https://p/t"})
    assert isinstance(found, Security)
    assert "clientSecret" not in repr(found)
    assert {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "c", "https.ca.location": "ca.pem",
            "sasl.oauthbearer.extensions": "a=b"}.items() <= found.library_settings().items()
    unsigned = security_of({"security.protocol": "SASL_SSL", "sasl.mechanism": MECHANISM,
                            "sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="x";'})
    assert unsigned.library_settings()["enable.sasl.oauthbearer.unsecure.jwt"] == "true"
