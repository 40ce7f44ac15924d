"""Index files as they lie on the disk: their entries, and what is wrong with their form.

Kafka preallocates the indexes of the active segment, so the end of a file may be zeros that are not entries yet.

    .index       int32 offset - base offset, int32 position
    .timeindex   int64 timestamp, int32 offset - base offset
"""

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from operator import ge
from typing import Final

ENTRY_BYTES: Final = {".index": 8, ".timeindex": 12}


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """The used entries of one index file, and a sentence on each defect of the file's form.

    `columns` has the values of each field, all of one length: `offset` and `position`, or `timestamp` and `offset`.
    Offsets are relative to the segment's base offset.
    """

    used: bytes
    columns: dict[str, Sequence[int]]
    defects: list[str]

    def __len__(self) -> int:
        return len(self.columns["offset"])


def read_entries(suffix: str, data: bytes, *, preallocated: bool) -> IndexEntries:
    """Split an index file. `preallocated`: zeros at the end are room for entries to come."""
    entry_bytes = ENTRY_BYTES[suffix]
    defects = []
    if len(data) % entry_bytes:
        defects.append(f"{len(data)} bytes are not a whole number of {entry_bytes}-byte entries")
    whole = len(data) // entry_bytes
    count = min(-(-len(data.rstrip(b"\0")) // entry_bytes), whole)
    if count < whole and not preallocated:
        defects.append(f"its last {whole - count} entries are zeros")
    used = data[:count * entry_bytes]
    columns = _offset_columns(used) if suffix == ".index" else _time_columns(used)
    for name, values in columns.items():
        if suffix == ".timeindex" and name == "offset":
            continue
        slot = _first_that_does_not_rise(values)
        if slot:
            defects.append(f"entry {slot}: {name} {values[slot]} does not follow on {values[slot - 1]}")
            break
    return IndexEntries(used, columns, defects)


def _offset_columns(used: bytes) -> dict[str, Sequence[int]]:
    words = _words(used)
    return {"offset": words[0::2], "position": words[1::2]}


def _time_columns(used: bytes) -> dict[str, Sequence[int]]:
    words = _words(used)
    high, low = words[0::3], words[1::3]
    pairs = array("i", bytes(8 * len(high)))
    first, second = (low, high) if sys.byteorder == "little" else (high, low)
    pairs[0::2], pairs[1::2] = first, second
    return {"timestamp": array("q", pairs.tobytes()), "offset": words[2::3]}


def _words(used: bytes) -> "array[int]":
    """Return the 32-bit words of big-endian bytes."""
    words = array("i", used)
    if sys.byteorder == "little":
        words.byteswap()
    return words


def _first_that_does_not_rise(values: Sequence[int]) -> int:
    """Return the slot of the first value that is not above the one before it; 0 when all rise."""
    return next((slot for slot, falls in enumerate(map(ge, values, values[1:]), 1) if falls), 0)
