"""An export that is killed at any step continues at its last commit."""

import os
from pathlib import Path

import pytest

from tests.pipeline.kills import MODULES, PROCESSES, append, check, in_process, run_export, run_until_step

KILLED = -9
COUNTS = {0: 130, 1: 70}


@pytest.fixture(scope="module", autouse=True)
def server() -> None:
    """Start the process that others are forked from: it stays, and is no leak of a test."""
    PROCESSES.set_forkserver_preload(MODULES)
    assert in_process(os.getpid) == 0


def test_killed_at_every_step(tmp_path: Path) -> None:
    """Kill again and again on the same table, each time one step later."""
    ends = append(tmp_path / "logs", COUNTS)
    steps = 0
    while True:
        target = tmp_path / f"table{steps}"
        code = in_process(run_until_step, tmp_path / "logs", target, 150, 1 << 20, steps)
        assert code in (0, KILLED)
        run_export(tmp_path / "logs", target, 1_000)
        assert check(target, ends) == [], steps
        if code == 0:
            break
        steps += 7 if steps > 8 else 1
    assert steps > 30
