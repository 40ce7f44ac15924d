"""Kafka's small text files, and the state file of a stand-alone log."""

from libc.stdint cimport int32_t, int64_t


cdef class SharedOffsets:
    cdef dict parsed                           # path -> the parsed file, or None


cdef class LogState:
    cdef readonly int64_t log_start
    cdef readonly int64_t recovery_point
    cdef readonly int64_t log_end              # at the clean close, else -1
    cdef readonly bint clean
    cdef readonly dict extra                   # str -> str, kept and written back unchanged


cdef class MetaProperties:
    cdef readonly int32_t version
    cdef readonly object node_id               # int | None
    cdef readonly object cluster_id            # str | None
    cdef readonly object directory_id          # uuid.UUID | None
