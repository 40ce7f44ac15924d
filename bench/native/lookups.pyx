"""Look-ups one at a time, through the calls that the log itself makes (`lookup.pyx`, `segment.pyx`)."""

from libc.stdint cimport int64_t

from kraft_native.index cimport OffsetIndex, TimeIndex


def find_offsets(OffsetIndex index not None, const int64_t[::1] offsets not None) -> int:
    """Looks up one after the other, as callers that know all they ask for. Gives the sum of the positions."""
    cdef int64_t positions = 0
    cdef Py_ssize_t i
    index.load()
    with nogil:
        for i in range(offsets.shape[0]):
            positions += index.lookup(offsets[i], NULL)
    return positions


def find_offsets_in_turn(OffsetIndex index not None, const int64_t[::1] offsets not None) -> int:
    """As `find_offsets`, but each waits for the answer before it, so that none hides another's time. Gives the last
    position."""
    cdef int64_t position = 0
    cdef Py_ssize_t i
    index.load()
    with nogil:
        for i in range(offsets.shape[0]):
            position = index.lookup(offsets[i] + (position >> 62), NULL)       # positions are small: nothing is added
    return position


def find_times_in_turn(TimeIndex index not None, const int64_t[::1] timestamps not None) -> int:
    """As `find_offsets_in_turn`. Gives the last offset."""
    cdef int64_t offset = 0
    cdef Py_ssize_t i
    index.load()
    with nogil:
        for i in range(timestamps.shape[0]):
            offset = index.lookup(timestamps[i] + (offset >> 62))
    return offset
