"""Exports that Spark's streaming drives: the table and Spark's checkpoint agree, whichever of them is behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from kraft.pipeline.parquet import FileSettings
from kraft.pipeline.spark_stream import export_stream
from kraft.pipeline.table import Commit, Table, commits, covered
from tests.pipeline.replicas import batches, write
from tests.spark.test_pipeline_export import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 60


def run(spark: SparkSession, top: Path) -> None:
    """Export everything, in micro-batches of at most 80 offsets."""
    source = {"path": str(top / "logs"), "maxOffsetsPerTrigger": "80"}
    with Table(top / "table", {}) as table:
        query = export_stream(spark, table, source, FileSettings(), top / "checkpoint")
        assert query.awaitTermination(SECONDS)


def check(top: Path, end: int) -> None:
    assert [row[:2] for row in rows(top / "table")] == [(0, offset) for offset in range(end)]
    assert [span[2:4] for span in covered(top / "table").values()] == [(0, end)]


def test_batches_of_spark_are_commits(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batches(60)
    write(tmp_path / "logs", 1, data[:40])
    run(spark, tmp_path)
    check(tmp_path, 200)
    made = list(commits(tmp_path / "table"))
    assert [commit.batch_id for commit in made] == [0, 1, 2]
    assert len({commit.query_id for commit in made}) == 1

    # Spark died before it noted the end of the last batch: it runs it again.
    for name in ("2", ".2.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    run(spark, tmp_path)
    check(tmp_path, 200)
    assert list(commits(tmp_path / "table")) == made

    # The driver dies after the decision, and before the files are in their places.
    write(tmp_path / "logs", 1, data[40:])

    def lost(self: Table, commit: Commit) -> None:
        raise RuntimeError("gone")

    with monkeypatch.context() as patch, pytest.raises(StreamingQueryException):
        patch.setattr(Table, "_publish", lost)
        run(spark, tmp_path)
    run(spark, tmp_path)
    check(tmp_path, 300)

    # Spark's checkpoint is lost: another query continues where the table ends.
    shutil.rmtree(tmp_path / "checkpoint")
    write(tmp_path / "logs", 1, batches(2))
    run(spark, tmp_path)
    check(tmp_path, 310)
    assert len({commit.query_id for commit in commits(tmp_path / "table")}) == 2
