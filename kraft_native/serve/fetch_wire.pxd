"""Fetch on the wire, versions 4 to 18: the request decoded, the reply encoded around the records."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.file.buffer cimport Scratch
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.reply cimport Reply


cdef enum:
    FETCH_VERSION_MIN = 4
    FETCH_VERSION_MAX = 18
    FETCH_BY_ID_FROM = 13
    # Limit for one request; a larger one is refused.
    FETCH_PARTITIONS_MAX = 100_000


cdef struct FetchParams:
    int64_t broker_epoch           # of a follower's process; -1: not given
    int32_t replica_id             # -1: a consumer
    int32_t max_wait_ms
    int32_t min_bytes
    int32_t max_bytes
    int32_t session_id
    int32_t session_epoch
    int8_t isolation               # 0 read_uncommitted, 1 read_committed
    const uint8_t* rack            # of a consumer, in the request's bytes
    Py_ssize_t rack_bytes


# Place in a body that is decoded in steps.
cdef struct FetchCursor:
    Span body
    int part                       # of the request; begins with 0
    int32_t topics_left
    int32_t partitions_left        # of the topic; -1: before the next topic


cdef enum:
    FETCH_DECODED = 0
    FETCH_DECODES = 1              # the next call continues
    FETCH_MALFORMED = 2


cdef FetchCursor fetch_cursor(const uint8_t* body, Py_ssize_t body_bytes) noexcept

# Decodes about `count_max` further topics and partitions. Fills `params`, `entries` with a FetchEntry each, and
# `forgotten` with (topic, index).
cdef int decode_fetch(FetchCursor* at, int version, FetchParams* params, list entries, list forgotten,
                      Py_ssize_t count_max) except -1

# Bytes of the shortest partition in a request.
cdef Py_ssize_t partition_bytes_min(int version) noexcept

# The reply as a list of parts: bytes, and the records' slices between them. It has those of `entries` that are to be
# included; `out` is working space.
cdef list encode_fetch(Reply reply, PartitionTable table, int16_t error, int32_t session_id, list entries, Scratch out)


# Reply that is encoded in steps.
cdef struct FetchEncoding:
    Py_ssize_t at                  # the next entry
    Py_ssize_t run_end             # of the entries of its topic, when its head is encoded; else `at`
    Py_ssize_t cut                 # of the working space: bytes before it are in the parts
    bint names_leaders             # the reply has addresses of leaders


# Begins the reply; `entries` and `out` stay the same until its end.
cdef FetchEncoding begin_encoding(Reply reply, int16_t error, int32_t session_id, list entries, Scratch out) except *

# Encodes about `count_max` entries. False when none is left.
cdef bint encode_some(FetchEncoding* place, int version, PartitionTable table, list entries, Scratch out,
                      list parts, Py_ssize_t count_max) except -1

cdef int end_encoding(FetchEncoding* place, int version, PartitionTable table, list entries, Scratch out,
                      list parts) except -1
