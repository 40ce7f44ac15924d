"""The declarative pipeline of docs/examples runs twice: the second run processes only what is new."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kraft import LogDir
from kraft.spark.java import java_home
from tools.tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

SECONDS = 600
START_MS = 1_700_000_000_000
HIVE = "spark.sql.catalogImplementation=hive"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, with its storage in the test's directory."""
    for package in ("grpc", "grpc_status", "yaml"):
        pytest.importorskip(package, reason="pip install 'pyspark[pipelines]' brings it")
    project = tmp_path / "declarative"
    shutil.copytree(ROOT / "docs/examples/declarative", project)
    settings = project / "spark-pipeline.yml"
    assert "file:///tmp/kraft-declarative" in settings.read_text()
    settings.write_text(settings.read_text().replace("/tmp/kraft-declarative", str(tmp_path / "storage")))
    return project


def append(logs: Path, values: range) -> None:
    with LogDir(logs) as directory:
        for value in values:
            directory.log("orders", value % 2).append_record(b"%d" % value, timestamp_ms=START_MS + value * 60_000)


def run(project: Path, logs: Path) -> None:
    # Spark finds everything external as docs/pipeline.md describes.
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "KRAFT_LOGS": str(logs), "KRAFT_TOPIC": "orders",
                   "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
                   "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run([Path(sys.executable).with_name("spark-pipelines"), "run", "--conf", HIVE], cwd=project,
                          env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-3_000:]


def rows(project: Path, table: str) -> list[dict[str, object]]:
    return ds.dataset(project / "spark-warehouse" / table, format="parquet").to_table().to_pylist()


def test_two_runs(project: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for values in (range(150), range(150, 205)):
        append(logs, values)
        run(project, logs)
        found = rows(project, "records")
        assert sorted(int(row["value"]) for row in found) == list(range(values.stop))  # type: ignore[call-overload]
        assert sum(row["records"] for row in rows(project, "per_hour")) == values.stop  # type: ignore[misc]
