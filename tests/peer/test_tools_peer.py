"""Kafka's command-line tools report the same of a cluster of ours as of one of Kafka's."""

from difflib import unified_diff
from pathlib import Path

import pytest

from tests.golden import REPOSITORY
from tests.peer.cluster import three_nodes
from tests.peer.kafka import require_kafka
from tests.peer.quorum import JAVA, OURS
from tests.peer.tool_runs import Run, run_all, settled, table
from tests.peer.tools import ToolOutput, tools

pytestmark = pytest.mark.peer

DOCUMENT = REPOSITORY / "docs" / "interop.md"


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


def outputs_of(kind: str, directory: Path) -> list[tuple[Run, ToolOutput]]:
    """Run every tool against a cluster of that kind; return the answers."""
    found: list[tuple[Run, ToolOutput]] = []
    directory.mkdir()
    with three_nodes(directory / "cluster", kind) as cluster, tools(directory) as kafka:
        run_all(cluster, kafka, directory,
                lambda run, printed: found.append((run, settled(cluster, directory, run, printed))))
        alarms = [line for node in cluster.nodes if kind == OURS for line in node.alarms()]
    assert alarms == []
    return found


def test_the_tools_print_the_same(tmp_path: Path) -> None:
    require_kafka()
    theirs = outputs_of(JAVA, tmp_path / "kafka")
    ours = outputs_of(OURS, tmp_path / "ours")
    wrong = []
    for (run, expected), (_, found) in zip(theirs, ours, strict=True):
        if (found == expected) == bool(run.differs):
            lines = unified_diff(expected.text.splitlines(), found.text.splitlines(), "kafka", "ours", lineterm="", n=0)
            wrong.append("\n".join([f"{run.tool} {run.words}: {expected.code} and {found.code}", *lines][:20]))
    assert not wrong, "\n\n".join(wrong)
    assert table() in DOCUMENT.read_text()
