"""Index files as they lie on the disk: their entries, and what is wrong with their form.

Kafka preallocates the indexes of the active segment, so the end of a file may be zeros that are not entries yet.

    .index       int32 offset - base offset, int32 position
    .timeindex   int64 timestamp, int32 offset - base offset
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

ENTRY_TYPES = {
    ".index": np.dtype([("offset", ">i4"), ("position", ">i4")]),
    ".timeindex": np.dtype([("timestamp", ">i8"), ("offset", ">i4")]),
}


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """The used entries of one index file, and a sentence on each defect of the file's form."""

    used: bytes
    entries: npt.NDArray[Any]
    defects: list[str]


def read_entries(suffix: str, data: bytes, *, preallocated: bool) -> IndexEntries:
    """Splits an index file. `preallocated`: zeros at the end are room for entries to come."""
    kind = ENTRY_TYPES[suffix]
    defects = []
    if len(data) % kind.itemsize:
        defects.append(f"{len(data)} bytes are not a whole number of {kind.itemsize}-byte entries")
    whole = len(data) // kind.itemsize
    count = min(-(-len(data.rstrip(b"\0")) // kind.itemsize), whole)
    if count < whole and not preallocated:
        defects.append(f"its last {whole - count} entries are zeros")
    used = data[:count * kind.itemsize]
    entries = np.frombuffer(used, kind)
    rising = [name for name in (kind.names or ()) if not (suffix == ".timeindex" and name == "offset")]
    for name in rising:
        backwards = np.flatnonzero(np.diff(entries[name].astype("i8")) <= 0)
        if backwards.size:
            slot = int(backwards[0]) + 1
            defects.append(f"entry {slot}: {name} {entries[name][slot]} does not follow on {entries[name][slot - 1]}")
            break
    return IndexEntries(used, entries, defects)
