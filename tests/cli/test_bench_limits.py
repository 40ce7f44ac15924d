"""`kraft bench check` and `kraft bench search` against a node."""

import json
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.load import checks
from kraft.load.checks import NamedLoad
from tests.cli.nodes import Started, Tool


def test_a_load_that_the_node_bears_passes(node: Started, capsys: pytest.CaptureFixture[str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks.LOADS, "small", NamedLoad(2, 100, 1000, 60_000.0))  # type: ignore[arg-type]
    monkeypatch.setattr(checks, "SLOWEST_MS_MAX", 60_000.0)
    assert run(["bench", "check", "--bootstrap", node.bootstrap, "--seconds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all(line.startswith("PASS: ") for line in lines)
    assert lines[-1] == f"PASS: small, on {node.bootstrap}"


def test_a_load_that_no_node_bears_fails(node: Started, capsys: pytest.CaptureFixture[str],
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks.LOADS, "small", NamedLoad(1, 50_000_000, 100, 0.0001))  # type: ignore[arg-type]
    assert run(["bench", "check", "--bootstrap", node.bootstrap, "--seconds", "0.3", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["load"], found["passed"]) == ("small", False)
    assert [each["passed"] for each in found["criteria"]][:3] == [True, False, False]


def test_a_topic_that_exists_may_have_fewer_partitions_than_connections(node: Started, tool: Tool) -> None:
    tool.json("topics", "create", "bench-one", "--partitions", 1)
    [found] = tool.json("bench", "produce", "--topic", "bench-one", "--connections", "3", "--seconds", "0.1",
                        "--warmup", "0", "--bootstrap", node.bootstrap)
    assert found["runs"][0]["errors"] == 0


def test_the_highest_rate_is_found(node: Started, tool: Tool, tmp_path: Path) -> None:
    """The limit is one that a few hundred requests per second meet on any machine, and 50 million cannot."""
    [found] = tool.json("bench", "search", "ping", "--limit-ms", "5000", "--from", "200", "--seconds", "0.1",
                        "--warmup", "0", "--precision", "1", "--bootstrap", node.bootstrap, "--output",
                        str(tmp_path / "found.json"))
    assert found == json.loads((tmp_path / "found.json").read_text())
    assert found["rate"] >= 200
    last = found["runs"][-1]
    assert last["workload"]["rate"] == found["rate"] and last["workload"]["in_flight"] == 64
    assert last["seconds"] == pytest.approx(0.3, rel=0.5)
    assert max(each["workload"]["rate"] for each in found["runs"]) >= found["rate"]


def test_a_limit_that_no_rate_meets_has_no_answer(node: Started, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "search", "ping", "--limit-ms", "0.000001", "--from", "4", "--seconds", "0.5", "--warmup", "0",
                "--bootstrap", node.bootstrap]) == 1
    out, complaints = capsys.readouterr()
    assert complaints == "Error: no rate keeps p99 below 1e-06 ms\n"
    assert out.count(" no ") >= 2
