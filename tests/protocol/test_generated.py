"""The committed code equals the generator's output for the schemas."""

import ast
from pathlib import Path

import pytest

from tools import protocol, schema


def test_nothing_is_outdated() -> None:
    assert protocol.outdated(protocol.generated()) == []


def test_a_change_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "fetch_request.py"
    path.write_text("changed by hand\n")
    missing = tmp_path / "no_such_file.py"
    assert protocol.outdated({path: "as generated\n", missing: ""})[:2] == [path, missing]


def test_no_message_imports_another() -> None:
    """A program that needs ten messages does not load three hundred."""
    allowed = {"collections.abc", "types", "typing", "uuid", "kraft.protocol.message", "kraft_native.base.wire",
               "kraft_native.base.wire_steps"}
    for path in protocol.MESSAGES.glob("*.py"):
        body = ast.parse(path.read_text("utf-8")).body
        assert {node.module for node in body if isinstance(node, ast.ImportFrom)} <= allowed
        assert not any(isinstance(node, ast.Import) for node in body)


def test_no_array_is_read_at_once_in_steps() -> None:
    """A reader in steps reads every array, and every struct that has one, in steps too. One element may hold them all.
    """
    readers = 0
    for path in protocol.MESSAGES.glob("*.py"):
        classes = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]
        methods = {each.name: {node.name: node for node in each.body if isinstance(node, ast.FunctionDef)}
                   for each in classes}
        with_steps = {name for name, each in methods.items() if "read_steps" in each}
        for name in with_steps:
            readers += 1
            for node in ast.walk(methods[name]["read_steps"]):
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                assert not called.endswith((".array", "_array", ".structs", "_structs")), (path.name, name, called)
                if isinstance(node, ast.Attribute) and node.attr == "read":
                    assert ast.unparse(node.value) not in with_steps, (path.name, name, ast.unparse(node))
    assert readers > 100


def definition(**changes: object) -> dict[str, object]:
    field = {"name": "Topics", "type": "[]Topic", "versions": "0+", "fields": [
        {"name": "Name", "type": "string", "versions": "1+"},
    ]}
    return {
        "name": "Sample", "type": "data", "validVersions": "0-1", "flexibleVersions": "none", "fields": [field],
        **changes,
    }


def test_an_element_without_bytes_is_refused() -> None:
    """An array of elements without bytes could claim any count."""
    with pytest.raises(schema.SchemaError, match="takes no byte in version 0"):
        schema.Loader(definition()).load()
    assert schema.Loader(definition(flexibleVersions="0+")).load().message.name == "Sample"


def test_a_tag_outside_flexible_versions_is_refused() -> None:
    tagged = {"name": "Rack", "type": "string", "versions": "0+", "tag": 0, "taggedVersions": "0+"}
    with pytest.raises(schema.SchemaError, match="not flexible"):
        schema.Loader(definition(fields=[tagged], flexibleVersions="1+")).load()
    with pytest.raises(schema.SchemaError, match="a tag twice"):
        schema.Loader(definition(fields=[tagged, tagged | {"name": "Zone"}], flexibleVersions="0+")).load()
