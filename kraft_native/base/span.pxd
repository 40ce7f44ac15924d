"""The one bounded cursor for all parsing: every read checks against `end` before it touches a byte.

Each reader returns 0 and advances, or returns -1 and leaves the cursor where it was. Varints follow protocol
buffers' zig-zag form as Kafka's ByteUtils uses it: at most 5 bytes for an int32, 10 for an int64.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kraft_native.base.bytes_be cimport load_i16, load_i32, load_i64
from kraft_native.base.limits cimport VARINT_BYTES_MAX, VARLONG_BYTES_MAX


cdef struct Span:
    const uint8_t* p
    const uint8_t* end


cdef inline Span span_of(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef Span s
    s.p = p
    s.end = p + size
    return s


cdef inline Py_ssize_t span_left(const Span* s) noexcept nogil:
    return s.end - s.p


cdef inline int span_skip(Span* s, Py_ssize_t count) noexcept nogil:
    if count < 0 or s.end - s.p < count:
        return -1
    s.p += count
    return 0


cdef inline int span_bytes(Span* s, Py_ssize_t count, const uint8_t** out) noexcept nogil:
    if count < 0 or s.end - s.p < count:
        return -1
    out[0] = s.p
    s.p += count
    return 0


cdef inline int span_i8(Span* s, int8_t* out) noexcept nogil:
    if s.end - s.p < 1:
        return -1
    out[0] = <int8_t>s.p[0]
    s.p += 1
    return 0


cdef inline int span_i16(Span* s, int16_t* out) noexcept nogil:
    if s.end - s.p < 2:
        return -1
    out[0] = load_i16(s.p)
    s.p += 2
    return 0


cdef inline int span_i32(Span* s, int32_t* out) noexcept nogil:
    if s.end - s.p < 4:
        return -1
    out[0] = load_i32(s.p)
    s.p += 4
    return 0


cdef inline int span_i64(Span* s, int64_t* out) noexcept nogil:
    if s.end - s.p < 8:
        return -1
    out[0] = load_i64(s.p)
    s.p += 8
    return 0


cdef inline int span_uvarint(Span* s, uint32_t* out) noexcept nogil:
    """Unsigned varint of at most 5 bytes. Bits past the 32nd are refused."""
    cdef const uint8_t* p = s.p
    cdef uint32_t v = 0
    cdef int shift = 0
    cdef uint8_t b
    while p < s.end:
        b = p[0]
        p += 1
        if shift == 28 and b > 0x0F:
            return -1
        v |= <uint32_t>(b & 0x7F) << shift
        if b < 0x80:
            out[0] = v
            s.p = p
            return 0
        shift += 7
    return -1


cdef inline int span_varint(Span* s, int32_t* out) noexcept nogil:
    """Zig-zag varint, int32. The one-byte case, nearly all of them, comes first."""
    cdef uint32_t v
    cdef uint8_t b
    if s.p < s.end:
        b = s.p[0]
        if b < 0x80:
            out[0] = <int32_t>((b >> 1) ^ (<uint32_t>0 - (b & 1)))
            s.p += 1
            return 0
    if span_uvarint(s, &v) < 0:
        return -1
    out[0] = <int32_t>((v >> 1) ^ (<uint32_t>0 - (v & 1)))
    return 0


cdef inline int span_varlong(Span* s, int64_t* out) noexcept nogil:
    """Zig-zag varint, int64, at most 10 bytes."""
    cdef const uint8_t* p = s.p
    cdef uint64_t v = 0
    cdef int shift = 0
    cdef uint8_t b
    while p < s.end:
        b = p[0]
        p += 1
        if shift == 63 and b > 0x01:
            return -1
        v |= <uint64_t>(b & 0x7F) << shift
        if b < 0x80:
            out[0] = <int64_t>((v >> 1) ^ (<uint64_t>0 - (v & 1)))
            s.p = p
            return 0
        shift += 7
    return -1
