"""Search of record batches for some bytes in keys, values and headers, without an object per record.

A batch that is not compressed is first searched as one piece: most batches of a search hold nothing, and their records
are not even walked. Only records that match become objects.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, Fault, fault_set, raise_fault
from kraft_native.base.limits cimport BATCH_HEADER_BYTES, CODEC_NONE
from kraft_native.base.span cimport Span, span_left, span_of
from kraft_native.batch.batch cimport (
    LOOK_CORRUPT, LOOK_OK, BatchHeader, BatchLook, HeldBuffer, batch_bytes, batch_codec, batch_is_control,
    batch_is_legacy, batch_is_log_append_time, batch_last_offset, batch_look,
)
from kraft_native.batch.codecs cimport DecompressLimits, decompress_limits_default
from kraft_native.batch.records cimport RecordView, header_next, record_next, record_object, records_of
from kraft_native.file.buffer cimport Scratch

from typing import NamedTuple

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.records import Record

cdef extern from "<string.h>" nogil:
    void* memmem(const void* haystack, size_t size, const void* needle, size_t needle_size)

cdef enum:
    KEY_BIT = 1
    VALUE_BIT = 2
    HEADERS_BIT = 4
    EVERYWHERE = 7

KEYS, VALUES, HEADERS = KEY_BIT, VALUE_BIT, HEADERS_BIT

cdef enum SearchStep:
    STEP_MATCH = 0
    STEP_COMPRESSED = 1            # the caller decompresses the batch at `at` into `span`
    STEP_END = 2
    STEP_FAULT = 3


cdef struct SearchState:
    const uint8_t* data
    Py_ssize_t size
    Py_ssize_t at
    const uint8_t* needle
    Py_ssize_t needle_bytes
    int where
    int64_t start_offset
    int64_t end_offset
    int64_t from_ms
    int64_t to_ms
    int64_t next_offset
    bint loaded                    # h and span are those of the batch at `at`
    int32_t seen                   # records of that batch before span.p
    BatchHeader h
    Span span
    RecordView record
    Fault fault


class FoundRecords(NamedTuple):
    """Records that match, in order. The search continues at `next_position` of the source, from `next_offset` on."""

    records: list[Record]
    next_position: int
    next_offset: int


cdef inline bint holds(const SearchState* st, const uint8_t* p, int64_t size) noexcept nogil:
    return size >= st.needle_bytes and memmem(p, <size_t>size, st.needle, <size_t>st.needle_bytes) != NULL


cdef bint headers_hold(const SearchState* st) noexcept nogil:
    cdef Span headers = span_of(st.record.headers, st.record.headers_bytes)
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int32_t key_bytes
    cdef int32_t value_bytes
    while header_next(&headers, &key, &key_bytes, &value, &value_bytes) == 1:
        if holds(st, key, key_bytes) or holds(st, value, value_bytes):
            return True
    return False


cdef bint matches(const SearchState* st) noexcept nogil:
    """Return whether the record in `record` has the needle where it is wanted, and a wanted time."""
    cdef int64_t time = st.h.max_timestamp if batch_is_log_append_time(&st.h) else <int64_t>(
        <uint64_t>st.h.base_timestamp + <uint64_t>st.record.timestamp_delta)
    if time < st.from_ms or time > st.to_ms:
        return False
    if st.needle_bytes == 0:
        return True
    if st.where & KEY_BIT and holds(st, st.record.key, st.record.key_bytes):
        return True
    if st.where & VALUE_BIT and holds(st, st.record.value, st.record.value_bytes):
        return True
    return (st.where & HEADERS_BIT) != 0 and st.record.header_count > 0 and headers_hold(st)


cdef inline void pass_batch(SearchState* st) noexcept nogil:
    st.at += batch_bytes(&st.h)
    st.next_offset = max(st.next_offset, batch_last_offset(&st.h) + 1)
    st.loaded = False


cdef SearchStep load_next(SearchState* st) noexcept nogil:
    """Advance to the next batch that may have a match. STEP_MATCH means: `span` is its records."""
    cdef BatchLook look
    while True:
        look = batch_look(st.data + st.at, st.size - st.at, False, &st.h, &st.fault)
        if look == LOOK_CORRUPT:
            return STEP_FAULT
        if look != LOOK_OK or st.h.base_offset >= st.end_offset:
            return STEP_END
        st.seen = 0
        if (batch_is_control(&st.h) or batch_last_offset(&st.h) < st.start_offset
                or (not batch_is_legacy(&st.h) and st.h.max_timestamp < st.from_ms)):
            pass_batch(st)
            continue
        if batch_codec(&st.h) != CODEC_NONE or batch_is_legacy(&st.h):
            return STEP_COMPRESSED
        st.span = span_of(st.data + st.at + BATCH_HEADER_BYTES, batch_bytes(&st.h) - BATCH_HEADER_BYTES)
        st.loaded = True
        return STEP_MATCH


cdef SearchStep run(SearchState* st) noexcept nogil:
    """Search until a record matches, or until the caller is needed."""
    cdef SearchStep step
    cdef int found
    cdef int64_t offset
    while True:
        if not st.loaded:
            step = load_next(st)
            if step != STEP_MATCH:
                return step
        if st.seen == 0 and st.needle_bytes > 0 and not holds(st, st.span.p, span_left(&st.span)):
            pass_batch(st)
            continue
        found = record_next(&st.span, &st.record)
        while found == 1:
            st.seen += 1
            offset = st.h.base_offset + st.record.offset_delta
            if (st.seen > st.h.record_count or st.record.offset_delta < 0
                    or st.record.offset_delta > st.h.last_offset_delta):
                found = -1
                break
            if offset >= st.end_offset:
                st.next_offset = offset
                return STEP_END
            if offset >= st.start_offset and matches(st):
                st.next_offset = offset + 1
                return STEP_MATCH
            found = record_next(&st.span, &st.record)
        if found < 0 or st.seen != st.h.record_count:
            fault_set(&st.fault, ERROR_CORRUPT_MESSAGE,
                      "batch at offset %lld: record %lld is malformed, or the count is wrong", st.h.base_offset,
                      st.seen)
            return STEP_FAULT
        pass_batch(st)


def find_records(source: Buffer, needle: bytes, *, Py_ssize_t position=0, int64_t start_offset=0,
                 end_offset: int | None = None, from_ms: int | None = None, to_ms: int | None = None,
                 int where=EVERYWHERE, Py_ssize_t max_records=100) -> FoundRecords:
    """Search the batches in `source[position:]` for records that contain `needle`; an empty one is in every record.

    `where`: a sum of KEYS, VALUES and HEADERS. `start_offset` (inclusive) and `end_offset` (exclusive) bound offsets,
    `from_ms` and `to_ms` (both inclusive) times. Control batches are passed over; checksums are not verified.

    The search ends before a batch that is cut off, and at damage, which is raised as CorruptRecordError
    (MessageTooLargeError: past a limit of decompression) only when no match precedes it.
    """
    cdef HeldBuffer held = HeldBuffer(source)
    cdef HeldBuffer wanted = HeldBuffer(needle)
    cdef Scratch scratch = Scratch()
    cdef DecompressLimits limits = decompress_limits_default()
    cdef SearchState st
    cdef SearchStep step
    cdef list found = []
    if position < 0 or position > held.size:
        raise InvalidArgumentError(f"position {position}: 0 to {held.size}")
    if max_records < 1:
        raise InvalidArgumentError(f"max_records {max_records}: at least 1")
    if where < 1 or where > EVERYWHERE:
        raise InvalidArgumentError(f"where {where}: a sum of KEYS, VALUES and HEADERS")
    memset(&st, 0, sizeof(SearchState))
    st.data, st.size, st.at = held.data, held.size, position
    st.needle, st.needle_bytes, st.where = wanted.data, wanted.size, where
    st.start_offset = st.next_offset = start_offset
    st.end_offset = INT64_MAX if end_offset is None else end_offset
    st.from_ms = INT64_MIN if from_ms is None else from_ms
    st.to_ms = INT64_MAX if to_ms is None else to_ms
    while True:
        with nogil:
            step = run(&st)
        if step == STEP_MATCH:
            found.append(record_object(&st.h, &st.record))
            if len(found) == max_records:
                break
        elif step == STEP_COMPRESSED:
            try:
                st.span = records_of(held.data + st.at, &st.h, &limits, scratch)
            except Exception:
                if found:
                    break
                raise
            st.loaded = True
        elif step == STEP_FAULT and not found:
            raise_fault(&st.fault)
        else:
            break
    return FoundRecords(found, st.at, st.next_offset)
