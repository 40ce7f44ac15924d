"""What clients may send and get per second (KIP-13, KIP-219; Kafka's ClientQuotaManager).

A request is counted and answered as if there were no quota. When that exceeds the rate the answer tells for how long,
and the connection looks at nothing further for that time. Without quotas a request costs one comparison.
"""

from libc.stdint cimport int32_t, int64_t

cimport cython

from kraft_native.purgatory cimport monotonic_ms

cdef enum:
    KNOWN_MAX = 10_000             # client ids are the clients' own choice


@cython.final
cdef class ClientQuotas:
    """Whose quotas are which is asked of `find`, once for each client id."""

    def __cinit__(self):
        self.known = {}

    def look_up_with(self, find) -> None:
        """From now on `find(client id)` gives the quotas for what a client produces and for what it fetches, each None
        where there is none; `find` None: nobody has any."""
        self.find = find
        self.known = {}

    cdef ReplicationQuota quota(self, bytes client_id, int kind):
        cdef tuple found
        if self.find is None:
            return None
        found = self.known.get(client_id)
        if found is None:
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            found = self.known[client_id] = self.find(client_id or b"")
        return found[kind]

    cdef int32_t charge(self, bytes client_id, int kind, int64_t bytes_count) except -1:
        cdef ReplicationQuota quota = self.quota(client_id, kind)
        cdef int64_t now_ms
        if quota is None:
            return 0
        now_ms = monotonic_ms()
        quota.record(bytes_count, now_ms)
        return <int32_t>min(quota.throttle_ms(now_ms), <int64_t>0x7FFFFFFF)

    cdef int64_t response_bytes_max(self, bytes client_id, int64_t bytes_max) except -1:
        cdef ReplicationQuota quota = self.quota(client_id, QUOTA_FETCH)
        return bytes_max if quota is None else min(bytes_max, quota.window_bytes())
