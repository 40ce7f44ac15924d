"""Decoder of Protobuf by Google's library, from a file descriptor set (`protoc --include_imports
--descriptor_set_out=FILE`). It creates a Python object per record."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from kraft.pipeline.decoding import UndecodableError, rows_to_arrow
from kraft_native.base.errors import InvalidArgumentError

TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(), FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.uint32(), FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(), FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(), FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


class ProtobufDecoder:
    """Decoder for messages of one type. A field without a value is null where the message records presence, else its
    type's default."""

    def __init__(self, descriptors: str, message: str) -> None:
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in descriptor_pb2.FileDescriptorSet.FromString(b64decode(descriptors)).file:
                pool.Add(file)
            self._descriptor = pool.FindMessageTypeByName(message)
        except (DecodeError, TypeError) as error:
            raise InvalidArgumentError(f"schema: no file descriptor set: {error}") from error
        except KeyError as error:
            raise InvalidArgumentError(f"message: the schema has no {message}") from error
        self._class = message_factory.GetMessageClass(self._descriptor)
        self.type = _type_of(self._descriptor, ())

    def decode(self, values: pa.Array) -> pa.Array:
        rows: list[Any] = []
        for value in values:
            data = value.as_py()
            try:
                rows.append(None if data is None else _plain(self._class.FromString(data)))
            except DecodeError as error:
                raise UndecodableError(f"no {self._descriptor.full_name}: {error}") from error
        return rows_to_arrow(rows, self.type)


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _type_of(message: Descriptor, above: tuple[str, ...]) -> pa.DataType:
    if message.full_name in above:
        raise InvalidArgumentError(f"schema: {message.full_name} contains itself, so no table can hold it")
    return pa.struct([pa.field(field.name, _field_type(field, (*above, message.full_name)))
                      for field in message.fields])


def _field_type(field: FieldDescriptor, above: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        inner = field.message_type.fields_by_name
        return pa.map_(_single_type(inner["key"], above), _single_type(inner["value"], above))
    single = _single_type(field, above)
    return pa.list_(single) if field.is_repeated else single


def _single_type(field: FieldDescriptor, above: tuple[str, ...]) -> pa.DataType:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _type_of(field.message_type, above)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    return TYPES[field.cpp_type]


def _plain(message: Any) -> dict[str, Any]:
    return {field.name: _plain_field(message, field) for field in message.DESCRIPTOR.fields}


def _plain_field(message: Any, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return [(key, _plain_value(each, inner)) for key, each in value.items()]
    if field.is_repeated:
        return [_plain_value(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain_value(value, field)


def _plain_value(value: Any, field: FieldDescriptor) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _plain(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        found = field.enum_type.values_by_number.get(value)
        return str(value) if found is None else found.name
    return value
