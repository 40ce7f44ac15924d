"""Values of records as typed columns: what a decoder is told, and how it deals with values that it cannot read.

A decoder turns a column of bytes into a column of its type, by a maintained library; null stays null. A value that
cannot be read either ends the work or becomes null, and its bytes go into a column of their own: which rows those are
is found by halving, so that good values are decoded in bulk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kraft.pipeline.decoding import UndecodableError
from kraft_native.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("bytes", "text", "json", "avro", "protobuf")


class DecoderSpec(NamedTuple):
    """What a decoder is made of; plain values, so that it reaches other processes and a table's settings.

    `schema`: of json the JSON form below, of avro an Avro schema, of protobuf the base64 of a file descriptor set.
    `message`: the full name of the protobuf message. `skip_bytes`: in front of every value, such as the 5 of a schema
    registry's header.
    """

    format: str = "bytes"
    schema: str = ""
    message: str = ""
    skip_bytes: int = 0


class Decoder(Protocol):
    """Decodes a whole column at once. `UndecodableError` when one of the values cannot be read."""

    @property
    def type(self) -> pa.DataType: ...
    def decode(self, values: pa.Array) -> pa.Array: ...


class Decoded(NamedTuple):
    """Columns of the same length: the decoded values, and the bytes of those that could not be decoded."""

    values: pa.Array
    undecoded: pa.Array


def spec_from_files(kind: str, schema: Path | None, message: str = "", skip_bytes: int = 0) -> DecoderSpec:
    """The spec of what a command line names. `InvalidArgumentError` for what does not fit together."""
    if kind not in FORMATS:
        raise InvalidArgumentError(f"format: {kind!r} is not one of {', '.join(FORMATS)}")
    if (schema is None) != (kind in ("bytes", "text")):
        raise InvalidArgumentError(f"schema: format {kind} {'has none' if schema else 'needs one'}")
    if bool(message) != (kind == "protobuf"):
        raise InvalidArgumentError("message: the name of a protobuf message, and of nothing else")
    text = ""
    if schema is not None:
        data = schema.read_bytes()
        if kind == "protobuf":
            from base64 import b64encode

            text = b64encode(data).decode()
        else:
            try:
                text = json.dumps(json.loads(data))
            except ValueError as error:        # of JSON, and of UTF-8
                raise InvalidArgumentError(f"schema {schema}: not JSON: {error}") from error
    spec = DecoderSpec(kind, text, message, skip_bytes)
    make_decoder(spec)
    return spec


def make_decoder(spec: DecoderSpec) -> Decoder:
    """The decoder that the spec describes. `InvalidArgumentError` for a schema that it cannot use."""
    if spec.format in ("bytes", "text"):
        return _Plain(spec.format)
    if spec.format == "json":
        from kraft.pipeline.decode_json import JsonDecoder

        return JsonDecoder(json.loads(spec.schema))
    if spec.format == "avro":
        from kraft.pipeline.decode_avro import AvroDecoder

        return AvroDecoder(json.loads(spec.schema))
    from kraft.pipeline.decode_protobuf import ProtobufDecoder

    return ProtobufDecoder(spec.schema, spec.message)


class _Plain:
    """The bytes themselves, or as UTF-8."""

    def __init__(self, kind: str) -> None:
        import pyarrow as pa

        self._text = kind == "text"
        self.type: pa.DataType = pa.string() if self._text else pa.binary()

    def decode(self, values: pa.Array) -> pa.Array:
        import pyarrow as pa

        if not self._text:
            return values
        found = values.view(pa.string())
        try:
            found.validate(full=True)
        except pa.ArrowInvalid as error:
            raise UndecodableError(str(error)) from error
        return found


def decode_column(decoder: Decoder, values: pa.Array, skip_bytes: int = 0,
                  refuse: Callable[[int, str], None] | None = None) -> Decoded:
    """Decodes. What cannot be is told to `refuse` as (row, why), which may raise; else it is null, its bytes beside."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def decode(part: pa.Array) -> pa.Array:
        return decoder.decode(_without_front(part, skip_bytes) if skip_bytes else part)

    bad: list[int] = []
    parts = _by_halves(decode, decoder.type, values, 0, bad, refuse)
    decoded = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    if not bad:
        return Decoded(decoded, pa.nulls(len(values), pa.binary()))
    mask = pa.array([False] * len(values)).to_numpy(zero_copy_only=False).copy()
    mask[bad] = True
    return Decoded(decoded, pc.if_else(pa.array(mask), values, pa.scalar(None, pa.binary())))


def _without_front(values: pa.Array, skip_bytes: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = values.fill_null(bytes(skip_bytes))
    if pc.any(pc.less(pc.binary_length(filled), skip_bytes)).as_py():
        raise UndecodableError(f"shorter than the {skip_bytes} bytes in front")
    rest = pc.binary_replace_slice(filled, 0, skip_bytes, b"")
    return pc.if_else(values.is_valid(), rest, pa.scalar(None, pa.binary()))


def _by_halves(decode: Callable[[pa.Array], pa.Array], kind: pa.DataType, values: pa.Array, first: int,
               bad: list[int], refuse: Callable[[int, str], None] | None) -> list[pa.Array]:
    """The decoded parts, in order. `first` is the row that `values` begins with; bad rows are added to `bad`."""
    import pyarrow as pa

    try:
        return [decode(values)]
    except UndecodableError as error:
        if len(values) > 1:
            half = len(values) // 2
            return [*_by_halves(decode, kind, values[:half], first, bad, refuse),
                    *_by_halves(decode, kind, values[half:], first + half, bad, refuse)]
        if refuse is not None:
            refuse(first, str(error))
        bad.append(first)
        return [pa.nulls(1, kind)]
