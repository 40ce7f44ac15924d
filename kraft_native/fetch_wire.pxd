"""Fetch on the wire, versions 4 to 18: the request decoded, the reply encoded around the records."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kraft_native.buffer cimport Scratch
from kraft_native.reply cimport Reply
from kraft_native.span cimport Span
from kraft_native.table cimport PartitionTable


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


# Fills `params`, `entries` with a FetchEntry each, and `forgotten` with (topic, index). False when the body is no such
# request.
cdef bint decode_fetch(Span* body, int version, FetchParams* params, list entries, list forgotten) except -1

# The reply as a list of parts: bytes, and the records' slices between them. It has those of `entries` that are to be
# included; `out` is working space.
cdef list encode_fetch(Reply reply, PartitionTable table, int16_t error, int32_t session_id, list entries, Scratch out)
