"""Mutants of the source text, and test runs with one of them in place."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutation.workspace import LimitError, run
from tools.tree import MADE_DIRECTORIES, ROOT

NATIVE: Final = "kraft_native"
FAILED_TESTS: Final = 1
"""Exit code of pytest when tests ran and some failed. Any other is no proof."""
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """Code that is taken out of one file, and the tests that must notice."""

    name: str
    file: str
    code: str
    without: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def is_compiled(self) -> bool:
        return self.file.startswith(f"{NATIVE}/")

    def changed(self, text: str) -> str:
        """Return the source without the code. Raises ValueError when the code does not occur exactly once."""
        if text.count(self.code) != 1:
            raise ValueError(f"{self}: {self.file} has the code {text.count(self.code)} times: {self.code!r}")
        return text.replace(self.code, self.without)


@contextmanager
def copied_tree(directory: Path) -> Iterator[Path]:
    """Copy the sources that tests need; compiled modules are linked."""
    tree = directory / "tree"
    skip = shutil.ignore_patterns(*MADE_DIRECTORIES, "*.c")
    for name in ("kraft", "tests", "tools", "docs", "bench", "pyspark_kraft"):
        shutil.copytree(ROOT / name, tree / name, ignore=skip)
    for name in ("pyproject.toml", "Makefile", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    (tree / NATIVE).symlink_to(ROOT / NATIVE)
    try:
        yield tree
    finally:
        shutil.rmtree(tree)


@contextmanager
def _own_modules(tree: Path) -> Iterator[None]:
    """Compiled modules of the tree's own, with all that a build needs to compile only what changes."""
    native = tree / NATIVE
    native.unlink()
    shutil.copytree(ROOT / NATIVE, native)
    shutil.copytree(ROOT / "build" / "shared", tree / "build" / "shared")
    shutil.copy2(ROOT / "build" / "flags.txt", tree / "build")
    try:
        yield
    finally:
        shutil.rmtree(native)
        shutil.rmtree(tree / "build")
        native.symlink_to(ROOT / NATIVE)


@contextmanager
def planted(mutant: Mutant, tree: Path) -> Iterator[None]:
    """Remove the code from `tree`, and compile the module when it is a compiled one.

    Raises RuntimeError when that does not compile.
    """
    with _own_modules(tree) if mutant.is_compiled else nullcontext():
        path = tree / mutant.file
        before = path.read_text()
        path.write_text(mutant.changed(before))
        try:
            if mutant.is_compiled:
                done = _run(tree, "setup.py", "-q", "build_ext", "--inplace")
                if done.returncode:
                    raise RuntimeError(f"{mutant} does not compile: {done.stdout[-2000:]}")
            yield
        finally:
            path.write_text(before)


def _run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    shared = os.environ.get("KRAFT_SHARED") or str(ROOT.parent / "shared")
    return run(tree.parent, [sys.executable, *arguments], tree, os.environ | {
        "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "KRAFT_SHARED": shared})


def failing_test(tests: Sequence[str], tree: Path) -> str | None:
    """Run tests in `tree` and return the first that fails, None when all pass. Raises RuntimeError when they do not
    run to their end, which proves nothing."""
    try:
        done = _run(tree, "-m", "pytest", "-qx", "-p", "no:benchmark", "-p", "no:cacheprovider", *tests)
    except LimitError as error:
        raise RuntimeError(f"{' '.join(tests)}: {error}") from error
    if done.returncode == 0:
        return None
    found = FAILED.search(done.stdout)
    if done.returncode != FAILED_TESTS or found is None:
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-2500:]}")
    return found[1]


def noticed_by(mutant: Mutant, tree: Path) -> str | None:
    """Return the test that fails in `tree` without the code, None when all pass; the tree is as before then."""
    with planted(mutant, tree):
        return failing_test(mutant.tests, tree)
