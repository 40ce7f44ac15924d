"""Directories that Kafka wrote: every record as Kafka's own consumers saw it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.golden import GoldenPartition, golden, needs_golden, partitions
from tests.spark.reading import rows

ISOLATIONS = ("read_uncommitted", "read_committed")
ALL = {"startingOffsets": "earliest", "includeHeaders": "true"}
BYTES_SHOWN = 4096


def options(partition: GoldenPartition, isolation: str) -> dict[str, str]:
    topic, _, number = partition.name.rpartition("-")
    return {**ALL, "path": str(golden("log", "data")), "assign": f'{{"{topic}":[{number}]}}',
            "kafka.isolation.level": isolation}


def shown(data: bytes | None, short: bool = True) -> Any:
    """Return bytes in the form of the expectations: long ones by their digest."""
    if data is None or (short and len(data) <= BYTES_SHOWN):
        return None if data is None else data.hex()
    return {"len": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def expected_row(record: dict[str, Any]) -> dict[str, Any]:
    """Return an expected record in the form that rows are compared with."""
    return {"offset": record["offset"], "timestamp": record["timestamp"], "key": record["key"],
            "timestampType": ["CreateTime", "LogAppendTime"].index(record["timestamp_type"]),
            "value": record.get("value_ref", record.get("value")), "headers": record["headers"]}


def found_row(row: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    headers = [[each["key"], shown(each["value"])] for each in row["headers"] or ()]
    return {"offset": row["offset"], "timestamp": round(row["timestamp"].timestamp() * 1000), "key": shown(row["key"]),
            "timestampType": row["timestampType"],
            "value": shown(row["value"], not isinstance(expected["value"], dict)), "headers": headers}


@needs_golden
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_every_record(partition: GoldenPartition, isolation: str) -> None:
    found = rows(options(partition, isolation))
    expected = [expected_row(each) for each in partition.records()]
    if isolation == "read_committed":
        visible = {offset for first, last in partition.expected["read_committed_offsets"]
                   for offset in range(first, last + 1)}
        expected = [each for each in expected if each["offset"] in visible]
    assert [found_row(row, each) for row, each in zip(found, expected, strict=True)] == expected
    topic, _, number = partition.name.rpartition("-")
    assert {(row["topic"], row["partition"]) for row in found} <= {(topic, int(number))}
    assert all(row["headers"] != [] for row in found), "a record without headers has null"
