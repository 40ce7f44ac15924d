"""Message schemas as `kraft/protocol/schemas/messages/*.json` states them, in the format of Kafka's KIPs, checked.

What a definition may say is explained in `docs/internals/wire.md`. `load_all` refuses a schema that breaks a rule the
generated code relies on: every element of an array takes at least one byte, tags are unique and in flexible versions.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.tree import ROOT

SCHEMAS = ROOT / "kraft" / "protocol" / "schemas"
VERSION_MAX = 0x7FFF

FIXED_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16,
}
VARIABLE = ("string", "bytes", "records")


@dataclass(frozen=True)
class Versions:
    """`first` to `last`, both in it; empty when `last` is smaller."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """`3`, `3-7`, `3+` or `none`."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __and__(self, other: "Versions") -> "Versions":
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True)
class Field:
    """`kind` is the type without `[]`: a primitive, or the name of a struct."""

    name: str
    kind: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    ignorable: bool

    @property
    def is_struct(self) -> bool:
        return self.kind not in FIXED_BYTES and self.kind not in VARIABLE

    @property
    def attribute(self) -> str:
        return snake_case(self.name)


@dataclass(frozen=True)
class Struct:
    """`versions` are those in which it can appear, within its message's."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Schema:
    """One message. `structs` are in an order in which each comes after those it contains; the message is the last."""

    name: str
    kind: str
    api_key: int
    versions: Versions
    flexible: Versions
    structs: tuple[Struct, ...]
    # Fields that keep the old encoding in flexible versions, as (struct, field).
    inflexible: frozenset[tuple[str, str]]

    @property
    def module(self) -> str:
        return snake_case(self.name)

    @property
    def message(self) -> Struct:
        return self.structs[-1]


def snake_case(name: str) -> str:
    """`TopicId` -> `topic_id`; `KRaft` is one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


class SchemaError(Exception):
    """A definition that the generator does not take."""


class Loader:
    """Turns one definition into a `Schema`."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.versions = Versions.parse(definition["validVersions"])
        self.flexible = Versions.parse(definition["flexibleVersions"]) & self.versions
        self.common = {struct["name"]: struct for struct in definition.get("commonStructs", [])}
        self.structs: dict[str, Struct] = {}
        self.inflexible: set[tuple[str, str]] = set()

    def load(self) -> Schema:
        definition = self.definition
        self.struct(definition["name"], self.versions, definition["fields"])
        schema = Schema(definition["name"], definition["type"], definition.get("apiKey", -1), self.versions,
                        self.flexible, tuple(self.structs.values()), frozenset(self.inflexible))
        check(schema)
        return schema

    def struct(self, name: str, versions: Versions, fields: list[dict[str, Any]]) -> None:
        """Adds the struct after those inside it."""
        loaded = tuple(field for each in fields if (field := self.field(name, versions, each)) is not None)
        if name in self.structs:
            raise SchemaError(f"{self.definition['name']}: {name} is defined twice")
        self.structs[name] = Struct(name, versions, loaded)

    def field(self, owner: str, within: Versions, definition: dict[str, Any]) -> Field | None:
        """None for a field that no valid version has."""
        versions = Versions.parse(definition["versions"]) & within
        if not versions:
            return None
        kind = definition["type"].removeprefix("[]")
        if "fields" in definition:
            self.struct(kind, versions, definition["fields"])
        elif kind in self.common and kind not in self.structs:
            common = self.common[kind]
            self.struct(kind, Versions.parse(common["versions"]) & self.versions, common["fields"])
        if definition.get("flexibleVersions") == "none":
            self.inflexible.add((owner, definition["name"]))
        field = Field(
            definition["name"], kind, definition["type"].startswith("[]"), versions,
            Versions.parse(definition.get("nullableVersions", "none")) & versions, definition.get("tag"),
            default_of(definition), definition.get("ignorable", False),
        )
        if field.tag is not None and (Versions.parse(definition["taggedVersions"]) & within) != versions:
            raise SchemaError(f"{self.definition['name']}: {field.name} is tagged in some of its versions only")
        return field


def default_of(definition: dict[str, Any]) -> Any:
    """The default: None, a number, a bool or a string; `[]` for arrays, `{}` for a struct of defaults."""
    kind, text = definition["type"], definition.get("default")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text or 0)
    if kind in FIXED_BYTES and kind != "uuid":
        return int(text or 0)
    if kind in VARIABLE:
        return text or ""
    return "" if kind == "uuid" else {}


def least_bytes(schema: Schema, struct: Struct, version: int) -> int:
    """The smallest encoding of a struct."""
    flexible = version in schema.flexible
    size = 1 if flexible else 0
    for field in struct.fields:
        if version not in field.versions or field.tag is not None:
            continue
        if field.is_array:
            size += 1 if flexible else 4
        elif field.kind in FIXED_BYTES:
            size += FIXED_BYTES[field.kind]
        elif field.kind in VARIABLE:
            size += 1 if flexible else 2
        elif version in field.nullable:
            size += 1
        else:
            size += least_bytes(schema, next(each for each in schema.structs if each.name == field.kind), version)
    return size


def check(schema: Schema) -> None:
    """Refuses what the generated code could not carry."""
    by_name = {struct.name: struct for struct in schema.structs}
    for struct in schema.structs:
        tags = [field.tag for field in struct.fields if field.tag is not None]
        if len(tags) != len(set(tags)):
            raise SchemaError(f"{schema.name}: {struct.name} uses a tag twice")
        for field in struct.fields:
            where = f"{schema.name}: {struct.name}.{field.name}"
            if field.is_struct and field.kind not in by_name:
                raise SchemaError(f"{where}: {field.kind} is no type")
            if field.tag is not None and field.versions.first < schema.flexible.first:
                raise SchemaError(f"{where}: a tag in a version that is not flexible")
            if field.is_array and field.is_struct:
                for version in range(field.versions.first, field.versions.last + 1):
                    if least_bytes(schema, by_name[field.kind], version) < 1:
                        raise SchemaError(f"{where}: an element takes no byte in version {version}")


def load(path: Path) -> Schema:
    definition = json.loads(path.read_text("utf-8"))
    if definition["name"] != path.stem:
        raise SchemaError(f"{path.name} defines {definition['name']}")
    return Loader(definition).load()


def load_all() -> list[Schema]:
    """Every message, by name."""
    return [load(path) for path in sorted((SCHEMAS / "messages").glob("*.json"))]
