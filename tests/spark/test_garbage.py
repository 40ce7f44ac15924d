"""Workers do not traverse all modules after each task; the calling program's collector is unchanged."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from kraft.pipeline.on_spark import SparkWorkers
from kraft.spark.garbage import spare_imports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frozen(task: int) -> int:
    return gc.get_freeze_count()


def test_modules_are_spared_in_workers_only(spark: SparkSession) -> None:
    gc.unfreeze()                      # what the tests themselves froze
    found = [count for _, count in SparkWorkers(spark).run(frozen, [1, 2])]
    assert len(found) == 2
    assert min(found) > 10_000, "what is loaded in a worker"
    spare_imports()
    assert gc.get_freeze_count() == 0
