"""Content of a log file, determined slowly: is a sound batch at this byte, for every byte?"""

import struct
from dataclasses import dataclass, field

from kraft_native.base.crc import checksum_with


@dataclass
class Examined:
    sound: bytes = b""
    damage: list[tuple[int, int, int, int]] = field(default_factory=list)


def batch_at(data: bytes, position: int, offset_min: int, offset_end: int) -> tuple[int, int, int] | None:
    """Return (base offset, next offset, size) of the sound batch at `position`, or None."""
    if len(data) - position < 61:
        return None
    base, length, _, magic, crc, _, delta = struct.unpack_from(">qiibIhi", data, position)
    count, = struct.unpack_from(">i", data, position + 57)
    size = length + 12
    if magic != 2 or size < 61 or position + size > len(data) or not 0 <= count <= delta + 1 or delta < 0:
        return None
    if not offset_min <= base <= base + delta < offset_end:
        return None
    if checksum_with("table", data[position + 21:position + size]) != crc:
        return None
    return base, base + delta + 1, size


def examine(data: bytes, base_offset: int, offset_end: int) -> Examined:
    """Return the sound bytes in order, and the damage as (position, end, first lost offset, next readable offset or
    -1)."""
    found = Examined()
    position, next_offset = 0, base_offset
    while position < len(data):
        batch = batch_at(data, position, next_offset, offset_end)
        if batch is not None:
            found.sound += data[position:position + batch[2]]
            position, next_offset = position + batch[2], batch[1]
            continue
        start, lost = position, next_offset
        batch = None
        while position < len(data) and batch is None:
            position += 1
            batch = batch_at(data, position, next_offset, offset_end)
        found.damage.append((start, position, lost, batch[0] if batch else -1))
    return found
