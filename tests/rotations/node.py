"""The node whose certificate, authorities and passwords are rotated, and the clients that load it meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kraft.client import Cluster, Connection
from kraft.client.producer import PRODUCE_VERSION_MAX, produce_request
from kraft.client.security import Security
from kraft.client.topics import create_topic
from kraft.config.oauth_settings import KEYS_URL, MODULE, OAUTHBEARER, Provider, TokenLogin
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.tls.authority import Authority, Issued
from kraft_native.base.errors import KraftError
from kraft_native.batch.records import BatchBuilder
from tests.integration.process import NodeProcess
from tests.oauth.provider import SigningKey, key_set
from tests.ports import free_ports

HOST: Final = "localhost"
TOPIC: Final = "rotated"
MECHANISM: Final = "SCRAM-SHA-256"
CA: Final = "ca.pem"
KEYS: Final = "keys.json"
DAYS: Final = 2
REQUESTS_PER_CONNECTION: Final = 20
PRODUCE_TIMEOUT_MS: Final = 10_000


class RotatedNode(NodeProcess):
    """A node with a plain listener, one with mutual TLS, and one with SCRAM over TLS. Its stores are files in the
    directory of certificates."""

    def __init__(self, directory: Path, certificates: Path) -> None:
        self.certificates = certificates
        self.authority = Authority("first", DAYS)
        self.other_authority = Authority("second", DAYS)
        self.tls_port, self.sasl_port = free_ports(2)
        super().__init__(directory, {
            "listener.security.protocol.map":
                "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates / "node.pem"),
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates / "trusted.pem"),
            "listener.name.ssl.ssl.client.auth": "required", "sasl.enabled.mechanisms": f"{MECHANISM},{OAUTHBEARER}",
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
            KEYS_URL: f"file://{certificates / KEYS}"})
        controller, = free_ports(1)
        self.settings["listeners"] = (f"PLAINTEXT://127.0.0.1:{self.port},SSL://{HOST}:{self.tls_port},"
                                      f"SASL_SSL://{HOST}:{self.sasl_port},CONTROLLER://127.0.0.1:{controller}")
        (certificates / CA).write_text(self.authority.issued.certificate)
        self.show(self.authority.issue(HOST, (HOST,), DAYS))
        self.trust(self.authority)
        self.sign_with(SigningKey("unused", "ES256"))

    def _options(self) -> list[str]:
        return []

    def _ready(self, message: dict[str, Any]) -> None:
        """The ports are chosen beforehand."""

    def show(self, issued: Issued, key: str | None = None) -> None:
        """Put a certificate in the place of the node's. The node has not read it when this returns."""
        self._replace("node.pem", (issued.key if key is None else key) + issued.certificate)

    def trust(self, *authorities: Authority) -> None:
        """Put these authorities in the place of those whose clients the node accepts."""
        self._replace("trusted.pem", "".join(each.issued.certificate for each in authorities))

    def sign_with(self, *keys: SigningKey) -> None:
        """Put these keys in the place of those whose tokens the node accepts."""
        self._replace(KEYS, key_set(*keys).decode())

    def _replace(self, name: str, text: str) -> None:
        new = self.certificates / f"{name}.new"
        new.write_text(text)
        new.rename(self.certificates / name)

    def reload(self) -> None:
        """Signal that files have changed."""
        os.kill(self.pid, signal.SIGHUP)

    def client_file(self, name: str, authority: Authority) -> str:
        """Write a certificate of a client with its key; return the path."""
        issued = authority.issue(name, (), DAYS)
        path = self.certificates / f"{name}.pem"
        path.write_text(issued.key + issued.certificate)
        return str(path)

    def with_certificate(self, file: str) -> Security:
        """Return the security of a client that shows a certificate."""
        return Security(tls=True, ca_file=str(self.certificates / CA), certificate_file=file)

    def with_password(self, user: str, password: str) -> Security:
        """Return the security of a client that logs in over TLS."""
        return Security(tls=True, ca_file=str(self.certificates / CA), mechanism=MECHANISM, username=user,
                        password=password)

    def with_token(self, key: SigningKey) -> Security:
        """Return the security of a client that shows a token, signed with this key."""
        path = self.certificates / f"{key.kid}.jwt"
        path.write_text(key.sign())
        token = TokenLogin(provider=Provider(url=f"file://{path}"))
        return Security(tls=True, ca_file=str(self.certificates / CA), mechanism=OAUTHBEARER, username=token.user,
                        token=token)

    def create_topic(self) -> None:
        """Create the topic that the load appends to."""
        with Cluster(self.address) as cluster:
            create_topic(cluster, TOPIC, 1)


class Client(threading.Thread):
    """Client that appends one record after the other, on a new connection after some requests. It stops with
    `closed`."""

    def __init__(self, port: int, security: Security) -> None:
        super().__init__(name="client", daemon=True)
        self.security = security
        """Security of the next connection; another thread may replace it."""
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._port = port
        self._ended = threading.Event()
        self._connecting = threading.Lock()
        builder = BatchBuilder("none")
        builder.append(b"value", timestamp_ms=-1)
        self._request = produce_request({(TOPIC, 0): builder.build()}, -1, PRODUCE_TIMEOUT_MS)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connecting:
                    connection = Connection(HOST, self._port, security=self.security)
                with connection:
                    self.counts["connections"] += 1
                    for _ in range(REQUESTS_PER_CONNECTION):
                        self._append(connection)
            except (KraftError, OSError) as error:
                self.failures.append(f"{type(error).__name__}: {error}")

    def _append(self, connection: Connection) -> None:
        version = connection.version(self._request.API_KEY, PRODUCE_VERSION_MAX)
        answer = connection.send(self._request, ProduceResponse, version=version)
        code = answer.responses[0].partition_responses[0].error_code
        self.counts["requests"] += 1
        if code:
            self.failures.append(f"Produce: error {code}")

    def between_connections(self) -> AbstractContextManager[bool]:
        """Keep this client from opening connections inside the block, where its credentials change. The open one
        continues."""
        return self._connecting

    def end(self) -> None:
        """Stop after the requests of this connection."""
        self._ended.set()
        self.join()


class Load:
    """Clients that run meanwhile. Raises AssertionError at the end when a request or a connection has failed."""

    def __init__(self, clients: list[Client]) -> None:
        self.clients = clients

    def __enter__(self) -> Self:
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for client in self.clients:
            client.end()
        if kind is None:
            failures = [failure for client in self.clients for failure in client.failures]
            assert not failures, f"{len(failures)} failures of valid clients, the first: {failures[:3]}"
            assert all(client.counts["requests"] for client in self.clients)

    def count(self, kind: str) -> int:
        """Return how many connections or requests all clients have had."""
        return sum(client.counts[kind] for client in self.clients)


def seconds_accepted(port: int, security: Security, seconds_max: float) -> float:
    """Connect until the node refuses; return the seconds until the last connection that it accepted. A refusal itself
    may take longer: a node delays it, or looks for new keys first. Raises AssertionError when that takes too long."""
    began, accepted = time.monotonic(), 0.0
    while accepted < seconds_max:
        try:
            Connection(HOST, port, security=security).close()
        except (KraftError, OSError):
            return accepted
        accepted = time.monotonic() - began
    raise AssertionError(f"revoked credentials are accepted after {seconds_max} s")
