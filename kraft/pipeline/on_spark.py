"""The same ranges in Spark's workers.

A task is a range, small enough to be told and large enough (a segment and more) that telling costs nothing beside the
work. Spark tries again what failed; functions are written so that this changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kraft.spark import session
from kraft.spark.garbage import spare_imports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft.pipeline.workers import Result, Task


class SparkWorkers:
    """A task of Spark's for each range. The results come together when all are there."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        if not tasks:
            return

        def work(task: Task) -> tuple[Task, Result]:
            spare_imports()
            return task, function(task)

        found = self.spark.sparkContext.parallelize(tasks, len(tasks)).map(work)
        yield from found.collect()


@contextmanager
def spark_workers(master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkWorkers]:
    """Workers of a session of their own, which is stopped at the end."""
    spark = session("kraft pipeline", master=master, settings=settings)
    try:
        yield SparkWorkers(spark)
    finally:
        spark.stop()
