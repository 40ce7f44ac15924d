"""The columns of `format("kraft")`: those of Spark's Kafka connector, by name and type.

A schema that the user gives (`.schema("offset long, timestamp timestamp")`) selects columns and their order. That is
the only way to prune columns: Spark does not report to a Python data source which columns a query uses.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kraft_native.base.errors import InvalidArgumentError

HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(HEADER),
}


def full_schema(include_headers: bool) -> StructType:
    """Return all columns, in the connector's order."""
    return StructType([StructField(name, kind) for name, kind in TYPES.items() if include_headers or name != "headers"])


def check_schema(schema: StructType, include_headers: bool) -> StructType:
    """Return the user's schema when each column exists with that type. Otherwise raise `InvalidArgumentError`."""
    for field in schema.fields:
        kind = TYPES.get(field.name)
        if kind is None:
            raise InvalidArgumentError(f"schema: there is no column {field.name!r}; columns are {', '.join(TYPES)}")
        if _bare(field.dataType) != _bare(kind):
            raise InvalidArgumentError(f"schema: column {field.name} is {kind.simpleString()}, "
                                       f"not {field.dataType.simpleString()}")
        if field.name == "headers" and not include_headers:
            raise InvalidArgumentError("schema: column headers needs the option includeHeaders")
    if not schema.fields:
        raise InvalidArgumentError("schema: it has no columns")
    return schema


def _bare(kind: DataType) -> str:
    """Return the type's name, without nullability."""
    return kind.simpleString()
