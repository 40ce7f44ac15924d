"""Import rules: the tree keeps them, and each rule can fail."""

import runpy
from pathlib import Path

import pytest

from tools import layers
from tools.tree import ROOT

ORDER = ["limits", "errors", "batch", "log"]


def native(name: str, text: str) -> list[tuple[int, str]]:
    return list(layers.check_native(name, text, ORDER))


def test_the_tree_keeps_the_layers() -> None:
    broken = [f"{path.relative_to(ROOT)}:{line}: {what}" for path, line, what in layers.breaches()]
    assert not broken, "\n".join(broken)


def test_the_table_and_the_build_name_the_same_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """`setup.py` builds exactly the modules of the table (headers apart), in its order, and what Cython shares."""
    built: list[str] = []
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.setattr("Cython.Build.cythonize", lambda extensions, **_: built.extend(e.name for e in extensions))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py", run_name="__main__")
    assert built.pop() == "kraft_native._shared"
    sources = {path.stem for path in (ROOT / "kraft_native").glob("*.pyx")}
    assert [name.removeprefix("kraft_native.") for name in built] == [n for n in layers.native_order() if n in sources]
    assert len(built) == len(sources)


def test_the_order_is_read_from_the_table() -> None:
    text = "| layer | module | job |\n|---|---|---|\n| 0 | `a`, `b` (`.pxd` only) | x `no` |\n| 1 | `c` | y |\n"
    assert layers.native_order(text) == ["a", "b", "c"]
    assert len(set(layers.native_order())) == len(layers.native_order()) > 20


@pytest.mark.parametrize("text", [
    "from kraft_native.log cimport Log\n",
    "from kraft_native.log import Log\n",
    "cimport kraft_native.log\n",
    "def f():\n    from kraft_native import (\n        errors,\n        log,\n    )\n",
    "from kraft_native.unknown cimport x\n",
    "from kraft import Log\n",
    "import kraft.engine\n",
    "from .errors cimport x\n",
    "from . cimport errors\n",
])
def test_a_compiled_module_reaches_only_upwards(text: str) -> None:
    assert native("batch", text)


def test_what_a_compiled_module_may_import() -> None:
    assert not native("batch", "from kraft_native.errors cimport (\n    A, B,\n)\nfrom kraft_native cimport limits\n"
                               "from libc.stdint cimport int64_t\ncimport cython\nimport kraft_native.errors, os\n")


def test_a_compiled_module_must_be_in_the_table() -> None:
    assert native("other", "import os\n")


@pytest.mark.parametrize(("part", "text"), [
    ("_version", "from kraft_native.errors import KraftError\n"),
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


def test_what_a_part_of_kraft_may_import() -> None:
    text = "import os\nfrom kraft import Log\nfrom kraft_native.crc import checksum\n"
    assert not list(layers.check_python("cli", text))


def test_module_names_cover_the_tree() -> None:
    names = layers.module_names()
    assert {"kraft", "kraft.cli", "kraft_native.errors"} <= set(names)
    assert all(Path(ROOT, *name.split(".")).with_suffix(".pyx").exists() for name in names if "native" in name)


@pytest.mark.parametrize("text", [
    "x = {1, 2}\n", "x = {y for y in z}\n", "x = set(y)\n", "x = frozenset()\n", "x = hash(y)\n",
    "def f(x: int) -> None:\n    print(id(x))\n",
])
def test_an_ordered_part_has_nothing_that_differs_between_processes(text: str) -> None:
    assert list(layers.check_order("controller", text))
    assert not list(layers.check_order("cli", text))


def test_what_an_ordered_part_may_have() -> None:
    assert not list(layers.check_order("metadata", "x = {1: 2}\ny.set(3)\nid = 4\nz = sorted(dict.fromkeys(y))\n"))
