"""The audit's ranges in Spark's workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kraft.pipeline import audit
from kraft.pipeline.on_spark import SparkWorkers
from kraft.pipeline.replicas import find_replicas
from tests.pipeline.replicas import batches, write

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
