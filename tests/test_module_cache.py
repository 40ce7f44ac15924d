"""Compiled modules are kept by their content: the same content is never compiled twice."""

import importlib.util
import os
from pathlib import Path

import pytest
from setuptools import Distribution, Extension

from tools.module_cache import CachedBuild, prune, toolchain

SOURCE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "number.h"
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "number", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_number(void) {
    PyObject *made = PyModule_Create(&module);
    if (made) PyModule_AddIntConstant(made, "NUMBER", NUMBER);
    return made;
}
"""


class Tree:
    """One module's sources, in a directory of their own, and a compiler that counts its calls."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory, self.calls = directory, directory / "calls"
        self.compiler = directory / "cc"
        self.compiler.write_text(
            f'#!/bin/sh\ncase "$*" in *--version*) ;; *) echo >> {self.calls} ;; esac\nexec gcc "$@"\n')
        self.compiler.chmod(0o755)
        (directory / "number.c").write_text(SOURCE)
        self.set_number(1)

    def set_number(self, number: int) -> None:
        (self.directory / "number.h").write_text(f"#define NUMBER {number}\n")

    def build(self, monkeypatch: pytest.MonkeyPatch, cache: Path, *flags: str) -> tuple[int, int]:
        """Return the module's number, and how often the compiler ran."""
        monkeypatch.chdir(self.directory)
        monkeypatch.setenv("CC", str(self.compiler))
        monkeypatch.setenv("LDSHARED", f"{self.compiler} -shared")
        monkeypatch.setattr(CachedBuild, "directory", cache)
        toolchain.cache_clear()
        self.calls.write_text("")
        extension = Extension("number", ["number.c"], include_dirs=["."], depends=["number.h"],
                              extra_compile_args=list(flags))
        command = CachedBuild(Distribution({"name": "number", "ext_modules": [extension]}))
        command.build_lib = command.build_temp = str(self.directory / "made")
        command.ensure_finalized()
        command.run()
        spec = importlib.util.spec_from_file_location("number", command.get_ext_fullpath("number"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.NUMBER, len(self.calls.read_text())


def test_the_same_content_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, cache = Tree(tmp_path / "tree"), tmp_path / "cache"
    assert tree.build(monkeypatch, cache) == (1, 2)
    os.utime(tree.directory / "number.c")
    assert tree.build(monkeypatch, cache) == (1, 0)


def test_a_changed_header_or_flag_is_seen_whatever_the_time_stamps(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    tree, cache = Tree(tmp_path / "tree"), tmp_path / "cache"
    tree.build(monkeypatch, cache)
    tree.set_number(2)
    os.utime(tree.directory / "number.h", (0, 0))
    assert tree.build(monkeypatch, cache)[1] == 2
    assert tree.build(monkeypatch, cache, "-O1")[1] == 2
    tree.set_number(1)  # back to the sources of the first compilation
    assert tree.build(monkeypatch, cache)[1] == 0


def test_an_incomplete_module_is_never_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, cache = Tree(tmp_path / "tree"), tmp_path / "cache"
    (tree.directory / "number.h").write_text("#error no number\n")
    with pytest.raises(Exception, match=r"failed|returned non-zero"):
        tree.build(monkeypatch, cache)
    assert not list(cache.glob("*"))


def test_the_modules_unused_the_longest_are_removed(tmp_path: Path) -> None:
    for at, name in enumerate(("old", "new", "newest")):
        (tmp_path / f"{name}.so").write_bytes(bytes(100))
        os.utime(tmp_path / f"{name}.so", (at, at))
    prune(tmp_path, 200)
    assert {path.stem for path in tmp_path.iterdir()} == {"new", "newest"}
