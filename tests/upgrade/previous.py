"""The previous release: a wheel of its commit, in an environment of its own with the packages that its lock names."""

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from tools import lock
from tools.tree import ROOT
from tools.wheel import CACHE, build

WORK: Final = ROOT / "build" / "upgrade"
PIP: Final = ("-m", "pip", "--disable-pip-version-check")
STANDS_FOR_A_RELEASE: Final = "d5b224d5"
"""Commit that is upgraded from until a release has a tag."""


def default_revision() -> str:
    """Return the newest tag of a release before this one; without one, the commit that stands for it."""
    done = subprocess.run(["git", "describe", "--tags", "--abbrev=0", "HEAD^"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else STANDS_FOR_A_RELEASE


def environment_of(revision: str) -> Path:
    """Return the directory of an environment in which a revision is installed. It is created once, and kept."""
    commit = subprocess.run(["git", "rev-parse", "--verify", f"{revision}^{{commit}}"], cwd=ROOT, capture_output=True,
                            text=True, check=False)
    if commit.returncode:
        raise SystemExit(f"{revision}: not in this clone: {commit.stderr.strip()}")
    own = WORK / commit.stdout.strip()[:12]
    environment = own / "environment"
    if not (own / "complete").exists():
        archive = subprocess.run(["git", "archive", commit.stdout.strip()], cwd=ROOT, check=True,
                                 stdout=subprocess.PIPE)
        shutil.rmtree(own, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(own / "sources", filter="data")
        wheel = build(sys.executable, own / "sources", CACHE, own / "wheel")
        install(environment, own / "sources", wheel)
        shutil.rmtree(own / "sources")
        (own / "complete").touch()
    return environment


def install(environment: Path, sources: Path, wheel: Path) -> None:
    """Create an environment with a wheel and, of its own lock, what a node requires."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    wanted = environment / "node.lock"
    wanted.write_text(lock.part_for(lock.node_requirements(sources), sources))
    python = environment / "bin" / "python"
    subprocess.run([python, *PIP, "install", "--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:",
                    "-r", wanted], check=True)
    subprocess.run([python, *PIP, "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
