"""Messages with seeded values in every field that a version carries, unknown tags among them."""

import random
from typing import Any
from uuid import UUID

from tests.protocol.json_form import default_value, struct_class
from tools.schema import Field, Schema, Struct

INTEGER_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
UNKNOWN_TAG_FIRST = 2000


def sample(schema: Schema, version: int, source: random.Random) -> Any:
    """A message of ours that can be encoded in `version`."""
    return sample_struct(schema, schema.message, version, source)


def sample_struct(schema: Schema, struct: Struct, version: int, source: random.Random) -> Any:
    values = {field.attribute: sample_field(schema, field, version, source)
              for field in struct.fields if version in field.versions}
    if version in schema.flexible and source.random() < 0.3:
        tag = source.randrange(UNKNOWN_TAG_FIRST, 2**32)
        values["unknown_tags"] = ((UNKNOWN_TAG_FIRST - 1, b""), (tag, source.randbytes(source.randrange(40))))
    return struct_class(schema, struct.name)(**values)


def sample_field(schema: Schema, field: Field, version: int, source: random.Random) -> Any:
    if version in field.nullable and source.random() < 0.15:
        return None
    if field.tag is not None and source.random() < 0.3:
        return default_value(schema, field)
    if field.is_array:
        return [sample_one(schema, field, version, source) for _ in range(source.choice((0, 1, 1, 2)))]
    return sample_one(schema, field, version, source)


def sample_one(schema: Schema, field: Field, version: int, source: random.Random) -> Any:
    kind = field.kind
    if field.is_struct:
        return sample_struct(schema, next(each for each in schema.structs if each.name == kind), version, source)
    if kind in INTEGER_BITS:
        high = 1 << INTEGER_BITS[kind]
        return source.choice((-high, -1, 0, 1, high - 1, source.randrange(-high, high)))
    if kind in ("uint16", "uint32"):
        return source.getrandbits(int(kind.removeprefix("uint")))
    if kind == "bool":
        return source.random() < 0.5
    if kind == "float64":
        return source.uniform(-1e9, 1e9)
    if kind == "uuid":
        return UUID(int=source.getrandbits(128))
    size = source.choice((0, 1, 3, 20, 130))
    return "".join(source.choices("abcXYZ019._-é中", k=size)) if kind == "string" else source.randbytes(size)
