"""Damage from a seeded source: what disks, networks and hostile clients do to bytes."""

import random
import struct
import zlib
from collections.abc import Callable

from kraft_native.base.crc import checksum
from kraft_native.batch.batch import LENGTH_AT

NUMBERS = (0, 1, -1, 2, 48, 49, 60, 61, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, -2**31, 2**32 - 1, 2**62,
           2**63 - 1)
VARINTS = (b"\x01", b"\x02", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\x80" * 5,
           b"\xff" * 10, b"\xff" * 9 + b"\x01", b"\x80\x80\x80\x80\x00")


def flip_bit(source: random.Random, data: bytearray) -> None:
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)


def set_byte(source: random.Random, data: bytearray) -> None:
    data[source.randrange(len(data))] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))


def set_number(source: random.Random, data: bytearray) -> None:
    size = source.choice((2, 4, 8))
    at = source.randrange(len(data))
    number = source.choice((*NUMBERS, len(data), len(data) - 12, source.getrandbits(63)))
    data[at:at + size] = (number % (1 << 8 * size)).to_bytes(size, "big")


def set_varint(source: random.Random, data: bytearray) -> None:
    at = source.randrange(len(data))
    piece = source.choice(VARINTS)
    data[at:at + source.choice((1, len(piece)))] = piece


def cut(source: random.Random, data: bytearray) -> None:
    del data[source.randrange(len(data)):]


def remove(source: random.Random, data: bytearray) -> None:
    at = source.randrange(len(data))
    del data[at:at + source.randrange(1, 20)]


def insert(source: random.Random, data: bytearray) -> None:
    at = source.randrange(len(data) + 1)
    data[at:at] = source.choice((source.randbytes(source.randrange(1, 20)), bytes(source.randrange(1, 70))))


def repeat(source: random.Random, data: bytearray) -> None:
    at = source.randrange(len(data))
    piece = data[at:at + source.randrange(1, 200)]
    data[at:at] = piece * source.randrange(1, 4)


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    flip_bit, flip_bit, set_byte, set_number, set_number, set_varint, set_varint, cut, remove, insert, repeat,
)


def mutate(source: random.Random, data: bytes) -> bytes:
    """Apply a few mutations to `data`; sometimes none, sometimes return only noise."""
    if source.random() < 0.02:
        return source.randbytes(source.randrange(300))
    changed = bytearray(data)
    for _ in range(source.choice((0, 1, 1, 1, 2, 3, 8))):
        if changed:
            source.choice(MUTATIONS)(source, changed)
    return bytes(changed)


def correct_messages(data: bytes) -> bytes:
    """Correct the checksums of messages of formats v0 and v1, as `correct_batches` does."""
    corrected = bytearray(data)
    at = 0
    while len(corrected) - at >= 26:
        length, = struct.unpack_from(">i", corrected, at + LENGTH_AT)
        if not 14 <= length <= len(corrected) - at - 12:
            length = len(corrected) - at - 12
            struct.pack_into(">i", corrected, at + 8, length)
        struct.pack_into(">I", corrected, at + 12, zlib.crc32(corrected[at + 16:at + 12 + length]))
        at += 12 + length
    return bytes(corrected)


def correct_batches(data: bytes) -> bytes:
    """Correct the checksums of all batches that can be found, and in most cases the lengths. The bytes then pass the
    first check and reach the parsers behind it."""
    corrected = bytearray(data)
    at = 0
    while len(corrected) - at >= 61:
        length, = struct.unpack_from(">i", corrected, at + LENGTH_AT)
        if not 49 <= length <= len(corrected) - at - 12:
            length = len(corrected) - at - 12
            struct.pack_into(">i", corrected, at + 8, length)
        struct.pack_into(">I", corrected, at + 17, checksum(bytes(corrected[at + 21:at + 12 + length])))
        at += 12 + length
    return bytes(corrected)
