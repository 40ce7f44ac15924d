"""`--decoder` of `kraft console`: decoders of records by a schema from a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kraft_native.base.errors import InvalidArgumentError

Decode = Callable[[bytes], str | None]

REGISTRY_HEADERS: Final = (5, 6)
"""Bytes that a schema registry's serializers write before a value; those of Protobuf add the message's index."""


def decoder_of(text: str) -> tuple[str, Decode]:
    """Return the name and the decoder of `NAME=FORMAT:FILE[:MESSAGE]`. Raises `InvalidArgumentError` for other texts
    and for a schema that cannot be used."""
    from kraft.pipeline.decoders import make_decoder, spec_from_files
    from kraft.pipeline.decoding import UndecodableError

    name, separator, rest = text.partition("=")
    kind, _, place = rest.partition(":")
    file, _, message = place.partition(":")
    if not separator or not name or not file:
        raise InvalidArgumentError(f"--decoder: {text!r} is not NAME=FORMAT:FILE or NAME=protobuf:FILE:MESSAGE")
    if not Path(file).is_file():
        raise InvalidArgumentError(f"--decoder: {text!r}: there is no file {file!r}")
    decoder = make_decoder(spec_from_files(kind, Path(file), message))

    def decode(data: bytes) -> str | None:
        import pyarrow as pa

        for front in (*(REGISTRY_HEADERS if data[:1] == b"\0" else ()), 0):
            try:
                [value] = decoder.decode(pa.array([data[front:]], pa.binary())).to_pylist()
            except UndecodableError:
                continue
            return json.dumps(value, ensure_ascii=False, indent=2, default=str)
        return None

    return name, decode
