"""Unmodified clients on a cluster whose every connection has TLS and a login: by SCRAM, and by a token of an identity
provider where the client can."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.cli.command import run
from tests.clients.programs import LIBRARIES, Library, acknowledged, reads, require, running
from tests.integration.admin import wait_until
from tests.integration.secure_quorum import (
    ADMIN,
    OAUTH,
    PASSWORD,
    SecureMember,
    client_properties,
    library_settings,
    library_settings_of_tokens,
    servers,
    started,
    token_jaas,
    write_properties,
)
from tests.oauth.provider import SigningKey
from tests.peer.kafka import HERE as LOGGING
from tests.peer.kafka import QUICK_START, classpath, require_kafka

pytestmark = pytest.mark.peer

JAVA: Final = Path(__file__).parent / "java"
SECONDS: Final = 60.0
RECORDS: Final = 300
MECHANISMS: Final = ("SCRAM-SHA-512", "OAUTHBEARER")
PROGRAMS: Final = tuple(each for each in LIBRARIES if each.name != "kafka-go")
CALLBACK: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Clients close their sockets at times of their own."""


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, key: SigningKey) -> Iterator[list[SecureMember]]:
    with started(tmp_path_factory.mktemp("secured"), key) as nodes:
        yield nodes


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: list[SecureMember]) -> str:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    admin = AdminClient(library_settings(cluster))
    admin.create_topics([NewTopic(name, 3, 3)])[name].result(SECONDS)
    return name


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("library", PROGRAMS, ids=lambda library: library.name)
def test_programs_in_go_and_javascript(cluster: list[SecureMember], key: SigningKey, topic: str, tmp_path: Path,
                                       library: Library, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require(library)
    for name, text in {"CA": f"{cluster[0].files}/ca.pem", "MECHANISM": mechanism, "USER": ADMIN,
                       "PASSWORD": PASSWORD, "TOKEN": key.sign(sub="alice")}.items():
        monkeypatch.setenv(f"CLIENT_{name}", text)
    produce = library.command("produce", servers(cluster), topic, "none", str(RECORDS), "10000")
    with running(tmp_path, "producer", produce) as producer:
        assert sorted(each.value for each in acknowledged(producer.wait())) == list(range(RECORDS))
    with running(tmp_path, "member", library.command("consume", servers(cluster), topic, topic)) as member:
        wait_until(lambda: len(member.lines) >= RECORDS, "all is read", SECONDS)
        assert sorted(each.value for each in reads(member.stop())) == list(range(RECORDS))


def java(*arguments: object, options: tuple[str, ...] = ()) -> list[str]:
    return ["java", "-Xmx256m", *QUICK_START, "-Dpeer.level=error", *options, "-cp", f"{LOGGING}:{classpath(JAVA)}",
            str(JAVA / "Login.java"), *map(str, arguments)]


@pytest.mark.parametrize("login", ["SCRAM-SHA-512", "OAUTHBEARER", "a delegation token"])
def test_clients_in_java(cluster: list[SecureMember], key: SigningKey, topic: str, tmp_path: Path, login: str,
                         capsys: pytest.CaptureFixture[str]) -> None:
    require_kafka(JAVA)
    token = tmp_path / "token"
    properties = client_properties(cluster)
    if login == "OAUTHBEARER":
        token.write_text(key.sign(sub="alice"))
        properties = client_properties(cluster, login, f"{OAUTH} required;") | {
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(), "sasl.login.callback.handler.class": CALLBACK}
    elif login == "a delegation token":
        properties = client_properties(cluster, "SCRAM-SHA-256", delegated(cluster, tmp_path, capsys))
    file = tmp_path / "client.properties"
    write_properties(file, properties)
    allowed = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}",
               f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={token}")
    done = subprocess.run(java(file, topic, topic, RECORDS, options=allowed), capture_output=True, text=True,
                          check=False, timeout=SECONDS * 2)
    assert sorted(map(int, done.stdout.split())) == list(range(RECORDS)), done.stderr[-2000:]


def delegated(cluster: list[SecureMember], directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Create a delegation token; return the login with it."""
    file = directory / "owner.properties"
    write_properties(file, client_properties(cluster))
    capsys.readouterr()
    assert run(["tokens", "create", "--client-config", str(file), "--json"]) == 0
    return token_jaas(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(cluster: list[SecureMember], key: SigningKey, topic: str, mechanism: str) -> None:
    settings = library_settings(cluster)
    if mechanism == "OAUTHBEARER":
        settings = library_settings_of_tokens(cluster, lambda: key.sign(sub="alice"))
    producer = Producer({**settings, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode())
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[int] = []
    wait_until(lambda: len(found) >= RECORDS or found.extend(
        int(each.value()) for each in consumer.consume(100, 0.2) if each.error() is None), "all is read", SECONDS)
    consumer.close()
    assert sorted(found) == list(range(RECORDS))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(cluster: list[SecureMember], key: SigningKey, topic: str, mechanism: str) -> None:
    kafka = pytest.importorskip("kafka")
    settings: dict[str, Any] = {
        "bootstrap_servers": servers(cluster).split(","), "security_protocol": "SASL_SSL",
        "ssl_cafile": f"{cluster[0].files}/ca.pem", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = kafka_python_tokens(lambda: key.sign(sub="alice"))
    else:
        settings |= {"sasl_plain_username": ADMIN, "sasl_plain_password": PASSWORD}
    producer = kafka.KafkaProducer(**settings, acks="all")
    sent = [producer.send(topic, str(number).encode()) for number in range(RECORDS)]
    producer.flush(SECONDS)
    assert all(each.succeeded() for each in sent)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest",
                                   consumer_timeout_ms=5_000)
    found: list[int] = []
    for each in consumer:
        found.append(int(each.value))
        if len(found) == RECORDS:
            break
    consumer.close()
    assert sorted(found) == list(range(RECORDS))


def kafka_python_tokens(token: Callable[[], str]) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc] # the library has no types
        def token(self) -> str:
            return token()

    return Tokens()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(cluster: list[SecureMember], key: SigningKey, topic: str, mechanism: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    settings: dict[str, Any] = {
        "bootstrap_servers": servers(cluster), "security_protocol": "SASL_SSL", "sasl_mechanism": mechanism,
        "ssl_context": ssl.create_default_context(cafile=f"{cluster[0].files}/ca.pem")}
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = aiokafka_tokens(lambda: key.sign(sub="alice"))
    else:
        settings |= {"sasl_plain_username": ADMIN, "sasl_plain_password": PASSWORD}

    async def work() -> list[int]:
        async with aiokafka.AIOKafkaProducer(**settings, acks="all") as producer:
            for number in range(RECORDS):
                await producer.send(topic, str(number).encode())
            await producer.flush()
        async with asyncio.timeout(SECONDS), aiokafka.AIOKafkaConsumer(
                topic, **settings, group_id=topic, auto_offset_reset="earliest") as consumer:
            return [int((await consumer.getone()).value) for _ in range(RECORDS)]

    assert sorted(asyncio.run(work())) == list(range(RECORDS))


def aiokafka_tokens(token: Callable[[], str]) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc] # the library has no types
        async def token(self) -> str:
            return token()

    return Tokens()
