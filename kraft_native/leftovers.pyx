"""The names in a log's directory: segments, and what interrupted work left there.

    .deleted            files of a segment that was being deleted: removed
    .tmp, .cut          half-written replacements of a file: removed
    .cleaned            output of a compaction that did not finish: removed
    .swap               output of a compaction that finished: takes the place of the segments it was made from

The swap is Kafka's (LogLoader). Compaction writes `<base>.log.cleaned` and its indexes, makes them durable, and
renames them to `.swap` in descending order of base offsets; then it removes the source segments and the suffix. So a
`.swap` at or above the lowest `.cleaned` belongs to a set that is not complete: both go, the sources are still there.
Otherwise the swap is finished: segments that begin within its offsets go, and the suffix goes. One thing Kafka does
not: a `.log.swap` is checked first, and dropped when it is not sound while its source is still there.
"""

import os

from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from posix.fcntl cimport O_RDONLY

from kraft_native.buffer cimport Mapping, map_file
from kraft_native.errors cimport Fault
from kraft_native.fileio cimport check, file_close, file_open, file_size, file_sync_dir
from kraft_native.scan cimport ScanBounds, scan_sound
from kraft_native.segment cimport segment_path

from kraft_native.fileio import rename, unlink

cdef tuple DROPPED = (b".deleted", b".tmp", b".cut")
cdef tuple KEPT_DELETIONS = (b".checkpoint.deleted",)      # Raft snapshots; their owner removes them
cdef enum:
    OFFSET_DIGITS = 20


cdef int64_t offset_of(bytes name) except? -2:
    """The base offset that the name begins with; -1 when it begins with none."""
    if len(name) > OFFSET_DIGITS and name[OFFSET_DIGITS:OFFSET_DIGITS + 1] == b"." and name[:OFFSET_DIGITS].isdigit():
        return int(name[:OFFSET_DIGITS])
    return -1


cdef int64_t tidy_directory(bytes directory, list found, list removed) except -2:
    cdef list swaps = [], cleaned = [], dropped = []
    cdef bytes name
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(b".log") and len(name) == OFFSET_DIGITS + 4 and offset_of(name) >= 0:
                found.append((offset_of(name), entry.stat().st_size))
            elif name.endswith(DROPPED):
                if not name.endswith(KEPT_DELETIONS):
                    dropped.append(name)
            elif name.endswith(b".cleaned") and offset_of(name) >= 0:
                cleaned.append(name)
            elif name.endswith(b".swap") and offset_of(name) >= 0:
                swaps.append(name)
    if not (swaps or cleaned or dropped):
        found.sort()
        return -1
    if cleaned:
        lowest = min([offset_of(name) for name in cleaned])
        dropped += [name for name in swaps if offset_of(name) >= lowest]
        swaps = [name for name in swaps if offset_of(name) < lowest]
    # The swaps first: without a `.cleaned` beside it a half-made set would look complete.
    for name in dropped + sorted(cleaned, reverse=True):
        drop(directory, name, removed)
    check(file_sync_dir(directory), directory)
    finish_swaps(directory, swaps, removed)
    found.clear()
    tidy_directory(directory, found, removed)
    return max([offset_of(name) for name in swaps], default=-1)


cdef int drop(bytes directory, bytes name, list removed) except -1:
    unlink(directory + b"/" + name, missing_ok=True)
    removed.append(os.fsdecode(name))
    return 0


cdef int finish_swaps(bytes directory, list swaps, list removed) except -1:
    cdef list ranges = [], replaced = []
    cdef int64_t base, end
    for name in swaps:
        base = offset_of(name)
        if not name.endswith(b".log.swap"):
            continue
        end = sound_end(directory + b"/" + name, base)
        if end < 0 and os.path.exists(segment_path(directory, base, b".log")):
            for part in swaps:
                if offset_of(part) == base:
                    drop(directory, part, removed)
            continue
        ranges.append((base, end))
    for name in os.listdir(directory):
        base = offset_of(name)
        if base >= 0 and not name.endswith(b".swap"):
            for first, end in ranges:
                # The segment of the same name is replaced even when nothing of it is left.
                if first <= base < max(end, <int64_t>first + 1):
                    replaced.append(name)
    for name in sorted(replaced, reverse=True):
        if not name.endswith(b".snapshot"):
            drop(directory, name, removed)
    check(file_sync_dir(directory), directory)
    for name in sorted(swaps):
        if os.path.exists(directory + b"/" + name):
            rename(directory + b"/" + name, directory + b"/" + name[:len(name) - 5])
    check(file_sync_dir(directory), directory)
    return 0


cdef int64_t sound_end(bytes path, int64_t base_offset) except? -2:
    """The offset after the last batch of a segment file; -1 when not all of it is sound."""
    cdef int fd = <int>check(file_open(path, O_RDONLY, 0), path)
    cdef int64_t size, reached, next_offset = base_offset
    cdef const uint8_t* data
    cdef Mapping mapping
    cdef Fault fault
    cdef ScanBounds bounds
    bounds.offset_end = INT64_MAX
    bounds.exact_end = -1
    bounds.gaps_end = INT64_MAX
    try:
        size = check(file_size(fd), path)
        mapping = map_file(fd, size, False, path)
    finally:
        file_close(fd)
    data = mapping.data
    with nogil:
        reached = scan_sound(data, 0, size, size, &bounds, &next_offset, &fault)
    return next_offset if reached == size else -1
