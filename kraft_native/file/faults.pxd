"""Faults in, and a trace of, the engine's file operations. Nothing here runs unless a `Trace` or a `Plan` is active."""

from libc.stdint cimport int64_t, uint32_t


cdef extern from "file/faults.h" nogil:
    ctypedef struct kf_rule:
        uint32_t kinds
        const char* under
        const char* suffix
        int64_t at
        int error
        int64_t short_bytes
        bint persistent
        int64_t delay_us
        bint due
        int64_t seen
        int64_t fired
    ctypedef struct kf_entry:
        int op
        bint begun
        int fd
        int64_t a
        int64_t b
        int64_t result
        int64_t thread
        size_t text_at
        size_t path_size
        size_t path2_size
        size_t data_size
    ctypedef struct kf_trace:
        const char* under
        kf_entry* entries
        size_t count
        char* bytes
        bint out_of_memory


cdef class Event:
    cdef readonly str kind         # one of KINDS, or "close" or "mark"
    cdef readonly str path         # of the file or directory; of a mark: ""
    cdef readonly str target       # rename: the new path, else ""

    cdef readonly int fd           # -1 where the operation has none
    cdef readonly int64_t offset   # write: position in the file; truncate: the new size; allocate: position; else 0

    cdef readonly int64_t size     # allocate: number of reserved bytes
    cdef readonly bytes data       # write: the bytes that the kernel accepted

    cdef readonly bint created     # open: this call created the file
    cdef readonly int flags        # open: the flags
    cdef readonly bint begun       # a flush has begun (its end is a later event)

    cdef readonly int error        # 0, or the errno with which it failed (injected or real)
    cdef readonly int64_t thread   # system's thread id
    cdef readonly object mark  # type: Any  # mark: the object given to `Trace.mark`


cdef class Trace:
    cdef kf_trace trace
    cdef bytes under
    cdef list marks
    cdef readonly bint active

    cdef Event event(self, const kf_entry* entry)


cdef class Plan:
    cdef kf_rule rule
    cdef bytes under
    cdef bytes suffix
    cdef readonly bint active
