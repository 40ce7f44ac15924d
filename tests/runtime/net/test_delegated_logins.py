"""Delegation tokens on a node: created, used for logins, renewed, expired."""

import base64
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.client.connection import AuthenticationError, Connection
from kraft.client.refusals import RefusedError
from kraft.client.security import secured as using
from kraft.client.security import security_of
from kraft.client.tokens import Token, create_token, expire_token, renew_token, tokens_of
from kraft.config.node_config import NodeConfig
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.runtime.server_node import ServerNode
from kraft.security.principal import Principal, TokenUser
from kraft.security.sasl.scram import scram_client
from tests.runtime.net.test_sasl import LISTENER, SCRAM, connect, exchange_step, handshaken, principals, secured, until
from tests.runtime.nodes import with_node

BOB, EVE = Principal.user("bob"), Principal.user("eve")
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def with_tokens(data: Path, secret: str = "hush", **settings: str) -> NodeConfig:
    return secured(data, **{"delegation_token_secret_key": secret, **settings})


def by_token(node: ServerNode, token: Token, mechanism: str = SCRAM[0], secret: str = "") -> Connection:
    security = security_of({
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULE} required username="{token.token_id}" password="{secret or token.secret}" '
                            'tokenauth="true";'})
    return Connection("127.0.0.1", node.listeners[LISTENER].port, timeout=10, security=security)


def code_of(connection: Connection) -> int:
    answer = connection.send(CreateDelegationTokenRequest(), CreateDelegationTokenResponse)
    return answer.error_code


def test_a_client_logs_in_with_a_token_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def work(_plain: Cluster, node: ServerNode) -> None:
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="hush";'
        with using(security_of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                                "sasl.jaas.config": jaas})), \
                Cluster(f"127.0.0.1:{node.listeners[LISTENER].port}") as cluster:
            token = create_token(cluster, renewers=[EVE])
            assert (token.owner, token.requester, token.renewers) == ("User:bob", "User:bob", ("User:eve",))
            assert tokens_of(cluster) == tokens_of(cluster, [BOB]) == tokens_of(cluster, [EVE]) == [token]
            assert tokens_of(cluster, [Principal.user("x")]) == []
            for mechanism in SCRAM:
                with by_token(node, token, mechanism) as connection:
                    assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers
                    mine = [each for each in principals(node) if isinstance(each, TokenUser)]
                    assert mine == [BOB]
                    assert code_of(connection) == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            with pytest.raises(AuthenticationError):
                by_token(node, token, secret=base64.b64encode(b"wrong").decode())
            with pytest.raises(AuthenticationError):
                by_token(node, token._replace(token_id="unknown"))
            assert renew_token(cluster, token.secret) >= token.expires_ms
            expire_token(cluster, token.secret)
            assert tokens_of(cluster) == []
            with pytest.raises(AuthenticationError):
                by_token(node, token)
            with pytest.raises(RefusedError, match="DELEGATION_TOKEN_NOT_FOUND"):
                renew_token(cluster, token.secret)
            assert token.secret not in repr(token)
        assert token.secret not in caplog.text

    with_node(with_tokens(tmp_path), work)


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    def work(_plain: Cluster, node: ServerNode) -> None:
        with connect(node, "PLAIN", "bob", "hush") as owner:
            made: Any = owner.send(CreateDelegationTokenRequest(max_lifetime_ms=60_000), CreateDelegationTokenResponse)
            secret = base64.b64encode(made.hmac).decode()
            with handshaken(node, SCRAM[1]) as connection:
                client = scram_client(SCRAM[1], made.token_id, secret, "x", by_token=True)
                first = exchange_step(connection, next(client))
                last = exchange_step(connection, client.send(first.auth_bytes))
                assert last.error_code == ErrorCode.NONE
                assert 0 < last.session_lifetime_ms <= 60_000
            client = scram_client(SCRAM[1], made.token_id, secret, "x")
            with handshaken(node, SCRAM[1]) as connection:
                first = exchange_step(connection, next(client))
                last = exchange_step(connection, client.send(first.auth_bytes))
                assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, "a token's id is no user"

    with_node(with_tokens(tmp_path), work)


def test_an_expired_token_is_no_login(tmp_path: Path) -> None:
    def work(_plain: Cluster, node: ServerNode) -> None:
        with connect(node, "PLAIN", "bob", "hush") as owner:
            made: Any = owner.send(CreateDelegationTokenRequest(max_lifetime_ms=1), CreateDelegationTokenResponse)
            token = Token(made.token_id, base64.b64encode(made.hmac).decode(), "", "", (), 0, 0, 0)
            until(lambda: not _logs_in(node, token))
            assert made.token_id in node.parts.core.broker.image.delegation_tokens

    with_node(with_tokens(tmp_path), work)


def test_the_sweep_removes_expired_tokens(tmp_path: Path) -> None:
    def work(_plain: Cluster, node: ServerNode) -> None:
        with connect(node, "PLAIN", "bob", "hush") as owner:
            owner.send(CreateDelegationTokenRequest(max_lifetime_ms=1), CreateDelegationTokenResponse)
            until(lambda: not node.parts.core.broker.image.delegation_tokens)

    with_node(with_tokens(tmp_path, delegation_token_expiry_check_interval_ms="50"), work)


def _logs_in(node: ServerNode, token: Token) -> bool:
    try:
        by_token(node, token).close()
    except AuthenticationError:
        return False
    return True


def test_tokens_need_a_secret_and_a_login(tmp_path: Path) -> None:
    def work(plain: Cluster, node: ServerNode) -> None:
        with connect(node, "PLAIN", "bob", "hush") as connection:
            assert code_of(connection) == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
            answer = connection.send(SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        for refused in (lambda: create_token(plain), lambda: tokens_of(plain), lambda: renew_token(plain, "AAAA")):
            with pytest.raises(RefusedError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
                refused()

    with_node(with_tokens(tmp_path, ""), work)
