"""Metrics of controllers, whether they are active or not, and with or without a broker beside them."""

import re
import urllib.request

import pytest

from kraft.client.topics import create_topic
from kraft.local.local_node import LocalNode
from kraft.testing.pytest_plugin import NewCluster
from tests.integration.quorum import SECONDS

PREFIX = "kafka_controller_kafkacontroller_"


def page(node: LocalNode) -> str:
    found = re.search(r"metrics: (http://\S+)", node.log())
    assert found is not None
    with urllib.request.urlopen(found[1], timeout=SECONDS) as answer:
        return str(answer.read().decode())


def shown(node: LocalNode) -> dict[str, float]:
    """Return the values without labels, by name."""
    return {name: float(value) for name, _, value in (line.partition(" ") for line in page(node).splitlines())
            if not name.startswith("#") and "{" not in name}


def labelled(node: LocalNode, name: str) -> dict[str, float]:
    """Return the values of one name, by labels."""
    return {labels: float(value) for labels, value in re.findall(name + r"\{(.*)\} (\S+)", page(node))}


@pytest.mark.parametrize("controllers", [0, 3])
def test_controllers_that_are_not_active_show_what_is_committed(
    new_kraft_cluster: NewCluster, controllers: int
) -> None:
    cluster = new_kraft_cluster(brokers=3, controllers=controllers, settings={"kraft.metrics.listener": "127.0.0.1:0"})
    cluster.start()
    with cluster.client() as client:
        create_topic(client, "t", 2)

    def settled(node: LocalNode) -> bool:
        values = shown(node)
        return [values[PREFIX + name] for name in (
            "activebrokercount", "globaltopiccount", "globalpartitioncount")] == [3, 1, 2]

    for node in cluster.controllers.values():
        cluster.wait_until(lambda node=node: settled(node), f"{node} shows the topic")  # type: ignore[misc]
    values = [shown(node) for node in cluster.controllers.values()]
    assert sorted(each[PREFIX + "activecontrollercount"] for each in values) == [0, 0, 1]
    for each in values:
        assert each[PREFIX + "lastappliedrecordoffset"] > 0
        assert each["kafka_server_raft_metrics_log_end_offset"] > 0
        assert each["process_resident_memory_bytes"] > 1 << 20
        assert ("kafka_server_replicamanager_partitioncount" in each) is (controllers == 0)
    votes = [labelled(node, "kraft_raft_vote_requests_total") for node in cluster.controllers.values()]
    for kind in ("vote", "pre-vote"):
        assert sum(each[f'kind="{kind}"'] for each in votes) > 0, "an election needs both, of one other voter at least"


def test_the_figures_of_the_metadata_log(new_kraft_cluster: NewCluster) -> None:
    """Metrics that KIP-631 requires, checked by their values."""
    cluster = new_kraft_cluster(brokers=1, controllers=1, settings={
        "kraft.metrics.listener": "127.0.0.1:0", "metadata.log.max.record.bytes.between.snapshots": "100000000"})
    cluster.start()
    active, = cluster.controllers.values()
    before = shown(active)
    with cluster.client() as client:
        create_topic(client, "t", 2)
    after = shown(active)
    raft = "kafka_server_raft_metrics_"
    # A topic, its two partitions, and records that mark the passing of time (NoOpRecord).
    assert after[PREFIX + "lastcommittedrecordoffset"] >= before[PREFIX + "lastcommittedrecordoffset"] + 3
    assert after[PREFIX + "lastappliedrecordlagms"] == 0, "of the active one"
    assert 0 < after[raft + "commit_latency_avg"] <= after[raft + "commit_latency_max"]
    assert after["kraft_metadata_snapshot_lag"] == 0, "it has no snapshot but the first, of 0"
    assert labelled(active, "kraft_metadata_lag") == {'role="controller"': 0}
    assert labelled(active, "kraft_raft_vote_requests_total") == {'kind="pre-vote"': 0, 'kind="vote"': 0}
    broker, = cluster.brokers.values()
    assert labelled(broker, "kraft_metadata_lag").keys() == {'role="broker"', 'role="controller"'}
    assert after["kafka_server_snapshotemitter_latestsnapshotgeneratedagems"] >= 0
    requests = labelled(active, "kafka_network_requestmetrics_requests_total")
    assert requests['listener="CONTROLLER",request="Envelope"'] == 1, "of the topic"
    assert requests['listener="CONTROLLER",request="BrokerHeartbeat"'] > 0
