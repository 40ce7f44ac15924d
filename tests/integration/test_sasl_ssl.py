"""A cluster whose every connection has TLS and a login. Clients continue when a leader is killed, and log in by tokens
of an identity provider and of the cluster itself."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.cli.command import run
from kraft.config.oauth_settings import ASSERTION
from tests.integration.admin import metadata, wait_until
from tests.integration.secure_quorum import (
    OAUTH,
    SecureMember,
    client_properties,
    library_settings,
    library_settings_of_tokens,
    servers,
    started,
    token_jaas,
    write_properties,
)
from tests.oauth.provider import AUDIENCE, CLIENT, SigningKey, provider_server

SECONDS: Final = 30.0
TOPIC: Final = "sealed"


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, key: SigningKey) -> Iterator[list[SecureMember]]:
    with started(tmp_path_factory.mktemp("sasl_ssl"), key) as nodes:
        yield nodes


def command(directory: Path, properties: dict[str, str], capsys: pytest.CaptureFixture[str], *arguments: object
            ) -> tuple[int, list[Any]]:
    """Run one of our commands; return its code and the lines of JSON."""
    file = directory / "client.properties"
    write_properties(file, properties)
    capsys.readouterr()
    code = run([*map(str, arguments), "--client-config", str(file), "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith(("{", "["))]


def produce(producer: Producer, values: range) -> None:
    failed: list[KafkaError] = []
    for value in values:
        producer.produce(TOPIC, str(value).encode(), partition=0,
                         on_delivery=lambda error, _message: failed.append(error) if error else None)
    assert producer.flush(SECONDS) == 0
    assert failed == []


def test_clients_continue_when_a_leader_is_killed(cluster: list[SecureMember]) -> None:
    """One producer and one consumer, with SCRAM over TLS, whose connections outlive the death of the leader."""
    admin = AdminClient(library_settings(cluster))
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(SECONDS)
    producer = Producer({**library_settings(cluster), "acks": "all", "linger.ms": 1})
    consumer = Consumer({**library_settings(cluster), "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[int] = []

    def read() -> int:
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                found.append(int(message.value()))
        return len(found)

    produce(producer, range(500))
    wait_until(lambda: read() >= 500, "the first records", SECONDS)
    leader = metadata(admin, TOPIC).topics[TOPIC].partitions[0].leader
    cluster[leader - 1].kill()
    produce(producer, range(500, 1000))
    wait_until(lambda: read() >= 1000, "the records after the leader's death", SECONDS)
    assert found == list(range(1000))
    cluster[leader - 1].start()
    wait_until(lambda: len(metadata(admin).brokers) == 3, "the node that came back", SECONDS)
    produce(producer, range(1000, 1010))
    consumer.close()


def test_a_wrong_password_over_tls(cluster: list[SecureMember]) -> None:
    seen: list[KafkaError] = []
    admin = AdminClient({**library_settings(cluster), "sasl.password": "wrong", "error_cb": seen.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(0)
    assert [each for each in seen if each.code() == KafkaError._AUTHENTICATION]


def test_a_client_with_a_token_of_a_provider(cluster: list[SecureMember], key: SigningKey) -> None:
    """Through librdkafka, which is given the tokens by its application."""
    fetched = 0

    def token() -> str:
        nonlocal fetched
        fetched += 1
        return key.sign(sub="alice")

    admin = AdminClient(library_settings_of_tokens(cluster, token))
    wait_until(lambda: admin.poll(0.1) is not None and fetched > 0, "the token", SECONDS)
    assert len(metadata(admin).brokers) == 3


def test_our_commands_log_in_by_assertions(cluster: list[SecureMember], key: SigningKey, tmp_path: Path,
                                           capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One command of our own client, and those of librdkafka, whose provider knows them by a key of their own."""
    with provider_server() as server:
        server.signing = key
        (tmp_path / "key.pem").write_text(server.of_clients.pem())
        properties = client_properties(cluster, "OAUTHBEARER", f"{OAUTH} required;") | {
            "sasl.oauthbearer.token.endpoint.url": server.url("token"), f"{ASSERTION}.algorithm": "ES256",
            f"{ASSERTION}.private.key.file": str(tmp_path / "key.pem"), f"{ASSERTION}.claim.iss": CLIENT,
            f"{ASSERTION}.claim.sub": CLIENT, f"{ASSERTION}.claim.aud": AUDIENCE}
        assert command(tmp_path, properties, capsys, "topics", "create", "asserted")[0] == 0
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"value": "line"}\n')))
        assert command(tmp_path, properties, capsys, "produce", "asserted")[0] == 0
        code, lines = command(tmp_path, properties, capsys, "consume", "asserted", "--until-end")
        assert (code, [each["value"] for each in lines]) == (0, ["line"])
        assert {"client_assertion"} <= set(server.seen[-1][1])
        (tmp_path / "key.pem").write_text(SigningKey("other", "ES256").pem())
        code, _ = command(tmp_path, properties | {"sasl.oauthbearer.scope": "another"}, capsys, "topics", "list")
        assert code == 1


def test_our_commands_log_in_by_tokens_too(cluster: list[SecureMember], key: SigningKey, tmp_path: Path,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text(key.sign(sub="alice"))
    by_provider = client_properties(cluster, "OAUTHBEARER", f"{OAUTH} required;") | {
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri()}
    code, made = command(tmp_path, by_provider, capsys, "tokens", "create", "--renewer", "bob", "--life", "600")
    assert (code, made[0]["owner"], made[0]["renewers"]) == (0, "User:alice", ["User:bob"])
    wait_until(lambda: command(tmp_path, by_provider, capsys, "tokens", "describe", "alice")[1] != [], "it", SECONDS)
    by_token = client_properties(cluster, "SCRAM-SHA-256", token_jaas(made[0]))
    for node in cluster:
        one = by_token | {"bootstrap.servers": node.address}
        wait_until(lambda one=one: command(tmp_path, one, capsys, "topics", "list")[0] == 0, "login", SECONDS)
    code, _ = command(tmp_path, by_token, capsys, "tokens", "create")
    assert code == 1, "a token creates no token"
    (tmp_path / "secret").write_text(made[0]["secret"])
    assert command(tmp_path, by_provider, capsys, "tokens", "renew", "--secret-file", tmp_path / "secret")[0] == 0
    assert command(tmp_path, by_provider, capsys, "tokens", "expire", "--secret-file", tmp_path / "secret")[0] == 0
    wait_until(lambda: command(tmp_path, by_token, capsys, "topics", "list")[0] == 1, "its end", SECONDS)
    assert servers(cluster).count("localhost") == 3
