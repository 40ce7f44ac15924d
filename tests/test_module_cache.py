"""Compiled modules are kept by their content: the same content is never compiled twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.module_cache import prune

ROOT = Path(__file__).parents[1]

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


# A build is a process of its own, as for users: what tests and plugins of setuptools left in this process is absent.
BUILD = """
import sys
from pathlib import Path
from setuptools import Extension, setup
from tools.module_cache import CachedBuild
CachedBuild.directory = Path(sys.argv.pop(1))
flags = [sys.argv.pop()] if sys.argv[-1].startswith("-O") else []
extension = Extension("number", ["number.c"], include_dirs=["."], depends=["number.h"], extra_compile_args=flags)
setup(name="number", ext_modules=[extension], cmdclass={"build_ext": CachedBuild})
"""

# A compiler that waits until another one has begun.
MEETING = """#!/bin/sh
case "$*" in
*" -c "*)
    touch begun-$$
    for _ in $(seq 1000); do
        [ "$(ls begun-* | wc -l)" -ge 2 ] && exec gcc "$@"
        sleep 0.02
    done
    echo "no other compiler has begun" >&2
    exit 1 ;;
esac
exec gcc "$@"
"""

BUILD_TWO = """
import sys
from pathlib import Path
from setuptools import Extension, setup
from tools.module_cache import CachedBuild
CachedBuild.directory = Path("cache")
setup(name="two", ext_modules=[Extension(name, [f"{name}.c"]) for name in ("one", "other")],
      cmdclass={"build_ext": CachedBuild}, options={"build_ext": {"parallel": int(sys.argv.pop(1))}})
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

    def build(self, cache: Path, *flags: str) -> tuple[int, int]:
        """Return the module's number, and how often the compiler ran.

        Raises:
            CalledProcessError: If the build failed.
        """
        self.calls.write_text("")
        environment = os.environ | {"PYTHONPATH": str(ROOT), "CC": str(self.compiler),
                                    "LDSHARED": f"{self.compiler} -shared"}
        for arguments in (["-c", BUILD, str(cache), "-q", "build_ext", "--inplace", *flags],
                          ["-c", "import number; print(number.NUMBER)"]):
            number = subprocess.run([sys.executable, *arguments], cwd=self.directory, env=environment, check=True,
                                    capture_output=True, text=True).stdout
        return int(number), len(self.calls.read_text())


@pytest.mark.house
def test_the_same_content_is_compiled_once(tmp_path: Path) -> None:
    tree, cache = Tree(tmp_path / "tree"), tmp_path / "cache"
    assert tree.build(cache) == (1, 2)
    os.utime(tree.directory / "number.c")
    assert tree.build(cache) == (1, 0)


@pytest.mark.house
def test_a_changed_header_or_flag_is_seen_whatever_the_time_stamps(tmp_path: Path) -> None:
    tree, cache = Tree(tmp_path / "tree"), tmp_path / "cache"
    tree.build(cache)
    tree.set_number(2)
    os.utime(tree.directory / "number.h", (0, 0))
    assert tree.build(cache)[1] == 2
    assert tree.build(cache, "-O1")[1] == 2
    tree.set_number(1)  # back to the sources of the first compilation
    assert tree.build(cache)[1] == 0


@pytest.mark.house
def test_modules_are_compiled_side_by_side(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(MEETING)
    compiler.chmod(0o755)
    for name in ("one", "other"):
        (tmp_path / f"{name}.c").write_text(SOURCE.replace("number", name).replace(f'#include "{name}.h"\n', "")
                                            .replace("NUMBER);", "1);"))
    read = "import runpy; print(runpy.run_path('setup.py', run_name='read')['JOBS'])"
    jobs = subprocess.run([sys.executable, "-c", read], cwd=ROOT, env=os.environ | {"KRAFT_JOBS": "2"},
                          check=True, capture_output=True, text=True)
    done = subprocess.run([sys.executable, "-c", BUILD_TWO, jobs.stdout.strip(), "-q", "build_ext", "--inplace"],
                          cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT), "CC": str(compiler)}, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("begun-*"))) == 2


def test_an_incomplete_module_is_never_kept(tmp_path: Path) -> None:
    tree, cache = Tree(tmp_path / "tree"), tmp_path / "cache"
    (tree.directory / "number.h").write_text("#error no number\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        tree.build(cache)
    assert "no number" in failed.value.stderr
    assert not list(cache.glob("*"))


def test_the_modules_unused_the_longest_are_removed(tmp_path: Path) -> None:
    for at, name in enumerate(("old", "new", "newest")):
        (tmp_path / f"{name}.so").write_bytes(bytes(100))
        os.utime(tmp_path / f"{name}.so", (at, at))
    prune(tmp_path, 200)
    assert {path.stem for path in tmp_path.iterdir()} == {"new", "newest"}
