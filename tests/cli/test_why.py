"""`kraft why` about the metadata quorum: no claim rests on a flight recorder that is missing."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.cli import recordings, why
from kraft.client.recorder import NO_RECORDER, Recordings
from tests.cli.nodes import Tool


def say(monkeypatch: pytest.MonkeyPatch, found: Recordings) -> None:
    """Replace the controllers' flight recorders by these recordings."""
    monkeypatch.setattr(recordings, "collect", lambda _cluster, _count: found)


@pytest.mark.parametrize("found", [
    Recordings(), Recordings(unknown={"127.0.0.1:1": NO_RECORDER}), Recordings(silent={1: "cannot connect"}),
], ids=["brokers", "controllers", "controllers that are out of reach"])
def test_a_cluster_without_recorders(found: Recordings, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Apache Kafka cluster has none: DescribeQuorum reports the leader."""
    say(monkeypatch, found)
    code, out, complaints = tool.run("why")
    assert (code, complaints) == (0, "")
    assert out.splitlines()[0].startswith("Node 1 leads epoch ")


def test_nobody_answers(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool.bootstrap = "127.0.0.1:1"
    code, out, _ = tool.run("why", "--timeout", 0.1)
    assert code == 1
    assert out.startswith("It is not known whether there is a leader: no controller answers.")
    assert "127.0.0.1:1: cannot connect" in out


@pytest.mark.parametrize(("running", "unknown", "leader_id", "may_be"), [
    ((), {}, -1, True), ((1,), {}, -1, False), ((1,), {"a:1": NO_RECORDER}, -1, True), ((1,), {}, 3, True),
    ((1,), {"a:1": "cannot connect"}, -1, False),
])
def test_when_the_quorum_is_described(running: tuple[int, ...], unknown: dict[str, str], leader_id: int,
                                      may_be: bool) -> None:
    situation: Any = SimpleNamespace(present=[SimpleNamespace(leader_id=leader_id)] if running else [])
    assert why._may_be_led(recordings.Found(running=running, unknown=unknown), situation) is may_be
