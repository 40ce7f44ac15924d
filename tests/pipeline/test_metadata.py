"""`kraft pipeline metadata`: metadata logs that Kafka wrote, as tables."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraft.cli.command import run
from kraft.pipeline.metadata import TABLES, read_metadata
from kraft_native.base.errors import InvalidArgumentError
from tests.golden import golden, load_json, needs_golden

pytestmark = needs_golden

NODES = [(kind, node) for kind in ("dynamic", "static") for node in (1, 2, 3)]


def directory(kind: str, node: int) -> Path:
    return golden("quorum", kind, f"node-{node}")


def facts(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = load_json(golden("quorum", kind, "expected", "facts.json"))
    return found


def rows(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


@pytest.mark.parametrize(("kind", "node"), NODES)
def test_the_cluster_as_kafka_listed_it(kind: str, node: int) -> None:
    """Topics, partitions and configs at the high watermark of that moment."""
    facts_of_kind = facts(kind)
    high_watermark = int(re.search(r"HighWatermark:\s+(\d+)", facts_of_kind["quorum_status"])[1])  # type: ignore[index]
    found = read_metadata(directory(kind, node), until_offset=high_watermark)
    partitions: dict[str, dict[str, Any]] = {}
    for row in rows(found["partitions"]):
        fields = {name: row[name] for name in ("leader", "replicas", "isr", "elr", "adding", "removing")}
        partitions.setdefault(row["topic"], {})[str(row["partition"])] = {
            **fields, "isr": sorted(fields["isr"]), "elr": sorted(fields["elr"])}
    listed = {name: {index: {**fields, "isr": sorted(fields["isr"]), "elr": sorted(fields["elr"])}
                     for index, fields in topic["partitions"].items()}
              for name, topic in facts_of_kind["topics_as_fields"].items()}
    assert partitions == listed
    assert {row["topic"]: row["topic_id"] for row in rows(found["topics"])} == {
        name: topic["topic_id"] for name, topic in facts_of_kind["topics_as_fields"].items()}


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_every_node_has_the_same_metadata(kind: str) -> None:
    """Events at the offsets that all logs still have."""
    found = [read_metadata(directory(kind, node)) for node in (1, 2, 3)]
    first = max(rows(each["leader_changes"])[0]["offset"] for each in found)
    for name in ("leader_changes", "isr_changes", "broker_events", "config_changes"):
        events = [[row for row in rows(each[name]) if row["offset"] > first] for each in found]
        assert events[0] == events[1] == events[2] != [], name


def test_a_killed_leader_is_seen_in_the_events() -> None:
    """Node 3 was killed and restarted: it left every ISR, leaderships moved, and it joined again."""
    found = read_metadata(directory("dynamic", 1))
    fenced = next(row["offset"] for row in rows(found["broker_events"])
                  if (row["broker"], row["event"]) == (3, "fenced"))
    moved = [row for row in rows(found["leader_changes"]) if row["offset"] == fenced and row["before"] == 3]
    assert moved and all(row["leader"] in row["isr"] and not row["unclean"] for row in moved)
    flaps = [row for row in rows(found["isr_flaps"]) if row["left_offset"] == fenced]
    assert flaps and {row["broker"] for row in flaps} == {3}
    assert all(0 < row["seconds"] < 10 and row["back_offset"] > fenced for row in flaps)


def test_as_of_an_offset_and_a_time() -> None:
    whole = read_metadata(directory("dynamic", 1))
    earlier, event = [row for row in rows(whole["topic_events"]) if row["event"] == "created"][4:6]
    before = read_metadata(directory("dynamic", 1), until_offset=earlier["offset"])
    then = read_metadata(directory("dynamic", 1), until_ms=int(event["time"].timestamp() * 1000))
    assert event["topic"] not in before["topics"]["topic"].to_pylist()
    assert event["topic"] in then["topics"]["topic"].to_pylist()
    assert len(then["topics"]) < len(whole["topic_events"])
    with pytest.raises(InvalidArgumentError, match="what was before that is not known"):
        read_metadata(directory("dynamic", 3), until_offset=5)


def test_a_node_with_configs() -> None:
    expected = load_json(golden("node", "expected.json"))
    found = read_metadata(golden("node", "data"))
    configs: dict[str, dict[str, str]] = {}
    for row in rows(found["configs"]):
        if row["resource"] == "topic":
            configs.setdefault(row["name"], {})[row["key"]] = row["value"]
    for topic, facts_of_kind in expected["topics"].items():
        if "dynamic_configs" in facts_of_kind:
            assert configs.get(topic, {}) == facts_of_kind["dynamic_configs"], topic
    deleted = [row["topic"] for row in rows(found["topic_events"]) if row["event"] == "deleted"]
    assert len(deleted) == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = str(directory("static", 2))
    assert run(["pipeline", "metadata", node, "--json", "--out", str(tmp_path / "out")]) == 0
    counts = {row["table"]: row["rows"] for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert tuple(counts) == TABLES
    assert {path.stem for path in (tmp_path / "out").iterdir()} == set(TABLES)
    assert run(["pipeline", "metadata", node, "--json", "--table", "brokers"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == counts["brokers"] == 3
    assert run(["pipeline", "metadata", node, "--table", "leader_changes"]) == 0
    assert "LEADER_EPOCH" in capsys.readouterr().out
    for wrong in (["--table", "x"], ["--at", "yesterday"]):
        assert run(["pipeline", "metadata", node, *wrong]) == 2
