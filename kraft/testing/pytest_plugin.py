"""Fixture `kraft_cluster`: a cluster of real processes for a test. See docs/testing.md.

    @pytest.mark.kraft_cluster(brokers=3, controllers=3, settings={"num.partitions": "4"})
    def test_survives(kraft_cluster):
        client = AnyClient(kraft_cluster.bootstrap)
        kraft_cluster.brokers[1].kill()

The plugin imports kraft only when a test requests the fixture: other tests do not wait for it.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kraft.local.cluster import LocalCluster
    from kraft.local.launcher import Launcher

LOG_LINES: Final = 60
LAUNCHER: Final = pytest.StashKey["Launcher"]()
CLUSTERS: Final = pytest.StashKey[list["LocalCluster"]]()

NewCluster = Callable[..., "LocalCluster"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kraft_cluster(brokers=3, controllers=3, settings={}): what the fixture "
                                       "kraft_cluster starts; controllers=0: the brokers are the controllers too")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the launcher, which imports the modules of nodes while the first tests run, if a test will need a
    cluster."""
    if not session.config.option.collectonly and any(
            "new_kraft_cluster" in getattr(item, "fixturenames", ()) for item in session.items):
        launcher_of(session.config)


def launcher_of(config: pytest.Config) -> "Launcher":
    """Return the process that starts nodes: one for each process of pytest."""
    from kraft.local.launcher import Launcher

    if LAUNCHER not in config.stash:
        config.stash[LAUNCHER] = Launcher()
    return config.stash[LAUNCHER]


def pytest_unconfigure(config: pytest.Config) -> None:
    launcher = config.stash.get(LAUNCHER, None)
    if launcher is not None:
        launcher.close()


@pytest.fixture
def new_kraft_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewCluster]:
    """Create clusters that do not run yet, with the arguments of `LocalCluster`:
    `new_kraft_cluster(brokers=1).start()`.

    At the end of the test, running nodes are stopped gracefully. A node that exited by itself fails the test.
    """
    from kraft.local.cluster import LocalCluster

    clusters: list[LocalCluster] = []
    request.node.stash[CLUSTERS] = clusters

    def make(**arguments: Any) -> LocalCluster:
        directory, launcher = tmp_path_factory.mktemp("kraft"), launcher_of(request.config)
        clusters.append(LocalCluster(directory, launcher=launcher, **arguments))
        return clusters[-1]

    yield make
    try:
        for cluster in clusters:
            cluster.check()
            cluster.stop(for_good=True)
    finally:
        for cluster in clusters:
            cluster.close()


@pytest.fixture
def kraft_cluster(request: pytest.FixtureRequest, new_kraft_cluster: NewCluster) -> "LocalCluster":
    """Start a cluster and return it when every broker knows every other. The marker `kraft_cluster` has its
    arguments."""
    marker = request.node.get_closest_marker("kraft_cluster")
    cluster = new_kraft_cluster(**(marker.kwargs if marker else {}))
    cluster.start()
    return cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the last log lines of the nodes to the report of a failed test."""
    report: Any = yield
    if report.failed:
        report.sections += [(f"log of {node}", node.log(LOG_LINES)) for cluster in item.stash.get(CLUSTERS, [])
                            for node in cluster.nodes.values()]
    return report  # type: ignore[no-any-return]
