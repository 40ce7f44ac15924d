"""The loop that turns batches into columns: over batches, over records, over headers.

Room for all that a batch could hold is allocated before it is read, so the loop over records checks nothing but the
records themselves. Nothing here creates a Python object.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, fault_set
from kraft_native.base.limits cimport BATCH_HEADER_BYTES, CODEC_NONE, INT32_MAX_VALUE, RECORD_BYTES_MIN
from kraft_native.base.span cimport span_left, span_of
from kraft_native.batch.batch cimport (
    LOOK_CORRUPT, LOOK_OK, BatchLook, batch_bytes, batch_codec, batch_crc, batch_is_control, batch_is_legacy,
    batch_is_log_append_time, batch_is_transactional, batch_last_offset, batch_look, batch_timestamp_type,
)
from kraft_native.batch.records cimport RecordView, header_next, record_next


# --- one value

cdef inline void put_null(BytesSink* sink, int64_t row, int64_t row_capacity) noexcept nogil:
    if sink.null_count == 0:
        memset(sink.validity, 0xFF, <size_t>((row_capacity + 7) >> 3))
    sink.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
    sink.null_count += 1


cdef inline void put_bytes(BytesSink* sink, int64_t row, int64_t row_capacity, const uint8_t* p, int32_t count,
                           const uint8_t* end) noexcept nogil:
    """Append one value; p[:count] lies before `end`, up to which bytes may be read."""
    cdef uint8_t* target = sink.data + sink.size
    if count > 0:
        # Two copies of constant size beat a call for most keys and small values.
        if count <= 32 and end - p >= 32:
            memcpy(target, p, 32)
        elif count <= 64 and end - p >= 64:
            memcpy(target, p, 64)
        else:
            memcpy(target, p, <size_t>count)
        sink.size += count
    elif count < 0:
        put_null(sink, row, row_capacity)
    sink.offsets[row + 1] = <int32_t>sink.size


cdef int utf8_step(const uint8_t* p, Py_ssize_t left) noexcept nogil:
    """Bytes of the valid UTF-8 sequence at p, 0 when it is invalid."""
    cdef uint8_t lead = p[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef int count
    cdef int i
    if lead < 0x80:
        return 1
    if 0xC2 <= lead <= 0xDF:
        count = 2
    elif 0xE0 <= lead <= 0xEF:
        count = 3
        low = 0xA0 if lead == 0xE0 else 0x80
        high = 0x9F if lead == 0xED else 0xBF
    elif 0xF0 <= lead <= 0xF4:
        count = 4
        low = 0x90 if lead == 0xF0 else 0x80
        high = 0x8F if lead == 0xF4 else 0xBF
    else:
        return 0
    if left < count or p[1] < low or p[1] > high:
        return 0
    for i in range(2, count):
        if p[i] & 0xC0 != 0x80:
            return 0
    return count


cdef void put_text(BytesSink* sink, int64_t row, const uint8_t* p, int32_t count) noexcept nogil:
    """Append a header key, corrected to valid UTF-8."""
    cdef uint8_t* target = sink.data + sink.size
    cdef const uint8_t* end = p + count
    cdef int step
    while p < end:
        step = utf8_step(p, end - p)
        if step == 0:
            target[0] = 0xEF
            target[1] = 0xBF
            target[2] = 0xBD
            target += 3
            p += 1
            continue
        memcpy(target, p, <size_t>step)
        target += step
        p += step
    sink.size = target - sink.data
    sink.offsets[row + 1] = <int32_t>sink.size


cdef int put_headers(Sinks* s, const RecordView* r) noexcept nogil:
    cdef Span headers = span_of(r.headers, r.headers_bytes)
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int32_t key_bytes
    cdef int32_t value_bytes
    while header_next(&headers, &key, &key_bytes, &value, &value_bytes) == 1:
        put_text(&s.header_key, s.header_rows, key, key_bytes)
        put_bytes(&s.header_value, s.header_rows, s.header_capacity, value, value_bytes, headers.end)
        s.header_rows += 1
    return 0


# --- one batch

cdef int fill(Sinks* s, ReadState* st) noexcept nogil:
    """Append the batch's records; room exists. 0: all, 1: stopped at rows_max or end_offset, -1: malformed."""
    cdef RecordView r
    cdef Span span = st.span
    cdef int64_t base_offset = st.h.base_offset
    cdef int64_t time = st.h.max_timestamp
    cdef bint append_time = batch_is_log_append_time(&st.h)
    cdef int8_t time_type = <int8_t>batch_timestamp_type(&st.h)
    cdef int64_t offset
    cdef int64_t row = s.rows
    cdef int32_t seen = 0
    cdef int found = record_next(&span, &r)
    while found == 1:
        seen += 1
        offset = base_offset + r.offset_delta
        if seen > st.h.record_count or r.offset_delta < 0 or r.offset_delta > st.h.last_offset_delta:
            found = -1
            break
        if offset >= st.start_offset:
            if row >= st.rows_max or offset >= st.end_offset:
                s.rows = row
                st.next_offset = offset
                return 1
            if s.offset != NULL:
                s.offset[row] = offset
            if s.timestamp != NULL:
                # Wraps like Java: a hostile producer's values must not cause undefined behaviour here.
                s.timestamp[row] = time if append_time else <int64_t>(
                    <uint64_t>st.h.base_timestamp + <uint64_t>r.timestamp_delta)
            if s.timestamp_type != NULL:
                s.timestamp_type[row] = time_type
            if s.leader_epoch != NULL:
                s.leader_epoch[row] = st.h.leader_epoch
            if s.key.offsets != NULL:
                put_bytes(&s.key, row, s.row_capacity, r.key, r.key_bytes, span.end)
            if s.value.offsets != NULL:
                put_bytes(&s.value, row, s.row_capacity, r.value, r.value_bytes, span.end)
            if s.header_starts != NULL:
                if r.header_count > 0:
                    put_headers(s, &r)
                s.header_starts[row + 1] = <int32_t>s.header_rows
            row += 1
        found = record_next(&span, &r)
    s.rows = row
    if found < 0 or seen != st.h.record_count:
        return fault_set(&st.fault, ERROR_CORRUPT_MESSAGE,
                         "batch at offset %lld: record %lld is malformed, or the count is wrong", base_offset, seen)
    return 0


cdef inline void close_gap(AbortedRange* to, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        to[i] = to[i + 1]


cdef bint is_aborted(ReadState* st) noexcept nogil:
    """True when the batch in `h` is data of an aborted transaction. Also drops transactions that ended before it.

    Called for every batch, in order: transactions that have begun are the first entries of the array.
    """
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t count = st.aborted_count
    cdef AbortedRange* txn
    cdef bint ended
    cdef bint found = False
    while i < count and st.aborted[i].first_offset <= batch_last_offset(&st.h):
        txn = st.aborted + i
        if txn.last_offset >= 0:
            ended = txn.last_offset < st.h.base_offset
        else:
            ended = batch_is_control(&st.h) and txn.producer_id == st.h.producer_id
        if ended:
            count -= 1
            close_gap(txn, count - i)
            continue
        if txn.producer_id == st.h.producer_id:
            found = True
        i += 1
    st.aborted_count = count
    return found and batch_is_transactional(&st.h) and not batch_is_control(&st.h)


cdef bint has_room(const Sinks* s, const ReadState* st) noexcept nogil:
    """True when all that the batch could hold fits. Sizes of wanted columns only; the others have room for nothing."""
    cdef int64_t size = span_left(&st.span) + COPY_SLACK_BYTES
    if s.rows + st.h.record_count > s.row_capacity:
        return False
    if s.key.offsets != NULL and s.key.size + size > s.key.capacity:
        return False
    if s.value.offsets != NULL and s.value.size + size > s.value.capacity:
        return False
    return s.header_starts == NULL or (
        s.header_rows + (size >> 1) <= s.header_capacity and s.header_value.size + size <= s.header_value.capacity
        and s.header_key.size + UTF8_GROWTH_MAX * size <= s.header_key.capacity)


cdef bint fits_offsets(const Sinks* s, const ReadState* st) noexcept nogil:
    """True when no 32-bit offset can overflow in this batch."""
    cdef int64_t size = span_left(&st.span)
    return (s.key.size + size <= INT32_MAX_VALUE and s.value.size + size <= INT32_MAX_VALUE
            and s.header_key.size + UTF8_GROWTH_MAX * size <= INT32_MAX_VALUE
            and s.header_value.size + size <= INT32_MAX_VALUE)


cdef ReadStep next_batch(ReadState* st, const Sinks* s) noexcept nogil:
    """Advance to the next batch to be read, and inspect it. STEP_ROOM means: `span` is its records."""
    cdef BatchLook look
    while True:
        look = batch_look(st.data + st.at, st.size - st.at, False, &st.h, &st.fault)
        if look == LOOK_CORRUPT:
            return STEP_FAULT
        if look != LOOK_OK or st.h.base_offset >= st.end_offset or s.rows >= st.rows_max:
            return STEP_END
        if not is_aborted(st) and (st.control or not batch_is_control(&st.h)):
            if batch_last_offset(&st.h) >= st.start_offset:
                break
        st.at += batch_bytes(&st.h)
        st.next_offset = batch_last_offset(&st.h) + 1
    if st.check_crc and batch_crc(st.data + st.at, &st.h) != st.h.crc:
        fault_set(&st.fault, ERROR_CORRUPT_MESSAGE, "batch at offset %lld: the CRC does not match", st.h.base_offset, 0)
        return STEP_FAULT
    if batch_codec(&st.h) != CODEC_NONE or batch_is_legacy(&st.h):
        return STEP_COMPRESSED
    st.span = span_of(st.data + st.at + BATCH_HEADER_BYTES, batch_bytes(&st.h) - BATCH_HEADER_BYTES)
    return STEP_ROOM


cdef ReadStep run(ReadState* st, Sinks* s) noexcept nogil:
    """Read batches until one needs the caller."""
    cdef Sinks before
    cdef ReadStep step
    cdef int filled
    while True:
        if not st.loaded:
            step = next_batch(st, s)
            if step != STEP_ROOM:
                return step
            st.loaded = True
        if <int64_t>st.h.record_count * RECORD_BYTES_MIN > span_left(&st.span):
            fault_set(&st.fault, ERROR_CORRUPT_MESSAGE, "batch at offset %lld: too few bytes for %lld records",
                      st.h.base_offset, st.h.record_count)
            return STEP_FAULT
        if not fits_offsets(s, st):
            if s.rows > 0:
                return STEP_END
            fault_set(&st.fault, ERROR_CORRUPT_MESSAGE, "batch at offset %lld: %lld bytes of records are too many for "
                      "32-bit columns", st.h.base_offset, span_left(&st.span))
            return STEP_FAULT
        if not has_room(s, st):
            return STEP_ROOM
        before = s[0]
        filled = fill(s, st)
        if filled < 0:
            s[0] = before
            return STEP_FAULT
        if filled > 0:
            return STEP_END
        st.loaded = False
        st.at += batch_bytes(&st.h)
        st.next_offset = batch_last_offset(&st.h) + 1


cdef void survey(const ReadState* st, int64_t* rows, int64_t* size) noexcept nogil:
    """Estimate room: rows and record bytes of the uncompressed batches ahead, by their headers."""
    cdef BatchHeader h
    cdef Py_ssize_t at = st.at
    rows[0] = 0
    size[0] = 0
    while batch_look(st.data + at, st.size - at, False, &h, NULL) == LOOK_OK:
        if h.base_offset >= st.end_offset or rows[0] >= st.rows_max or size[0] >= INT32_MAX_VALUE:
            break
        at += batch_bytes(&h)
        if batch_last_offset(&h) < st.start_offset or batch_codec(&h) != CODEC_NONE:
            continue
        if batch_is_legacy(&h) or <int64_t>h.record_count * RECORD_BYTES_MIN <= h.batch_length:
            rows[0] += h.record_count
            size[0] += h.batch_length
