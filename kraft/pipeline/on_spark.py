"""Execution of the same ranges in Spark's workers.

A task is a range: small to describe, and large enough (a segment and more) that sending it costs nothing beside the
work. Spark retries failed tasks; the functions are written so that a retry changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from kraft.client import RefusedError
from kraft.spark import session
from kraft.spark.garbage import spare_imports
from kraft_native.base.errors import KraftError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft.pipeline.workers import Result, Task


class TaskFailedError(KraftError):
    """A task failed; the message is its own. Spark has not retried it, because a retry would not help."""


class SparkWorkers:
    """Workers that run a Spark task for each range. The results arrive together at the end. `TaskFailedError` when the
    input of one cannot be used. Spark retries other failures, as often as its settings allow."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        if not tasks:
            return

        def work(task: Task) -> tuple[Task, Result | None, str]:
            spare_imports()
            try:
                return task, function(task), ""
            except (OSError, RefusedError):    # also of a connection: another attempt may succeed
                raise
            except KraftError as error:
                return task, None, str(error)

        for task, result, failure in self.spark.sparkContext.parallelize(tasks, len(tasks)).map(work).collect():
            if failure:
                raise TaskFailedError(failure)
            yield task, cast("Result", result)


@contextmanager
def spark_workers(master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkWorkers]:
    """Yield workers of a new session, which is stopped at the end."""
    spark = session("kraft pipeline", master=master, settings=settings)
    try:
        yield SparkWorkers(spark)
    finally:
        spark.stop()
