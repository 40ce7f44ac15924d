"""The package as its users meet it: versions agree, a bad core is refused with a message, the metadata is whole."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kraft
from kraft_native.base import build_info
from tools import lock, tree
from tools.layers import native_imports, python_imports
from tools.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def import_kraft(package: Path) -> subprocess.CompletedProcess[str]:
    """Import the kraft in `package`, in a process that sees nothing of the source tree."""
    return subprocess.run([sys.executable, "-c", "import kraft"], cwd=package, check=False,
                          env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True, timeout=60)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A directory with a copy of `kraft` and no compiled core."""
    for name in ("__init__.py", "_version.py"):
        target = tmp_path / "kraft" / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((ROOT / "kraft" / name).read_bytes())
    return tmp_path


def core(package: Path, source: str) -> None:
    base = package / "kraft_native" / "base"
    base.mkdir(parents=True)
    (base.parent / "__init__.py").touch()
    (base / "__init__.py").touch()
    (base / "build_info.py").write_text(source)


def test_the_core_is_of_this_version() -> None:
    assert kraft.__version__ == build_info.version()
    assert PROJECT["project"]["dynamic"] == ["version"]


def test_the_core_says_how_it_was_built() -> None:
    assert build_info.flavour()
    assert build_info.cython_version().split(".")[0] == "3"
    assert "GCC" in build_info.compiler() or "Clang" in build_info.compiler()


def test_a_missing_core_says_what_to_do(package: Path) -> None:
    core(package, "raise ImportError('no such extension')\n")
    done = import_kraft(package)
    assert done.returncode == 1
    assert "ImportError: kraft's compiled core cannot be loaded (no such extension)" in done.stderr
    assert "make build" in done.stderr


def test_a_core_of_another_version_is_refused(package: Path) -> None:
    core(package, "def version(): return '0.0.9'\n")
    done = import_kraft(package)
    assert done.returncode == 1
    assert f"kraft is version {kraft.__version__}, but its compiled core was built from version 0.0.9" in done.stderr


def declared_requirements() -> list[str]:
    wanted = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        wanted += extra
    return wanted


def locked(name: str) -> set[str]:
    return {line.split("==")[0] for line in (ROOT / name).read_text().splitlines() if "==" in line}


def test_dependencies_have_lower_bounds_and_the_locks_have_them_all() -> None:
    for requirement in declared_requirements():
        assert ">=" in requirement, f"{requirement} has no lower bound"
    base, spark, release = locked(lock.LOCK), locked(lock.SPARK_LOCK), locked(lock.RELEASE_LOCK)
    assert not base & (spark | release)
    for requirements, names in ((lock.requirements(), base), (lock.spark_requirements(), base | spark),
                                (lock.requirements_of(lock.RELEASE_ONLY), base | release)):
        for requirement in requirements:
            name = re.split(r"[>\[]", requirement)[0].lower()
            assert name in names, f"{name} is not locked: run `make lock`"


def imported_from_elsewhere() -> set[str]:
    """Distributions that sources of the project import: product, tests, benchmarks, tools and the build."""
    ours = {"bench", "kraft", "kraft_native", "tests", "tools"}
    names: set[str] = set()
    for path in tree.files():
        if path.suffix == ".py":
            names |= {name.split(".")[0] for _, name in python_imports(ast.parse(path.read_text()))}
        elif path.suffix == ".pyx":
            names |= {name.split(".")[0] for _, name in native_imports(path.read_text())}
    return names - ours - sys.stdlib_module_names - {"", "__future__", "cpython", "cython", "libc", "posix"}


# Distributions whose name is not that of their modules.
DISTRIBUTIONS = {"faust": "faust-streaming", "google": "protobuf", "hdrh": "hdrhistogram", "jwt": "pyjwt",
                 "kafka": "kafka-python", "mypyc": "mypy", "persistqueue": "persist-queue",
                 "pil": "pillow", "PIL": "pillow", "yaml": "pyyaml"}


@pytest.mark.house
def test_imported_distributions_are_declared() -> None:
    """No import works only because another distribution happens to require it. Products of the wall have environments
    of their own."""
    environments = [line for path in (ROOT / "tests" / "wall" / "python").glob("*.txt")
                    for line in path.read_text().splitlines()]
    declared = {re.split(r"[<>=\[ ]", requirement)[0].lower()
                for requirement in (*declared_requirements(), *environments)}
    imported = {DISTRIBUTIONS.get(name, name) for name in imported_from_elsewhere()}
    assert {name.lower().replace("_", "-") for name in imported} <= declared


def test_the_license_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


MEMORY_KB_MAX = 25_000
LATER = ("asyncio", "concurrent.futures", "logging", "numpy", "pyarrow", "ssl")
"""Modules that an embedder's program pays for only when it uses what needs them."""
IMPORTED = """
import sys
import kraft
print([name for name in sys.argv[1:] if name in sys.modules])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
assert kraft.Appender.__name__ == "Appender" and "asyncio" not in sys.modules
assert kraft.AsyncLog.__name__ == "AsyncLog" and "asyncio" in sys.modules
"""


def test_an_import_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED, *LATER], cwd=ROOT, check=False, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    modules, memory_kb = done.stdout.splitlines()
    assert modules == "[]"
    assert int(memory_kb) <= MEMORY_KB_MAX


def test_every_public_name_exists() -> None:
    assert all(getattr(kraft, name) is not None for name in kraft.__all__)
    assert sorted(kraft.__all__) == dir(kraft)
    with pytest.raises(AttributeError, match="module 'kraft' has no attribute 'Appnder'"):
        kraft.Appnder  # noqa: B018
