"""The leak check at every test's end can fail, and does not fail without a leak."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.tree import ROOT

HOLDS_A_DESCRIPTOR = """
import os
held = []
def test_it():
    held.append(os.open("/dev/null", os.O_RDONLY))
"""
HOLDS_A_CYCLE_FOR_A_WHILE = """
import os, weakref
def test_it():
    class Cycle: pass
    cycle = Cycle()
    cycle.me, cycle.file = cycle, os.open("/dev/null", os.O_RDONLY)
    weakref.finalize(cycle, os.close, cycle.file)
"""


@pytest.mark.parametrize(("source", "line", "closing"), [
    ("def test_it(): pass\n", "leaks: 0 over 1 tests", "1 passed"),
    (HOLDS_A_DESCRIPTOR, "leaks: 1 over 1 tests", "1 error"),
    (HOLDS_A_CYCLE_FOR_A_WHILE, "leaks: 0 over 1 tests", "1 passed"),
])
def test_the_report(tmp_path: Path, source: str, line: str, closing: str) -> None:
    (tmp_path / "test_it.py").write_text(source)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "."],
                          cwd=tmp_path, check=False, capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert line in done.stdout, done.stdout + done.stderr
    assert closing in done.stdout
