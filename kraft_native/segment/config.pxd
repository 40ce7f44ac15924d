"""Settings of one log, typed and checked. Immutable; a running log gets a whole new one."""

from libc.stdint cimport int8_t, int32_t, int64_t

from kraft_native.batch.validate cimport ValidateOptions
from kraft_native.segment.log_fields cimport LogFields


cdef enum Durability:
    DURABILITY_PAGE_CACHE = 0
    DURABILITY_GROUP_COMMIT = 1
    DURABILITY_PER_APPEND = 2


cdef class LogConfig(LogFields):
    # Derived once.
    cdef int64_t index_bytes_max   # segment_index_bytes, or the minimum of an index
    cdef Durability durability_kind
    cdef bint compact              # cleanup.policy contains `compact`: keys required, offset gaps are normal
    cdef bint delete               # cleanup.policy contains `delete`
    cdef bint high_watermark_auto
    cdef ValidateOptions validation   # now_ms and origin are set per append

    cdef int derive(self) except -1
    cdef int32_t level(self) except? -1
