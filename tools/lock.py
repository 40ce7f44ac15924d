"""Writes exact versions and digests of everything the project needs, direct and transitive: `make lock` runs it.

The newest release of each dependency that `pyproject.toml` allows, with the SHA-256 of each file of that release: pip
refuses any other file (`--require-hashes`). No index is named, so a lock fits every index that serves the same files,
every supported Python and both kinds of processors. What only `make test-spark`, `make docs`, `make sbom`,
`make wheel` or `make bench-embedded` needs has a lock of its own. It adds to the first one and changes nothing of it.

    python tools/lock.py                write all locks

    python tools/lock.py --keep         the same, with the versions that the locks name now

    python tools/lock.py --build-only   print the part of the lock that a build needs before everything else
"""

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "pyproject.toml"
LOCK = "requirements.lock"
SPARK_LOCK = "requirements-spark.lock"
DOCS_LOCK = "requirements-docs.lock"
RELEASE_LOCK = "requirements-release.lock"
EMBEDDED_LOCK = "requirements-embedded.lock"
LOCKS = (LOCK, SPARK_LOCK, DOCS_LOCK, RELEASE_LOCK, EMBEDDED_LOCK)
# Extras with large libraries of their own, which only `make test-spark` installs; the generator of the site; the tools
# that check and describe a wheel.
SPARK_ONLY = ("delta", "iceberg")
DOCS_ONLY = ("docs",)
RELEASE_ONLY = ("release",)
EMBEDDED_ONLY = ("embedded",)
PYTHON_MIN = "3.11"
RESOLVER = "uv>=0.9"
NOT_LINUX = re.compile(r"sys_platform == '(?!linux')")

# Name -> the version, a marker where the package is not for all Pythons, and the digests, as lines.
Entries = dict[str, str]


def requirements() -> list[str]:
    """Requirements of the build, the package and its extras, without those that have a lock of their own."""
    declared = tomllib.loads(PROJECT.read_text())
    wanted = [*declared["build-system"]["requires"], *declared["project"]["dependencies"]]
    for name, extra in declared["project"]["optional-dependencies"].items():
        wanted += extra if name not in (*SPARK_ONLY, *DOCS_ONLY, *RELEASE_ONLY, *EMBEDDED_ONLY) else []
    return wanted


def requirements_of(names: tuple[str, ...]) -> list[str]:
    """Requirements of these extras."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    return [requirement for name in names for requirement in extras[name]]


def spark_requirements() -> list[str]:
    """Requirements that the tests of Spark add: the lakes, and Spark's declarative pipelines."""
    return ["pyspark[pipelines]", *requirements_of(SPARK_ONLY)]


def parse(text: str) -> Entries:
    """The entries of a lock."""
    entries = re.split(r"\n(?=[a-z0-9])", "\n" + text)
    return {entry.partition("==")[0]: entry.rstrip() for entry in entries[1:]}


def pins(entries: Entries) -> list[str]:
    """Only the versions: `name==version`, with its marker."""
    return [entry.partition(" \\\n")[0] for entry in entries.values()]


def resolve(resolver: Path, names: list[str], constraints: list[str]) -> Entries:
    """Resolved entries of an environment with `names`."""
    with tempfile.TemporaryDirectory() as directory:
        wanted, limits = Path(directory, "wanted.txt"), Path(directory, "limits.txt")
        wanted.write_text("\n".join(names))
        limits.write_text("\n".join(constraints))
        environment = dict(os.environ)
        if "PIP_INDEX_URL" in environment:
            environment.setdefault("UV_DEFAULT_INDEX", environment["PIP_INDEX_URL"])
        done = subprocess.run([
            resolver, "pip", "compile", "--quiet", "--universal", "--python-version", PYTHON_MIN, "--generate-hashes",
            "--fork-strategy", "fewest", "--no-annotate", "--no-header", "--constraint", limits, wanted,
        ], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return {name: entry for name, entry in parse(done.stdout).items()
            if not NOT_LINUX.search(entry.partition("\n")[0])}


def write(name: str, what: str, entries: Entries) -> None:
    head = f"# Made by `make lock`: exact versions of what {what}, with what that needs in turn.\n"
    (ROOT / name).write_text(head + "\n".join(entries.values()) + "\n")


def closure(requirements: Iterable[str]) -> set[str]:
    """Names of the required packages and, recursively, of their requirements, as far as this environment has them."""
    found: set[str] = set()
    left = list(requirements)
    while left:
        requirement = left.pop()
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
        if name not in found and "extra ==" not in requirement:
            try:
                left += importlib.metadata.requires(name) or ()
            except importlib.metadata.PackageNotFoundError:     # of another platform or Python
                continue
            found.add(name)
    return found


def node_requirements(root: Path = ROOT) -> list[str]:
    """Return what a node requires in a source tree: the package's dependencies and those of the extra `node`."""
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return [*declared["dependencies"], *declared["optional-dependencies"].get("node", ())]


def part_for(requirements: Iterable[str], root: Path = ROOT) -> str:
    """Return the part of a source tree's lock that these requirements need, direct and transitive."""
    entries = parse((root / LOCK).read_text())
    return "\n".join(entries[name] for name in sorted(closure(requirements)) if name in entries) + "\n"


def build_requirements() -> Entries:
    """The part of the lock that `pyproject.toml` names as the build's."""
    entries = parse((ROOT / LOCK).read_text())
    names = [re.split(r"[<>=]", line)[0].lower() for line in
             tomllib.loads(PROJECT.read_text())["build-system"]["requires"]]
    return {name: entries[name] for name in names}


def write_locks(keep: bool) -> None:
    kept = [pin for name in LOCKS if keep and (ROOT / name).exists()
            for pin in pins(parse((ROOT / name).read_text()))]
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        subprocess.run([f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
                        RESOLVER], check=True)
        resolver = Path(directory, "bin", "uv")
        base = resolve(resolver, requirements(), kept)
        whole = resolve(resolver, [*requirements(), *spark_requirements()], [*pins(base), *kept])
        site = resolve(resolver, [*requirements(), *requirements_of(DOCS_ONLY)], [*pins(base), *kept])
        release = resolve(resolver, [*requirements(), *requirements_of(RELEASE_ONLY)], [*pins(base), *kept])
        stores = resolve(resolver, [*requirements(), *requirements_of(EMBEDDED_ONLY)], [*pins(base), *kept])
    write(LOCK, "pyproject.toml requires", base)
    write(EMBEDDED_LOCK, "`make bench-embedded` adds to requirements.lock",
          {name: entry for name, entry in stores.items() if name not in base})
    write(SPARK_LOCK, "`make test-spark` adds to requirements.lock",
          {name: entry for name, entry in whole.items() if name not in base})
    write(DOCS_LOCK, "`make docs` adds to requirements.lock",
          {name: entry for name, entry in site.items() if name not in base})
    write(RELEASE_LOCK, "a release adds to requirements.lock",
          {name: entry for name, entry in release.items() if name not in base})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    if options.build_only:
        sys.stdout.write("\n".join(build_requirements().values()) + "\n")
    else:
        write_locks(options.keep)


if __name__ == "__main__":
    main()
