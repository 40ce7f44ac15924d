"""Print the programs that a build needs and this machine lacks, each with the line that installs it.

It runs before the environment exists, with any Python: it must report an old Python as old, so nothing here is newer
than Python 3.7.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec

PYTHON_MIN = (3, 11)
# Debian has `venv` without `ensurepip`, and then no environment can be made.
MODULES = ("venv", "ensurepip")


def missing(version: tuple[int, int], include: str, modules: set[str], compiler: str) -> list[str]:
    """A line for each thing that is missing: `version` of Python, the directory of its headers, which of its modules
    there are, and the compiler's command."""
    name = f"python{version[0]}.{version[1]}"
    if version < PYTHON_MIN:
        return [f"Python 3.11 or newer (this is {name}): apt-get install python3.11, or make PYTHON=/path/to/python"]
    lines = []
    if not modules.issuperset(MODULES):
        lines.append(f"Python's venv module: apt-get install {name}-venv")
    if not os.path.exists(os.path.join(include, "Python.h")):
        lines.append(f"Python's headers: apt-get install {name}-dev")
    if shutil.which(compiler.split(maxsplit=1)[0]) is None:
        lines.append(f"a C compiler ({compiler}): apt-get install gcc")
    return lines


def main() -> int:
    """Report missing programs on standard error; return 1 if one is missing."""
    # As setuptools chooses it.
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "gcc"
    found = {name for name in MODULES if find_spec(name)}
    lines = missing(sys.version_info[:2], sysconfig.get_paths()["include"], found, compiler)
    for line in lines:
        print(f"missing: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
