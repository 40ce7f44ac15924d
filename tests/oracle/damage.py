"""Readable content of damaged log files, determined in the slowest way: every position is tried."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.batch import HEADER, crc32c


@dataclass(frozen=True)
class Found:
    """One sound batch in a file."""

    position: int
    base_offset: int
    last_offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)


def sound_at(data: bytes, position: int) -> Found | None:
    """Return the batch that begins at the position if its structure and its CRC are right."""
    if position + HEADER.size > len(data):
        return None
    fields = HEADER.unpack_from(data, position)
    base_offset, length, magic, crc, delta, count = fields[0], fields[1], fields[3], fields[4], fields[6], fields[12]
    size = length + 12
    if base_offset < 0 or magic != 2 or size < HEADER.size or position + size > len(data):
        return None
    if delta < 0 or not 0 <= count <= delta + 1 or checked(data[position + 21:position + size]) != crc:
        return None
    return Found(position, base_offset, base_offset + delta, data[position:position + size])


@functools.lru_cache(maxsize=4096)
def checked(data: bytes) -> int:
    return crc32c(data)


def sound_batches(data: bytes, base_offset: int, offset_end: int = 1 << 62) -> list[Found]:
    """Return all sound batches with rising offsets in [base_offset, offset_end), whatever bytes lie between them."""
    found: list[Found] = []
    position = 0
    while position < len(data):
        batch = sound_at(data, position)
        if batch and base_offset <= batch.base_offset and batch.last_offset < offset_end:
            found.append(batch)
            base_offset = batch.last_offset + 1
            position = batch.end
        else:
            position += 1
    return found


def read_log(directory: Path) -> list[Found]:
    """Return the sound batches of all segments in the directory."""
    paths = sorted(directory.glob("*.log"))
    bases = [int(path.stem) for path in paths]
    return [batch for path, base, end in zip(paths, bases, [*bases[1:], 1 << 62], strict=True)
            for batch in sound_batches(path.read_bytes(), base, end)]


def markers(batches: list[Found]) -> list[tuple[int, int, int]]:
    """Return (producer id, first offset, offset of the marker) of every aborted transaction, from the batches alone."""
    begun: dict[int, int] = {}
    aborted = []
    for batch in batches:
        attributes = struct.unpack_from(">h", batch.data, 21)[0]
        producer_id = struct.unpack_from(">q", batch.data, 43)[0]
        if attributes & 0x20:
            first = begun.pop(producer_id, None)
            # The key of the marker's one record ends with its type: 0 abort, 1 commit.
            if first is not None and batch.data[61 + 5 + 3] == 0:
                aborted.append((producer_id, first, batch.last_offset))
        elif attributes & 0x10:
            begun.setdefault(producer_id, batch.base_offset)
    return aborted


def epochs(batches: list[Found]) -> list[tuple[int, int]]:
    """Return (epoch, start offset) of every leader epoch in the batches."""
    found: list[tuple[int, int]] = []
    for batch in batches:
        epoch = struct.unpack_from(">i", batch.data, 12)[0]
        if not found or epoch > found[-1][0]:
            found.append((epoch, batch.base_offset))
    return found


def largest_timestamp(batch: Found) -> int:
    return int(struct.unpack_from(">q", batch.data, 35)[0])
