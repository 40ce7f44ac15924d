"""Clusters of both kinds whose every connection has TLS: nodes show certificates to each other, or log in by SASL.

They replicate from each other and lead alternately, brokers and controllers. A node or client that the cluster's
authority does not know stays out.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from kraft.client import Cluster
from kraft.client.connection import AuthenticationError
from kraft.client.security import Security, current, secured, security_of
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from tests.integration.admin import metadata, wait_until
from tests.integration.clients import Reachable, Record, librdkafka_produce, librdkafka_read
from tests.integration.quorum import MemberProcess
from tests.peer.cluster import JavaBroker, MixedCluster, mixed_cluster
from tests.peer.kafka import require_kafka
from tests.peer.quorum import SECONDS, MixedQuorum
from tests.tls.files import LOCAL, issued, write_pem

pytestmark = pytest.mark.peer

TOPIC: Final = "sealed"
RECORDS: Final = 100
OURS, KAFKAS = 11, 12
"""Ids of the two brokers."""
ROUNDS: Final = 12
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN: Final = f'{PLAIN} required username="server" password="between" user_server="between" user_client="of-clients";'
REFUSED: Final = "no TLS connection with"
"""Words in the log of our nodes for a connection that they do not accept."""


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


@pytest.fixture(autouse=True)
def kafka() -> None:
    require_kafka()


def node_settings(protocol: str, files: Path) -> dict[str, str]:
    """Settings of every node: with `SSL` a certificate names its user, with `SASL_SSL` its login does."""
    return {
        "listener.security.protocol.map": f"CONTROLLER:{protocol},PLAINTEXT:{protocol}",
        "inter.broker.listener.name": "PLAINTEXT", "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:server;User:client", "offsets.topic.replication.factor": "1",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": f"{files}/server.pem",
        "ssl.truststore.type": "PEM", "ssl.truststore.location": f"{files}/ca.pem",
        **({"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/"} if protocol == "SSL"
           else {"sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN",
                 "sasl.mechanism.controller.protocol": "PLAIN",
                 "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
                 "listener.name.controller.plain.sasl.jaas.config": LOGIN})}


def client_security(protocol: str, files: Path, **other: str) -> Security:
    return security_of({
        "security.protocol": protocol, "ssl.truststore.location": f"{files}/ca.pem",
        **({"ssl.keystore.location": f"{files}/client.pem"} if protocol == "SSL"
           else {"sasl.mechanism": "PLAIN", "sasl.username": "client", "sasl.password": "of-clients"}), **other})


def produce(node: Reachable, index: int, values: range) -> None:
    librdkafka_produce(node, TOPIC, [Record(None, b"%d" % value) for value in values], partition=index, acks="all",
                       **current().library_settings())


def values_of(node: Reachable, index: int, count: int) -> list[int]:
    found = librdkafka_read(node, TOPIC, count, partition=index, **current().library_settings())
    return [int(each.record.value or b"") for each in found]


def brokers_lead_alternately(cluster: MixedCluster) -> None:
    """Records that are sent to one broker are read from the other, also when that one leads."""
    for index, (leader, other) in enumerate(((OURS, KAFKAS), (KAFKAS, OURS))):
        first, second = range(RECORDS), range(RECORDS, 2 * RECORDS)
        assert cluster.replicas(TOPIC, index).leader == leader
        produce(cluster.brokers[leader], index, first)
        assert values_of(cluster.brokers[other], index, RECORDS) == list(first)
        cluster.brokers[leader].stop()
        wait_until(lambda index=index, other=other:  # type: ignore[misc]
                   cluster.replicas(TOPIC, index).leader == other, f"{other} leads", SECONDS)
        produce(cluster.brokers[other], index, second)
        assert values_of(cluster.brokers[other], index, 2 * RECORDS) == list(range(2 * RECORDS))
        cluster.start_brokers([leader])
        cluster.await_in_sync(TOPIC)
        cluster.check_logs(TOPIC, index)
        assert values_of(cluster.brokers[leader], index, 2 * RECORDS) == list(range(2 * RECORDS))


def controllers_lead_alternately(quorum: MixedQuorum) -> None:
    """Kill the active controller until one of each kind was active."""
    seen = set()
    for _ in range(ROUNDS):
        leader = quorum.leader
        seen.add(type(leader))
        if len(seen) == 2:
            break
        leader.kill()
        quorum.commit(2)
        leader.launch()
        quorum.commit(1)
    assert len(seen) == 2
    assert quorum.check_logs() > 10


def outsiders(directory: Path, protocol: str, settings: dict[str, str]) -> list[MemberProcess | JavaBroker]:
    """One broker of each kind, whose certificate is of another authority. It trusts that one, as our node demands, and
    the cluster's where nodes show certificates: the cluster refuses it. Elsewhere it refuses the cluster."""
    own = issued("server", *LOCAL, of="other")
    (directory / "foreign.pem").write_text(own.key + own.certificate)
    trusted = ["other.pem", *(["ca.pem"] if protocol == "SSL" else [])]
    (directory / "trusted.pem").write_text("".join((directory / each).read_text() for each in trusted))
    wrong = settings | {"ssl.keystore.location": f"{directory}/foreign.pem",
                        "ssl.truststore.location": f"{directory}/trusted.pem"}
    return [MemberProcess(directory / "13", 13, {"process.roles": "broker", **wrong}),
            JavaBroker(directory / "14", 14, wrong)]


def refusals(cluster: MixedCluster) -> int:
    """Connections that our nodes have refused."""
    nodes = [*cluster.quorum.nodes.values(), *cluster.brokers.values()]
    return sum(each.log(1_000_000).count(REFUSED) for each in nodes if isinstance(each, MemberProcess))


def check_outsider(cluster: MixedCluster, outsider: MemberProcess | JavaBroker, *, refuses: bool) -> None:
    """Check that the broker stays out, and that our nodes say so. `refuses`: it refuses the cluster, and says so."""
    before = refusals(cluster)
    outsider.format()
    outsider.launch()
    try:
        wait_until(lambda: refusals(cluster) > before, f"broker {outsider.node_id} is refused", SECONDS)
        if refuses:
            words = "SSL handshake failed" if isinstance(outsider, JavaBroker) else "the TLS handshake at listener"
            wait_until(lambda: words in outsider.log(), "it says so", SECONDS)
        assert sorted(metadata(cluster.admin).brokers) == [OURS, KAFKAS]
    finally:
        outsider.kill()


@pytest.mark.timeout(900)      # Kafka's processes start some times
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_nodes_of_both_kinds_with_tls(protocol: str, tmp_path: Path) -> None:
    write_pem(tmp_path)
    settings: dict[str, Any] = node_settings(protocol, tmp_path)
    with secured(client_security(protocol, tmp_path)), mixed_cluster(tmp_path, "ojo", "oj", **settings) as cluster:
        cluster.start()
        cluster.create(TOPIC, [[OURS, KAFKAS], [KAFKAS, OURS]])
        cluster.await_in_sync(TOPIC)
        brokers_lead_alternately(cluster)
        controllers_lead_alternately(cluster.quorum)
        wrong = ({"ssl.keystore.location": ""} if protocol == "SSL" else {"sasl.password": "guessed"})
        for broker in cluster.brokers.values():
            assert broker.alarms() == []
            with pytest.raises(AuthenticationError):
                Cluster(broker.address, security=client_security(protocol, tmp_path, **wrong)).check_access()
        for outsider in outsiders(tmp_path, protocol, cluster.quorum.settings):
            check_outsider(cluster, outsider, refuses=protocol == "SASL_SSL")
