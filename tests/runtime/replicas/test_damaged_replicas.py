"""Missing records of a log that is opened are reported: in the node's log, as a metric, and in `kraft cluster
status`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft.cli.cluster import status
from kraft.client import Cluster
from kraft.runtime.server_node import ServerNode
from tests.runtime.nodes import with_node
from tests.runtime.test_server_node import fetch
from tests.runtime.upkeep.test_housekeeping import create, fill, node_config, on_loop


def empty_newest(segments: list[Path]) -> Path:
    segments[-1].write_bytes(b"")
    return segments[-1]


def remove_middle(segments: list[Path]) -> Path:
    segments[5].unlink()
    return segments[5]


def empty_middle(segments: list[Path]) -> Path:
    os.truncate(segments[5], 0)
    return segments[5]


@pytest.mark.parametrize("damage", [empty_newest, remove_middle, empty_middle])
def test_a_segment_that_is_lost_after_a_clean_stop_is_reported(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[list[Path]], Path]) -> None:
    def first(cluster: Cluster, _node: ServerNode) -> None:
        create(cluster, "t")
        fill(cluster, "t")
        assert status(cluster)["problems"] == []

    def second(cluster: Cluster, node: ServerNode) -> None:
        assert fetch(cluster, "t"), "what lies before the hole is served"
        [problem] = status(cluster)["problems"]
        assert problem.startswith(f"broker 1: t-0 has lost records from offset {lost.stem.lstrip('0')} on: ")
        assert str(lost) in problem
        assert status(cluster)["strays"] == ["broker 1: 1 stray partition directory (kraft storage strays list)"]
        families = {each.name: each for each in on_loop(node, node.read_metrics(0.0)).families()}
        assert [each.value for each in families["kraft_damaged_replicas"].samples] == [1]

    with_node(node_config(tmp_path), first)
    lost = damage(sorted((tmp_path / "data" / "t-0").glob("*.log")))
    (tmp_path / "data" / "unknown-0").mkdir()
    with_node(node_config(tmp_path), second)
    assert "t-0: records are missing or damaged: " in caplog.text
    assert f"{lost.stem.lstrip('0')} to " in caplog.text
    caplog.clear()
