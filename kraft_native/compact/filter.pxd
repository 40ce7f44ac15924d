"""Rules of compaction for one batch, and the batch rebuilt by them."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.batch.batch cimport BatchHeader
from kraft_native.batch.codecs cimport DecompressLimits
from kraft_native.compact.offset_map cimport OffsetMap
from kraft_native.file.buffer cimport Scratch
from kraft_native.segment.producers cimport ProducerStates


cdef enum FilterResult:
    FILTER_DROP = 0                # nothing of the batch stays
    FILTER_KEEP = 1                # the batch stays as it is
    FILTER_REBUILT = 2             # another batch replaces it: `rebuilt`, header `new`
    FILTER_MALFORMED = 3           # its records are malformed


# The records of one batch that stay.

cdef struct Selected:
    const uint8_t* data            # as they are in the batch, one after the other
    Py_ssize_t size
    int32_t count
    int64_t first_timestamp
    int64_t max_timestamp
    bint all                       # nothing was removed
    bint tombstone                 # at least one of them


cdef class RecordFilter:
    cdef OffsetMap map
    cdef ProducerStates producers
    cdef int64_t map_end           # the map has all keys below; records above stay
    cdef int64_t round_end         # the last batch below it stays, if only its header
    cdef int64_t now_ms
    cdef int64_t horizon_ms        # the delete horizon that is set now
    cdef DecompressLimits limits
    cdef Scratch unpacked          # a compressed batch's records
    cdef Scratch kept              # room for a header, and records that stay where others do not

    cdef Scratch body              # room for a header, and records with other timestamp deltas
    cdef Scratch packed            # a compressed batch
    cdef const uint8_t* rebuilt    # in one of these, until the next batch
    cdef BatchHeader new
    cdef Selected selected
    cdef int64_t growth_left       # growth that conversion may still cause in a segment
    cdef int64_t records_read
    cdef int64_t records_kept
    cdef int64_t records_without_key

    # A batch that is not compressed, not transactional and not a control batch. `prepare` was called for its size.
    cdef FilterResult plain(self, const uint8_t* batch, const BatchHeader* h) noexcept nogil
    # Any batch. `discard`: it belongs to an aborted transaction, or is a marker past its horizon; `empty_marker`: a
    # marker of a transaction that has nothing left. CorruptRecordError when its records are malformed.
    cdef FilterResult any(self, const uint8_t* batch, const BatchHeader* h, bint discard, bint empty_marker) except *
    # Room for an uncompressed batch of that size.
    cdef int prepare(self, Py_ssize_t batch_size) except -1

    cdef bint select(self, const BatchHeader* h, Span* span) noexcept nogil
    cdef bint converts(self, const BatchHeader* h) noexcept nogil
    cdef bint stays_if_empty(self, const BatchHeader* h) noexcept nogil
    cdef FilterResult settle(self, const BatchHeader* h, bint empty_marker) noexcept nogil
    cdef uint8_t* encode(self, const BatchHeader* h, Py_ssize_t* size) noexcept nogil
    cdef void finish(self, uint8_t* batch, Py_ssize_t size) noexcept nogil
