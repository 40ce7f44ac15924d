"""Kafka and our node alternate on one directory whose metadata log has ACLs, SCRAM credentials and delegation tokens:
each serves what the other wrote, from its log and its snapshots."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from kraft.client import Cluster
from kraft.client.acls import create_acls, delete_acls, list_acls
from kraft.client.connection import AuthenticationError
from kraft.client.security import security_of
from kraft.client.tokens import Token, create_token, expire_token, renew_token, tokens_of
from kraft.client.users import StoredCredential, credentials_of, remove_credentials, set_password
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import list_snapshots
from kraft.security.acls import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from kraft.security.principal import Principal
from tests.integration.admin import wait_until
from tests.integration.quorum import CLUSTER_ID, MemberProcess
from tests.peer.kafka import KafkaNode, require_kafka
from tests.peer.quorum import JAVA, OURS, SECONDS
from tests.ports import free_ports

pytestmark = pytest.mark.peer

SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ADMIN, PASSWORD = "admin", "of-the-admin"
USER_PASSWORD: Final = "of a user"
FIRST: Final = f"SCRAM-SHA-256=[name={ADMIN},password={PASSWORD}]"
LISTENER: Final = "LOGIN"


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


def settings_of(port: int, controller: int) -> dict[str, str]:
    return {
        "listeners": f"{LISTENER}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{LISTENER}://127.0.0.1:{port}", "inter.broker.listener.name": LISTENER,
        "listener.security.protocol.map": f"{LISTENER}:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS), "sasl.mechanism.inter.broker.protocol": MECHANISMS[0],
        f"listener.name.{LISTENER.lower()}.scram-sha-256.sasl.jaas.config":
            f'{SCRAM} required username="{ADMIN}" password="{PASSWORD}";',
        f"listener.name.{LISTENER.lower()}.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "delegation.token.secret.key": "of tokens", "metadata.log.max.record.bytes.between.snapshots": "500"}


class OurNode(MemberProcess):
    """A node of ours on the directory, with the settings of Kafka's."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory, 1, {"process.roles": "broker,controller", **settings})

    def _options(self) -> list[str]:
        return []

    def _ready(self, message: dict[str, Any]) -> None:
        """The ports are chosen beforehand."""


class Alternating:
    """One directory, and the two nodes that may run on it."""

    def __init__(self, home: Path) -> None:
        self.port, controller = free_ports(2)
        settings = settings_of(self.port, controller)
        self.kafkas = KafkaNode(home, **settings)
        self.data = self.kafkas.data
        self.ours = OurNode(self.data, settings)

    def format(self, kind: str) -> None:
        if kind == JAVA:
            self.kafkas.format("--standalone", "--add-scram", FIRST, cluster_id=CLUSTER_ID)
        else:
            self.ours.format("--standalone", f"--add-scram={FIRST}")

    @contextmanager
    def running(self, kind: str) -> Iterator[Cluster]:
        """Run one of the nodes, with a client that is the administrator."""
        node = self.kafkas if kind == JAVA else self.ours
        node.start()
        try:
            if kind == JAVA:           # it may accept before it knows the credentials
                wait_until(lambda: self.logs_in(ADMIN, PASSWORD), "the administrator may log in", SECONDS)
            with self.client(ADMIN, PASSWORD) as cluster:
                yield cluster
            node.stop()
        finally:
            node.kill()
        if kind == OURS:
            assert self.ours.alarms() == []

    def client(self, user: str, password: str, mechanism: str = MECHANISMS[0], token: str = "") -> Cluster:
        return Cluster(f"127.0.0.1:{self.port}", timeout=SECONDS, security=security_of({
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}"{token};'}))

    def logs_in(self, user: str, password: str, mechanism: str = MECHANISMS[0], token: str = "") -> bool:
        try:
            with self.client(user, password, mechanism, token) as cluster:
                cluster.check_access()
        except AuthenticationError:
            return False
        return True


class State(NamedTuple):
    """State of the cluster, as an administrator sees it."""

    acls: list[Acl]
    users: list[StoredCredential]
    tokens: list[Token]


def state_of(cluster: Cluster) -> State:
    return State(list_acls(cluster), sorted(credentials_of(cluster)), sorted(tokens_of(cluster)))


class Written(NamedTuple):
    """Results of `write`: the user that stays, a token that stays and one that does not."""

    user: str
    token: Token
    expired: Token


def acl(name: str, pattern: PatternType, operation: Operation, permission: PermissionType) -> Acl:
    return Acl(ResourceType.TOPIC, pattern, name, "User:bob", "10.0.0.1", operation, permission)


def write(cluster: Cluster, name: str) -> Written:
    """Add, change and remove some of each kind; return when the broker knows the last change."""
    create_acls(cluster, [
        acl(f"{name}-", PatternType.PREFIXED, Operation.READ, PermissionType.ALLOW),
        acl(name, PatternType.LITERAL, Operation.ALL, PermissionType.DENY),
        acl(f"{name}-gone", PatternType.LITERAL, Operation.READ, PermissionType.ALLOW)])
    wait_until(lambda: sum(name in each.resource_name for each in list_acls(cluster)) == 3, "the entries are known",
               SECONDS)
    assert len(delete_acls(cluster, [AclFilter(resource_type=ResourceType.TOPIC, resource_name=f"{name}-gone")])) == 1
    user, removed = f"user-{name}", f"removed-{name}"
    for each in (user, removed):
        set_password(cluster, each, USER_PASSWORD, MECHANISMS, 8192)
    remove_credentials(cluster, removed, MECHANISMS)
    kept, expired = (create_token(cluster, renewers=[Principal("User", user)], life_ms=86_400_000) for _ in range(2))
    wait_until(lambda: len({kept.token_id, expired.token_id} & {each.token_id for each in tokens_of(cluster)}) == 2,
               "the tokens are known", SECONDS)
    renew_token(cluster, kept.secret, 3_600_000)
    expire_token(cluster, expired.secret)
    set_password(cluster, user, USER_PASSWORD, MECHANISMS[:1], 4096)

    def known() -> bool:
        iterations = {each.mechanism: each.iterations for each in credentials_of(cluster) if each.user == user}
        return iterations == {MECHANISMS[0]: 4096, MECHANISMS[1]: 8192} and not [
            each for each in tokens_of(cluster) if each.token_id == expired.token_id]

    wait_until(known, "the last changes are known", SECONDS)
    return Written(user, kept, expired)


def check_logins(world: Alternating, written: Written) -> None:
    for mechanism in MECHANISMS:
        wait_until(lambda mechanism=mechanism: world.logs_in(  # type: ignore[misc]
            written.user, USER_PASSWORD, mechanism), f"{written.user} logs in by {mechanism}", SECONDS)
        assert not world.logs_in(written.user, "guessed", mechanism)
    assert not world.logs_in(f"removed-{written.user.removeprefix('user-')}", USER_PASSWORD)
    as_token = ' tokenauth="true"'
    assert world.logs_in(written.token.token_id, written.token.secret, token=as_token)
    assert not world.logs_in(written.expired.token_id, written.expired.secret, token=as_token)
    assert not world.logs_in(written.token.token_id, written.expired.secret, token=as_token)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", [[JAVA, OURS, JAVA], [OURS, JAVA, OURS]], ids="".join)
def test_each_serves_what_the_other_wrote(tmp_path: Path, kinds: list[str]) -> None:
    require_kafka()
    world = Alternating(tmp_path / "home")
    world.format(kinds[0])
    written: list[Written] = []
    before: State | None = None
    for number, kind in enumerate(kinds):
        with world.running(kind) as cluster:
            if before is not None:
                assert state_of(cluster) == before
            for each in written:
                check_logins(world, each)
            written.append(write(cluster, f"{kind}{number}"))
            check_logins(world, written[-1])
            before = state_of(cluster)
    assert before is not None
    assert [len(each) for each in before] == [2 * len(kinds), 1 + 2 * len(kinds), len(kinds)]
    assert list_snapshots(world.data / DIRECTORY_NAME)[-1].end_offset > 0
