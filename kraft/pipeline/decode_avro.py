"""Decoder of Avro by fastavro: values without a container, all of the same schema. It creates a Python object per
record."""

from __future__ import annotations

import io
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from kraft.pipeline.decoding import UndecodableError, rows_to_arrow
from kraft_native.base.errors import InvalidArgumentError

TYPES: Final = {"null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
                "double": pa.float64(), "bytes": pa.binary(), "string": pa.string()}
LOGICAL_TYPES: Final = {
    "timestamp-millis": pa.timestamp("ms", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"), "local-timestamp-micros": pa.timestamp("us"), "date": pa.date32(),
    "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
}


class AvroDecoder:
    """Decoder for values of one Avro schema."""

    def __init__(self, schema: Any) -> None:
        if not isinstance(schema, dict | list | str):
            raise InvalidArgumentError(f"schema: {schema!r} is no schema of Avro")
        try:
            self._schema = fastavro.parse_schema(schema)
        except (SchemaParseException, UnknownType) as error:
            raise InvalidArgumentError(f"schema: {error}") from error
        self._named: dict[str, Any] = {}
        self.type = self._type_of(self._schema, ())

    def decode(self, values: pa.Array) -> pa.Array:
        rows: list[Any] = []
        for value in values:
            data = value.as_py()
            if data is None:
                rows.append(None)
                continue
            stream = io.BytesIO(data)
            try:
                rows.append(fastavro.schemaless_reader(stream, self._schema, None))
            except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
                raise UndecodableError(f"no value of the schema: {str(error) or type(error).__name__}") from error
            if stream.tell() != len(data):
                raise UndecodableError(f"{len(data) - stream.tell()} bytes follow the value")
        return rows_to_arrow(rows, self.type)

    def _type_of(self, schema: Any, above: tuple[str, ...]) -> pa.DataType:
        if isinstance(schema, list):
            inner = [each for each in schema if each != "null"]
            if len(inner) != 1:
                raise InvalidArgumentError(f"schema: the union {schema!r} is not of null and one type")
            return self._type_of(inner[0], above)
        if isinstance(schema, str):
            if schema in TYPES:
                return TYPES[schema]
            if schema in above or schema not in self._named:
                raise InvalidArgumentError(f"schema: {schema} contains itself" if schema in above
                                           else f"schema: {schema} is not known")
            return self._type_of(self._named[schema], above)
        kind = schema["type"]
        if (logical := schema.get("logicalType")) in LOGICAL_TYPES:
            return LOGICAL_TYPES[logical]
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        if logical == "uuid" or kind == "enum":
            return pa.string()
        if kind == "record":
            self._named[schema["name"]] = schema
            return pa.struct([pa.field(each["name"], self._type_of(each["type"], (*above, schema["name"])))
                              for each in schema["fields"]])
        if kind == "array":
            return pa.list_(self._type_of(schema["items"], above))
        if kind == "map":
            return pa.map_(pa.string(), self._type_of(schema["values"], above))
        return pa.binary(schema["size"]) if kind == "fixed" else self._type_of(kind, above)
