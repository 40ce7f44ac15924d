"""`kraft simulate`."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.testing.mutants.patches import planted
from kraft.testing.mutants.registry import MUTANTS, NOT_HERE
from kraft.testing.sim.campaign import campaign
from kraft.testing.sim.run import Outcome, options_of, simulate

CALM = "fault_seconds=2 kill_every_ms=500"


def short(seed: int) -> Outcome:
    return simulate(seed, options_of(seed).where(fault_seconds=1))


def test_one_run_is_traced_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "7", "--options", CALM, "--trace"]) == 0
    printed = capsys.readouterr().out
    assert "becomes role=Leader" in printed
    assert "all invariants held" in printed


def test_one_run_has_a_time_line(tmp_path: Path) -> None:
    for name in ("run.html", "run.txt"):
        assert run(["simulate", "--seed", "7", "--options", CALM, "--timeline", str(tmp_path / name)]) == 0
    text = (tmp_path / "run.txt").read_text()
    assert "becomes Leader in epoch 1: received a majority of votes" in text
    page = (tmp_path / "run.html").read_text()
    assert page.count("<tr ") == len(text.splitlines())
    assert "Seed 7: all invariants held" in page


def test_many_runs_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seeds", "1..3", "--output", str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["runs"] == 3
    assert report["violations"] == []
    assert report["digest"] in capsys.readouterr().out
    path = str(tmp_path / "report.json")
    assert run(["simulate", "--join", path, "--join", path, "--output", str(tmp_path / "joined.json")]) == 0
    whole = json.loads((tmp_path / "joined.json").read_text())
    assert (whole["runs"], whole["faults_total"]) == (6, 2 * report["faults_total"])
    assert whole["digests"] == [report["digest"]] * 2
    assert whole["transitions_missing"] == report["transitions_missing"]
    assert "6 runs" in capsys.readouterr().out


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_as_many_runs_as_fit_are_made(jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is read at the beginning and after each run: the third run ends after the minute.

    Without a range of seeds the runs continue indefinitely.
    """
    clock = iter((1000, 1030, 1059, 1061))
    monkeypatch.setattr("kraft.testing.sim.campaign.monotonic", lambda: next(clock))
    monkeypatch.setattr("kraft.cli.simulate.simulate", short)
    assert run(["simulate", "--minutes", "1", "--jobs", jobs, "--output", str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["runs"] == 3
    assert report["digest"] == campaign(range(3), run=short).digest
    assert capsys.readouterr().out.startswith("3 runs, ")
    assert list(clock) == []


def test_figures_are_printed_as_json_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Text for people goes to standard error."""
    def printed(*arguments: str) -> list[dict[str, Any]]:
        assert run(["simulate", *arguments, "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    [one] = printed("--seed", "7", "--options", CALM, "--trace")
    assert (one["runs"], one["violations"]) == (1, [])
    [many] = printed("--seeds", "1..2")
    assert (many["runs"], many["violations"]) == (2, [])
    assert [each["found"] for each in printed("--mutants", "--mutant", "no-pre-vote", "--seeds", "0..5")] == [True]
    assert [each["model"] for each in printed("--exhaustive", "--model", "elections", "--depth", "2")] == ["elections"]


def test_a_violation_ends_with_1_and_is_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    with planted(MUTANTS["no-pre-vote"]):
        assert run(["simulate", "--seed", "0", "--options", CALM, "--shrink"]) == 1
    printed = capsys.readouterr().out
    assert "violation: NoEpochWithoutConsent" in printed
    assert "smallest: kraft simulate --seed" in printed


def test_a_mutant_is_hunted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--mutants", "--mutant", "no-pre-vote", "--seeds", "0..5"]) == 0
    printed = capsys.readouterr().out
    assert "1 of 1 mutants found" in printed
    assert f"23 is not hunted: {NOT_HERE[23]}" in printed


def test_a_small_quorum_is_explored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A correct sample passes; a bug is found, and the printed trace reproduces it."""
    arguments = ["simulate", "--exhaustive", "--model", "elections"]
    assert run([*arguments, "--states", "100", "--output", str(tmp_path / "report.json")]) == 0
    assert json.loads((tmp_path / "report.json").read_text())[0]["states"] >= 100
    assert "distinct states in 1 models, 0 violations" in capsys.readouterr().out
    assert run([*arguments, "--mutant", "no-pre-vote", "--depth", "3"]) == 0
    trace = tmp_path / "trace.txt"
    trace.write_text(capsys.readouterr().out)
    assert run([*arguments, "--replay", str(trace)]) == 0
    assert run([*arguments, "--mutant", "no-pre-vote", "--replay", str(trace)]) == 1
    assert "violation: NoEpochWithoutConsent" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [
    [], ["--seeds", "5..3"], ["--seeds", "x"], ["--seed", "1", "--options", "nothing=1"],
    ["--mutants", "--mutant", "nobody"], ["--exhaustive", "--replay", "-"], ["--exhaustive", "--model", "nothing"],
])
def test_wrong_usage_is_reported(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *arguments]) == 2
    assert "Error" in capsys.readouterr().err
