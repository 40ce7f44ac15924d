"""The request header, and the end of every request of a flexible version.

| field | version 1 | version 2 |
|---|---|---|
| api key | int16 | int16 |
| api version | int16 | int16 |
| correlation id | int32 | int32 |
| client id | nullable string, int16 length | the same, not a compact string |
| tagged fields | | uvarint count; each uvarint tag, uvarint size, bytes |

The first three determine by api key and version which header follows, so it is read in two steps. Both return 0, or -1
when the bytes end too soon or are inconsistent.
"""

from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t

from kraft_native.base.span cimport Span, span_bytes, span_i16, span_i32, span_skip, span_uvarint


cdef struct RequestHeader:
    int16_t api_key
    int16_t api_version
    int32_t correlation_id
    const uint8_t* client_id       # NULL when the client gave none
    Py_ssize_t client_id_bytes


cdef inline int span_skip_tags(Span* s) noexcept nogil:
    """Skip a set of tagged fields. Every one has at least two bytes, so a large count ends at once."""
    cdef uint32_t count, tag, size
    if span_uvarint(s, &count) < 0:
        return -1
    while count > 0:
        if span_uvarint(s, &tag) < 0 or span_uvarint(s, &size) < 0 or span_skip(s, <Py_ssize_t>size) < 0:
            return -1
        count -= 1
    return 0


cdef inline int request_header_begin(Span* s, RequestHeader* header) noexcept nogil:
    """Key, version and correlation id."""
    if (span_i16(s, &header.api_key) < 0 or span_i16(s, &header.api_version) < 0
            or span_i32(s, &header.correlation_id) < 0):
        return -1
    header.client_id = NULL
    header.client_id_bytes = 0
    return 0


cdef inline int request_header_rest(Span* s, RequestHeader* header, bint flexible) noexcept nogil:
    """Client id and, in version 2 (`flexible`), tagged fields; `s` is then at the body."""
    cdef int16_t count
    if span_i16(s, &count) < 0 or count < -1:
        return -1
    if count >= 0:
        if span_bytes(s, count, &header.client_id) < 0:
            return -1
        header.client_id_bytes = count
    if flexible:
        return span_skip_tags(s)
    return 0
