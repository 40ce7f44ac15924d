"""What clients may send and get per second, and how much of the loop's time they may take."""

from libc.stdint cimport int64_t

from kraft_native.replication_quota cimport ReplicationQuota
from kraft_native.reply cimport Reply


cdef enum ClientQuotaKind:
    QUOTA_PRODUCE
    QUOTA_FETCH
    QUOTA_REQUEST                  # counts nanoseconds


cdef class ClientQuotas:
    """Loop thread only."""
    cdef object find               # None: nobody has a quota
    cdef dict known                # client id -> what `find` gave

    # What holds for a client; None: nothing.
    cdef ReplicationQuota quota(self, bytes client_id, int kind)
    # Counts the bytes of a Produce, and says in `reply` for how long its client is to be left alone.
    cdef int charge_produce(self, Reply reply, int64_t bytes_count) except -1
    # The same for a Fetch; False: it is answered with nothing, and nothing is counted.
    cdef bint charge_fetch(self, Reply reply, int64_t bytes_count) except -1
    # The same for the time that the request has taken until now; the connection counts what it takes from now on.
    cpdef int charge_time(self, Reply reply) except -1
    # So much a client may get in one response, as far as `bytes_max`: it would be left alone for too long else.
    cdef int64_t response_bytes_max(self, bytes client_id, int64_t bytes_max) except -1
