"""Prints exact versions of everything the project needs, direct and transitive: `make lock` keeps them.

A new environment gets the newest release of each dependency that `pyproject.toml` allows; what then is installed is the
lock. It names versions only, so it fits every index and every machine of the supported kinds.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
# Extras with large libraries of their own, which only `make test-spark` installs.
UNLOCKED = ("delta", "iceberg")


def requirements() -> list[str]:
    """What the build, the package and its extras ask for, but for the unlocked ones."""
    declared = tomllib.loads(PROJECT.read_text())
    wanted = [*declared["build-system"]["requires"], *declared["project"]["dependencies"]]
    for name, extra in declared["project"]["optional-dependencies"].items():
        wanted += extra if name not in UNLOCKED else []
    return wanted


def resolved(names: list[str]) -> dict[str, str]:
    """Name -> version after installing the newest allowed releases into an empty environment."""
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        pip = [f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *names], check=True, stdout=sys.stderr)
        listed = subprocess.run([*pip, "list", "--format=json"], check=True, stdout=subprocess.PIPE)
    return {package["name"].lower().replace("_", "-"): package["version"] for package in json.loads(listed.stdout)}


def main() -> None:
    versions = resolved(requirements())
    versions.pop("pip", None)
    print("# Made by `make lock`: exact versions of what pyproject.toml asks for, with what that needs in turn.")
    for name in sorted(versions):
        print(f"{name}=={versions[name]}")


if __name__ == "__main__":
    main()
