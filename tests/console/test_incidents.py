"""The page of causes against a cluster with injected incidents: the right sentence among the first findings."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kraft.cli.console import CommandSources
from kraft.client import Cluster
from kraft.console.why.facts import Collector
from kraft.console.why.rules import findings
from kraft.local.cluster import LocalCluster
from kraft.local.launcher import Launcher
from tests.console.incidents import INJECTIONS, NOT_INJECTED, OF_ONE, SETTINGS, Lab
from tests.console.test_rules import FIRST, INCIDENTS


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as found:
        yield found


def test_every_incident_is_injected_or_has_a_reason() -> None:
    assert set(INJECTIONS) | set(NOT_INJECTED) == set(INCIDENTS)
    assert not set(INJECTIONS) & set(NOT_INJECTED)


@pytest.mark.long
@pytest.mark.parametrize("name", INJECTIONS)
def test_the_cause_of_an_injected_incident(name: str, tmp_path: Path, launcher: Launcher) -> None:
    with LocalCluster(tmp_path, brokers=3, controllers=3, launcher=launcher, settings=SETTINGS) as cluster:
        for node_id, settings in OF_ONE.get(name, {}).items():
            cluster.nodes[node_id].settings |= settings
        cluster.start()
        with ExitStack() as stack:
            lab = Lab(cluster, stack.enter_context(cluster.client()), stack)
            INJECTIONS[name](lab)
            found = findings(Collector(lambda: Cluster(cluster.bootstrap, timeout=3.0), CommandSources()).collect())
            for node in cluster.nodes.values():
                if node.ended is not None or not node.running:
                    node.expect_end()
    sentences = [each.sentence for each in found]
    at = next((at for at, text in enumerate(sentences) if re.search(INCIDENTS[name]["finds"], text)), -1)
    print(f"{name}: place {at + 1} of {len(sentences)}")
    assert 0 <= at < FIRST, "\n".join(sentences)
