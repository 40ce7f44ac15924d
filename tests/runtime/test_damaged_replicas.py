"""Records that are missing when a log is opened are reported: in the log, as a metric, in `kraft cluster status`."""

from pathlib import Path

import pytest

from kraft.cli.cluster import status
from kraft.client import Cluster
from kraft.runtime.metrics import read
from kraft.runtime.node import Node
from tests.runtime.nodes import with_node
from tests.runtime.test_housekeeping import create, fill, node_config, on_loop
from tests.runtime.test_node import fetch


def test_an_emptied_segment_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def first(cluster: Cluster, _node: Node) -> None:
        create(cluster, "t")
        fill(cluster, "t")
        assert status(cluster)["problems"] == []

    def second(cluster: Cluster, node: Node) -> None:
        assert fetch(cluster, "t"), "what lies before the hole is served"
        [problem] = status(cluster)["problems"]
        assert problem.startswith(f"broker 1: t-0 has lost records from offset {newest.stem.lstrip('0')} on: ")
        assert status(cluster)["strays"] == ["broker 1: 1 stray partition directories (kraft storage strays list)"]
        families = {each.name: each for each in on_loop(node, read(node, 0.0)).families()}
        assert [each.value for each in families["kraft_damaged_replicas"].samples] == [1]

    with_node(node_config(tmp_path), first)
    newest = max((tmp_path / "data" / "t-0").glob("*.log"))
    newest.write_bytes(b"")
    (tmp_path / "data" / "unknown-0").mkdir()
    with_node(node_config(tmp_path), second)
    assert "t-0: records are missing or damaged: " in caplog.text
    assert f"{newest.stem.lstrip('0')} to " in caplog.text
    caplog.clear()
