"""The names in a log's directory: segments, and leftovers of interrupted work.

    .deleted            files of a segment that was being deleted: removed
    .tmp, .cut          half-written replacements of a file: removed
    .cleaned            output of a compaction that did not finish: removed
    .swap               output of a compaction that finished: replaces its source segments
    directories         with the name of an index or a snapshot, which is created again: renamed

The swap is Kafka's (LogLoader). Compaction writes `<base>.log.cleaned` and its indexes, makes them durable, and renames
them to `.swap` in descending order of base offsets; then it removes the source segments and the suffix. So a `.swap` at
or above the lowest `.cleaned` belongs to an incomplete set: both are removed, the sources still exist. Otherwise the
swap is finished: segments that begin within its offsets are removed, then the suffix. One step Kafka does not have: a
`.log.swap` is checked first, and dropped when it is not sound while its source still exists.
"""

import os

cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from posix.fcntl cimport O_RDONLY

from kraft_native.base.fault cimport Fault
from kraft_native.file.buffer cimport Mapping, copy_file, map_file
from kraft_native.file.file_io cimport check, file_close, file_open, file_size, file_sync_dir
from kraft_native.segment.scan cimport ScanBounds, scan_sound
from kraft_native.segment.segment cimport segment_path

from kraft_native.file.file_io import rename, set_aside, unlink

cdef tuple DROPPED = (b".deleted", b".tmp", b".cut")
cdef tuple KEPT_DELETIONS = (b".checkpoint.deleted",)      # Raft snapshots; their owner removes them
cdef tuple DERIVED = (b".index", b".timeindex", b".txnindex", b".snapshot")
cdef enum:
    OFFSET_DIGITS = 20


cdef int64_t offset_of(bytes name) except? -2:
    """The base offset that the name begins with; -1 when it begins with none."""
    if len(name) > OFFSET_DIGITS and name[OFFSET_DIGITS:OFFSET_DIGITS + 1] == b"." and name[:OFFSET_DIGITS].isdigit():
        return int(name[:OFFSET_DIGITS])
    return -1


@cython.final
cdef class Names:
    """The content of a directory, by kind."""
    cdef list segments                 # (base offset, size)
    cdef list swaps
    cdef list cleaned
    cdef list dropped
    cdef list misplaced                # directories with the names of indexes and snapshots

    def __cinit__(self, bytes directory):
        cdef bytes name
        self.segments, self.swaps, self.cleaned, self.dropped, self.misplaced = [], [], [], [], []
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(b".log") and len(name) == OFFSET_DIGITS + 4 and offset_of(name) >= 0:
                    self.segments.append((offset_of(name), entry.stat().st_size))
                elif name.endswith(DROPPED):
                    if not name.endswith(KEPT_DELETIONS):
                        self.dropped.append(name)
                elif name.endswith(b".cleaned") and offset_of(name) >= 0:
                    self.cleaned.append(name)
                elif name.endswith(b".swap") and offset_of(name) >= 0:
                    self.swaps.append(name)
                elif name.endswith(DERIVED) and offset_of(name) >= 0 and entry.is_dir():
                    self.misplaced.append(name)
        self.segments.sort()
        if self.cleaned:
            lowest = min([offset_of(name) for name in self.cleaned])
            self.dropped += [name for name in self.swaps if offset_of(name) >= lowest]
            self.swaps = [name for name in self.swaps if offset_of(name) < lowest]


cdef int64_t tidy_directory(bytes directory, list found, list removed) except -2:
    cdef Names names = Names(directory)
    for name in names.misplaced:
        removed.append(os.path.basename(set_aside(directory + b"/" + name)))
    if not (names.swaps or names.cleaned or names.dropped):
        found += names.segments
        return -1
    # The swaps first: without a `.cleaned` beside it an incomplete set would look complete.
    for name in names.dropped + sorted(names.cleaned, reverse=True):
        drop(directory, name, removed)
    check(file_sync_dir(directory), directory)
    finish_swaps(directory, names.swaps, removed)
    found += Names(directory).segments
    return highest(names.swaps)


cdef int64_t view_directory(bytes directory, list found, dict named) except -2:
    cdef Names names = Names(directory)
    cdef list unsound = []
    cdef list ranges = swap_ranges(directory, names.swaps, True, unsound)
    found += [(base, size) for base, size in names.segments if not replaced(base, ranges)]
    for base, _ in ranges:
        named[base] = segment_path(directory, base, b".log.swap")
        found.append((base, os.path.getsize(named[base])))
    found.sort()
    return highest(names.swaps)


cdef int64_t highest(list names) except -2:
    return max([offset_of(name) for name in names], default=-1)


cdef int drop(bytes directory, bytes name, list removed) except -1:
    unlink(directory + b"/" + name, missing_ok=True)
    removed.append(os.fsdecode(name))
    return 0


cdef list swap_ranges(bytes directory, list swaps, bint apart, list unsound):
    """(base offset, end offset) of the outputs that take their sources' place; the base offsets of those that do not
    are added to `unsound`."""
    cdef list ranges = []
    cdef int64_t base, end
    for name in swaps:
        base = offset_of(name)
        if name.endswith(b".log.swap"):
            end = sound_end(directory + b"/" + name, base, apart)
            if end < 0 and os.path.exists(segment_path(directory, base, b".log")):
                unsound.append(base)
            else:
                ranges.append((base, end))
    return ranges


cdef bint replaced(int64_t base, list ranges) except -1:
    """Return whether a segment is one of the sources. That of the same name is, even when nothing of it is left."""
    cdef int64_t first, end
    for first, end in ranges:
        if first <= base < max(end, first + 1):
            return True
    return False


cdef int finish_swaps(bytes directory, list swaps, list removed) except -1:
    cdef list unsound = []
    cdef list ranges = swap_ranges(directory, swaps, False, unsound)
    for name in swaps:
        if offset_of(name) in unsound:
            drop(directory, name, removed)
    for name in sorted(os.listdir(directory), reverse=True):
        if (
            offset_of(name) >= 0 and not name.endswith((b".swap", b".snapshot"))
            and replaced(offset_of(name), ranges)
        ):
            drop(directory, name, removed)
    check(file_sync_dir(directory), directory)
    for name in sorted(swaps):
        if os.path.exists(directory + b"/" + name):
            rename(directory + b"/" + name, directory + b"/" + name[:len(name) - 5])
    check(file_sync_dir(directory), directory)
    return 0


cdef int64_t sound_end(bytes path, int64_t base_offset, bint apart) except? -2:
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
        mapping = copy_file(fd, size, 0, path) if apart else map_file(fd, size, False, path)
    finally:
        file_close(fd)
    data = mapping.data
    with nogil:
        reached = scan_sound(data, 0, size, size, &bounds, &next_offset, &fault)
    return next_offset if reached == size else -1
