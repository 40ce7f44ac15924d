"""Decoder of JSON by Arrow's own reader, many values at a time.

A schema is JSON itself: `{"id": "long", "price": "double", "tags": ["string"], "who": {"name": "string"}}`. Fields that
it does not name are dropped, fields that a value lacks are null. Timestamps are ISO 8601.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from kraft.pipeline.decoding import UndecodableError, without_nulls
from kraft_native.base.errors import InvalidArgumentError

# Type names in the JSON form of a schema. Lists are written as a list, structs as an object.
TYPES: Final = {"boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
                "double": pa.float64(), "string": pa.string(), "timestamp": pa.timestamp("ms")}
BLOCK_BYTES: Final = 8 << 20


def type_of(form: object) -> pa.DataType:
    """Return the Arrow type of a schema's JSON form."""
    if isinstance(form, str) and form in TYPES:
        return TYPES[form]
    if isinstance(form, list) and len(form) == 1:
        return pa.list_(type_of(form[0]))
    if isinstance(form, dict) and form:
        return pa.struct([pa.field(name, type_of(inner)) for name, inner in form.items()])
    raise InvalidArgumentError(f"schema: {form!r} is not one of {', '.join(TYPES)}, a list of one type, or an object "
                               "that names fields")


class JsonDecoder:
    """Decoder for objects with the schema's fields."""

    def __init__(self, form: Any) -> None:
        if not isinstance(form, dict):
            raise InvalidArgumentError("schema: of JSON values an object that names fields")
        self.type = type_of(form)
        self._schema = pa.schema(list(self.type))

    def decode(self, values: pa.Array) -> pa.Array:
        return without_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> pa.Array:
        if not len(values):
            return pa.array([], self.type)
        # A raw line feed is white space in JSON: within a string it is written as an escape.
        if pc.any(pc.match_substring(values, "\n")).as_py():
            values = pc.replace_substring(values, "\n", " ")
        lines = pc.binary_join_element_wise(values, b"", b"\n")
        lengths = pc.binary_length(lines)
        size, longest = pc.sum(lengths).as_py(), pc.max(lengths).as_py()
        try:
            found = arrow_json.read_json(
                lines.buffers()[2][:size],
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=max(BLOCK_BYTES, 2 * longest)),
                parse_options=arrow_json.ParseOptions(explicit_schema=self._schema,
                                                      unexpected_field_behavior="ignore"))
        except pa.ArrowInvalid as error:
            raise UndecodableError(str(error)) from error
        if len(found) != len(values):
            raise UndecodableError(f"{len(values)} values hold {len(found)} objects")
        return found.to_struct_array().combine_chunks().cast(self.type)
