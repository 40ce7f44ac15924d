"""Records inside a batch: one bounded step per record, and the encoder."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kraft_native.batch cimport BatchHeader
from kraft_native.buffer cimport Scratch
from kraft_native.codecs cimport DecompressLimits
from kraft_native.span cimport Span


cdef struct Record:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_bytes              # -1: null
    int32_t value_bytes            # -1: null
    int32_t header_count
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers         # first header, headers_bytes long, all of them checked
    Py_ssize_t headers_bytes
    Py_ssize_t size                # whole record with its length varint

# Steps over one record. 1: filled; 0: no bytes left; -1: malformed (a field leaves the record, a length is negative
# below -1, a header key is null, or bytes are left over inside the record).
cdef int record_next(Span* s, Record* r) noexcept nogil

# Steps over one header inside Record.headers: same results.
cdef int header_next(Span* s, const uint8_t** key, int32_t* key_bytes, const uint8_t** value, int32_t* value_bytes) noexcept nogil

# Gives the uncompressed records of the batch at `batch` (header already looked at): a span into the batch itself
# when it is not compressed, else into `scratch`.
cdef Span records_of(const uint8_t* batch, const BatchHeader* h, const DecompressLimits* limits, Scratch scratch) except *


cdef class BatchBuilder:
    """Builds one batch. Reusable: `start` drops what was there. Offsets are base_offset + 0, 1, 2 ... unless
    `add_at` gives the delta (compaction)."""
    cdef Scratch records           # encoded records, uncompressed
    cdef Scratch out               # the finished batch
    cdef int codec
    cdef int level
    cdef int16_t attributes        # extra bits: transactional, control, delete horizon, LogAppendTime
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp
    cdef int32_t count
    cdef int32_t last_offset_delta

    cdef int start(self, int codec, int level, int16_t attributes) except -1
    # key_bytes/value_bytes -1 = null. `headers` is the encoded header list without its count (NULL when 0 headers).
    cdef int add(self, int64_t timestamp, const uint8_t* key, Py_ssize_t key_bytes, const uint8_t* value,
                 Py_ssize_t value_bytes, const uint8_t* headers, Py_ssize_t headers_bytes, int32_t header_count) except -1
    cdef int add_at(self, int32_t offset_delta, int64_t timestamp, const uint8_t* key, Py_ssize_t key_bytes,
                    const uint8_t* value, Py_ssize_t value_bytes, const uint8_t* headers, Py_ssize_t headers_bytes,
                    int32_t header_count) except -1
    # Writes header + (compressed) records + CRC into `out`.
    cdef int finish(self, int64_t base_offset, int32_t leader_epoch, int64_t producer_id, int16_t producer_epoch,
                    int32_t base_sequence) except -1
