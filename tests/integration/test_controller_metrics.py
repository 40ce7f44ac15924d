"""What controllers show in their metrics, whether they are active or not, and with or without a broker beside them."""

import re
import urllib.request

import pytest

from kraft.load.measure import create_topic
from kraft.local.node import LocalNode
from kraft.testing.pytest_plugin import NewCluster
from tests.integration.quorum import SECONDS

PREFIX = "kafka_controller_kafkacontroller_"


def shown(node: LocalNode) -> dict[str, float]:
    """The values without labels, by name."""
    found = re.search(r"metrics: (http://\S+)", node.log())
    assert found is not None
    with urllib.request.urlopen(found[1], timeout=SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.partition(" ") for line in lines)
            if not name.startswith("#") and "{" not in name}


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
