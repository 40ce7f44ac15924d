"""The loop that turns batches into columns, for compiled callers."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kraft_native.base.fault cimport Fault
from kraft_native.base.span cimport Span
from kraft_native.batch.batch cimport BatchHeader


cdef enum:
    COPY_SLACK_BYTES = 64          # short copies may write this far past their end
    UTF8_GROWTH_MAX = 3            # an invalid byte becomes the three bytes of U+FFFD


# Target for the values of a binary column. The memory belongs to an ArrowColumn.
cdef struct BytesSink:
    int32_t* offsets               # one more than the number of rows
    uint8_t* data
    uint8_t* validity              # all ones from the first null on; unused before
    int64_t size                   # of data
    int64_t capacity
    int64_t null_count


# Targets for rows; NULL for columns that are not wanted.
cdef struct Sinks:
    int64_t rows
    int64_t row_capacity
    int64_t* offset
    int64_t* timestamp
    int8_t* timestamp_type
    int32_t* leader_epoch
    BytesSink key
    BytesSink value
    int32_t* header_starts         # per row, one more
    int64_t header_rows
    int64_t header_capacity
    BytesSink header_key
    BytesSink header_value


# An aborted transaction whose data batches are left out.
cdef struct AbortedRange:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset            # of its marker; -1: until a marker of this producer is met


# State of a read.
cdef struct ReadState:
    const uint8_t* data
    Py_ssize_t size
    Py_ssize_t at
    int64_t start_offset
    int64_t end_offset
    int64_t rows_max
    int64_t next_offset
    bint check_crc
    bint control
    bint loaded                    # h and span are those of the batch at `at`
    BatchHeader h
    Span span
    AbortedRange* aborted          # by first offset
    Py_ssize_t aborted_count
    Fault fault


cdef enum ReadStep:
    STEP_END = 0                   # no more whole batches, or a limit is reached

    STEP_COMPRESSED = 1            # decompress or convert the batch in `h` into `span`, set `loaded`, run again
    STEP_ROOM = 2                  # make room for h.record_count rows and the bytes of `span`, run again

    STEP_FAULT = 3                 # `fault` has the cause; the sinks hold what precedes the batch

# Reads batches until one needs the caller.
cdef ReadStep run(ReadState* st, Sinks* s) noexcept nogil
# Rows and record bytes of the uncompressed batches ahead, by their headers: the first estimate of room.
cdef void survey(const ReadState* st, int64_t* rows, int64_t* size) noexcept nogil
