"""Nodes for the tests: one that most tests share, and new ones for those that stop, kill or configure theirs."""

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import pytest

from tests.integration.admin import close_admins
from tests.integration.process import NodeProcess
from tests.integration.quorum import MakeQuorum, Quorum

NODES = pytest.StashKey[list[NodeProcess]]()


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Check nothing: the engine does not run in this process, and the clients' threads close their sockets at a time of
    their own."""


@pytest.fixture(scope="session")
def shared_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path_factory.mktemp("shared") / "data")
    node.start()
    yield node
    node.stop()


@pytest.fixture
def node(shared_process: NodeProcess, request: pytest.FixtureRequest) -> Iterator[NodeProcess]:
    """The shared node, running. A test that makes it log an error of its own fails."""
    if not shared_process.running:
        shared_process.start()
    before = len(shared_process.alarms())
    request.node.stash[NODES] = [shared_process]
    yield shared_process
    assert shared_process.running, f"the node died:\n{shared_process.log()}"
    assert shared_process.alarms()[before:] == []


@pytest.fixture
def new_node(tmp_path_factory: pytest.TempPathFactory,
             request: pytest.FixtureRequest) -> Iterator[Callable[..., NodeProcess]]:
    """Create and start nodes of the test's own: `new_node({"log.flush.interval.ms": "1"})`."""
    made: list[NodeProcess] = []
    request.node.stash[NODES] = made

    def make(settings: Mapping[str, str] | None = None) -> NodeProcess:
        node = NodeProcess(tmp_path_factory.mktemp("node") / "data", settings)
        made.append(node)
        node.start()
        return node

    yield make
    for node in made:
        node.stop()
        assert node.alarms() == []


@pytest.fixture
def new_quorum(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[MakeQuorum]:
    """Create the controllers of a test; those that run at its end are stopped cleanly."""
    made: list[Quorum] = []

    def make(count: int, **options: Any) -> Quorum:
        quorum = Quorum(tmp_path_factory.mktemp("quorum"), count, **options)
        made.append(quorum)
        request.node.stash[NODES] = list(quorum.nodes.values())
        return quorum

    yield make
    for quorum in made:
        quorum.stop()
    close_admins()


_names = itertools.count(1)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a topic or group name of this test's own."""
    base = "".join(c if c.isalnum() or c in "-_" else "-" for c in request.node.name)
    return f"{base[:100]}-{next(_names)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show what the nodes of a failed test logged."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {node.directory}", node.log()) for node in item.stash.get(NODES, [])]
    return report
