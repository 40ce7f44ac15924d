"""The lock files: every package has its version and digests, and the build's part of them is enough to compile."""

import subprocess
import sys
from pathlib import Path

from tools import lock
from tools.tree import ROOT


def test_every_installation_checks_the_digests() -> None:
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines()
                if "$(PIP) install" in line and "--editable ." not in line]
    assert len(installs) >= 6
    assert [line for line in installs if "--require-hashes" not in line] == []


def test_every_package_has_digests() -> None:
    for name in lock.LOCKS:
        entries = lock.parse((ROOT / name).read_text())
        assert len(entries) >= 4
        assert [package for package, entry in entries.items() if "--hash=sha256:" not in entry] == []
        assert all(pin.startswith(f"{package}==") for package, pin in zip(entries, lock.pins(entries), strict=True))


def test_entries_keep_their_markers() -> None:
    text = "# head\na==1 \\\n    --hash=sha256:00\nb==2 ; python_version < '3.12' \\\n    --hash=sha256:01\n"
    entries = lock.parse(text)
    assert list(entries) == ["a", "b"]
    assert lock.pins(entries) == ["a==1", "b==2 ; python_version < '3.12'"]


def test_the_part_that_a_build_needs() -> None:
    """A Python without any packages runs it, as the environment is new when the list is printed."""
    done = subprocess.run([sys.executable, "-I", ROOT / "tools" / "lock.py", "--build-only"], check=True,
                          stdout=subprocess.PIPE, text=True)
    entries = lock.parse(done.stdout)
    assert set(entries) == {"cython", "setuptools"}
    whole = lock.parse((ROOT / lock.LOCK).read_text())
    assert all(entry == whole[name] for name, entry in entries.items())


def test_the_part_that_a_node_needs() -> None:
    names = set(lock.parse(lock.part_for(lock.node_requirements())))
    assert {"click", "uvloop", "confluent-kafka", "zstandard", "cffi"} <= names
    assert not {"numpy", "pyarrow", "pyspark", "pytest"} & names


def test_a_tree_from_before_the_extras(tmp_path: Path) -> None:
    """An earlier release may have no extra `node`, and its lock other versions."""
    (tmp_path / "pyproject.toml").write_text("""[project]
dependencies = ["click>=8"]
[project.optional-dependencies]
spark = ["pyspark>=4"]
""")
    click = "click==8.0 \\\n    --hash=sha256:00\n"
    (tmp_path / lock.LOCK).write_text(f"# head\n{click}pyspark==4.0 \\\n    --hash=sha256:01\n")
    assert lock.node_requirements(tmp_path) == ["click>=8"]
    assert lock.part_for(lock.node_requirements(tmp_path), tmp_path) == click
