"""Batches: the header. Loading, structural checks, walking, patching; records are `records.pxd`."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kraft_native.base.bytes_be cimport load_i16, load_i32, load_i64, load_u32, store_i16, store_i32, store_i64
from kraft_native.base.fault cimport Fault
from kraft_native.base.limits cimport (
    ATTR_CODEC_MASK, ATTR_CONTROL, ATTR_DELETE_HORIZON, ATTR_LOG_APPEND_TIME, ATTR_TRANSACTIONAL, BATCH_ATTRIBUTES,
    BATCH_BASE_OFFSET, BATCH_BASE_SEQUENCE, BATCH_BASE_TIMESTAMP, BATCH_CRC, BATCH_HEADER_BYTES,
    BATCH_LAST_OFFSET_DELTA, BATCH_LEADER_EPOCH, BATCH_LENGTH, BATCH_LENGTH_MIN_ANY_MAGIC, BATCH_MAGIC,
    BATCH_MAX_TIMESTAMP, BATCH_PRODUCER_EPOCH, BATCH_PRODUCER_ID, BATCH_RECORD_COUNT, INT32_MAX_VALUE,
    LOG_OVERHEAD_BYTES, MAGIC_CURRENT,
)


# A message of magic 0 or 1 has -1 in the fields that it lacks, and only those attributes that exist in v2.
cdef struct BatchHeader:
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t batch_length           # bytes after this field
    int32_t leader_epoch
    uint32_t crc
    int32_t last_offset_delta
    int32_t base_sequence
    int32_t record_count
    int16_t attributes
    int16_t producer_epoch
    int8_t magic


cdef inline void batch_load(const uint8_t* p, BatchHeader* h) noexcept nogil:
    """Load all fields from 61 readable bytes of a batch of magic 2."""
    h.base_offset = load_i64(p + BATCH_BASE_OFFSET)
    h.batch_length = load_i32(p + BATCH_LENGTH)
    h.leader_epoch = load_i32(p + BATCH_LEADER_EPOCH)
    h.magic = <int8_t>p[BATCH_MAGIC]
    h.crc = load_u32(p + BATCH_CRC)
    h.attributes = load_i16(p + BATCH_ATTRIBUTES)
    h.last_offset_delta = load_i32(p + BATCH_LAST_OFFSET_DELTA)
    h.base_timestamp = load_i64(p + BATCH_BASE_TIMESTAMP)
    h.max_timestamp = load_i64(p + BATCH_MAX_TIMESTAMP)
    h.producer_id = load_i64(p + BATCH_PRODUCER_ID)
    h.producer_epoch = load_i16(p + BATCH_PRODUCER_EPOCH)
    h.base_sequence = load_i32(p + BATCH_BASE_SEQUENCE)
    h.record_count = load_i32(p + BATCH_RECORD_COUNT)


# The part of `batch_reload` for magic 0 and 1.
cdef void load_legacy(const uint8_t* p, BatchHeader* h) noexcept nogil


cdef inline void batch_reload(const uint8_t* p, BatchHeader* h) noexcept nogil:
    """Load all fields of a whole batch that was checked before."""
    if p[BATCH_MAGIC] == MAGIC_CURRENT:
        batch_load(p, h)
    else:
        load_legacy(p, h)


cdef inline int64_t batch_end_at(const uint8_t* p) noexcept nogil:
    """The last offset of the batch at `p`, which was checked before; reads as little as possible."""
    if p[BATCH_MAGIC] == MAGIC_CURRENT:
        return load_i64(p) + load_i32(p + BATCH_LAST_OFFSET_DELTA)
    return load_i64(p)


cdef inline Py_ssize_t batch_bytes_at(const uint8_t* p) noexcept nogil:
    return <Py_ssize_t>LOG_OVERHEAD_BYTES + load_i32(p + BATCH_LENGTH)


cdef inline bint batch_is_legacy(const BatchHeader* h) noexcept nogil:
    """True for a message of format v0 or v1."""
    return h.magic < MAGIC_CURRENT


cdef inline void batch_store(uint8_t* p, const BatchHeader* h) noexcept nogil:
    """Write all fields but the CRC into 61 bytes."""
    store_i64(p + BATCH_BASE_OFFSET, h.base_offset)
    store_i32(p + BATCH_LENGTH, h.batch_length)
    store_i32(p + BATCH_LEADER_EPOCH, h.leader_epoch)
    p[BATCH_MAGIC] = <uint8_t>h.magic
    store_i16(p + BATCH_ATTRIBUTES, h.attributes)
    store_i32(p + BATCH_LAST_OFFSET_DELTA, h.last_offset_delta)
    store_i64(p + BATCH_BASE_TIMESTAMP, h.base_timestamp)
    store_i64(p + BATCH_MAX_TIMESTAMP, h.max_timestamp)
    store_i64(p + BATCH_PRODUCER_ID, h.producer_id)
    store_i16(p + BATCH_PRODUCER_EPOCH, h.producer_epoch)
    store_i32(p + BATCH_BASE_SEQUENCE, h.base_sequence)
    store_i32(p + BATCH_RECORD_COUNT, h.record_count)


cdef inline Py_ssize_t batch_bytes(const BatchHeader* h) noexcept nogil:
    return <Py_ssize_t>LOG_OVERHEAD_BYTES + h.batch_length


cdef inline int64_t batch_last_offset(const BatchHeader* h) noexcept nogil:
    return h.base_offset + h.last_offset_delta


cdef inline int batch_codec(const BatchHeader* h) noexcept nogil:
    return h.attributes & ATTR_CODEC_MASK


cdef inline bint batch_is_control(const BatchHeader* h) noexcept nogil:
    return (h.attributes & ATTR_CONTROL) != 0


cdef inline bint batch_is_transactional(const BatchHeader* h) noexcept nogil:
    return (h.attributes & ATTR_TRANSACTIONAL) != 0


cdef inline bint batch_has_delete_horizon(const BatchHeader* h) noexcept nogil:
    return (h.attributes & ATTR_DELETE_HORIZON) != 0


cdef inline bint batch_is_log_append_time(const BatchHeader* h) noexcept nogil:
    return (h.attributes & ATTR_LOG_APPEND_TIME) != 0


cdef inline int batch_timestamp_type(const BatchHeader* h) noexcept nogil:
    """Kafka's number: 0 CreateTime, 1 LogAppendTime, -1 of format v0, which has no timestamps."""
    return -1 if h.magic == 0 else (h.attributes & ATTR_LOG_APPEND_TIME) != 0


cdef inline int32_t sequence_add(int32_t sequence, int32_t count) noexcept nogil:
    """Add like Kafka's sequences, which wrap from 2147483647 to 0."""
    if sequence > INT32_MAX_VALUE - count:
        return count - (INT32_MAX_VALUE - sequence) - 1
    return sequence + count


cdef inline int32_t batch_last_sequence(const BatchHeader* h) noexcept nogil:
    if h.base_sequence < 0:
        return -1
    return sequence_add(h.base_sequence, h.last_offset_delta)


# Result of an inspection of the bytes at one position.
cdef enum BatchLook:
    LOOK_OK = 0          # a whole batch, its structure sound (CRC only if requested)
    LOOK_END = 1         # no bytes left
    LOOK_PARTIAL = 2     # the bytes end inside a batch that may be sound

    LOOK_CORRUPT = 3     # not a batch: length, magic, counts, deltas or CRC are wrong

# Inspects p[0:left]. `check_crc` adds the checksum. Fills `h` as far as bytes reach (61 of them) and, for LOOK_PARTIAL
# and LOOK_CORRUPT, `fault` (code 2) when it is not NULL. Structure of magic 2:
# - length >= 49, base_offset >= 0, 0 <= last_offset_delta,
# - 0 <= record_count <= last_offset_delta + 1 (compaction leaves gaps and empty batches).
#
# Structure of magic 0 and 1: lengths that fit; for such a batch that is LOOK_PARTIAL `h` has the last offset as base
# offset. May acquire the interpreter lock for a compressed one. So no caller may hold a lock that another thread waits
# for while it holds the interpreter's.
cdef BatchLook batch_look(const uint8_t* p, Py_ssize_t left, bint check_crc, BatchHeader* h,
                          Fault* fault) noexcept nogil

# The fields outside of the records, from 61 readable bytes that were not checked.
cdef void batch_peek(const uint8_t* p, BatchHeader* h) noexcept nogil

# Whether p[0:left] begins with a whole batch of a format newer than ours. Its length and its offset, at least
# `offset_min`, are plausible. Its magic is above ours, and it is no batch of ours with another magic byte.
cdef bint is_unknown_format(const uint8_t* p, Py_ssize_t left, int64_t offset_min) noexcept nogil

# Writes base offset and leader epoch (both outside the CRC) into a writable header.
cdef inline void batch_assign(uint8_t* header, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    store_i64(header + BATCH_BASE_OFFSET, base_offset)
    store_i32(header + BATCH_LEADER_EPOCH, leader_epoch)


# The checksum of a whole batch (CRC-32C, of magic 0 and 1 CRC-32), to be compared with h.crc.
cdef uint32_t batch_crc(const uint8_t* p, const BatchHeader* h) noexcept nogil

# Like `batch_look`, but raises CorruptRecordError unless a whole, sound batch is present.
cdef int batch_require(const uint8_t* p, Py_ssize_t left, bint check_crc, BatchHeader* h) except -1

# Counts whole batches from the front; `whole_bytes` is the position of the first one that is not whole.
cdef int64_t batch_count(const uint8_t* p, Py_ssize_t size, bint check_crc, Py_ssize_t* whole_bytes) noexcept nogil


# Kafka's name of a timestamp type, by the number that `batch_timestamp_type` returns.
cdef str timestamp_type_name(int number)


cdef class HeldBuffer:
    """A contiguous buffer of another object, held for the life of this one."""
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef Py_ssize_t size


cdef class Batch:
    """The Python view of one batch; `owner` keeps `data` alive."""
    cdef object owner
    cdef const uint8_t* data
    cdef BatchHeader h


cdef class BatchIterator:
    cdef HeldBuffer held
    cdef Py_ssize_t at
    cdef bint check_crc

# A view over a batch that was checked already (LOOK_OK); `owner` is whatever keeps `data` alive.
cdef Batch batch_view(object owner, const uint8_t* data, const BatchHeader* h)
