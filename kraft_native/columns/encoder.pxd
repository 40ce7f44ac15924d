"""Columns to record batches, without an object per record."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.batch.records cimport BatchBuilder


cdef enum BytesKind:
    BYTES_NULL = 0                 # every value is null
    BYTES_STARTS_32 = 1            # value i is data[starts[i]:starts[i + 1]]
    BYTES_STARTS_64 = 2
    BYTES_FIXED = 3                # value i is data[i * width:(i + 1) * width]
    BYTES_PADDED = 4               # the same without the zeros at its end (numpy's 'S')


# An imported column of byte strings. The encoder holds the owner of the memory.
cdef struct BytesSource:
    BytesKind kind
    int64_t length
    int64_t width
    const uint8_t* data
    const int32_t* starts_32
    const int64_t* starts_64
    const uint8_t* validity        # NULL: nothing is null
    int64_t validity_start         # bit of value 0


cdef struct EncodeState:
    int64_t length
    int64_t row                    # the next one to encode
    BytesSource key
    BytesSource value
    bint has_headers
    BytesSource header_starts      # only its starts and validity: record i has headers starts[i] to starts[i + 1]
    BytesSource header_key
    BytesSource header_value
    const int64_t* timestamps      # NULL: `timestamp` for all
    int64_t timestamp
    int64_t ticks_per_ms           # of `timestamps`; 0: they are seconds
    int64_t batch_bytes_max
    int32_t batch_records_max
    # of the current batch
    int32_t count
    int64_t base_timestamp
    int64_t max_timestamp
    Py_ssize_t record_bytes        # of the record that did not fit


cdef class ColumnEncoder:
    cdef readonly int64_t next_offset
    cdef bint counts_on            # base offsets continue from batch to batch
    cdef EncodeState state
    cdef BatchBuilder builder
    cdef int codec
    cdef int level
    cdef int16_t attributes
    cdef list owners

    # The next batch; None when no rows are left.
    cdef bytes next_batch(self)
    cdef int take_bytes(self, object source, BytesSource* out, str what) except -1
    cdef int take_arrow(self, object source, BytesSource* out, str what) except -1
    cdef int take_numpy(self, object source, BytesSource* out, str what) except -1
    cdef int take_pair(self, object source, BytesSource* out, str what) except -1
    cdef int take_timestamps(self, object source) except -1
    cdef int take_headers(self, object source) except -1
