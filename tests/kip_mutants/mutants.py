"""The rules that are taken out, and how a test run without one goes."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.test_kips import Row, named, rows
from tools.tree import ROOT

SLOW: Final = ("integration/", "peer/", "cli/", "runtime/", "testing/")
"""Directories of tests that start nodes or simulate: the core's own tests must show the rule without them."""

FAILED_TESTS: Final = 1
"""Exit code of pytest when tests ran and some failed. Any other is no proof."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule, and the code that is taken out for it."""

    kip: str
    rule: str
    file: str
    code: str
    without: str

    def __str__(self) -> str:
        return f"KIP-{self.kip}: {self.rule}"

    def row(self) -> Row:
        """The only row of docs/kips.md with this rule. Raises ValueError when there are none or several."""
        found = [row for row in rows() if row.kip == self.kip and self.rule in row.rule]
        if len(found) != 1:
            raise ValueError(f"{self}: {len(found)} rows of docs/kips.md have that rule")
        return found[0]

    def changed(self, text: str) -> str:
        """Return the source without the rule. Raises ValueError when the code does not occur exactly once."""
        if text.count(self.code) != 1:
            raise ValueError(f"{self}: {self.file} has the code {text.count(self.code)} times: {self.code!r}")
        return text.replace(self.code, self.without)

    def tests(self) -> list[str]:
        """What pytest runs: the row's tests, scenarios by name, but for slow ones."""
        found = []
        for name in named(self.row().shown_by):
            if name.endswith(".txt"):
                found.append(f"tests/raft/test_scenarios.py::test_scenario[{name.removesuffix('.txt')}]")
            elif not name.startswith(SLOW):
                found.append(f"tests/{name}")
        return found


def read_mutants() -> list[Mutant]:
    """All mutants, in the order of the specifications."""
    entries = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]
    return [Mutant(**entry) for entry in entries]


@contextmanager
def copied_tree(directory: Path) -> Iterator[Path]:
    """Copy the sources that the core's tests need; compiled modules are linked."""
    tree = directory / "tree"
    skip = shutil.ignore_patterns("__pycache__", ".cache", "*.c")
    for name in ("kraft", "tests", "tools", "docs", "bench"):
        shutil.copytree(ROOT / name, tree / name, ignore=skip)
    for name in ("pyproject.toml", "Makefile", "setup.py"):
        shutil.copy(ROOT / name, tree)
    (tree / "kraft_native").symlink_to(ROOT / "kraft_native")
    try:
        yield tree
    finally:
        shutil.rmtree(tree)


def is_noticed(mutant: Mutant, tree: Path) -> bool:
    """Whether a test fails in `tree` without the rule; the tree is as before then.

    Raises RuntimeError when the tests do not run, which proves nothing.
    """
    path = tree / mutant.file
    before = path.read_text()
    path.write_text(mutant.changed(before))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-qx", "-p", "no:benchmark", "-p", "no:cacheprovider", *mutant.tests()],
            cwd=tree, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"})
    finally:
        path.write_text(before)
    if done.returncode not in (0, FAILED_TESTS):
        raise RuntimeError(f"{mutant}: pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-500:]}")
    return done.returncode == FAILED_TESTS
