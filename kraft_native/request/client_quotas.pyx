"""Rates of bytes that clients may send and get (KIP-13, KIP-219; Kafka's ClientQuotaManager), and their share of the
loop's time (KIP-124; Kafka's ClientRequestQuotaManager).

A request is counted and answered as if there were no quota. When that exceeds the rate, the reply states for how long,
and the connection processes nothing further for that time. A Fetch that would exceed it gets an empty reply. Without
quotas a request costs one comparison.

The time of a request is the time of its handler, without waiting. It is counted with its answer, the rest of it when
its handler has returned. The throttle time for an exceeded quota is at most one sample.
"""

from libc.stdint cimport int32_t, int64_t

cimport cython

from kraft_native.base.clock cimport monotonic_ms, monotonic_ns
from kraft_native.request.endpoint cimport Endpoint

cdef enum:
    KNOWN_MAX = 10_000             # client ids are the clients' own choice
    THROTTLE_MS_MAX = 0x7FFFFFFF


cdef int leave_alone(Reply reply, int64_t throttle_ms) except -1:
    """Mute the client: the longest of a request's quotas counts."""
    reply.throttle_ms = max(reply.throttle_ms, <int32_t>min(throttle_ms, <int64_t>THROTTLE_MS_MAX))
    return 0


@cython.final
cdef class ClientQuotas:
    """Quotas by principal and client id: `find` is called once for each pair."""

    def __cinit__(self):
        self.known = {}

    def look_up_with(self, find: Callable[[bytes, Any], tuple[ReplicationQuota | None, ...]] | None) -> None:
        """Set `find(client id, principal)`, which returns the quotas for a client's produced bytes, fetched bytes and
        request time, each None where it has none. The principal is that of its connection; None: it has no connection.
        `find` None: no client has any."""
        self.find = find
        self.known = {}

    cdef ReplicationQuota quota(self, Reply reply, int kind):
        cdef tuple found, client
        if self.find is None:
            return None
        client = (reply.client_id, (<Endpoint>reply.sink).principal if isinstance(reply.sink, Endpoint) else None)
        found = self.known.get(client)
        if found is None:
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            found = self.known[client] = self.find(reply.client_id or b"", client[1])
        return found[kind]

    cdef int charge_produce(self, Reply reply, int64_t bytes_count) except -1:
        cdef ReplicationQuota quota = self.quota(reply, QUOTA_PRODUCE)
        cdef int64_t now_ms
        if quota is not None:
            now_ms = monotonic_ms()
            quota.record(bytes_count, now_ms)
            leave_alone(reply, quota.throttle_ms(now_ms))
        return 0

    cdef bint charge_fetch(self, Reply reply, int64_t bytes_count) except -1:
        """Charge a Fetch. A batch that alone exceeds the rate is sent when nothing else was counted: its client would
        never get past it otherwise."""
        cdef ReplicationQuota quota
        cdef int64_t now_ms, throttle_ms
        cdef bint alone
        if self.find is None:
            return True
        self.charge_time(reply)
        quota = self.quota(reply, QUOTA_FETCH)
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
        cdef ReplicationQuota quota = self.quota(reply, QUOTA_REQUEST)
        cdef int64_t now_ms
        if quota is not None and reply.at.begun_ns > 0:
            now_ms = monotonic_ms()
            reply.count_time(quota, monotonic_ns(), now_ms)
            leave_alone(reply, min(quota.throttle_ms(now_ms), quota.sample_ms))
        return 0

    cdef int64_t response_bytes_max(self, Reply reply, int64_t bytes_max) except -1:
        cdef ReplicationQuota quota = self.quota(reply, QUOTA_FETCH)
        return bytes_max if quota is None else min(bytes_max, quota.window_bytes())
