"""The checkpoint of one log in three steps, so that only the first and the last need the owner."""

from libc.stdint cimport int64_t, uint64_t

from kraft_native.log.core cimport LogCore


cdef class LogCheckpoint:
    cdef LogCore core
    cdef readonly str path
    cdef list indexes                  # of IndexFile, sealed, not durable yet
    cdef object state                  # the new content of the state file
    cdef bytes content
    cdef uint64_t state_writes         # number of writes of the state at the beginning
    cdef int64_t gaps_end              # as recorded in `state`
    cdef uint64_t generation           # of truncations, likewise
    cdef object failure                # of `write`
    cdef bint stale                    # an index was removed meanwhile

    cdef int flush(self, bytes path) except -1
    cdef int write_state(self) except -1
    cdef int drop(self) except -1


# None where there is nothing to record. The owner's thread.
cdef LogCheckpoint begin_checkpoint(LogCore core)
