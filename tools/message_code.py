"""Writes the Python module of one message from its schema."""

import re
from collections.abc import Callable, Iterator

from tools.schema import Field, Schema, SchemaError, Struct, Versions

COLUMNS_MAX = 120
ReadCode = Callable[[str, Field, bool], str]
PYTHON_TYPES = {
    "bool": "bool", "int8": "int", "int16": "int", "uint16": "int", "int32": "int", "uint32": "int", "int64": "int",
    "float64": "float", "uuid": "UUID", "string": "str", "bytes": "bytes", "records": "bytes",
}
# Names of the reader's and the writer's method where it is not the type's own.
METHODS = {"bool": "boolean", "bytes": "blob", "records": "blob"}


def condition(versions: Versions, within: Versions) -> str:
    """The test that `version`, which lies in `within`, is one of `versions`; empty when it always is."""
    wanted = versions & within
    if wanted.first <= within.first:
        return "" if wanted.last >= within.last else f"version <= {wanted.last}"
    if wanted.last >= within.last:
        return f"version >= {wanted.first}"
    if wanted.first == wanted.last:
        return f"version == {wanted.first}"
    return f"{wanted.first} <= version <= {wanted.last}"


def python_type(field: Field) -> str:
    """Python type of the field, or of one element where the field is an array."""
    return PYTHON_TYPES.get(field.kind, field.kind)


def default_code(field: Field) -> str:
    """The default as an expression that makes a new value each time."""
    if field.default is None:
        return "None"
    if field.is_array:
        return "[]"
    if field.kind == "uuid":
        return "ZERO_UUID"
    if field.is_struct:
        return f"{field.kind}()"
    if field.kind in ("bytes", "records"):
        return 'b""'
    return '""' if field.default == "" else repr(field.default)


def differs_code(field: Field) -> str:
    """The test that the field has not its default."""
    value = f"self.{field.attribute}"
    if field.default is None:
        return f"{value} is not None"
    if field.kind == "bool" and not field.is_array:
        return f"not {value}" if field.default else value
    return f"{value} != {default_code(field)}"


class MessageCode:
    """The module of `schema`, as lines."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.struct_by_name = {struct.name: struct for struct in schema.structs}

    def has_arrays(self, struct: Struct) -> bool:
        """Report an array in the struct, or in one inside it."""
        return any(field.is_array or self.leads_to_arrays(field) for field in struct.fields)

    def leads_to_arrays(self, field: Field) -> bool:
        return field.is_struct and self.has_arrays(self.struct_by_name[field.kind])

    def text(self) -> str:
        """The whole module."""
        body = [line for struct in self.schema.structs for line in ("", "", *self.struct(struct))]
        return "\n".join([*self.head("\n".join(body)), *body, ""])

    def head(self, body: str) -> Iterator[str]:
        schema = self.schema
        first, last = schema.versions.first, schema.versions.last
        versions = f"versions {first} to {last}" if first < last else f"version {first}"
        flexible = f"flexible from {schema.flexible.first}" if schema.flexible else "never flexible"
        yield f'"""{schema.name}, {versions}, {flexible}.'
        yield ""
        yield f"Made by tools/protocol.py from schemas/messages/{schema.name}.json: change that."
        yield '"""'
        yield ""
        names = [name for name in ("Generator", "Iterable") if f"{name}[" in body]
        if names:
            yield f"from collections.abc import {', '.join(names)}"
        if "EllipsisType" in body:
            yield "from types import EllipsisType"
        yield "from typing import Self"
        if "UUID " in body or "UUID]" in body:
            yield "from uuid import UUID"
        yield ""
        wanted = (("ZERO_UUID", "ZERO_UUID"), ("Message", "(Message)"), ("Struct", "(Struct)"), ("Tags", ": Tags"),
                  ("absent", "absent("))
        names = [name for name, use in wanted if use in body]
        yield f"from kraft.protocol.message import {', '.join(names)}"
        yield "from kraft_native.base.wire import WireReader, WireWriter"
        steps = sorted(set(re.findall(r"\b(\w+_steps)\(\s*(?:r|value), [\w.]+", body)) - {"read_steps"})
        if steps:
            line = f"from kraft_native.base.wire_steps import {', '.join(steps)}"
            lines = ["from kraft_native.base.wire_steps import (", *(f"    {name}," for name in steps), ")"]
            yield from [line] if len(line) <= COLUMNS_MAX else lines

    def struct(self, struct: Struct) -> Iterator[str]:
        is_message = struct is self.schema.message
        yield f"class {struct.name}({'Message' if is_message else 'Struct'}):"
        names = [field.attribute for field in struct.fields] + ["unknown_tags"] * bool(self.schema.flexible)
        yield from wrapped("    __slots__ = (", [f'"{name}"' for name in names], ")")
        if is_message:
            yield from self.constants()
        yield ""
        yield from indented(self.initializer(struct))
        yield ""
        yield from indented(self.reader(struct))
        if self.has_arrays(struct):
            yield ""
            yield from indented(self.step_reader(struct))
        yield ""
        yield from indented(self.writer(struct))

    def constants(self) -> Iterator[str]:
        schema = self.schema
        if schema.api_key >= 0:
            yield f"    API_KEY = {schema.api_key}"
        first = f"{schema.versions.first}, " if schema.versions.first else ""
        yield f"    VERSIONS = range({first}{schema.versions.last + 1})"
        if schema.flexible:
            yield f"    FLEXIBLE_FROM = {schema.flexible.first}"

    def initializer(self, struct: Struct) -> Iterator[str]:
        parameters: list[str] = []
        body: list[str] = []
        for field in struct.fields:
            parameter, value = initializer_code(field)
            parameters.append(f"{field.attribute}: {parameter}")
            body += assignment(field.attribute, value)
        if self.schema.flexible:
            parameters.append("unknown_tags: Tags = ()")
            body.append("    self.unknown_tags = unknown_tags")
        if parameters:
            yield "def __init__("
            yield "    self, *,"
            yield from (f"    {parameter}," for parameter in parameters)
            yield ") -> None:"
            yield from body
        else:
            yield "def __init__(self) -> None:"
            yield "    pass"

    def reader(self, struct: Struct) -> Iterator[str]:
        yield "@classmethod"
        yield "def read(cls, r: WireReader, version: int) -> Self:"
        yield from self.reader_body(struct, self.read_code)

    def step_reader(self, struct: Struct) -> Iterator[str]:
        yield "@classmethod"
        yield "def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:"
        yield from self.reader_body(struct, self.step_code)

    def reader_body(self, struct: Struct, code: ReadCode) -> Iterator[str]:
        tagged = [field for field in struct.fields if field.tag is not None]
        yield f"    {'struct =' if tagged else 'return'} cls("
        for field in struct.fields:
            if field.tag is None:
                yield from argument(field.attribute, self.read_versioned(struct, field, code))
        if self.schema.flexible and not tagged:
            yield "        unknown_tags=r.unknown_tags(),"
        yield "    )"
        if tagged:
            yield from self.tag_reader(tagged, code)

    def tag_reader(self, tagged: list[Field], code: ReadCode) -> Iterator[str]:
        yield "    unknown = []"
        yield "    for tag, value in r.tags():"
        word = "if"
        for field in sorted(tagged, key=lambda each: each.tag or 0):
            test = condition(field.versions, self.schema.flexible)
            yield f"        {word} tag == {field.tag}{test and f' and {test}'}:"
            line = f"            struct.{field.attribute} = {code('value', field, bool(field.nullable))}"
            if len(line) + len("    ") > COLUMNS_MAX:
                line = line.replace("_steps(value, ", "_steps(\n                value, ")
            yield from line.split("\n")
            yield "            value.finish()"
            word = "elif"
        yield "        else:"
        yield "            unknown.append((tag, value.rest()))"
        yield "    struct.unknown_tags = tuple(unknown)"
        yield "    return struct"

    def read_versioned(self, struct: Struct, field: Field, read_code: ReadCode) -> str:
        """The field's value from `r` in every version of the struct."""
        code = read_code("r", field, bool(field.nullable))
        if (struct.name, field.name) in self.schema.inflexible:
            code = legacy(field, code)
        nullable = condition(field.nullable, field.versions) if field.nullable else ""
        present = condition(field.versions, struct.versions)
        if nullable:
            code = f"{code} if {nullable} else {read_code('r', field, False)}"
            if present:
                code = f"({code})"
        return f"{code} if {present} else {default_code(field)}" if present else code

    def read_code(self, r: str, field: Field, nullable: bool) -> str:
        prefix = "nullable_" if nullable else ""
        if field.is_struct:
            if field.is_array:
                return f"{r}.{prefix}structs({field.kind}.read, version)"
            if nullable:
                return f"{r}.{nullable_struct_method(field)}({field.kind}.read, version)"
            return f"{field.kind}.read({r}, version)"
        method = METHODS.get(field.kind, field.kind)
        return f"{r}.{prefix}array({r}.{method})" if field.is_array else f"{r}.{prefix}{method}()"

    def step_code(self, r: str, field: Field, nullable: bool) -> str:
        """Code of `read_code`, in steps where the field is an array or a struct that has one."""
        prefix = "nullable_" if nullable else ""
        inner = self.leads_to_arrays(field)
        if not field.is_array and not inner:
            return self.read_code(r, field, nullable)
        if not field.is_struct:
            call = f"{prefix}array_steps({r}, {r}.{METHODS.get(field.kind, field.kind)})"
        elif field.is_array and inner:
            call = f"{prefix}nested_steps({r}, {field.kind}.read_steps, version)"
        elif field.is_array:
            call = f"{prefix}structs_steps({r}, {field.kind}.read, version)"
        elif nullable:
            call = f"{nullable_struct_method(field)}_steps({r}, {field.kind}.read_steps, version)"
        else:
            call = f"{field.kind}.read_steps({r}, version)"
        return f"(yield from {call})"

    def writer(self, struct: Struct) -> Iterator[str]:
        yield "def write(self, w: WireWriter, version: int) -> None:"
        for field in struct.fields:
            if field.tag is None:
                yield from indented(self.write_versioned(struct, field))
        tagged = sorted((field for field in struct.fields if field.tag is not None), key=lambda each: each.tag or 0)
        if tagged:
            yield "    tags = list(self.unknown_tags)"
            for field in tagged:
                yield from indented(self.tag_writer(struct, field))
            yield "    w.tags(tags)"
        elif self.schema.flexible:
            yield "    w.tags(self.unknown_tags)"
        elif not struct.fields:
            yield "    pass"

    def write_versioned(self, struct: Struct, field: Field) -> Iterator[str]:
        """Statements that write the field in the versions that have it, and refuse it in those that cannot drop it."""
        code = self.write_code("w", field, bool(field.nullable))
        if (struct.name, field.name) in self.schema.inflexible:
            code = legacy(field, code)
        nullable = condition(field.nullable, field.versions) if field.nullable else ""
        present = condition(field.versions, struct.versions)
        lines = [code]
        if nullable:
            lines = [f"if {nullable}:", f"    {code}", "else:", f"    {self.write_code('w', field, False)}"]
        if not present:
            yield from lines
            return
        yield f"if {present}:"
        yield from indented(lines)
        if not field.ignorable:
            yield f"elif {differs_code(field)}:"
            yield f'    raise absent(self, "{field.attribute}", version)'

    def tag_writer(self, struct: Struct, field: Field) -> Iterator[str]:
        present = condition(field.versions, struct.versions)
        differs = differs_code(field)
        if present and field.ignorable:
            yield f"if {present} and {differs}:"
        else:
            yield f"if {differs}:"
            if present:
                yield f"    if {inverse(present)}:"
                yield f'        raise absent(self, "{field.attribute}", version)'
        yield "    value = WireWriter(True)"
        yield f"    {self.write_code('value', field, bool(field.nullable))}"
        yield f"    tags.append(({field.tag}, value.finish()))"

    def write_code(self, w: str, field: Field, nullable: bool) -> str:
        prefix, value = "nullable_" if nullable else "", f"self.{field.attribute}"
        if field.is_struct:
            if field.is_array:
                return f"{w}.{prefix}structs({value}, version)"
            if nullable:
                return f"{w}.{nullable_struct_method(field)}({value}, version)"
            return f"{value}.write({w}, version)"
        method = METHODS.get(field.kind, field.kind)
        return f"{w}.{prefix}array({w}.{method}, {value})" if field.is_array else f"{w}.{prefix}{method}({value})"


def initializer_code(field: Field) -> tuple[str, str]:
    """Annotation and default of the parameter, and what the attribute is set to."""
    name, kind = field.attribute, python_type(field)
    null = " | None" if field.nullable else ""
    if field.is_array:
        default = "None" if field.default is None else "()"
        value = f"None if {name} is None else list({name})" if null else f"list({name})"
        return f"Iterable[{kind}]{null} = {default}", value
    if field.is_struct and field.default is not None:
        if null:
            return f"{kind} | EllipsisType | None = ...", f"{kind}() if {name} is ... else {name}"
        return f"{kind} | None = None", f"{kind}() if {name} is None else {name}"
    return f"{kind}{null} = {default_code(field)}", name


def nullable_struct_method(field: Field) -> str:
    """Kafka marks null in one way in the value of a tag, and in another elsewhere."""
    return "nullable_struct" if field.tag is None else "tagged_struct"


def inverse(test: str) -> str:
    """The opposite of a test that `condition` made."""
    if test.count("<=") == 2:
        return f"not {test}"
    for operator, opposite in ((">=", "<"), ("<=", ">"), ("==", "!=")):
        if f" {operator} " in test:
            return test.replace(f" {operator} ", f" {opposite} ")
    raise AssertionError(test)


def legacy(field: Field, code: str) -> str:
    if ".nullable_string(" not in code:
        raise SchemaError(f"{field.name}: only nullable strings may keep the old encoding")
    return code.replace(".nullable_string(", ".legacy_nullable_string(")


def argument(name: str, value: str) -> Iterator[str]:
    """A keyword argument on a line of its own, or on several where one is too wide; in a method, in a call."""
    if 8 + 4 + len(name) + 1 + len(value) + 1 <= COLUMNS_MAX:
        yield f"        {name}={value},"
    else:
        yield f"        {name}=("
        yield from (f"            {part}" for part in re.split(r" (?=if |else )", value))
        yield "        ),"


def assignment(name: str, value: str) -> Iterator[str]:
    """Assignment in a method; on three lines where one is too wide."""
    if 4 + 4 + len(f"self.{name} = {value}") <= COLUMNS_MAX:
        yield f"    self.{name} = {value}"
    else:
        yield f"    self.{name} = ("
        yield f"        {value}"
        yield "    )"


def wrapped(start: str, parts: list[str], end: str) -> Iterator[str]:
    """A tuple on as many lines as it needs."""
    one_line = f"{start}{', '.join(parts)}{',' if len(parts) == 1 else ''}{end}"
    if len(one_line) <= COLUMNS_MAX:
        yield one_line
        return
    yield start
    line = " " * 7
    for part in parts:
        if len(line) + len(part) + 2 > COLUMNS_MAX:
            yield line
            line = " " * 7
        line += f" {part},"
    yield line
    yield f"    {end}"


def indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {line}" if line else ""
