"""Rates of bytes that clients may send and get, and their share of the loop's time."""

from libc.stdint cimport int64_t

from kraft_native.request.replication_quota cimport ReplicationQuota
from kraft_native.request.reply cimport Reply


cdef enum ClientQuotaKind:
    QUOTA_PRODUCE
    QUOTA_FETCH
    QUOTA_REQUEST                  # counts nanoseconds


cdef class ClientQuotas:
    """Loop thread only."""
    cdef object find               # None: no client has a quota
    cdef dict known                # (client id, principal) -> result of `find`

    # The quota of a client; None: none.
    cdef ReplicationQuota quota(self, Reply reply, int kind)
    # Charges the bytes of a Produce, and sets in `reply` for how long its client is muted.
    cdef int charge_produce(self, Reply reply, int64_t bytes_count) except -1
    # The same for a Fetch; False: the reply is empty, and nothing is charged.
    cdef bint charge_fetch(self, Reply reply, int64_t bytes_count) except -1
    # The same for the time of the request so far; the connection charges the rest.
    cpdef int charge_time(self, Reply reply) except -1
    # The bytes that one response to a client may have, at most `bytes_max`: more would mute it for too long.
    cdef int64_t response_bytes_max(self, Reply reply, int64_t bytes_max) except -1
