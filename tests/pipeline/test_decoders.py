"""Decoders: their results, and the values that they refuse."""

import datetime as dt
import io
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kraft.cli import command
from kraft.pipeline.decoders import Decoded, DecoderSpec, decode_column, make_decoder, spec_from_files
from kraft_native.base.errors import InvalidArgumentError

MOMENT = dt.datetime(2026, 11, 22, 1, 2, 3, 456_000, dt.UTC)


def decode(spec: DecoderSpec, *values: bytes | None) -> Decoded:
    found = decode_column(make_decoder(spec), pa.array(values, pa.binary()), spec.skip_bytes)
    assert len(found.values) == len(found.undecoded) == len(values)
    return found


def test_text() -> None:
    found = decode(DecoderSpec("text"), "grün".encode(), None, b"\xff", b"")
    assert found.values.to_pylist() == ["grün", None, None, ""]
    assert found.undecoded.to_pylist() == [None, None, b"\xff", None]


def test_json_of_every_type() -> None:
    form = {"a": "boolean", "b": "int", "c": "long", "d": "float", "e": "double", "f": "string", "g": "timestamp",
            "h": ["long"], "i": {"j": ["string"]}}
    row = {"a": True, "b": 1, "c": 2**40, "d": 0.5, "e": 1e300, "f": "x\ny", "g": "2026-11-22T01:02:03", "h": [1, None],
           "i": {"j": ["k"]}}
    found = decode(DecoderSpec("json", json.dumps(form)), json.dumps(row).encode(), json.dumps(row, indent=2).encode(),
                   b'{"z": 1}')
    wanted = {**row, "g": dt.datetime(2026, 11, 22, 1, 2, 3, tzinfo=dt.UTC).replace(tzinfo=None)}
    assert found.values.to_pylist() == [wanted, wanted, dict.fromkeys(form)]
    assert found.undecoded.null_count == 3


@pytest.mark.parametrize("bad", [b"", b" ", b"1", b"[]", b'{"a": 1} {"a": 2}', b'{"a": 1', b'{"a": 2.5}', b"\xff",
                                 b'{"a": "\xff"}x'])
def test_json_that_is_none(bad: bytes) -> None:
    """A bad value neither moves nor hides another one."""
    good = b'{"a": 7}'
    found = decode(DecoderSpec("json", '{"a": "long"}'), good, bad, None, good, bad, bad, good)
    assert found.values.to_pylist() == [{"a": 7}, None, None, {"a": 7}, None, None, {"a": 7}]
    assert found.undecoded.to_pylist() == [None, bad, None, None, bad, bad, None]


AVRO = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "counts", "type": {"type": "map", "values": "int"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}}]}


def avro(row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), row)
    return stream.getvalue()


def test_avro_behind_a_registry_header() -> None:
    row = {"id": 7, "note": None, "at": MOMENT, "tags": ["x"], "counts": {"a": 1}, "kind": "B", "hash": b"12"}
    data = b"\0\0\0\0\x09" + avro(row)
    found = decode(DecoderSpec("avro", json.dumps(AVRO), skip_bytes=5), data, None, data[:-1], data + b"x", b"\0")
    assert found.values.to_pylist() == [{**row, "counts": [("a", 1)]}, None, None, None, None]
    assert found.undecoded.to_pylist() == [None, None, data[:-1], data + b"x", b"\0"]


def protobuf() -> tuple[str, Any]:
    """Return a descriptor set as protoc writes it, and the message's class."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="SMALL", number=0)
    kind.value.add(name="LARGE", number=1)
    item = file.message_type.add(name="Item")
    item.field.add(name="name", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="raw", number=2, type=12, label=1)
    order.field.add(name="items", number=3, type=11, type_name=".shop.Item", label=3)
    order.field.add(name="kind", number=4, type=14, type_name=".shop.Kind", label=1)
    order.field.add(name="first", number=5, type=11, type_name=".shop.Item", label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode(), message


def test_protobuf() -> None:
    schema, message = protobuf()
    data = message(id=7, raw=b"\xff", items=[{"name": "a"}, {}], kind=1).SerializeToString()
    found = decode(DecoderSpec("protobuf", schema, "shop.Order"), data, None, b"\xff\xff", b"")
    assert found.values.to_pylist() == [
        {"id": 7, "raw": b"\xff", "items": [{"name": "a"}, {"name": ""}], "kind": "LARGE", "first": None}, None, None,
        {"id": 0, "raw": b"", "items": [], "kind": "SMALL", "first": None}]
    assert found.undecoded.to_pylist() == [None, None, b"\xff\xff", None]


@pytest.mark.parametrize(("spec", "text"), [
    (DecoderSpec("json", '{"a": "number"}'), "'number' is not one of boolean"),
    (DecoderSpec("json", '["long"]'), "an object that names fields"),
    (DecoderSpec("avro", '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}'),
     "R contains itself"),
    (DecoderSpec("avro", '["int", "string"]'), "is not of null and one type"),
    (DecoderSpec("avro", '{"type": "nothing"}'), "schema: "),
    (DecoderSpec("protobuf", b64encode(b"\xff").decode(), "M"), "no file descriptor set"),
    (DecoderSpec("protobuf", protobuf()[0], "shop.Nothing"), "the schema has no shop.Nothing"),
])
def test_schemas_that_cannot_be_used(spec: DecoderSpec, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        make_decoder(spec)


def test_specs_from_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{ "a": "long" }')
    assert spec_from_files("json", tmp_path / "a.json") == DecoderSpec("json", '{"a": "long"}')
    for kind, schema, message, text in (("json", None, "", "needs one"), ("bytes", tmp_path / "a.json", "", "has none"),
                                        ("xml", None, "", "not one of"), ("bytes", None, "m", "message")):
        with pytest.raises(InvalidArgumentError, match=text):
            spec_from_files(kind, schema, message)


@pytest.mark.parametrize(("kind", "content", "text"), [
    ("json", b"not json", "not JSON"), ("json", b"\xff", "not JSON"), ("json", b"5", "an object that names fields"),
    ("avro", b"{", "not JSON"), ("avro", b"5", "5 is no schema of Avro"), ("avro", b'{"type":"nope"}', "nope"),
    ("protobuf", b"\x00\x01junk", "no file descriptor set"),
])
def test_a_schema_file_of_another_kind_is_one_sentence(tmp_path: Path, kind: str, content: bytes, text: str,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "schema").write_bytes(content)
    message = ["--message", "x.Y"] if kind == "protobuf" else []
    assert command.run(["pipeline", "export", str(tmp_path / "table"), "--from", str(tmp_path), "--value", kind,
                        "--schema", str(tmp_path / "schema"), *message]) == 1
    printed = capsys.readouterr().err
    assert text in printed
    assert printed.startswith("kraft: schema")
    assert printed.count("\n") == 1
