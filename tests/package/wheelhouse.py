"""A directory with the wheel in `dist` and the locked packages of a node: what an index would serve."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools import lock
from tools.deb import wheel_for
from tools.tree import ROOT

WORK: Final = ROOT / "build" / "install-check"
PIP: Final = ("-m", "pip", "--disable-pip-version-check")


def wheelhouse() -> Path:
    """Return the directory, with this Python's wheels only. Digests are those of the lock."""
    directory = WORK / "wheels"
    wanted = WORK / "node.lock"
    text = lock.part_for(lock.node_requirements())
    wheel = wheel_for(sys.executable)
    if not wanted.exists() or wanted.read_text() != text:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        unchecked = WORK / "unchecked.lock"
        unchecked.write_text(text)
        subprocess.run([sys.executable, *PIP, "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                        "--require-hashes", "--dest", directory, "-r", unchecked], check=True)
        unchecked.rename(wanted)
    for old in directory.glob("kraft-*.whl"):
        old.unlink()
    shutil.copy(wheel, directory)
    return directory


def install(python: Path, *what: object) -> None:
    """Install from the directory alone, without compiling anything."""
    subprocess.run([python, *PIP, "install", "--quiet", "--no-index", "--only-binary", ":all:", "--find-links",
                    WORK / "wheels", *map(str, what)], check=True)
