"""`kraft quorum log` on directories that Kafka wrote, compared with the output of Kafka's own tool."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.cli.command import run
from kraft.cli.quorum_log import plain
from kraft.protocol.messages.voters_record import Voter
from tests.golden import golden, needs_golden

LOG = "__cluster_metadata-0"


def dump(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> list[dict[str, Any]]:
    assert run(["quorum", "log", str(path), "--json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def expected(kind: str, name: str) -> dict[int, dict[str, Any]]:
    lines = golden("quorum", kind, "expected", name).read_text().splitlines()
    return {each["offset"]: each for each in map(json.loads, lines)}


def folded(name: str) -> str:
    """A name without the differences between the two spellings."""
    name = name.replace("_", "").lower().removesuffix("record").removesuffix("message")
    return {"kraftvoters": "voters"}.get(name, name)


def agree(theirs: Any, ours: Any) -> bool:
    """True when ours says what theirs does; theirs omits fields with their default."""
    if isinstance(theirs, dict):
        named = {folded(name): value for name, value in ours.items()}
        return all(folded(name) in named and agree(value, named[folded(name)]) for name, value in theirs.items())
    if isinstance(theirs, list):
        return len(theirs) == len(ours) and all(map(agree, theirs, ours))
    return bool(theirs == ours)


def check(found: list[dict[str, Any]], right: dict[int, dict[str, Any]]) -> None:
    for each in found:
        known = right[each["offset"]]
        assert each["epoch"] == known["epoch"]
        assert each["control"] is ("control" in known)
        assert folded(each["type"]) == folded(known.get("control") or known["type"])
        assert agree(known["data"], each["data"]), (known, each)


@needs_golden
@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("node", [1, 2, 3])
def test_kafkas_logs(capsys: pytest.CaptureFixture[str], kind: str, node: int) -> None:
    right = expected(kind, "records.jsonl")
    found = dump(capsys, golden("quorum", kind, f"node-{node}"))
    check(found, right)
    offsets = [each["offset"] for each in found]
    assert offsets == list(range(offsets[0], offsets[-1] + 1))
    assert len(offsets) > 100


@needs_golden
def test_kafkas_snapshot_and_a_part_of_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    directory = golden("quorum", "dynamic", "node-1", LOG)
    name = "00000000000000000104-0000000002.checkpoint"
    right = expected("dynamic", f"snapshot-{name}.jsonl")
    found = dump(capsys, directory / name)
    check(found, right)
    assert len(found) == len(right)
    part = dump(capsys, directory, "--from=1", "--to=5")
    assert [each["offset"] for each in part] == [1, 2, 3, 4]
    control = dump(capsys, directory, "--control")
    assert {each["type"] for each in control} == {"LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord"}
    assert run(["quorum", "log", str(directory), "--to=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("0@1 LeaderChangeMessage version=0 leader_id=3 voters=[{")
    assert lines[1] == "1@1 KRaftVersionRecord version=0 kraft_version=1"


@needs_golden
def test_damage_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = golden("quorum", "dynamic", "node-1", LOG)
    data = bytearray((source / f"{0:020d}.log").read_bytes())
    data[2000] ^= 0xFF
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    assert run(["quorum", "log", str(tmp_path)]) == 1
    assert "damaged" in capsys.readouterr().err


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert plain(Voter(voter_id=1, voter_directory_id=UUID(int=1)))["voter_directory_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
