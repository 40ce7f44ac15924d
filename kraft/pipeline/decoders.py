"""Record values as typed columns: the specification of a decoder, and the handling of values that it cannot read.

A decoder turns a column of bytes into a column of its type, by a maintained library; null stays null. A value that
cannot be read either ends the work or becomes null, and its bytes go into a separate column. Bisection finds those
rows, so that good values are decoded in bulk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kraft.pipeline.decoding import UndecodableError
from kraft_native.base.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("bytes", "text", "json", "avro", "protobuf")


class DecoderSpec(NamedTuple):
    """Specification of a decoder; plain values, so that it can go to other processes and into a table's settings.

    `schema`: for json its JSON form (`decode_json`), for avro an Avro schema, for protobuf the base64 of a file
    descriptor set. `message`: the full name of the protobuf message. `skip_bytes`: the length of a prefix of every
    value, such as the 5 bytes of a schema registry's header.
    """

    format: str = "bytes"
    schema: str = ""
    message: str = ""
    skip_bytes: int = 0


class Decoder(Protocol):
    """Decoder of a whole column at once. `UndecodableError` when one of the values cannot be read."""

    @property
    def type(self) -> pa.DataType: ...
    def decode(self, values: pa.Array) -> pa.Array: ...


class Decoded(NamedTuple):
    """Columns of the same length: the decoded values, and the bytes of those that could not be decoded."""

    values: pa.Array
    undecoded: pa.Array


def spec_from_files(kind: str, schema: Path | None, message: str = "", skip_bytes: int = 0) -> DecoderSpec:
    """Return the spec for the arguments of a command line. `InvalidArgumentError` for an invalid combination."""
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
    """Return the decoder that the spec describes. `InvalidArgumentError` for a schema that it cannot use."""
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
    """Decoder that returns the bytes themselves, or as UTF-8."""

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
    """Decode a column. `refuse` gets each undecodable value as (row, reason) and may raise; else the value is null and
    its bytes are kept."""
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
    """Return the decoded parts, in order. `first` is the row that `values` begins with; bad rows are added to `bad`."""
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
