"""Export from a running node, and in Spark's workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from kraft.cli.command import run
from kraft.pipeline import export
from kraft.pipeline.on_spark import SparkWorkers
from kraft.pipeline.origins import origin_of
from kraft.pipeline.parquet import FileSettings
from kraft.pipeline.table import Table
from tests.pipeline.replicas import batches, write
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(table: Path) -> list[tuple[Any, ...]]:
    found = ds.dataset(table, format="parquet", partitioning="hive").to_table(["partition", "offset", "value"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_a_topic_that_grows(topics: Topics, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics.create(topic, 2, retention_ms="-1")
    arguments = ["pipeline", "export", str(tmp_path / "table"), "--bootstrap", topics.address, "--topic", topic]
    for first in (0, 50):
        for partition in (0, 1):
            topics.send(topic, range(first, first + 50), partition, timestamp_ms=1_700_000_000_000)
        assert run(arguments) == 0
        assert "100 rows" in capsys.readouterr().out
    assert rows(tmp_path / "table") == [(partition, offset, b"%d" % offset) for partition in (0, 1)
                                        for offset in range(100)]
    assert run(arguments) == 0
    library_error = capsys.readouterr()
    assert library_error.out == ""
    assert "nothing new" in library_error.err
    assert run([*arguments[:-1], "nothing"]) == 1


def test_in_workers_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "logs", 1, batches(40), segment_bytes=1500)
    source = {"path": str(tmp_path / "logs")}
    with Table(tmp_path / "table", {}) as table:
        batch = export.plan_batch(origin_of(source), table.path, table.last())
        export.run_batch(table, source, FileSettings(), SparkWorkers(spark), batch)
    assert [row[:2] for row in rows(tmp_path / "table")] == [(0, offset) for offset in range(200)]
    assert spark.read.parquet(str(tmp_path / "table")).where("topic = 'orders' and hour = 22").count() == 200
