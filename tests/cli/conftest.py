"""One node for all tests that only talk to a cluster; each uses topics and groups of its own."""

from collections.abc import Iterator

import pytest

from tests.cli.nodes import Started, Tool, running


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with running(tmp_path_factory.mktemp("node") / "data") as started:
        yield started


@pytest.fixture
def tool(node: Started, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(node.bootstrap, capsys)
