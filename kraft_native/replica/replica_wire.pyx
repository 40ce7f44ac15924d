"""Fetch as a follower speaks it, version 17 with request header 2 and response header 1 (Kafka's FetchRequest.json).

The version is the newest that every broker since 3.5 serves, apart from tags that followers do not need:

- topics by id (V13),
- the follower's identity with its broker epoch (V15, KIP-903),
- diverging epochs instead of a separate request (V12, KIP-595).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

cimport cython

from kraft_native.base.bytes_be cimport store_i32
from kraft_native.base.span cimport span_bytes, span_i16, span_i32, span_i64, span_skip, span_uvarint
from kraft_native.request.fields cimport (
    UUID_BYTES, put_bytes, put_i8, put_i16, put_i32, put_i64, put_string, read_blob, read_count, read_tag,
    skip_tags,
)

cdef enum:
    FETCH_KEY = 1
    FETCH_VERSION = 17
    COUNT_BYTES = 5                # a varint in its longest form
    REPLICA_STATE_TAG = 1
    REPLICA_STATE_BYTES = 13       # id, epoch, no tags
    FIXED_BYTES = 128              # more than header and fields before the topics need, except for the client id
    PART_BYTES = 64
    ABORTED_BYTES_MIN = 17


@cython.final
cdef class FetchWriter:
    def __cinit__(self):
        self.out = Scratch()

    cdef int begin(self, int32_t correlation_id, bytes client_id, const FollowerIdentity* identity,
                   int32_t session_id, int32_t session_epoch) except -1:
        cdef Scratch out = self.out
        cdef uint8_t* p
        out.size = 0
        out.reserve(FIXED_BYTES + PyBytes_GET_SIZE(client_id))
        p = put_i32(out.data, 0)                       # the length, at the end
        p = put_i16(put_i16(p, FETCH_KEY), FETCH_VERSION)
        p = put_i32(p, correlation_id)
        p = put_string(p, False, <const uint8_t*>PyBytes_AS_STRING(client_id), PyBytes_GET_SIZE(client_id))
        p = put_i8(p, 0)
        p = put_i32(p, identity.max_wait_ms)
        p = put_i32(p, identity.min_bytes)
        p = put_i32(p, identity.bytes_max)
        p = put_i8(p, 0)                               # isolation: followers see everything
        p = put_i32(p, session_id)
        p = put_i32(p, session_epoch)
        out.size = p - out.data
        self.open_list()
        return 0

    cdef int open_list(self) except -1:
        self.out.reserve(self.out.size + COUNT_BYTES)
        self.topics_at = self.out.size
        self.out.size += COUNT_BYTES
        self.topics = 0
        self.parts_at = -1
        return 0

    cdef int topic(self, bytes topic_id) except -1:
        """Set the topic of the following parts; it may be the one that is open."""
        cdef Scratch out = self.out
        if self.parts_at >= 0 and topic_id == self.topic_id:
            return 0
        self.close_topic()
        self.topic_id = topic_id
        out.reserve(out.size + UUID_BYTES + COUNT_BYTES)
        put_bytes(out.data + out.size, <const uint8_t*>PyBytes_AS_STRING(topic_id), UUID_BYTES)
        self.parts_at = out.size + UUID_BYTES
        out.size += UUID_BYTES + COUNT_BYTES
        self.parts = 0
        self.topics += 1
        return 0

    cdef int close_topic(self) except -1:
        if self.parts_at >= 0:
            put_long_count(self.out.data + self.parts_at, self.parts)
            self.out.reserve(self.out.size + 1)
            self.out.data[self.out.size] = 0
            self.out.size += 1
            self.parts_at = -1
        return 0

    cdef int partition(self, const FollowerSpec* spec) except -1:
        cdef Scratch out = self.out
        cdef uint8_t* p
        out.reserve(out.size + PART_BYTES)
        p = put_i32(out.data + out.size, spec.index)
        p = put_i32(p, spec.leader_epoch)
        p = put_i64(p, spec.fetch_offset)
        p = put_i32(p, spec.last_fetched_epoch)
        p = put_i64(p, spec.log_start_offset)
        p = put_i32(p, spec.bytes_max)
        out.size = put_i8(p, 0) - out.data
        self.parts += 1
        return 0

    cdef int forget(self) except -1:
        """Switch to the topics to be forgotten."""
        self.close_topic()
        put_long_count(self.out.data + self.topics_at, self.topics)
        return self.open_list()

    cdef int forgotten(self, int32_t index) except -1:
        self.out.reserve(self.out.size + 4)
        store_i32(self.out.data + self.out.size, index)
        self.out.size += 4
        self.parts += 1
        return 0

    cdef bytes end(self, const FollowerIdentity* identity):
        cdef Scratch out = self.out
        cdef uint8_t* p
        self.close_topic()
        put_long_count(out.data + self.topics_at, self.topics)
        out.reserve(out.size + PART_BYTES)
        p = put_i8(out.data + out.size, 1)             # the rack, an empty string: only consumers have one
        p = put_i8(p, 1)                               # one tag
        p = put_i8(put_i8(p, REPLICA_STATE_TAG), REPLICA_STATE_BYTES)
        p = put_i32(p, identity.node_id)
        p = put_i64(p, identity.broker_epoch)
        out.size = put_i8(p, 0) - out.data
        store_i32(out.data, <int32_t>(out.size - 4))
        return PyBytes_FromStringAndSize(<const char*>out.data, out.size)


cdef void put_long_count(uint8_t* p, int32_t count) noexcept nogil:
    """Write a compact array's count, always in five bytes."""
    cdef uint32_t value = <uint32_t>count + 1
    cdef int i
    for i in range(COUNT_BYTES - 1):
        p[i] = <uint8_t>(value & 0x7F) | 0x80
        value >>= 7
    p[COUNT_BYTES - 1] = <uint8_t>value


cdef bint read_fetch_head(Span* body, int32_t* correlation_id, int16_t* error, int32_t* session_id) noexcept nogil:
    cdef int32_t throttle_ms
    return (span_i32(body, correlation_id) == 0 and skip_tags(body, True) == 0 and span_i32(body, &throttle_ms) == 0
            and span_i16(body, error) == 0 and span_i32(body, session_id) == 0)


cdef bint read_fetch_topic(Span* body, const uint8_t** topic_id, int32_t* parts) noexcept nogil:
    return (span_bytes(body, UUID_BYTES, topic_id) == 0 and read_count(body, True, 16, parts) == 0 and parts[0] >= 0)


cdef bint read_fetch_part(Span* body, FollowerPart* part) noexcept nogil:
    cdef int64_t last_stable
    cdef int32_t aborted, preferred
    cdef uint32_t tags, tag
    cdef Span value
    part.diverging_epoch = -1
    part.diverging_end = -1
    if (
        span_i32(body, &part.index) < 0 or span_i16(body, &part.error) < 0
        or span_i64(body, &part.high_watermark) < 0 or span_i64(body, &last_stable) < 0
        or span_i64(body, &part.log_start_offset) < 0 or read_count(body, True, ABORTED_BYTES_MIN, &aborted) < 0
    ):
        return False
    while aborted > 0:
        if span_skip(body, 16) < 0 or skip_tags(body, True) < 0:
            return False
        aborted -= 1
    if (
        span_i32(body, &preferred) < 0 or read_blob(body, True, &part.records, &part.records_bytes) < 0
        or span_uvarint(body, &tags) < 0
    ):
        return False
    part.records_bytes = max(part.records_bytes, 0)
    while tags > 0:
        if read_tag(body, &tag, &value) < 0:
            return False
        if tag == 0 and (span_i32(&value, &part.diverging_epoch) < 0 or span_i64(&value, &part.diverging_end) < 0):
            return False
        tags -= 1
    return True
