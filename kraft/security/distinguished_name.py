"""Subject of a certificate as a text: a distinguished name in the form of RFC 2253, as Java writes it.

`subject_of` reads the certificate's bytes itself. The text decides about identities, and libraries differ in it: in the
order of its parts, in the names of attributes and in what they escape.
"""

from typing import Final, NamedTuple

from kraft_native.base.errors import InvalidArgumentError

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_ID: Final = 0x06
EXPLICIT_VERSION: Final = 0xA0
FIELDS_BEFORE_SUBJECT: Final = 4
"""Serial number, algorithm, issuer and validity."""
NAMES: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
    "2.5.4.11": "OU", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}
TEXT_KINDS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "latin-1", 0x1E: "utf-16-be"}
"""Encodings by the tag of a text."""
ESCAPED: Final = ',=+<>#;"\\'


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes
    """The same, behind its tag and its length."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER). `InvalidArgumentError` for bytes that are no certificate."""
    try:
        signed = _elements(_elements(certificate)[0].content)[0]
        fields = _elements(signed.content)
        at = FIELDS_BEFORE_SUBJECT + (fields[0].tag == EXPLICIT_VERSION)
        return name_text(fields[at].content)
    except (IndexError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("the certificate cannot be read: it ends early, or has a text that is none"
                                   ) from error


def name_text(name: bytes) -> str:
    """Return the text of a name: the content of its sequence (DER). The last part comes first."""
    return ",".join("+".join(map(_attribute, _elements(part.content))) for part in reversed(_elements(name)))


def _attribute(element: _Element) -> str:
    kind, value = _elements(element.content)
    name = NAMES.get(number := _object_id(kind.content), number)
    if name is number or value.tag not in TEXT_KINDS:
        return f"{name}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.content.decode(TEXT_KINDS[value.tag]))}"


def _escaped(text: str) -> str:
    """Quote special characters, and spaces at both ends."""
    first = len(text) - len(text.lstrip(" \r"))
    end = len(text.rstrip(" \r"))
    shown = []
    for at, character in enumerate(text):
        if character == "\0":
            shown.append("\\00")
        elif character in ESCAPED or at < first or at >= end:
            shown.append(f"\\{character}")
        else:
            shown.append(character)
    return "".join(shown)


def _elements(data: bytes) -> list[_Element]:
    """Split DER into its elements. `IndexError` for data that ends inside of one."""
    found = []
    at = 0
    while at < len(data):
        tag, size, begin = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[begin:begin + count], "big")
            begin += count
        if begin + size > len(data):
            raise IndexError("an element is longer than what holds it")
        found.append(_Element(tag, data[begin:begin + size], data[at:begin + size]))
        at = begin + size
    return found


def _object_id(content: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
