"""Nodes, by default three, broker and controller each, whose every connection has TLS and a login: SCRAM between
brokers and for clients, OAUTHBEARER for clients, PLAIN between controllers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.integration.quorum import MemberProcess
from tests.oauth.provider import AUDIENCE, SigningKey, key_set, now_s
from tests.ports import free_ports
from tests.tls.files import write_pem

ADMIN, PASSWORD = "admin", "first secret"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SESSION_MS: Final = 10_000


class SecureMember(MemberProcess):
    """One of the nodes. `directory` has the certificates and the keys of tokens."""

    def __init__(self, directory: Path, node_id: int, ports: list[int]) -> None:
        self.files = directory
        super().__init__(directory / str(node_id), node_id, {
            "process.roles": "broker,controller",
            "listeners": f"SASL_SSL://localhost:0,CONTROLLER://localhost:{ports[node_id - 1]}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
            "controller.quorum.voters": ",".join(f"{at}@localhost:{port}" for at, port in enumerate(ports, 1)),
            "security.inter.broker.protocol": "SASL_SSL",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": f"{directory}/server.pem",
            "ssl.truststore.type": "PEM", "ssl.truststore.location": f"{directory}/ca.pem",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "connections.max.reauth.ms": str(SESSION_MS), "delegation.token.secret.key": "of tokens",
            "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config":
                f'{PLAIN} required username="node" password="between" user_node="between";',
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config":
                f'{SCRAM} required username="{ADMIN}" password="{PASSWORD}";',
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{OAUTH} required;",
            "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200",
            "offsets.topic.replication.factor": str(len(ports)), "default.replication.factor": str(len(ports)),
            "transaction.state.log.replication.factor": str(len(ports)),
            "transaction.state.log.min.isr": str(len(ports) // 2 + 1), "min.insync.replicas": str(len(ports) // 2 + 1)})

    def _options(self) -> list[str]:
        return []

    def _ready(self, message: dict[str, Any]) -> None:
        self.port = int(message["listeners"]["SASL_SSL"].rpartition(":")[2])

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"


def prepare(directory: Path, key: SigningKey, count: int = 3) -> list[SecureMember]:
    """Write the files, and format the nodes with a first user of both mechanisms of SCRAM."""
    write_pem(directory)
    (directory / "keys.json").write_bytes(key_set(key))
    ports = free_ports(count)
    nodes = [SecureMember(directory, node_id, ports) for node_id in range(1, count + 1)]
    for node in nodes:
        node.format(*(f'--add-scram={each}=[name={ADMIN},password="{PASSWORD}"]'
                      for each in ("SCRAM-SHA-256", "SCRAM-SHA-512")))
    return nodes


@contextmanager
def started(directory: Path, key: SigningKey, count: int = 3) -> Iterator[list[SecureMember]]:
    """Run the nodes in the block. Raises AssertionError for one that has logged a fault or the password."""
    nodes = prepare(directory, key, count)
    for node in nodes:
        node.launch()
    for node in nodes:
        node.await_ready()
    yield nodes
    for node in nodes:
        node.stop()
        assert node.alarms() == []
        assert PASSWORD not in node.log(1_000_000)


def servers(nodes: list[SecureMember]) -> str:
    return ",".join(each.address for each in nodes if each.running)


def client_properties(nodes: list[SecureMember], mechanism: str = "SCRAM-SHA-512", jaas: str = "") -> dict[str, str]:
    """Properties of a client in Java, or one of ours."""
    return {"bootstrap.servers": servers(nodes), "security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{nodes[0].files}/ca.pem", "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas or f'{SCRAM} required username="{ADMIN}" password="{PASSWORD}";'}


def token_jaas(made: Mapping[str, Any]) -> str:
    """Login with a delegation token, as `kraft tokens create --json` prints it."""
    return f'{SCRAM} required username="{made["token_id"]}" password="{made["secret"]}" tokenauth="true";'


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))


def library_settings(nodes: list[SecureMember]) -> dict[str, Any]:
    """Settings of librdkafka that logs in by a password."""
    return {**_library_tls(nodes), "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": ADMIN,
            "sasl.password": PASSWORD}


def library_settings_of_tokens(nodes: list[SecureMember], token: Callable[[], str]) -> dict[str, Any]:
    """Settings of librdkafka whose application gives it tokens of a provider."""
    return {**_library_tls(nodes), "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _config: (token(), now_s() + 60)}


def _library_tls(nodes: list[SecureMember]) -> dict[str, Any]:
    return {"bootstrap.servers": servers(nodes), "security.protocol": "sasl_ssl", "log_level": 2,
            "ssl.ca.location": f"{nodes[0].files}/ca.pem"}
