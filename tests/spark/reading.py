"""Reads with the data source's own classes, as Spark uses them, but in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict

from kraft.spark.options import read_options
from kraft.spark.source import BatchReader, KraftSource
from kraft.spark.tasks import TaskRanges


def reader(options: Mapping[str, str], *columns: str) -> BatchReader:
    """A batch reader, of all columns or only of the named ones."""
    source = KraftSource(CaseInsensitiveDict(options))
    schema = source.schema()
    if columns:
        schema = type(schema)([schema[name] for name in columns])
    found = source.reader(schema)
    assert isinstance(found, BatchReader)
    return found


def table(options: Mapping[str, str], *columns: str) -> pa.Table:
    """Return all rows of a query."""
    batches = reader(options, *columns)
    rows = []
    for task in batches.partitions():
        assert isinstance(task, TaskRanges)
        rows += list(batches.read(task))
    return pa.Table.from_batches(rows) if rows else pa.table({})


def rows(options: Mapping[str, str], *columns: str) -> list[dict[str, Any]]:
    """Return them as plain values."""
    found: list[dict[str, Any]] = table(options, *columns).to_pylist()
    return found


def offsets(options: Mapping[str, str]) -> list[int]:
    """Return the offsets of all rows, sorted."""
    read_options(options, streaming=False)
    found = table(options, "offset")
    return sorted(found["offset"].to_pylist()) if len(found.columns) else []
