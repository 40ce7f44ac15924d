"""Data that is not in memory, read off the loop's thread."""

from libc.stdint cimport int64_t

from kraft_native.facade.log cimport Log
from kraft_native.file.buffer cimport Slice
from kraft_native.log.core cimport LogCore

cdef extern from "partition/cold_read.h" nogil:
    ctypedef struct kf_cold_reader:
        pass


cdef class Warming:
    """An operation that waits for its data. Extend it."""
    cdef int warmed(self) except -1        # one of the ranges that were submitted for it is in memory


cdef class LogWarming(Warming):
    """The data that one read of a log needs."""
    cdef ColdReader reader
    cdef LogCore core
    cdef object done                       # called when all of it is in memory
    cdef int64_t looks_left

    # The next part that is not in memory; None: nothing is left.
    cdef Slice next_part(self)
    # Whether `done` will be called.
    cdef bint begin(self, ColdReader reader, LogCore core, object done) except -1
    cdef bint go_on(self) except -1


cdef class ReadWarming(LogWarming):
    cdef int64_t offset, bytes_max


cdef class TimeWarming(LogWarming):
    cdef int64_t timestamp_ms


cdef class MaxTimeWarming(LogWarming):
    pass


cdef class RetentionWarming(LogWarming):
    cdef int64_t now_ms, segments_max


cdef class ColdRange:
    cdef Slice data                        # pinned until it is read
    cdef LogCore core                      # of the log that it belongs to
    cdef Warming owner
    cdef int error                         # 0, or why it cannot be read


cdef class ColdReader:
    """The thread. Loop thread only."""
    cdef kf_cold_reader* reader
    cdef readonly int64_t pending_max
    cdef readonly int64_t pending_count
    cdef readonly int64_t ranges_total     # since its creation
    cdef readonly int64_t bytes_total

    # Loads the bytes; `owner.warmed` is called when they are in memory. False when too many wait already.
    cdef bint submit(self, Slice data, LogCore core, Warming owner) except -1
    cdef ColdRange take(self)
