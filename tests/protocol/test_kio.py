"""Both ways against kio, an independent implementation with schemas of its own: same values, same bytes.

The tests cover every message and version that both know, with seeded values.
"""

import importlib.util
import io
import random
import string
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest

from kraft.protocol.message import ZERO_UUID
from tests.protocol.json_form import default_value, message_class, schemas, struct_class
from tools.schema import Field, Schema, Struct

if importlib.util.find_spec("kio") is None:
    pytest.skip("kio is not installed", allow_module_level=True)

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

OUR_TAGS_FIRST = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTEGERS = {"int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
            "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1)}
SUFFIXES = {EntityType.request: "Request", EntityType.response: "Response"}

# kio's names of messages, and ours, where the words differ.
OTHER_NAMES = {"k_raft_version_record": "KRaftVersionRecord"}


class Values:
    """Pairs of values that mean the same: the argument of kio's class, and that of ours.

    `plain` gives null, empty and default values wherever they are allowed.
    """

    def __init__(self, seed: str, *, plain: bool) -> None:
        self.random = random.Random(seed)
        self.plain = plain

    def message(self, schema: Schema, version: int, theirs: type) -> tuple[Any, Any]:
        return self.struct(schema, schema.message, version, theirs)

    def struct(self, schema: Schema, struct: Struct, version: int, theirs: type) -> tuple[Any, Any]:
        ours = [field for field in struct.fields
                if version in field.versions and (field.tag is None or field.tag < OUR_TAGS_FIRST)]
        their_fields = fields(theirs)
        assert len(ours) == len(their_fields), (schema.name, struct.name, version)
        pairs = {}
        for their_field, our_field in zip(their_fields, ours, strict=True):
            assert their_field.metadata.get("tag") == our_field.tag
            pairs[their_field.name, our_field.attribute] = self.field(schema, our_field, version, their_field)
        return (
            theirs(**{name: pair[0] for (name, _), pair in pairs.items()}),
            struct_class(schema, struct.name)(**{name: pair[1] for (_, name), pair in pairs.items()}),
        )

    def field(self, schema: Schema, field: Field, version: int, theirs: Any) -> tuple[Any, Any]:
        kind = theirs.metadata.get("kafka_type")
        if version in field.nullable and (self.plain or self.random.random() < 0.2) and \
                (field.tag is None or default_value(schema, field) is None):
            return None, None
        if not field.is_array:
            return self.one(schema, field, version, theirs.type, kind)
        count = 0 if self.plain else self.random.choice((0, 1, 1, 2, 3))
        types = (theirs.type, *get_args(theirs.type))
        element = next(each for each in types if getattr(each, "__origin__", None) is tuple)
        pairs = [self.one(schema, field, version, get_args(element)[0], kind) for _ in range(count)]
        return tuple(pair[0] for pair in pairs), [pair[1] for pair in pairs]

    def one(self, schema: Schema, field: Field, version: int, theirs: Any, kind: str | None) -> tuple[Any, Any]:
        if field.is_struct:
            their_class = next(each for each in (theirs, *get_args(theirs)) if hasattr(each, "__dataclass_fields__"))
            struct = next(each for each in schema.structs if each.name == field.kind)
            return self.struct(schema, struct, version, their_class)
        return self.primitive(field, kind, optional=type(None) in get_args(theirs))

    def primitive(self, field: Field, kind: str | None, *, optional: bool) -> tuple[Any, Any]:
        """Return one value. kio has classes of its own for codes, durations and times, and None for the zero uuid."""
        if kind == "error_code":
            code = self.random.choice(tuple(ErrorCode))
            return code, int(code)
        if kind in ("timedelta_i32", "timedelta_i64"):
            milliseconds = self.random.randrange(-1, 2**31)
            return timedelta(milliseconds=milliseconds), milliseconds
        if kind == "datetime_i64":
            if optional and self.plain:
                return None, -1
            milliseconds = self.random.randrange(2**42)
            return EPOCH + timedelta(milliseconds=milliseconds), milliseconds
        if field.kind == "uuid":
            uuid = ZERO_UUID if self.plain else UUID(int=self.random.getrandbits(128))
            return (None if optional and uuid == ZERO_UUID else uuid), uuid
        value = self.value(field.kind)
        return value, value

    def value(self, kind: str) -> Any:
        if kind in INTEGERS:
            low, high = INTEGERS[kind]
            return self.random.choice((low, -1 if low else 1, 0, 1, high, self.random.randint(low, high)))
        if kind == "bool":
            return self.random.random() < 0.5
        if kind == "float64":
            return self.random.uniform(-1e9, 1e9)
        size = 0 if self.plain else self.random.choice((0, 1, 5, 127, 128, 300))
        if kind == "string":
            return "".join(self.random.choices(string.printable + "é中\U0001f600", k=size))
        return self.random.randbytes(size)


def known() -> Iterator[tuple[str, int, EntityType, str]]:
    """Return our name, version, kind and kio's name of every message and version that kio has."""
    for name, versions in schema_name_map.items():
        for version, kinds in versions.items():
            for kind in kinds:
                words = "".join(word.capitalize() for word in name.split("_")) + SUFFIXES.get(kind, "")
                yield OTHER_NAMES.get(name, words), version, kind, name


def compare(name: str, version: int, theirs: type, values: Values) -> None:
    their_message, our_message = values.message(schemas()[name], version, theirs)
    with io.BytesIO() as buffer:
        entity_writer(theirs)(buffer, their_message)
        their_bytes = buffer.getvalue()
    our_bytes = our_message.encode(version)
    assert our_bytes == their_bytes
    assert message_class(name).decode(their_bytes, version, exact=True) == our_message
    assert entity_reader(theirs)(our_bytes, 0) == (their_message, len(our_bytes))


def test_every_message_that_both_know() -> None:
    """All are in one test: kio's thousands of classes are slow to import, and are needed once."""
    from kio.index import load_entity_schema
    wrong, seen = [], set()
    for name, version, kind, their_name in known():
        if name not in schemas() or version not in schemas()[name].versions:
            wrong.append(f"{name} version {version} is not known here")
            continue
        seen.add((name, version))
        theirs = load_entity_schema(their_name, version, kind)
        for seed in range(3):
            try:
                compare(name, version, theirs, Values(f"{name} {version} {seed}", plain=seed == 0))
            except Exception as error:  # noqa: BLE001  kio's own exceptions are findings too
                wrong.append(f"{name} version {version} seed {seed}: {type(error).__name__} {error}"[:600])
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:20])
    assert len(seen) > 600
