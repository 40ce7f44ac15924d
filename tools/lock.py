"""Writes exact versions of everything the project needs, direct and transitive: `make lock` runs it.

A new environment gets the newest release of each dependency that `pyproject.toml` allows; what then is installed is the
lock. It names versions only, so it fits every index and every machine of the supported kinds. What only
`make test-spark` needs has a lock of its own, which adds to the first one and changes nothing of it.
"""

import json
import subprocess
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "pyproject.toml"
LOCK = "requirements.lock"
SPARK_LOCK = "requirements-spark.lock"
# Extras with large libraries of their own, which only `make test-spark` installs.
SPARK_ONLY = ("delta", "iceberg")


def requirements() -> list[str]:
    """What the build, the package and its extras ask for, but for those that only the tests of Spark need."""
    declared = tomllib.loads(PROJECT.read_text())
    wanted = [*declared["build-system"]["requires"], *declared["project"]["dependencies"]]
    for name, extra in declared["project"]["optional-dependencies"].items():
        wanted += extra if name not in SPARK_ONLY else []
    return wanted


def spark_requirements() -> list[str]:
    """What the tests of Spark ask for beyond that: the lakes, and Spark's declarative pipelines."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    return ["pyspark[pipelines]", *(requirement for name in SPARK_ONLY for requirement in extras[name])]


def installed(pip: list[str], names: list[str]) -> dict[str, str]:
    """Name -> version of all that is in the environment after installing the newest allowed releases."""
    subprocess.run([*pip, "install", "--quiet", *names], check=True)
    listed = subprocess.run([*pip, "list", "--format=json"], check=True, stdout=subprocess.PIPE)
    found = {package["name"].lower().replace("_", "-"): package["version"] for package in json.loads(listed.stdout)}
    found.pop("pip", None)
    return found


def write(name: str, what: str, versions: dict[str, str]) -> None:
    lines = [f"# Made by `make lock`: exact versions of what {what}, with what that needs in turn."]
    lines += [f"{package}=={versions[package]}" for package in sorted(versions)]
    (ROOT / name).write_text("\n".join(lines) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        pip = [f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        base = installed(pip, requirements())
        constraints = Path(directory) / "base.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in base.items()))
        whole = installed(pip, ["-c", str(constraints), *spark_requirements()])
    write(LOCK, "pyproject.toml asks for", base)
    write(SPARK_LOCK, "`make test-spark` adds to requirements.lock",
          {name: version for name, version in whole.items() if name not in base})


if __name__ == "__main__":
    main()
