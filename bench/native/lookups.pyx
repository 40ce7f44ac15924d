"""Look-ups one at a time, through the same calls as the log (`log/lookup.pyx`, `segment/segment.pyx`)."""

from libc.stdint cimport int64_t

from kraft_native.segment.index cimport OffsetIndex, TimeIndex


def find_offsets(OffsetIndex index not None, const int64_t[::1] offsets not None) -> int:
    """Perform independent look-ups one after the other, whose targets are known beforehand. Return the sum of the
    positions."""
    cdef int64_t positions = 0
    cdef Py_ssize_t i
    index.load()
    with nogil:
        for i in range(offsets.shape[0]):
            positions += index.lookup(offsets[i], NULL)
    return positions


def find_offsets_in_turn(OffsetIndex index not None, const int64_t[::1] offsets not None) -> int:
    """Perform dependent look-ups: each waits for the previous result, so that none hides another's time. Return the
    last position."""
    cdef int64_t position = 0
    cdef Py_ssize_t i
    index.load()
    with nogil:
        for i in range(offsets.shape[0]):
            position = index.lookup(offsets[i] + (position >> 62), NULL)       # positions are small: this adds 0
    return position


def find_times_in_turn(TimeIndex index not None, const int64_t[::1] timestamps not None) -> int:
    """Perform dependent look-ups as `find_offsets_in_turn`. Return the last offset."""
    cdef int64_t offset = 0
    cdef Py_ssize_t i
    index.load()
    with nogil:
        for i in range(timestamps.shape[0]):
            offset = index.lookup(timestamps[i] + (offset >> 62))
    return offset
