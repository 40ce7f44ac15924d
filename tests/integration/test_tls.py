"""A cluster of three nodes whose every connection is encrypted, and clients that show certificates."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509

from kraft.client.security import security_of
from kraft.tls.certificates import CertificateFacts, certificate_facts
from kraft.tls.contexts import client_context
from kraft.tls.library import VARIABLE
from tests.golden import REPOSITORY
from tests.integration.admin import metadata, wait_until
from tests.integration.process import DEFAULTS, alarms_in
from tests.integration.quorum import CLUSTER_ID
from tests.ports import free_ports
from tests.tls.files import LOCAL, authority, issued
from tests.tls.libraries import LIBRARIES

SECONDS: Final = 30.0
TOPIC: Final = "secret"
MISMATCH: Final = "the key is not that of the certificate"


class SecureCluster:
    """Three nodes, broker and controller each, with `SSL` for clients and brokers, and for controllers."""

    def __init__(self, directory: Path, library: str) -> None:
        self.directory = directory
        self.environment = {**os.environ, VARIABLE: library}
        ports = free_ports(6)
        self.ports = dict(enumerate(ports[:3], 1))
        self.controller_ports = dict(enumerate(ports[3:], 1))
        self.processes: dict[int, subprocess.Popen[str]] = {}
        (directory / "ca.pem").write_text(authority().issued.certificate)
        self.write_certificate("client", ())
        voters = ",".join(f"{node}@localhost:{port}" for node, port in self.controller_ports.items())
        for node in self.ports:
            self.write_certificate(f"node{node}", LOCAL)
            lines = {
                **DEFAULTS, "node.id": str(node), "log.dirs": f"{directory}/{node}", "controller.quorum.voters": voters,
                "listeners": f"SSL://localhost:{self.ports[node]},CONTROLLER://localhost:{self.controller_ports[node]}",
                "controller.listener.names": "CONTROLLER", "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
                "security.inter.broker.protocol": "SSL", "ssl.keystore.type": "PEM",
                "ssl.keystore.location": f"{directory}/node{node}.pem", "ssl.truststore.type": "PEM",
                "ssl.truststore.location": f"{directory}/ca.pem", "ssl.client.auth": "required",
                "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500",
                "offsets.topic.replication.factor": "3"}
            (directory / f"{node}.properties").write_text("".join(f"{key}={text}\n" for key, text in lines.items()))

    def write_certificate(self, name: str, hosts: tuple[str, ...]) -> None:
        one = issued(name, *hosts)
        path = self.directory / f"{name}.new"
        path.write_text(one.key + one.certificate)
        path.rename(self.directory / f"{name}.pem")

    @property
    def address(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports.values())

    @property
    def client(self) -> dict[str, str]:
        """Settings of librdkafka."""
        return {"bootstrap.servers": self.address, "security.protocol": "ssl",
                "ssl.ca.location": f"{self.directory}/ca.pem",
                "ssl.certificate.location": f"{self.directory}/client.pem",
                "ssl.key.location": f"{self.directory}/client.pem"}

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "kraft", *arguments]

    def start(self) -> None:
        for node in self.ports:
            file = f"{self.directory}/{node}.properties"
            subprocess.run(self._command("storage", "format", "--config", file, "--cluster-id", CLUSTER_ID), check=True,
                           capture_output=True, cwd=REPOSITORY)
            with open(self.directory / f"{node}.log", "w", encoding="utf-8") as log:
                self.processes[node] = subprocess.Popen(
                    self._command("server", "start", "--config", file, "--log-level", "info", "--json"), text=True,
                    stdout=subprocess.PIPE, stderr=log, cwd=REPOSITORY, env=self.environment)
        for process in self.processes.values():
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert ready["access"]["SSL"].startswith("SSL: only a client with a trusted certificate may connect")

    def log(self, node: int) -> str:
        return (self.directory / f"{node}.log").read_text()

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        self._end(node)

    def _end(self, node: int) -> None:
        process = self.processes.pop(node)
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for node in list(self.processes):
            self._end(node)

    def certificate_of(self, node: int) -> CertificateFacts:
        """Certificate that a node shows."""
        properties = {"security.protocol": "SSL", "ssl.truststore.location": f"{self.directory}/ca.pem",
                      "ssl.keystore.location": f"{self.directory}/client.pem"}
        context = security_of(properties).context()
        with (socket.create_connection(("localhost", self.ports[node])) as plain,
              context.wrap_socket(plain, server_hostname="localhost") as client):
            found = client.getpeercert(binary_form=True)
        assert found is not None
        return certificate_facts(x509.load_der_x509_certificate(found))


@pytest.fixture(scope="module", params=LIBRARIES)
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SecureCluster]:
    made = SecureCluster(tmp_path_factory.mktemp("secure"), request.param)
    made.start()
    yield made
    made.stop()
    assert [line for node in made.ports for line in alarms_in(made.log(node)) if MISMATCH not in line] == []


def produce(cluster: SecureCluster, values: range) -> None:
    producer = Producer({**cluster.client, "acks": "all", "linger.ms": 1})
    failed: list[KafkaError] = []
    for value in values:
        producer.produce(TOPIC, str(value).encode(), partition=0,
                         on_delivery=lambda error, _message: failed.append(error) if error else None)
    assert producer.flush(SECONDS) == 0
    assert failed == []


def consume(cluster: SecureCluster, count: int) -> list[int]:
    consumer = Consumer({**cluster.client, "group.id": "readers", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False})
    try:
        consumer.subscribe([TOPIC])
        found: list[int] = []
        wait_until(lambda: _read(consumer, found) >= count, "all records", SECONDS)
        return found
    finally:
        consumer.close()


def _read(consumer: Consumer, found: list[int]) -> int:
    for message in consumer.consume(1000, 0.2):
        assert message.error() is None
        found.append(int(message.value()))
    return len(found)


def test_records_survive_the_death_of_a_leader(cluster: SecureCluster) -> None:
    """Topics, records that all replicas have, groups, and a new leader: every connection for it is encrypted."""
    admin = AdminClient(cluster.client)
    admin.create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})])[TOPIC].result(SECONDS)
    produce(cluster, range(1000))
    assert consume(cluster, 1000) == list(range(1000))
    leader = metadata(admin, TOPIC).topics[TOPIC].partitions[0].leader
    cluster.kill(leader)
    produce(cluster, range(1000, 1200))
    assert consume(cluster, 1200) == list(range(1200))


def test_the_commands_use_the_properties_of_a_client(cluster: SecureCluster) -> None:
    file = cluster.directory / "client.properties"
    file.write_text(f"bootstrap.servers={cluster.address}\nsecurity.protocol=SSL\n"
                    f"ssl.truststore.type=PEM\nssl.truststore.location={cluster.directory}/ca.pem\n"
                    f"ssl.keystore.type=PEM\nssl.keystore.location={cluster.directory}/client.pem\n")
    done = subprocess.run([sys.executable, "-m", "kraft", "brokers", "list", "--command-config", str(file), "--json"],
                          capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert {json.loads(line)["broker"] for line in done.stdout.splitlines()} >= set(cluster.processes)


def test_a_new_certificate_is_used_from_a_signal_on(cluster: SecureCluster) -> None:
    """A pair that does not match changes nothing."""
    node, process = next(iter(cluster.processes.items()))
    before = cluster.certificate_of(node)
    assert before.subject == f"CN=node{node}"
    path = cluster.directory / f"node{node}.pem"
    other = issued("other", *LOCAL)
    path.write_text(other.key + issued(f"node{node}", *LOCAL).certificate)
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: MISMATCH in cluster.log(node), "the refusal", SECONDS)
    assert cluster.certificate_of(node) == before
    renewed = issued(f"node{node}", *LOCAL, "renewed")
    path.write_text(renewed.key + renewed.certificate)
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: "TLS was loaded again" in cluster.log(node), "the new certificate", SECONDS)
    assert "renewed" in cluster.certificate_of(node).names


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
@pytest.mark.parametrize(("options", "says"), [
    (["-tls1_2"], "Cipher is ECDHE-ECDSA-AES256-GCM-SHA384"), (["-tls1_3"], "TLSv1.3"),
    (["-tls1_1"], "alert protocol version"), (["-tls1_2", "-cipher", "AES128-SHA"], "handshake failure"),
], ids=["1.2", "1.3", "1.1", "another suite"])
def test_versions_and_suites(cluster: SecureCluster, options: list[str], says: str) -> None:
    port = cluster.ports[next(iter(cluster.processes))]
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"localhost:{port}", "-CAfile", f"{cluster.directory}/ca.pem", "-cert",
         f"{cluster.directory}/client.pem", *options], input="", capture_output=True, text=True, check=False)
    assert says in done.stdout + done.stderr


def test_clients_that_are_refused(cluster: SecureCluster) -> None:
    node = next(iter(cluster.processes))
    _without_certificate(cluster, node)
    wait_until(lambda: "the client has no certificate" in cluster.log(node), "its line in the log", SECONDS)
    _plain(cluster.ports[node])
    wait_until(lambda: "the client does not speak TLS" in cluster.log(node), "its line in the log", SECONDS)


def _without_certificate(cluster: SecureCluster, node: int) -> None:
    context = client_context(security_of({
        "security.protocol": "SSL", "ssl.truststore.location": f"{cluster.directory}/ca.pem"}).tls_settings)
    with (suppress(OSError), socket.create_connection(("localhost", cluster.ports[node])) as plain,
          context.wrap_socket(plain, server_hostname="localhost") as client):
        client.recv(1)


def _plain(port: int) -> None:
    with socket.create_connection(("localhost", port)) as client, suppress(OSError):
        client.sendall(b"\0\0\0\x0c\0\x12\0\0\0\0\0\1\0\1a\0")
        client.recv(1)
