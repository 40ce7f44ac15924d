"""The page of causes against a cluster with injected incidents: the right sentence among the first findings.

`make console` runs all of them (`campaign.py`). Here are those that differ most, and the ones that need little time.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.local.launcher import Launcher
from tests.console import campaign
from tests.console.campaign import Outcome, drawn, inject, outcome_of
from tests.console.incidents import BEFORE, INJECTIONS
from tests.console.test_rules import INCIDENTS
from tests.console.worlds import BALLAST, DISK_BYTES, clock_ahead, has_namespaces, small_disk

SHORT = ("broker-killed", "setting-not-applied", "group-lost-records")


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as found:
        yield found


def test_every_incident_is_injected() -> None:
    assert set(INJECTIONS) == set(INCIDENTS)
    assert set(BEFORE) <= set(INJECTIONS)


@pytest.mark.parametrize("name", SHORT)
def test_the_cause_of_an_injected_incident(name: str, tmp_path: Path, launcher: Launcher) -> None:
    found = inject(name, tmp_path / name, launcher)
    assert found.is_right, found


def test_a_draw_is_repeatable_and_of_the_list() -> None:
    assert drawn(7, 10) == drawn(7, 10) != drawn(8, 10)
    assert len(set(drawn(7, 10)) & set(INCIDENTS)) == 10


def test_a_cause_behind_the_first_findings_is_wrong() -> None:
    others = ["Something else."] * 3
    assert outcome_of("even-quorum", ["The quorum has 2 voters."]).is_right
    late = outcome_of("even-quorum", [*others, "The quorum has 2 voters."])
    assert (late.place, late.is_right, late.sentence) == (4, False, "The quorum has 2 voters.")
    assert not outcome_of("even-quorum", others).is_right
    assert outcome_of("even-quorum", []).sentence == "(nothing is red)"


def test_the_command_counts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [Outcome(name, ["It is so."], int(name != "strays")) for name in INCIDENTS]
    monkeypatch.setattr(campaign, "run", lambda names: [each for each in outcomes if each.name in names])
    monkeypatch.setattr("sys.argv", ["campaign"])
    assert campaign.main() == 0
    assert "39 of 40 causes right" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["campaign", "strays"])
    assert campaign.main() == 1
    monkeypatch.setattr("sys.argv", ["campaign", "--seed", "7"])
    campaign.main()
    assert "of 10 causes right, drawn by seed 7" in capsys.readouterr().out


@pytest.mark.skipif(not has_namespaces(), reason="users may not mount file systems in a namespace here")
def test_a_small_disk_is_that_of_one_process(tmp_path: Path) -> None:
    command = [*small_disk(tmp_path / "d"), "stat", "-f", "-c", "%b %S", str(tmp_path / "d")]
    blocks, size = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert blocks * size == pytest.approx(DISK_BYTES, rel=0.01)
    assert not (tmp_path / "d" / BALLAST).exists()


@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="no compiler of C is installed")
def test_a_clock_that_is_ahead_is_that_of_one_process(tmp_path: Path) -> None:
    code = "import time; print(time.time(), time.time_ns() // 10**9, time.monotonic())"
    before, steady = time.time(), time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          env={**os.environ, **clock_ahead(tmp_path, 3_600)})
    wall, seconds, monotonic = map(float, done.stdout.split())
    assert 3_600 <= wall - before < 3_700
    assert abs(wall - seconds) < 2
    assert 0 < monotonic - steady < 100
