"""What clients may send and get per second."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.replication_quota cimport ReplicationQuota


cdef enum ClientQuotaKind:
    QUOTA_PRODUCE
    QUOTA_FETCH


cdef class ClientQuotas:
    """Loop thread only."""
    cdef object find               # None: nobody has a quota
    cdef dict known                # client id -> what `find` gave

    # What holds for a client; None: nothing.
    cdef ReplicationQuota quota(self, bytes client_id, int kind)
    # Counts bytes; for how many milliseconds the client is to be left alone then.
    cdef int32_t charge(self, bytes client_id, int kind, int64_t bytes_count) except -1
    # So much a client may get in one response, as far as `bytes_max`: it would be left alone for too long else.
    cdef int64_t response_bytes_max(self, bytes client_id, int64_t bytes_max) except -1
