"""The home of Spark on one machine: links to the installed package, whose workers import what is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kraft.spark import sessions
from kraft.spark.home import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The relevant files of an installed PySpark."""
    package = tmp_path / "site" / "pyspark"
    for name in ("jars/a.jar", "bin/spark-submit", "python/lib/pyspark.zip", "python/lib/py4j.zip", "work/app/stdout"):
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return package


def test_it_has_all_but_the_archive_of_sources(package: Path, tmp_path: Path) -> None:
    home = spark_home(tmp_path / "cache", package)
    for name in ("jars/a.jar", "bin/spark-submit", "python/lib/py4j.zip"):
        assert (home / name).read_text() == name
    assert (home / "python/lib/pyspark.zip/pyspark/bin").samefile(package / "bin")
    assert not (home / "work").exists()
    made = home.stat().st_ino
    assert spark_home(tmp_path / "cache", package) == home and home.stat().st_ino == made
    moved = package.rename(package.with_name("other"))
    assert spark_home(tmp_path / "cache", moved) != home


def test_a_given_home_and_a_cluster_keep_theirs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert sessions._home("spark://host:7077") == {}
    assert Path(sessions._home("local[2]")["SPARK_HOME"]).is_relative_to(tmp_path)
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert sessions._home("local[2]") == {}


def test_workers_do_not_compile(spark: SparkSession) -> None:
    """The worker's own PySpark is in a directory that keeps the compiled files."""

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    [row] = spark.range(1).mapInArrow(where, "file string").distinct().collect()
    assert Path(row.file).is_file(), f"{row.file} lies in an archive"
