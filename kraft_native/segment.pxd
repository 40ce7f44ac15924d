"""One segment: a `.log` file with its indexes. Owned by one Log; loop/owner thread only."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.batch cimport BatchHeader
from kraft_native.buffer cimport Mapping, Slice
from kraft_native.errors cimport Fault
from kraft_native.fileio cimport iovec
from kraft_native.index cimport OffsetIndex, TimeIndex
from kraft_native.txnindex cimport TransactionIndex


cdef class Segment:
    cdef readonly object directory              # bytes path of the partition directory
    cdef readonly object path                   # bytes path of the .log file
    cdef readonly int64_t base_offset
    cdef readonly int64_t size                  # bytes of whole batches in the file (what a reader may touch)
    cdef int fd                                 # -1 until first used (a log of 10,000 segments opens without them)
    cdef Mapping mapping                        # None until first read; may reach past `size` on the active segment
    cdef readonly OffsetIndex offset_index
    cdef readonly TimeIndex time_index
    cdef readonly TransactionIndex txn_index
    cdef readonly int64_t verified_to           # bytes from the front whose CRC and structure were checked
    cdef readonly int64_t max_timestamp         # largest so far and the offset that has it; loaded lazily when sealed
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t first_timestamp       # max timestamp of the first batch (time-based roll), -1: unknown
    cdef readonly int64_t bytes_since_index
    cdef readonly bint sealed
    cdef readonly list damage                   # known damaged ranges: (position, end position, offset, next offset)
