"""Fields of Kafka's messages: bounded reads from a span, writes into reserved memory (KIP-482 for the compact forms).

Readers return 0 and advance, or -1 when the bytes cannot be such a field; the caller then refuses the request. Writers
return the place after the written bytes; the caller has reserved the room.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kraft_native.base.bytes_be cimport store_i16, store_i32, store_i64
from kraft_native.base.span cimport Span, span_bytes, span_i16, span_i32, span_left, span_uvarint
from kraft_native.base.varint cimport put_uvarint


cdef enum:
    UUID_BYTES = 16
    UVARINT_BYTES_MAX = 5


cdef inline bint is_utf8(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """True for whole characters: no overlong forms, no surrogates, nothing above U+10FFFF."""
    cdef Py_ssize_t i = 0, tail, k
    cdef uint8_t first, low, high
    while i < size:
        first = data[i]
        if first < 0x80:
            i += 1
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= first <= 0xDF:
            tail = 1
        elif 0xE0 <= first <= 0xEF:
            tail = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            tail = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if size - i <= tail or not low <= data[i + 1] <= high:
            return False
        for k in range(2, tail + 1):
            if data[i + k] & 0xC0 != 0x80:
                return False
        i += tail + 1
    return True


cdef inline int read_string(Span* s, bint flexible, const uint8_t** data, Py_ssize_t* size) noexcept nogil:
    """A nullable string; null sets NULL and size -1. Invalid UTF-8 is refused, as by the readers of `wire`: a client
    could not read it if it were sent back."""
    cdef int16_t short_size
    cdef uint32_t compact
    if flexible:
        if span_uvarint(s, &compact) < 0:
            return -1
        size[0] = <Py_ssize_t>compact - 1
    else:
        if span_i16(s, &short_size) < 0 or short_size < -1:
            return -1
        size[0] = short_size
    data[0] = NULL
    if size[0] < 0:
        return 0
    return 0 if span_bytes(s, size[0], data) == 0 and is_utf8(data[0], size[0]) else -1


cdef inline int read_blob(Span* s, bint flexible, const uint8_t** data, Py_ssize_t* size) noexcept nogil:
    """Nullable bytes or records; null sets NULL and size -1."""
    cdef int32_t long_size
    cdef uint32_t compact
    if flexible:
        if span_uvarint(s, &compact) < 0:
            return -1
        size[0] = <Py_ssize_t>compact - 1
    else:
        if span_i32(s, &long_size) < 0 or long_size < -1:
            return -1
        size[0] = long_size
    data[0] = NULL
    return 0 if size[0] < 0 else span_bytes(s, size[0], data)


cdef inline int read_count(Span* s, bint flexible, Py_ssize_t item_bytes_min, int32_t* count) noexcept nogil:
    """Number of items of an array, each of at least `item_bytes_min` bytes; -1 stands for null. A count whose items do
    not fit into the rest is refused."""
    cdef uint32_t compact
    if flexible:
        if span_uvarint(s, &compact) < 0 or compact > 0x7FFFFFFF:
            return -1
        count[0] = <int32_t>compact - 1
    elif span_i32(s, count) < 0 or count[0] < -1:
        return -1
    return -1 if count[0] > span_left(s) // item_bytes_min else 0


cdef inline int read_tag(Span* s, uint32_t* tag, Span* value) noexcept nogil:
    """One tagged field: its number, and its bytes as a span of their own."""
    cdef uint32_t size
    cdef const uint8_t* start
    if span_uvarint(s, tag) < 0 or span_uvarint(s, &size) < 0 or span_bytes(s, size, &start) < 0:
        return -1
    value.p = start
    value.end = start + size
    return 0


cdef inline int skip_tags(Span* s, bint flexible) noexcept nogil:
    """Skip tagged fields, none of which is of interest."""
    cdef uint32_t count, tag
    cdef Span value
    if not flexible:
        return 0
    if span_uvarint(s, &count) < 0:
        return -1
    while count > 0:
        if read_tag(s, &tag, &value) < 0:
            return -1
        count -= 1
    return 0


cdef inline uint8_t* put_i8(uint8_t* p, int8_t value) noexcept nogil:
    p[0] = <uint8_t>value
    return p + 1


cdef inline uint8_t* put_i16(uint8_t* p, int16_t value) noexcept nogil:
    store_i16(p, value)
    return p + 2


cdef inline uint8_t* put_i32(uint8_t* p, int32_t value) noexcept nogil:
    store_i32(p, value)
    return p + 4


cdef inline uint8_t* put_i64(uint8_t* p, int64_t value) noexcept nogil:
    store_i64(p, value)
    return p + 8


cdef inline uint8_t* put_bytes(uint8_t* p, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    if size <= 0:
        return p
    memcpy(p, data, <size_t>size)
    return p + size


cdef inline uint8_t* put_count(uint8_t* p, bint flexible, int32_t count) noexcept nogil:
    """Number of items of an array; -1 for null."""
    if flexible:
        return put_uvarint(p, <uint32_t>(count + 1))
    return put_i32(p, count)


cdef inline uint8_t* put_string(uint8_t* p, bint flexible, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """A string of at most 32,767 bytes; size -1 for null."""
    if flexible:
        p = put_uvarint(p, <uint32_t>(size + 1))
    else:
        p = put_i16(p, <int16_t>size)
    return put_bytes(p, data, size)
