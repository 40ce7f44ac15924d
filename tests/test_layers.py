"""Import rules: the tree keeps them, and each rule can fail."""

import re
import runpy
from pathlib import Path

import pytest

from tools import layers
from tools.tree import ROOT

MODULES = ["base.limits", "base.errors", "batch.batch", "facade.log"]
MODULE_PAGE = ROOT / "docs" / "internals" / "engine-modules.md"
MODULE_ROW = re.compile(r"^\| (\w+) \| ([^|]*) \|", re.MULTILINE)


def native(name: str, text: str) -> list[tuple[int, str]]:
    return list(layers.check_native(name, text, MODULES))


@pytest.mark.house
def test_the_tree_keeps_the_layers() -> None:
    broken = [f"{path.relative_to(ROOT)}:{line}: {what}" for path, line, what in layers.breaches()]
    assert not broken, "\n".join(broken)


def test_the_build_and_the_document_name_the_modules_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """`setup.py` builds every `.pyx`, and what Cython shares; the document has a row for every module and header."""
    built: list[str] = []
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.setattr("Cython.Build.cythonize", lambda extensions, **_: built.extend(e.name for e in extensions))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py", run_name="__main__")
    assert built.pop() == "kraft_native._shared"
    assert sorted(built) == sorted(f"kraft_native.{name}" for name in layers.compiled_modules())
    described = [f"{package}.{module}" for package, modules in MODULE_ROW.findall(MODULE_PAGE.read_text())
                 if package != "package" for module in re.findall(r"`(\w+)`", modules)]
    assert sorted(described) == sorted(layers.native_order())


def test_leftovers_of_a_deleted_module_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose source was moved can no longer be imported by its old name."""
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.setattr("Cython.Build.cythonize", lambda extensions, **_: extensions)
    monkeypatch.chdir(ROOT)
    removes = runpy.run_path("setup.py", run_name="setup")["remove_orphans"]
    kept = ["kraft_native/_shared.cpython.so", "kraft_native/base/a.pyx", "kraft_native/base/a.cpython.so",
            "kraft_native/base/a.c", "kraft_native/_c/base/x.c"]
    for name in [*kept, "kraft_native/a.c", "kraft_native/a.cpython.so", "kraft_native/base/b.cpython.so"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    removes()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == sorted(kept)


def test_a_package_reaches_only_earlier_ones() -> None:
    packages = list(layers.NATIVE_PACKAGES)
    for package, reached in layers.NATIVE_PACKAGES.items():
        assert set(reached) <= set(packages[:packages.index(package)])


def test_the_order_follows_the_imports() -> None:
    graph = {"base.a": ["base.z"], "base.z": [], "file.b": ["base.a"], "base.c": ["base.d"], "base.d": ["base.c"]}
    assert layers.native_order(graph)[:2] == ["base.z", "base.a"]
    assert layers.native_cycles(graph) in (["base.c"], ["base.d"])
    assert len(layers.native_order()) > 80
    assert not layers.native_cycles(layers.native_graph())


@pytest.mark.parametrize("text", [
    "from kraft_native.facade.log cimport Log\n",
    "from kraft_native.facade.log import Log\n",
    "cimport kraft_native.facade.log\n",
    "def f():\n    from kraft_native.facade import (\n        log,\n    )\n",
    "from kraft_native.base.unknown cimport x\n",
    "from kraft_native.errors cimport x\n",
    "from kraft_native import base\n",
    "from kraft import Log\n",
    "import kraft.engine\n",
    "from .errors cimport x\n",
    "from . cimport errors\n",
])
def test_a_compiled_module_reaches_only_upwards(text: str) -> None:
    assert native("batch.batch", text)


def test_allowed_imports_of_a_compiled_module() -> None:
    assert not native("batch.batch", "from kraft_native.base.errors cimport (\n    A, B,\n)\n"
                                     "from kraft_native.base cimport limits\nfrom libc.stdint cimport int64_t\n"
                                     "cimport cython\nimport kraft_native.base.errors, os\n")


@pytest.mark.parametrize("name", ["errors", "other.errors", "base.inner.errors"])
def test_a_compiled_module_must_be_in_a_package(name: str) -> None:
    assert native(name, "import os\n")


@pytest.mark.parametrize(("part", "text"), [
    ("_version", "from kraft_native.base.errors import KraftError\n"),
    ("_version", "import time\n"),
    ("reading", "from kraft.log import Log\n"),
    ("reading", "import os\n"),
    ("log", "from kraft import cli\n"),
    ("log", "from .reading import x\n"),
    ("log", "def f():\n    import socket\n"),
    ("cli", "from tools import tidy\n"),
    ("cli", "import tests.golden\n"),
    ("nothing", "import math\n"),
])
def test_a_part_of_kraft_keeps_its_rule(part: str, text: str) -> None:
    assert list(layers.check_python(part, text))


def test_allowed_imports_of_a_part_of_kraft() -> None:
    text = "import os\nfrom kraft import Log\nfrom kraft_native.base.crc import checksum\n"
    assert not list(layers.check_python("cli", text))


@pytest.mark.parametrize(("module", "text"), [
    ("runtime.net.server", "from kraft.runtime.quorum.raft_log import RaftLog\n"),
    ("runtime.net.server", "from kraft.runtime.server_node import ServerNode\n"),
    ("runtime.net.server", "from kraft.runtime import node\n"),
    ("runtime.net.server", "def f():\n    from kraft.runtime.metrics import names\n"),
    ("runtime.attic.server", "import os\n"),
])
def test_a_room_imports_only_earlier_ones(module: str, text: str) -> None:
    assert list(layers.check_rooms(module, text))


def test_allowed_imports_of_a_room() -> None:
    text = "from kraft.runtime.base import alarm\nfrom kraft.runtime.net.dialer import Dialer\n"
    assert not list(layers.check_rooms("runtime.net.server", text))
    assert not list(layers.check_rooms("runtime.node", "from kraft.runtime.metrics.scrape import read\n"))
    assert not list(layers.check_rooms("broker.broker", "from kraft.runtime.metrics.scrape import read\n"))


def test_module_names_cover_the_tree() -> None:
    names = layers.module_names()
    assert {"kraft", "kraft.cli", "kraft_native.base.errors"} <= set(names)
    assert all(any(Path(ROOT, *name.split(".")).with_suffix(suffix).exists() for suffix in (".pyx", ".py"))
               for name in names if "native" in name)


@pytest.mark.parametrize("text", [
    "x = {1, 2}\n", "x = {y for y in z}\n", "x = set(y)\n", "x = frozenset()\n", "x = hash(y)\n",
    "def f(x: int) -> None:\n    print(id(x))\n",
])
def test_an_ordered_part_has_nothing_that_differs_between_processes(text: str) -> None:
    assert list(layers.check_order("controller", text))
    assert not list(layers.check_order("cli", text))


def test_allowed_collections_of_an_ordered_part() -> None:
    assert not list(layers.check_order("metadata", "x = {1: 2}\ny.set(3)\nid = 4\nz = sorted(dict.fromkeys(y))\n"))
