"""Filters are not pushed down: Spark 4.3 gives wrong rows when a Python data source accepts them.

When `test_spark_still_mixes_up_filters` fails, that Spark has no such bug: consider pushing filters down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

from kraft.spark.source import BatchReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILTERS = "spark.sql.python.filterPushdown.enabled"


class FourRows(DataSource):
    """The numbers 0 to 3; the source applies an equality itself."""

    @classmethod
    def name(cls) -> str:
        return "fourrows"

    def schema(self) -> str:
        return "p int"

    def reader(self, schema: StructType) -> DataSourceReader:
        return FourRowsReader()


class FourRowsReader(DataSourceReader):
    wanted: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for each in filters:
            if isinstance(each, EqualTo):
                self.wanted = each.value
            else:
                yield each

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((p,) for p in range(4) if self.wanted in (None, p))


def test_ours_takes_none() -> None:
    assert BatchReader.pushFilters is DataSourceReader.pushFilters


def test_spark_still_mixes_up_filters(spark: SparkSession) -> None:
    spark.dataSource.register(FourRows)
    spark.conf.set(FILTERS, "true")
    try:
        frame = spark.read.format("fourrows").load()
        assert frame.count() == 4
        assert frame.where("p = 1").count() == 1
        assert frame.count() == 1, "it would be 4: the bug is fixed"
    finally:
        spark.conf.unset(FILTERS)
