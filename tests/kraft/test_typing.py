"""Type checkers know the settings: a misspelt one, or a wrong value, is found before the program runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kraft_native.segment.config import FIELDS
from tools.tree import ROOT

PROGRAM = """
from kraft import Appender, AsyncLog, Log, LogConfig

Log.open("x", durability="group-commit", segment_bytes=4096)
LogConfig(retention_ms=-1, min_cleanable_dirty_ratio=0.5).replace(cleanup_policy="compact")
Appender("x", codec="lz4", durability="per-append")
Log.open("x", durabilty="group-commit")  # wrong
Log.open("x", durability="sometimes")  # wrong
LogConfig(segment_bytes="big")  # wrong
LogConfig().replace(flush_byts=1)  # wrong
Appender("x", durabilty="group-commit")  # wrong
AsyncLog.open("x", segment_bites=1)  # wrong
"""


def test_a_type_checker_finds_wrong_settings(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--ignore-missing-imports", "--follow-imports",
         "silent", "--cache-dir", str(ROOT / ".mypy_cache" / "settings"), str(tmp_path / "program.py")],
        cwd=ROOT, text=True, capture_output=True, check=False)
    found = {int(number) for number in re.findall(r"program\.py:(\d+): error", ended.stdout)}
    wanted = {number for number, line in enumerate(PROGRAM.split("\n"), 1) if "# wrong" in line}
    assert found == wanted, ended.stdout + ended.stderr


def test_the_typed_settings_are_those_of_the_engine() -> None:
    tree = ast.parse((ROOT / "kraft_native" / "segment" / "log_settings.py").read_text())
    [typed] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "LogSettings"]
    found = {node.target.id: ast.unparse(node.annotation) for node in typed.body
             if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    wanted = {}
    for field in FIELDS:
        words = ", ".join(repr(word) for word in field.allowed) if isinstance(field.default, str) else ""
        wanted[field.name] = f"Literal[{words}]" if words else type(field.default).__name__
    assert found == wanted
