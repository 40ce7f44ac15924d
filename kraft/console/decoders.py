"""Keys and values as text: the decoders that a visitor selects for the records of a topic."""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

SHOWN_BYTES_MAX: Final = 16_384
SHOWN_CHARACTERS_MAX: Final = SHOWN_BYTES_MAX * 4
LINE_BYTES: Final = 16
REGISTRY_HEADER_BYTES: Final = 5
NO_OTHERS: Final[Mapping[str, Callable[[bytes], str | None]]] = {}


class Shown(NamedTuple):
    """Text of some bytes. `kind` names the decoder that was used; `is_cut`: more bytes exist; `note` says what else is
    known, such as the schema's id."""

    kind: str
    text: str
    is_cut: bool = False
    note: str = ""


def show(data: bytes | None, decoder: str = "auto",
         others: Mapping[str, Callable[[bytes], str | None]] = NO_OTHERS) -> Shown:
    """Return bytes as text by one of `DECODERS`, or by one of `others`. Bytes that the decoder cannot read are shown in
    hexadecimal."""
    if data is None:
        return Shown("null", "null")
    is_cut = len(data) > SHOWN_BYTES_MAX
    if decoder in others:
        text = others[decoder](data)
        found = None if text is None else Shown(decoder, text)
    else:
        found = DECODERS.get(decoder, _auto)(data[:SHOWN_BYTES_MAX] if decoder != "json" else data)
    if found is None:
        found = _hex(data[:SHOWN_BYTES_MAX])._replace(note=f"not {decoder}")
    return found._replace(text=found.text[:SHOWN_CHARACTERS_MAX],
                          is_cut=is_cut or len(found.text) > SHOWN_CHARACTERS_MAX)


def _auto(data: bytes) -> Shown:
    if data[:1] == b"\0" and len(data) > REGISTRY_HEADER_BYTES:
        return _hex(data)._replace(note=f"schema id {int.from_bytes(data[1:5], 'big')} of a schema registry")
    if data[:1] in (b"{", b"[") and (found := _json(data)) is not None:
        return found
    return _text(data) or _hex(data)


def _text(data: bytes) -> Shown | None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if len(data) < SHOWN_BYTES_MAX or error.start < len(data) - 3:
            return None
        text = data[:error.start].decode()      # the bytes were cut inside a character
    if any(ord(character) < 32 and character not in "\t\n\r" for character in text):
        return None
    return Shown("text", text)


def _json(data: bytes) -> Shown | None:
    """Return JSON with indentation, as far as it is shown: deep nesting makes many spaces of few bytes."""
    parts: list[str] = []
    size = 0
    try:
        for part in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(json.loads(data)):
            parts.append(part)
            size += len(part)
            if size > SHOWN_CHARACTERS_MAX:
                break
    except (ValueError, RecursionError):
        return None
    return Shown("json", "".join(parts))


def _hex(data: bytes) -> Shown:
    lines = []
    for at in range(0, len(data), LINE_BYTES):
        part = data[at:at + LINE_BYTES]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{LINE_BYTES * 3}} {plain}")
    return Shown("hex", "\n".join(lines))


def _number(data: bytes) -> Shown | None:
    form = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}.get(len(data))
    return None if form is None else Shown("number", f"{struct.unpack(form, data)[0]}")


def _double(data: bytes) -> Shown | None:
    form = {4: ">f", 8: ">d"}.get(len(data))
    return None if form is None else Shown("double", repr(struct.unpack(form, data)[0]))


DECODERS: Final[Mapping[str, Callable[[bytes], Shown | None]]] = {
    "auto": _auto, "text": _text, "json": _json, "hex": _hex, "number": _number, "double": _double,
}
"""Decoders by name. Numbers are those of Kafka's own serializers: big-endian."""
