"""Writes the tables of `kraft.protocol`: API keys, APIs, error codes, types of records."""

import json
from collections.abc import Iterator
from typing import Any

from tools.schema import SCHEMAS, Schema, SchemaError, Versions, snake_case

HEAD = '''"""{what}

Made by tools/protocol.py from schemas/{source}: change that.
"""
'''


FLAGS = (("clusterAction", "cluster_action"), ("forwardable", "forwardable"), ("private", "private"))


def load(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text("utf-8"))


def range_code(text: str) -> str:
    """`3-7` -> `range(3, 8)`."""
    versions = Versions.parse(text)
    first = f"{versions.first}, " if versions.first else ""
    return f"range({first}{versions.last + 1})"


def header_versions(versions: dict[str, str]) -> dict[int, int]:
    """Header version by API version, from ranges by header version."""
    return {
        version: int(header)
        for header, text in versions.items()
        for version in range(Versions.parse(text).first, Versions.parse(text).last + 1)
    }


def flexible_from(api: dict[str, Any], request: Schema) -> str:
    """First flexible version, as code; checked against the header versions that the table states."""
    first = request.flexible.first if request.flexible else None
    for kind, flexible_header in (("requestHeader", 2), ("responseHeader", 1)):
        for version, header in header_versions(api[kind]).items():
            flexible = first is not None and version >= first
            flexible = flexible and (kind, api["name"]) != ("responseHeader", "ApiVersions")
            if header != flexible_header - (not flexible):
                raise SchemaError(f"{api['name']}: {kind} of version {version} is {header}")
    return "NEVER" if first is None else str(first)


def key_name(api: dict[str, Any]) -> str:
    """`AddPartitionsToTxn` -> `ADD_PARTITIONS_TO_TXN`."""
    return snake_case(api["name"]).upper()


def api_keys_text() -> str:
    return "\n".join(api_keys_lines()) + "\n"


def api_keys_lines() -> Iterator[str]:
    yield HEAD.format(what="Keys of all APIs.", source="apis.json")
    yield "from enum import IntEnum"
    yield ""
    yield ""
    yield "class ApiKey(IntEnum):"
    for api in load("apis.json")["apis"]:
        yield f"    {key_name(api)} = {api['key']}"


def apis_text(schemas: dict[str, Schema]) -> str:
    return "\n".join(apis_lines(schemas)) + "\n"


def apis_lines(schemas: dict[str, Schema]) -> Iterator[str]:
    yield HEAD.format(what="Every API that Kafka 4.3.1 serves, and our own.", source="apis.json")
    yield "from collections.abc import Mapping"
    yield "from types import MappingProxyType"
    yield ""
    yield "from kraft.protocol.api import Api"
    yield "from kraft.protocol.api_keys import ApiKey"
    yield "from kraft.protocol.message import NEVER"
    yield ""
    yield '__all__ = ["API_BY_KEY", "API_BY_NAME", "REMOVED_KEYS", "Api"]'
    yield ""
    yield "API_BY_KEY: Mapping[int, Api] = MappingProxyType({api.key: api for api in ("
    for api in load("apis.json")["apis"]:
        request = schemas[f"{api['name']}Request"]
        if (api["oldest"], api["latest"]) != (request.versions.first, request.versions.last):
            raise SchemaError(f"{api['name']}: the table and the schema differ in their versions")
        yield api_line(api)
        options = [f"latest_stable={api['latestStable']}", f"flexible_from={flexible_from(api, request)}"]
        options += [f"{kind}_versions={range_code(api[kind])}" for kind in ("broker", "controller") if kind in api]
        options += [f"{name}=True" for key, name in FLAGS if api.get(key)]
        yield from api_options(options)
    yield ")})"
    yield "API_BY_NAME = MappingProxyType({api.name: api for api in API_BY_KEY.values()})"
    yield ""
    yield "# Keys that Kafka used in earlier releases. They are not given to anything else."
    yield "REMOVED_KEYS = MappingProxyType({"
    for api in load("apis.json")["removed"]:
        yield f'    {api["key"]}: "{api["name"]}",'
    yield "})"


def api_line(api: dict[str, Any]) -> str:
    versions = range_code(f"{api['oldest']}-{api['latest']}")
    return f'    Api(ApiKey.{key_name(api)}, "{api["name"]}", {versions},'


def api_options(options: list[str]) -> Iterator[str]:
    line = " " * 7
    for option in options:
        if len(line) + len(option) + 2 > 118:
            yield line
            line = " " * 7
        line += f" {option},"
    yield line.removesuffix(",") + "),"


ERROR_CODE = '''\
class ErrorCode(IntEnum):
    """An error code. `message` is one clause about it in our words."""

    message: str

    def __new__(cls, code: int, message: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        return member

    @property
    def retriable(self) -> bool:
        """The same request may succeed later."""
        return self in RETRIABLE

    @property
    def refresh_metadata(self) -> bool:
        """Look the leader up again before the next attempt."""
        return self in REFRESH_METADATA

'''


def errors_text() -> str:
    return "\n".join(errors_lines()) + "\n"


def errors_lines() -> Iterator[str]:
    yield HEAD.format(what="Kafka's error codes.", source="errors.json")
    yield "from enum import IntEnum"
    yield "from typing import Self"
    yield ""
    yield ""
    yield from ERROR_CODE.splitlines()
    for error in load("errors.json")["errors"]:
        yield f'    {error["name"]} = {error["code"]}, "{error["message"]}"'
    for name, key in (("RETRIABLE", "retriable"), ("REFRESH_METADATA", "refreshMetadata")):
        yield ""
        yield "" if name == "RETRIABLE" else "# All of them are retriable."
        yield f"{name} = frozenset({{"
        yield from (f"    ErrorCode.{error['name']}," for error in load("errors.json")["errors"] if error.get(key))
        yield "})"


def record_types_text(schemas: dict[str, Schema]) -> str:
    return "\n".join(record_types_lines(schemas)) + "\n"


def record_types_lines(schemas: dict[str, Schema]) -> Iterator[str]:
    tables = load("record-types.json")
    yield HEAD.format(what="Types of records, with the names of their messages.", source="record-types.json")
    yield "from enum import IntEnum"
    yield "from types import MappingProxyType"
    yield ""
    yield "# Type -> message."
    yield "METADATA_RECORDS = MappingProxyType({"
    for record in tables["metadata"]:
        if schemas[record["name"]].api_key != record["id"]:
            raise SchemaError(f"{record['name']}: the table and the schema differ in the type")
        yield f'    {record["id"]}: "{record["name"]}",'
    yield "})"
    for name in ("group", "transaction", "share"):
        yield ""
        yield "# Type -> messages of the key and the value."
        yield f"{name.upper()}_RECORDS = MappingProxyType({{"
        for record in tables[name]:
            if schemas[record["key"]].api_key != record["id"]:
                raise SchemaError(f"{record['key']}: the table and the schema differ in the type")
            yield f'    {record["id"]}: ("{record["key"]}", "{record["value"]}"),'
        yield "})"
    yield ""
    yield ""
    yield "class ControlType(IntEnum):"
    yield '    """Types of control records."""'
    yield ""
    for record in tables["control"]:
        yield f"    {record['name']} = {record['id']}"
    yield ""
    yield ""
    yield "# Type -> message of the value."
    yield "CONTROL_RECORDS = MappingProxyType({"
    for record in tables["control"]:
        yield f'    ControlType.{record["name"]}: "{record["value"]}",'
    yield "})"
