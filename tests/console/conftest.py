"""One node for all tests of pages, and the console's application in this process."""

from collections.abc import Iterator

import pytest

from kraft.client import Cluster
from tests.cli.nodes import Started, running

pytest.importorskip("starlette")
pytest.importorskip("jinja2")


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with running(tmp_path_factory.mktemp("console-node") / "data") as started:
        yield started


@pytest.fixture
def cluster(node: Started) -> Iterator[Cluster]:
    with Cluster(node.bootstrap, timeout=10) as found:
        yield found
