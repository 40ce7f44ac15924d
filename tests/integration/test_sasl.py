"""A cluster of three nodes that trust nobody without SASL: SCRAM between brokers and for clients, PLAIN between
controllers; unmodified clients, our own commands, and a node that is killed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.cli.command import run
from tests.integration.admin import metadata
from tests.integration.quorum import MemberProcess
from tests.ports import free_ports

ADMIN, PASSWORD = "admin", "first secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECONDS: Final = 30.0
SESSION_MS: Final = 4_000


class SaslNode(MemberProcess):
    """A broker and controller, all of whose listeners have SASL."""

    def __init__(self, directory: Path, node_id: int, ports: list[int]) -> None:
        self.own_port = ports[node_id - 1]
        super().__init__(directory / str(node_id), node_id, {
            "process.roles": "broker,controller",
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{self.own_port}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "controller.quorum.voters": ",".join(f"{at}@127.0.0.1:{port}" for at, port in enumerate(ports, 1)),
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "connections.max.reauth.ms": str(SESSION_MS),
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config":
                f'{PLAIN} required username="node" password="between" user_node="between";',
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config":
                f'{SCRAM} required username="{ADMIN}" password="{PASSWORD}";',
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_carol="plain";',
            "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200",
            "offsets.topic.replication.factor": "3", "default.replication.factor": "3"})

    def _options(self) -> list[str]:
        return []

    def _ready(self, message: dict[str, Any]) -> None:
        self.port = int(message["listeners"]["SASL_PLAINTEXT"].rpartition(":")[2])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SaslNode]]:
    directory, ports = tmp_path_factory.mktemp("sasl"), free_ports(3)
    nodes = [SaslNode(directory, node_id, ports) for node_id in (1, 2, 3)]
    for node in nodes:
        node.format(f'--add-scram=SCRAM-SHA-256=[name={ADMIN},password="{PASSWORD}"]')
    for node in nodes:
        node.launch()
    for node in nodes:
        node.await_ready()
    yield nodes
    for node in nodes:
        node.stop()
        assert node.alarms() == []
        assert PASSWORD not in node.log(1_000_000)


def settings(nodes: list[SaslNode], mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {"bootstrap.servers": ",".join(each.address for each in nodes if each.running), "log_level": 2,
            "security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism, "sasl.username": user,
            "sasl.password": password}


def tool(nodes: list[SaslNode], directory: Path, capsys: pytest.CaptureFixture[str], *arguments: object) -> list[Any]:
    properties = directory / "client.properties"
    properties.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
                          f'sasl.jaas.config={SCRAM} required username="{ADMIN}" '
                          f'password="{PASSWORD}";\n')
    capsys.readouterr()
    assert run([*map(str, arguments), "--client-config", str(properties), "--bootstrap", nodes[0].address,
                "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_clients_of_a_secured_cluster(cluster: list[SaslNode], tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                      ) -> None:
    password = tmp_path / "password"
    password.write_text("of bob")
    tool(cluster, tmp_path, capsys, "users", "add", "bob", "--mechanism", "SCRAM-SHA-512", "--password-file", password)
    wanted = [(ADMIN, "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-512")]
    deadline = time.monotonic() + SECONDS
    while [(each["user"], each["mechanism"]) for each in tool(cluster, tmp_path, capsys, "users", "list")] != wanted:
        assert time.monotonic() < deadline
    admin = AdminClient(settings(cluster, "SCRAM-SHA-256", ADMIN, PASSWORD))
    admin.create_topics([NewTopic("events", 3, 3)])["events"].result(SECONDS)
    sent = 0
    for mechanism, user, secret in (("SCRAM-SHA-512", "bob", "of bob"), ("PLAIN", "carol", "plain")):
        producer = Producer({**settings(cluster, mechanism, user, secret), "acks": "all"})
        for at in range(30):
            producer.produce("events", f"{user} {at}", partition=at % 3)
        assert producer.flush(SECONDS) == 0
        sent += 30
    consumer = Consumer({**settings(cluster, "SCRAM-SHA-512", "bob", "of bob"), "group.id": "g",
                         "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    found: set[bytes] = set()
    while len(found) < sent:
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None
        found.add(message.value())
    consumer.close()


@pytest.mark.parametrize(("mechanism", "user", "password"), [
    ("SCRAM-SHA-256", ADMIN, "wrong"), ("SCRAM-SHA-512", ADMIN, PASSWORD), ("PLAIN", "carol", "wrong"),
    ("PLAIN", "nobody", "x")])
def test_clients_without_a_valid_password(cluster: list[SaslNode], mechanism: str, user: str, password: str) -> None:
    seen: list[KafkaError] = []
    admin = AdminClient({**settings(cluster, mechanism, user, password), "error_cb": seen.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(0)
    assert [each for each in seen if each.code() == KafkaError._AUTHENTICATION]


def test_a_node_that_was_killed_comes_back(cluster: list[SaslNode]) -> None:
    """Leaders and the active controller move while sessions of a few seconds end."""
    producer = Producer({**settings(cluster, "PLAIN", "carol", "plain"), "acks": "all"})
    for node in cluster[:2]:
        node.kill()
        producer.produce("events", b"while one is down", partition=0)
        assert producer.flush(SECONDS) == 0
        node.start()
    admin = AdminClient(settings(cluster, "PLAIN", "carol", "plain"))
    assert len(metadata(admin).brokers) == 3
