"""Messages in the JSON form of Kafka's own converters, which the golden data uses: an oracle driven by the schemas.

Keys are camelCase; here they are compared without regard to case. Bytes are base64, uuids url-safe base64 without
padding. A tagged field with its default is left out. Where Kafka gives only the size of records, so does
`write(sizes=True)`.
"""

import base64
import functools
import importlib
from typing import Any
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message
from tools.schema import Field, Schema, Struct, load_all


@functools.cache
def schemas() -> dict[str, Schema]:
    return {schema.name: schema for schema in load_all()}


@functools.cache
def message_class(name: str) -> type[Message]:
    return getattr(importlib.import_module(f"kraft.protocol.messages.{schemas()[name].module}"), name)


def struct_class(schema: Schema, name: str) -> Any:
    return getattr(importlib.import_module(f"kraft.protocol.messages.{schema.module}"), name)


def default_value(schema: Schema, field: Field) -> Any:
    if field.default is None:
        return None
    if field.is_array:
        return []
    if field.is_struct:
        return struct_class(schema, field.kind)()
    if field.kind == "uuid":
        return ZERO_UUID
    return field.default.encode() if field.kind in ("bytes", "records") else field.default


class JsonForm:
    """Both directions of the conversion, for one message at one version."""

    def __init__(self, name: str, version: int) -> None:
        self.schema = schemas()[name]
        self.version = version
        self.structs = {struct.name: struct for struct in self.schema.structs}

    def read(self, value: dict[str, Any]) -> Any:
        """Return a message of ours from JSON. Every key must be a field of this version."""
        return self.read_struct(self.schema.message, value)

    def read_struct(self, struct: Struct, value: dict[str, Any]) -> Any:
        fields = {field.name.lower(): field for field in struct.fields if self.version in field.versions}
        given = {key.lower(): each for key, each in value.items()}
        assert given.keys() <= fields.keys(), (struct.name, given.keys() - fields.keys())
        return struct_class(self.schema, struct.name)(**{
            fields[key].attribute: self.read_field(fields[key], each) for key, each in given.items()
        })

    def read_field(self, field: Field, value: Any) -> Any:
        if value is None:
            return None
        return [self.read_one(field, each) for each in value] if field.is_array else self.read_one(field, value)

    def read_one(self, field: Field, value: Any) -> Any:
        if field.is_struct:
            return self.read_struct(self.structs[field.kind], value)
        if field.kind in ("bytes", "records"):
            return base64.b64decode(value)
        if field.kind == "uuid":
            return UUID(bytes=base64.urlsafe_b64decode(value + "=="))
        return value

    def write(self, message: Any, *, sizes: bool = False) -> dict[str, Any]:
        """Return JSON of a message of ours, with keys in lower case."""
        return self.write_struct(self.schema.message, message, sizes)

    def write_struct(self, struct: Struct, value: Any, sizes: bool) -> dict[str, Any]:
        result = {}
        for field in struct.fields:
            each = getattr(value, field.attribute)
            if self.version not in field.versions:
                continue
            if field.tag is not None and each == default_value(self.schema, field):
                continue
            if sizes and field.kind == "records":
                result[field.name.lower() + "sizeinbytes"] = -1 if each is None else len(each)
            else:
                result[field.name.lower()] = self.write_field(field, each, sizes)
        return result

    def write_field(self, field: Field, value: Any, sizes: bool) -> Any:
        if value is None:
            return None
        return [self.write_one(field, each, sizes) for each in value] if field.is_array else \
            self.write_one(field, value, sizes)

    def write_one(self, field: Field, value: Any, sizes: bool) -> Any:
        if field.is_struct:
            return self.write_struct(self.structs[field.kind], value, sizes)
        if field.kind in ("bytes", "records"):
            return base64.b64encode(value).decode()
        if field.kind == "uuid":
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        return value


def lower_keys(value: Any) -> Any:
    """Return `value` with every key in lower case."""
    if isinstance(value, dict):
        return {key.lower(): lower_keys(each) for key, each in value.items()}
    return [lower_keys(each) for each in value] if isinstance(value, list) else value
