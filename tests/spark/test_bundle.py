"""The bundle that executors and the shell get."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StringType, StructField, StructType

from kraft import Log, __version__
from kraft.cli.command import kraft
from kraft.spark.bundle import bundle_settings, write_bundle
from kraft.spark.errors import VersionMismatchError
from kraft.spark.source import KraftSource
from kraft.spark.tasks import TaskRanges
from tests.golden import REPOSITORY

# A whole program: its executors run in processes of their own, and get the packages only from the archive.
ON_A_CLUSTER = """
import os, sys
from pathlib import Path
from kraft.spark import session
from kraft.spark.bundle import bundle_settings, write_bundle

archive = Path(sys.argv[1])
write_bundle(archive)
spark = session("bundle", master="local-cluster[2,1,1024]", quick=True, settings=bundle_settings(archive))
frame = spark.read.format("kraft").option("minPartitions", "4").load(sys.argv[2])

def origin(rows):
    import pyarrow as pa
    for _ in rows:
        pass
    import kraft_native.columns.reader
    yield pa.RecordBatch.from_pydict({"place": [kraft_native.columns.reader.__file__], "process": [os.getppid()]})

places = frame.mapInArrow(origin, "place string, process long").collect()
assert frame.count() == 1000, frame.count()
assert len(places) >= 4 and all("kraftenv" in row.place for row in places), places
assert len({row.process for row in places}) == 2, places
spark.stop()
print("all well")
"""


def test_the_archive_is_whole_and_repeatable(tmp_path: Path) -> None:
    one, two = tmp_path / "one.zip", tmp_path / "two.zip"
    assert write_bundle(one) == write_bundle(two)
    assert one.read_bytes() == two.read_bytes()
    # Its contents work without the source tree.
    with zipfile.ZipFile(one) as archive:
        archive.extractall(tmp_path / "unpacked")
    script = "import pyspark_kraft as p; print(p.DefaultSource.name(), p.__file__)"
    done = subprocess.run([sys.executable, "-c", script],
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "unpacked")}, check=True,
                          capture_output=True, text=True)
    name, file = done.stdout.split()
    assert name == "kraft" and Path(file).is_relative_to(tmp_path / "unpacked")
    assert bundle_settings(one)["spark.archives"] == f"{one}#kraftenv"


@pytest.mark.parametrize("streaming", [False, True])
def test_executors_with_another_version(tmp_path: Path, streaming: bool) -> None:
    source = KraftSource(CaseInsensitiveDict({"path": str(tmp_path)}))
    made = source.streamReader(source.schema()) if streaming else source.reader(source.schema())
    sent = pickle.loads(pickle.dumps(TaskRanges((), version="0.0.9")))
    with pytest.raises(VersionMismatchError, match=rf"kraft is version {__version__} where .* 0\.0\.9 in the driver: "):
        list(made.read(sent))
    assert list(made.read(TaskRanges(()))) == []
    sink = KraftSource(CaseInsensitiveDict({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t",
                                            "delivery": "at-least-once"}))
    rows = StructType([StructField("value", StringType())])
    writer: Any = sink.streamWriter(rows, False) if streaming else sink.writer(rows, False)
    writer.version = "0.0.9"
    with pytest.raises(VersionMismatchError, match=r" 0\.0\.9 in the driver: "):
        writer.write(iter([]))


@pytest.mark.long
def test_executors_of_their_own(tmp_path: Path) -> None:
    with Log(tmp_path / "orders-0") as log:
        for number in range(1000):
            log.append_record(b"%d" % number)
    done = subprocess.run([sys.executable, "-c", ON_A_CLUSTER, str(tmp_path / "kraft.zip"), str(tmp_path / "orders-0")],
                          cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    assert done.stdout.splitlines()[-1:] == ["all well"], done.stderr[-3000:]


@pytest.mark.long
def test_the_shell(tmp_path: Path) -> None:
    with Log(tmp_path / "orders-0") as log:
        log.append_record(b"one")
    query = f'print(spark.read.format("kraft").load("{tmp_path / "orders-0"}").first().value.decode())'
    done = subprocess.run([sys.executable, "-m", "kraft", "spark", "shell", "--master", "local[1]", "-c", query],
                          cwd=REPOSITORY, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.splitlines()[-1:] == ["one"], done.stderr[-3000:]


def test_the_command_says_how_to_use_it(tmp_path: Path) -> None:
    archive = tmp_path / "kraft.zip"
    done = CliRunner().invoke(kraft, ["spark", "bundle", "-o", str(archive)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "kraft_native/columns" in "".join(zipfile.ZipFile(archive).namelist())
    for name, value in bundle_settings(archive).items():
        assert f"--conf {name}={value}" in done.output


def test_a_pipeline_job_on_executors_that_get_the_archive(tmp_path: Path) -> None:
    """Run `kraft pipeline --master ... --conf ...`, with the options that `kraft spark bundle` prints."""
    (tmp_path / "a").mkdir()
    with Log(tmp_path / "a" / "orders-0") as log:
        for number in range(100):
            log.append_record(b"%d" % number)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    archive = tmp_path / "kraft.zip"
    write_bundle(archive)
    settings = [part for item in bundle_settings(archive).items() for part in ("--conf", "=".join(item))]
    done = subprocess.run(
        [sys.executable, "-m", "kraft", "pipeline", "audit", str(tmp_path / "a"), str(tmp_path / "b"), "--json",
         "--master", "local-cluster[1,1,1024]", *settings], check=False, capture_output=True, text=True, timeout=300,
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert done.returncode == 0, done.stderr
    (found,) = (json.loads(line) for line in done.stdout.splitlines())
    assert found["topic"] == "orders" and len(found["replicas"]) == 2, found


def test_settings_are_for_spark(tmp_path: Path) -> None:
    with Log(tmp_path / "orders-0") as log:
        log.append_record(b"a")
    done = CliRunner().invoke(kraft, ["pipeline", "audit", str(tmp_path), "--conf", "spark.ui.enabled=true"])
    assert done.exit_code == 2 and "--conf is for Spark, which --master starts" in done.output, done.output
