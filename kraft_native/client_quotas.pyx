"""What clients may send and get per second (KIP-13, KIP-219; Kafka's ClientQuotaManager), and how much of the loop's
time they may take (KIP-124; Kafka's ClientRequestQuotaManager).

A request is counted and answered as if there were no quota. When that exceeds the rate the answer tells for how long,
and the connection looks at nothing further for that time. A Fetch that would exceed it is answered without anything.
Without quotas a request costs one comparison.

The time of a request is what its handler takes, not what it waits for. It is counted with its answer, what is left of
it when its handler has returned; an exceeded quota is told for at most one sample.
"""

from libc.stdint cimport int32_t, int64_t

cimport cython

from kraft_native.clock cimport monotonic_ms, monotonic_ns

cdef enum:
    KNOWN_MAX = 10_000             # client ids are the clients' own choice
    THROTTLE_MS_MAX = 0x7FFFFFFF


cdef int leave_alone(Reply reply, int64_t throttle_ms) except -1:
    """The longest of a request's quotas counts."""
    reply.throttle_ms = max(reply.throttle_ms, <int32_t>min(throttle_ms, <int64_t>THROTTLE_MS_MAX))
    return 0


@cython.final
cdef class ClientQuotas:
    """Whose quotas are which is asked of `find`, once for each client id."""

    def __cinit__(self):
        self.known = {}

    def look_up_with(self, find) -> None:
        """From now on `find(client id)` gives the quotas for what a client produces, for what it fetches and for the
        time of its requests, each None where there is none; `find` None: nobody has any."""
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

    cdef int charge_produce(self, Reply reply, int64_t bytes_count) except -1:
        cdef ReplicationQuota quota = self.quota(reply.client_id, QUOTA_PRODUCE)
        cdef int64_t now_ms
        if quota is not None:
            now_ms = monotonic_ms()
            quota.record(bytes_count, now_ms)
            leave_alone(reply, quota.throttle_ms(now_ms))
        return 0

    cdef bint charge_fetch(self, Reply reply, int64_t bytes_count) except -1:
        """A batch that alone exceeds the rate comes all the same when nothing else was counted: its client would
        never get past it."""
        cdef ReplicationQuota quota
        cdef int64_t now_ms, throttle_ms
        cdef bint alone
        if self.find is None:
            return True
        self.charge_time(reply)
        quota = self.quota(reply.client_id, QUOTA_FETCH)
        if quota is not None and bytes_count > 0:
            now_ms = monotonic_ms()
            alone = not quota.any_counted(now_ms)
            quota.record(bytes_count, now_ms)
            throttle_ms = quota.throttle_ms(now_ms)
            if reply.throttle_ms == 0 and (alone or throttle_ms == 0):
                leave_alone(reply, throttle_ms)
                return True
            quota.record(-bytes_count, now_ms)
            leave_alone(reply, throttle_ms)
        return reply.throttle_ms == 0

    cpdef int charge_time(self, Reply reply) except -1:
        cdef ReplicationQuota quota = self.quota(reply.client_id, QUOTA_REQUEST)
        cdef int64_t now_ms
        if quota is not None and reply.at.begun_ns > 0:
            now_ms = monotonic_ms()
            reply.count_time(quota, monotonic_ns(), now_ms)
            leave_alone(reply, min(quota.throttle_ms(now_ms), quota.sample_ms))
        return 0

    cdef int64_t response_bytes_max(self, bytes client_id, int64_t bytes_max) except -1:
        cdef ReplicationQuota quota = self.quota(client_id, QUOTA_FETCH)
        return bytes_max if quota is None else min(bytes_max, quota.window_bytes())
