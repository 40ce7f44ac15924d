"""Messages of `make` on a machine that lacks what a build needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.preflight import missing
from tools.tree import ROOT

MODULES = {"venv", "ensurepip"}


@pytest.fixture
def include(tmp_path: Path) -> str:
    (tmp_path / "Python.h").touch()
    return str(tmp_path)


def test_nothing_is_missing(include: str) -> None:
    assert missing((3, 11), include, MODULES, sys.executable) == []
    assert missing((3, 14), include, MODULES, f"{sys.executable} -m32") == []


@pytest.mark.parametrize(("version", "headers", "modules", "compiler", "install"), [
    ((3, 10), True, MODULES, sys.executable, ["apt-get install python3.11"]),
    ((3, 12), True, {"venv"}, sys.executable, ["apt-get install python3.12-venv"]),
    ((3, 12), False, MODULES, sys.executable, ["apt-get install python3.12-dev"]),
    ((3, 12), True, MODULES, "no-such-compiler", ["apt-get install gcc"]),
    ((3, 11), False, set(), "no-such-compiler", ["python3.11-venv", "python3.11-dev", "gcc"]),
])
def test_each_is_named_with_what_installs_it(include: str, version: tuple[int, int], headers: bool, modules: set[str],
                                             compiler: str, install: list[str]) -> None:
    steps = missing(version, include if headers else "/no/such/directory", modules, compiler)
    assert len(steps) == len(install)
    assert all(command in line for command, line in zip(install, steps, strict=True))


def make(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/usr/bin/make", "-C", str(ROOT), *arguments], env={**os.environ, "PATH": path}, text=True,
                          capture_output=True, check=False)


def test_make_says_it_before_it_begins(tmp_path: Path) -> None:
    """A machine with a Python and no compiler, and one without any Python."""
    (tmp_path / "python3").symlink_to(sys.executable)
    (tmp_path / "sh").symlink_to("/bin/sh")
    venv = f"VENV={tmp_path / 'venv'}"
    ended = make("preflight", venv, "CC=no-such-compiler", path=str(tmp_path))
    assert ended.returncode != 0
    assert "missing: a C compiler (no-such-compiler): apt-get install gcc" in ended.stderr
    (tmp_path / "python3").unlink()
    ended = make("preflight", venv, path=str(tmp_path))
    assert ended.returncode != 0
    assert "apt-get install python3" in ended.stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_with_a_number_comes_before_the_systems(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    for name in ("python3", "python3.12", "python3.14"):
        (tmp_path / name).symlink_to(sys.executable)
    steps = make("--dry-run", "preflight", f"VENV={tmp_path / 'venv'}", path=str(tmp_path)).stdout
    assert f"{tmp_path}/python3.12 tools/preflight.py" in steps
