"""Nodes of two versions: three members, each broker and controller, whose every connection has TLS and a login, and
whose brokers decide by ACLs."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kraft.client import Cluster
from kraft.client.security import Security, security_of
from tests.integration.process import NodeProcess
from tests.integration.quorum import CLUSTER_ID
from tests.integration.secure_quorum import PLAIN, SCRAM
from tests.tls.files import write_pem

ADMIN: Final = "admin"
APP: Final = "app"
OUTSIDER: Final = "outsider"
"""User that may log in and do nothing else."""
PASSWORDS: Final = {ADMIN: "first secret", APP: "second secret", OUTSIDER: "third secret"}
MECHANISM: Final = "SCRAM-SHA-512"
BETWEEN: Final = "SCRAM-SHA-256"
PREFIX: Final = "upgraded"
"""Beginning of the names of all topics, groups and transactional ids that the application may use."""
ITERATIONS: Final = 4_096


class Version(NamedTuple):
    """A version of the node: its name, the Python of its environment, and where its modules are installed."""

    name: str
    python: Path
    modules: Path


def installed_in(name: str, python: Path) -> Version:
    """Return the version that a Python imports."""
    program = "import pathlib, kraft_native; print(pathlib.Path(kraft_native.__file__).parent.resolve())"
    found = subprocess.run([python, "-P", "-c", program], check=True, capture_output=True, text=True).stdout
    return Version(name, python, Path(found.strip()))


class Member(NodeProcess):
    """A node of the cluster, of one version or the other. `files` has the certificates."""

    def __init__(self, directory: Path, files: Path, node_id: int, ports: list[tuple[int, int]]) -> None:
        port, controller_port = ports[node_id - 1]
        super().__init__(directory, {
            "node.id": str(node_id), "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
            "listeners": f"CLIENTS://localhost:{port},CONTROLLER://localhost:{controller_port}",
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "CLIENTS",
            "controller.quorum.voters": ",".join(f"{number}@localhost:{each}"
                                                 for number, (_, each) in enumerate(ports, 1)),
            "ssl.keystore.type": "PEM", "ssl.keystore.location": f"{files}/server.pem",
            "ssl.truststore.type": "PEM", "ssl.truststore.location": f"{files}/ca.pem",
            "sasl.enabled.mechanisms": f"{BETWEEN},{MECHANISM}", "sasl.mechanism.inter.broker.protocol": BETWEEN,
            "sasl.mechanism.controller.protocol": "PLAIN", "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config":
                f'{PLAIN} required username="node" password="between" user_node="between";',
            "listener.name.clients.scram-sha-256.sasl.jaas.config":
                f'{SCRAM} required username="{ADMIN}" password="{PASSWORDS[ADMIN]}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:node",
            "offsets.topic.replication.factor": "3", "min.insync.replicas": "2", "default.replication.factor": "3",
            "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"})
        self.node_id, self.port = node_id, port

    def format(self) -> None:
        """Format the data directory by the version in use: with the features that it knows."""
        users = (f'--add-scram={each}=[name={ADMIN},password="{PASSWORDS[ADMIN]}"]' for each in (BETWEEN, MECHANISM))
        subprocess.run([*self.launcher, self.python, "-m", "kraft", "storage", "format", f"--data={self.data}",
                        f"--cluster-id={CLUSTER_ID}", *users, *(f"--set={name}={value}" for name, value in
                                                                self.settings.items())],
                       check=True, stdout=subprocess.DEVNULL)

    def _options(self) -> list[str]:
        return []

    def _ready(self, message: dict[str, Any]) -> None:
        assert set(message["listeners"]) == {"CLIENTS", "CONTROLLER"}, message

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def use(self, version: Version) -> None:
        """Start as another version from now on."""
        self.launcher, self.python = ["env", "PYTHONSAFEPATH=1"], str(version.python)

    def loaded_from(self) -> set[Path]:
        """Return where the compiled modules of the running process lie: directories named `kraft_native`."""
        paths = {Path(line.split(maxsplit=5)[5].strip())
                 for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines() if "/kraft_native/" in line}
        return {parent for path in paths for parent in path.parents if parent.name == "kraft_native"}


class Servers:
    """The addresses of all nodes with one user's login, in the form that the clients of tests expect."""

    def __init__(self, nodes: Iterable[Member], files: Path, user: str) -> None:
        self.address = ",".join(node.address for node in nodes)
        self.login: dict[str, Any] = {
            "security.protocol": "SASL_SSL", "ssl.ca.location": f"{files}/ca.pem", "sasl.mechanism": MECHANISM,
            "sasl.username": user, "sasl.password": PASSWORDS[user]}

    @property
    def security(self) -> Security:
        """The login of our own client."""
        return security_of(self.login)

    def cluster(self, timeout: float = 5.0) -> Cluster:
        """Return our own client."""
        return Cluster(self.address, timeout=timeout, security=self.security)


def certificates(directory: Path) -> Path:
    """Write certificates into a new directory, and return it."""
    directory.mkdir()
    write_pem(directory)
    return directory


def add_users(admin: AdminClient) -> None:
    """Add the users other than the administrator, and what the application may do."""
    changes = [UserScramCredentialUpsertion(user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS),
                                            PASSWORDS[user].encode()) for user in (APP, OUTSIDER)]
    for future in admin.alter_user_scram_credentials(changes).values():
        future.result(30)
    entries = [AclBinding(kind, PREFIX, ResourcePatternType.PREFIXED, f"User:{APP}", "*", AclOperation.ALL,
                          AclPermissionType.ALLOW)
               for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)]
    entries.append(AclBinding(ResourceType.GROUP, "judge", ResourcePatternType.LITERAL, f"User:{APP}", "*",
                              AclOperation.READ, AclPermissionType.ALLOW))
    for future in admin.create_acls(entries).values():
        future.result(30)
