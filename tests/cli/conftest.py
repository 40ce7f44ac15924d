"""One node for all tests of a module that only talk to a cluster."""

from collections.abc import Iterator

import pytest

from tests.cli.nodes import Started, Tool, running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with running(tmp_path_factory.mktemp("node") / "data") as started:
        yield started


@pytest.fixture
def tool(node: Started, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(node.bootstrap, capsys)
