"""Fetch as a follower speaks it (version 17): the request encoded, the response read partition by partition."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.file.buffer cimport Scratch


# A follower's identity in each request.
cdef struct FollowerIdentity:
    int64_t broker_epoch
    int32_t node_id
    int32_t max_wait_ms
    int32_t min_bytes
    int32_t bytes_max              # of a whole response


# A follower's request for one partition.
cdef struct FollowerSpec:
    int64_t fetch_offset
    int64_t log_start_offset
    int32_t index
    int32_t leader_epoch
    int32_t last_fetched_epoch     # -1: its log is empty
    int32_t bytes_max


# One partition's part of a response. `records` points into the response.
cdef struct FollowerPart:
    int64_t high_watermark
    int64_t log_start_offset
    int64_t diverging_end
    const uint8_t* records
    Py_ssize_t records_bytes       # 0: none
    int32_t index
    int32_t diverging_epoch        # -1: none
    int16_t error


cdef class FetchWriter:
    """One request in `out`, length included: `begin`, then `topic` and `partition` calls, `forget` and `forgotten`
    calls, `end`. Counts are patched in place, in the longest form of a varint."""
    cdef Scratch out
    cdef Py_ssize_t topics_at
    cdef Py_ssize_t parts_at       # -1: no topic is open
    cdef bytes topic_id            # of the one that is
    cdef int32_t topics
    cdef int32_t parts

    cdef int begin(self, int32_t correlation_id, bytes client_id, const FollowerIdentity* identity,
                   int32_t session_id, int32_t session_epoch) except -1
    cdef int topic(self, bytes topic_id) except -1
    cdef int partition(self, const FollowerSpec* spec) except -1
    cdef int forget(self) except -1
    cdef int forgotten(self, int32_t index) except -1
    # The whole frame.
    cdef bytes end(self, const FollowerIdentity* identity)
    cdef int close_topic(self) except -1
    cdef int open_list(self) except -1


# A response from its header on: fills the error and session id, and leaves `body` before the topics. False: malformed.
cdef bint read_fetch_head(Span* body, int32_t* correlation_id, int16_t* error, int32_t* session_id) noexcept nogil
# A topic's id and count of parts; then its parts, and its end.
cdef bint read_fetch_topic(Span* body, const uint8_t** topic_id, int32_t* parts) noexcept nogil
cdef bint read_fetch_part(Span* body, FollowerPart* part) noexcept nogil
