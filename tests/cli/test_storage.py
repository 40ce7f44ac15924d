"""`kraft storage`: formatted once, reported as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.metadata.snapshot import decode_snapshot

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def run_storage(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[dict[str, Any]], str]:
    code = run(["storage", *map(str, arguments), "--json"])
    printed = capsys.readouterr()
    return code, [json.loads(line) for line in printed.out.splitlines()], printed.err


def test_formatted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "a" / "data"
    code, before, _ = run_storage(capsys, "info", "--data", data)
    assert (code, before[0]["formatted"]) == (1, False)
    code, made, _ = run_storage(capsys, "format", "--data", data, "--cluster-id", CLUSTER_ID, "--set", "node.id=3",
                                "--feature", "transaction.version=1")
    assert code == 0
    assert made[0] | {"directory_id": None, "snapshots": [], "features": {}} == {
        "directory": str(data), "formatted": True, "problem": None, "node_id": 3, "cluster_id": CLUSTER_ID,
        "directory_id": None, "holds_metadata_log": True, "features": {}, "snapshots": [], "partitions": 0,
        "strays": []}
    assert made[0]["features"]["transaction.version"] == 1
    assert run_storage(capsys, "info", "--data", data) == (0, made, "")
    assert run_storage(capsys, "format", "--data", data, "--set", "node.id=3") == (
        0, made, "every directory is formatted already: nothing was done there\n")
    assert run_storage(capsys, "format", "--data", data, "--set", "node.id=3", "-g") == (0, made, "")


def test_a_recording_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_storage(capsys, "format", "--data", tmp_path, "--cluster-id", CLUSTER_ID)
    code, made, complaint = run_storage(capsys, "format", "--data", tmp_path, "--set", "node.id=4")
    assert (code, made) == (1, [])
    assert complaint == (f"kraft: {tmp_path}: it is formatted for node 1 of cluster {CLUSTER_ID}, "
                         f"not for node 4 of {CLUSTER_ID}\n")


def test_several_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directories = [tmp_path / name for name in "ab"]
    setting = f"log.dirs={','.join(map(str, directories))}"
    code, made, _ = run_storage(capsys, "format", "--set", setting)
    assert code == 0
    assert [row["directory"] for row in made] == list(map(str, directories))
    assert [row["holds_metadata_log"] for row in made] == [True, False]
    assert run(["storage", "info", "--set", setting]) == 0
    text = capsys.readouterr().out
    assert text.count(f"cluster             {made[0]['cluster_id']}") == 2


@pytest.mark.parametrize(("option", "complaint"), [
    (("--feature", "transaction.version=x"), "--feature: transaction.version=x has no whole number as its level"),
    (("--feature", "none.such=1"), "'none.such' is not one of"),
    (("--feature", "group.version=\u0661"), "has no whole number as its level"),
    (("--metadata-version", "1"), "'1' is none of 3.3-IV3 to "),
    (("-r", "9.9"), "--release-version: '9.9' is none of"),
])
def test_wrong_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...],
                      complaint: str) -> None:
    code, made, output = run_storage(capsys, "format", "--data", tmp_path / "data", *option)
    assert (code, made) == (1, [])
    assert complaint in output
    assert not (tmp_path / "data").exists()


CONTROLLER = ("--set", "process.roles=controller", "--set", "controller.listener.names=CONTROLLER",
              "--set", "listeners=CONTROLLER://127.0.0.1:9093")
STATIC = ("--set", "controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9094")
VOTERS = "1@127.0.0.1:9093:A1AAAAAAAAAAAAAAAAAAAw,2@127.0.0.1:9094:A2AAAAAAAAAAAAAAAAAAAw"


def voters_of(directory: Path) -> list[int]:
    """Voters of the snapshot that a log begins with; [-1] when it has none."""
    file = directory / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint"
    return decode_snapshot(file.read_bytes()).quorum.voter_ids() if file.exists() else [-1]


@pytest.mark.parametrize(("options", "voters"), [
    (("--standalone",), [1]), (("--initial-controllers", VOTERS), [1, 2]),
    (("--no-initial-controllers", "--cluster-id", CLUSTER_ID), [-1]),
    ((*STATIC, "--cluster-id", CLUSTER_ID), [-1]),
])
def test_first_voters(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...],
                      voters: list[int]) -> None:
    code, made, complaint = run_storage(capsys, "format", "--data", tmp_path, *CONTROLLER, *options)
    assert (code, complaint) == (0, "")
    assert voters_of(tmp_path) == voters
    if "--initial-controllers" in options:
        assert made[0]["directory_id"] == "A1AAAAAAAAAAAAAAAAAAAw"
        assert made[0]["cluster_id"] is None, "their first leader makes it"
        again, _, complaint = run_storage(capsys, "format", "--data", tmp_path, *CONTROLLER, *options, "-t", CLUSTER_ID)
        assert again == 1
        assert f"not for node 1 of {CLUSTER_ID}" in complaint


def test_a_random_id_is_good_for_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["storage", "random-uuid"]) == 0
    directory_id = capsys.readouterr().out.strip()
    code, made, _ = run_storage(capsys, "format", "--data", tmp_path, *CONTROLLER,
                                "--initial-controllers", f"1@127.0.0.1:9093:{directory_id}")
    assert (code, made[0]["directory_id"], voters_of(tmp_path)) == (0, directory_id, [1])


def test_the_first_voter_is_where_others_reach_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listeners = ("--set", "process.roles=controller", "--set", "controller.listener.names=C", "--set",
                 "listeners=C://0.0.0.0:9093", "--set", "listener.security.protocol.map=C:PLAINTEXT", "-s")
    for name, more, host in (("a", (), "127.0.0.1"), ("b", ("--set", "advertised.listeners=C://here:9099"), "here")):
        assert run_storage(capsys, "format", "--data", tmp_path / name, *listeners, *more)[0] == 0
        file = tmp_path / name / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint"
        voters = decode_snapshot(file.read_bytes()).quorum.voters
        assert voters is not None
        assert [each.host for each in voters.voters[0].endpoints] == [host]


def test_a_cluster_id_is_an_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, made, complaint = run_storage(capsys, "format", "--data", tmp_path, "-t", "abc")
    assert (code, made) == (1, [])
    assert "--cluster-id: 'abc' is not 22 characters of base64url" in complaint
    assert run(["storage", "random-uuid"]) == 0
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=1\nlog.dirs={tmp_path / 'data'}\n")
    cluster_id = capsys.readouterr().out.strip()
    code, made, _ = run_storage(capsys, "format", "-c", file, "-t", cluster_id, "-f", "group.version=0", "-s", "-g")
    assert (code, made[0]["cluster_id"]) == (0, cluster_id)
    assert "group.version" not in made[0]["features"]
    for version in ("25", "4.0-IV3", "4.0"):
        _, made, _ = run_storage(capsys, "format", "--data", tmp_path / version, "-r", version)
        assert made[0]["features"]["metadata.version"] == 25


@pytest.mark.parametrize(("options", "why"), [
    (CONTROLLER, "a controller is formatted with one of --standalone"),
    ((*CONTROLLER, *STATIC, "--standalone"), "controller.quorum.voters names the voters already"),
    ((*CONTROLLER, "--standalone", "--initial-controllers", VOTERS), "give one of them"),
    ((*CONTROLLER, "--initial-controllers", "1@127.0.0.1:9093"), "is not id@host:port:directory-id"),
    ((*CONTROLLER, "--initial-controllers", f"{VOTERS},{VOTERS}"), "they have one node twice"),
    *(((*CONTROLLER, "--initial-controllers", f"{wrong}{VOTERS}"), "is not id@host:port:directory-id")
      for wrong in ("-", "1_", "+", "\u0661")),
    (("--set", "process.roles=broker", "--standalone"), "process.roles has no controller"),
    (("--set", "process.roles=broker"), "--cluster-id: is needed"),
    ((*CONTROLLER, "--no-initial-controllers"), "--cluster-id: is needed"),
    ((*CONTROLLER, *STATIC), "--cluster-id: is needed"),
])
def test_wrong_first_voters(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...],
                            why: str) -> None:
    code, made, complaint = run_storage(capsys, "format", "--data", tmp_path / "data", *options)
    assert (code, made) == (1, [])
    assert why in complaint
    assert not (tmp_path / "data").exists()
