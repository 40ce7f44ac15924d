"""The simulator for long series of runs, compiled by mypyc: `build/simulator`.

    python -m tools.compiled_simulator
    PYTHONPATH=build/simulator kraft simulate --brokers --seeds 0..999

It is a copy of the package `kraft` in which modules of `kraft.testing` are compiled from their Python sources. The code
that they run and judge is the same as ever: interpreted, or compiled by Cython. A build takes minutes and ends with a
comparison: a few seeds of each kind must have the digests that they have in the source tree. It is repeated only when
the sources change.

Names of compiled modules and classes cannot be bound to other things. Many known bugs are bound to names of the
simulator, so these are hunted in the source tree.
"""

import os
import shutil
import subprocess
import sys
from contextlib import chdir
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tools.module_cache import toolchain
from tools.tree import ROOT, files

TARGET: Final = ROOT / "build" / "simulator"
STAMP: Final = "built-from"
CONFIG: Final = "[mypy]\nignore_missing_imports = True\n"
SIMULATOR: Final = ("kraft/testing/sim", "kraft/testing/brokers", "kraft/testing/brokers/transactional",
                    "kraft/testing/brokers/groups")
INTERPRETED: Final = frozenset({
    # These run once, or for each run of a series.
    "kraft/testing/sim/campaign.py", "kraft/testing/sim/joined.py", "kraft/testing/sim/options.py",
    "kraft/testing/sim/run.py", "kraft/testing/brokers/options.py", "kraft/testing/brokers/transactional/options.py",
    # Coroutines within coroutines: those of mypyc 2.4 lose their state.
    "kraft/testing/brokers/transactional/clients.py", "kraft/testing/brokers/transactional/dialer.py",
    "kraft/testing/brokers/transactional/readers.py", "kraft/testing/brokers/transactional/transformers.py",
    "kraft/testing/brokers/transactional/writers.py", "kraft/testing/brokers/groups/options.py",
    "kraft/testing/brokers/groups/members.py", "kraft/testing/brokers/groups/consumers.py",
    "kraft/testing/brokers/groups/classic.py", "kraft/testing/brokers/groups/population.py",
})
COMPARE: Final = """
from kraft.testing.sim import loop, run
print(loop.__file__)
for simulate, seeds in (run.simulate, 3), (run.simulate_brokers, 6), (run.simulate_transactions, 2), (
        run.simulate_groups, 2):
    print(*(simulate(seed).digest for seed in range(seeds)))
"""


def compiled_modules() -> list[str]:
    """Return the paths of the modules to compile, relative to the tree."""
    found = [path.relative_to(ROOT).as_posix() for top in SIMULATOR for path in sorted((ROOT / top).glob("*.py"))]
    return [path for path in found if path not in INTERPRETED and not path.endswith("__init__.py")]


def digest() -> str:
    """Return a digest of everything that a build reads."""
    whole = sha256(repr((toolchain(), version("mypy"), compiled_modules(), CONFIG)).encode())
    for top in ("kraft", "kraft_native"):
        for path in files(ROOT / top):
            whole.update(f"\0{path.relative_to(ROOT)}\0".encode())
            whole.update(path.read_bytes())
    return whole.hexdigest()


def copy_tree() -> None:
    """Copy `kraft`, and let `kraft_native` be that of the tree."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(ROOT / "kraft", TARGET / "kraft", ignore=shutil.ignore_patterns("__pycache__"))
    (TARGET / "kraft_native").symlink_to(ROOT / "kraft_native")
    (TARGET / "mypy.ini").write_text(CONFIG, "utf-8")


def compile_copy() -> None:
    """Compile the modules in place in the copy. SystemExit when one of them does not compile."""
    from mypyc.build import mypycify
    from setuptools import setup
    with chdir(TARGET):
        setup(name="simulator", packages=[], script_args=["-q", "build_ext", "--inplace"],
              ext_modules=mypycify(["--config-file=mypy.ini", *compiled_modules()], opt_level="2", debug_level="0"))


def digests_in(tree: Path) -> tuple[Path, str]:
    """Run a few seeds in that tree. Return the file of a module of its simulator, and the digests."""
    done = subprocess.run([sys.executable, "-P", "-c", COMPARE], env={**os.environ, "PYTHONPATH": str(tree)},
                          stdout=subprocess.PIPE, text=True, check=True)
    file, _, digests = done.stdout.partition("\n")
    return Path(file), digests


def compare() -> None:
    """Check that the copy is compiled and simulates what the source tree does. SystemExit when it does not."""
    (file, copied), (_, original) = digests_in(TARGET), digests_in(ROOT)
    if file.suffix != ".so" or not file.is_relative_to(TARGET):
        sys.exit(f"{file} is no compiled module of {TARGET}")
    if copied != original:
        sys.exit(f"the compiled simulator makes other runs of the same seeds:\n{copied}\ninstead of\n{original}")


def main() -> None:
    stamp, current = TARGET / STAMP, digest()
    if stamp.exists() and stamp.read_text("utf-8") == current:
        return
    copy_tree()
    compile_copy()
    compare()
    stamp.write_text(current, "utf-8")


if __name__ == "__main__":
    main()
