"""The audit's ranges in Spark's workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraft.pipeline import audit
from kraft.pipeline.metadata import MetadataTask, read_metadata, read_task
from kraft.pipeline.on_spark import SparkWorkers, TaskFailedError
from kraft.pipeline.replicas import find_replicas
from kraft.pipeline.report import read_inputs, summary
from tests.golden import golden, needs_golden
from tests.pipeline.replicas import batches, write
from tests.pipeline.test_report import bench_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_verdict_is_that_of_threads(spark: SparkSession, tmp_path: Path) -> None:
    data = batches(20)
    write(tmp_path / "node0", 0, data, segment_bytes=700)
    data[11] = batches(20, value=b"VALUE")[11]
    write(tmp_path / "node1", 1, data)
    scopes = [audit.scope_of(replicas)
              for replicas in find_replicas([tmp_path / "node0", tmp_path / "node1"]).values()]
    [found] = audit.run(scopes, SparkWorkers(spark), block_offsets=16, task_bytes=1)
    assert (found.divergent_offset, found.damages, found.records) == (55, [], 100)
    assert list(SparkWorkers(spark).run(str, [])) == []


@needs_golden
def test_tables_of_a_metadata_log_and_reports_are_those_of_threads(spark: SparkSession, tmp_path: Path) -> None:
    log = golden("quorum", "dynamic", "node-1")
    [(task, found)] = SparkWorkers(spark).run(read_task, [MetadataTask(log, until_offset=20)])
    assert found == read_metadata(log, until_offset=20)
    assert task.directory == log
    files = [bench_file(tmp_path / f"{name}.json", *rates) for name, rates in (("b", (1, 2)), ("a", (3,)))]
    assert summary(read_inputs(files, SparkWorkers(spark))) == summary(read_inputs(files))
    (tmp_path / "no.json").write_text("x")
    with pytest.raises(TaskFailedError, match=r"no\.json: neither a result"):
        read_inputs([tmp_path / "no.json"], SparkWorkers(spark))
