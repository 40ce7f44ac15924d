"""Rate limit for copies of throttled replicas (Kafka's ReplicationQuotaManager), and for clients' traffic
(`client_quotas.pyx`).

A leader has one for the bytes it sends, a follower one for those it receives. All bytes of throttled replicas are
counted, also of those that are in sync. Only the others are held back, or a throttle could break an in-sync set.

The rate is that of the last `samples` samples of `sample_ms`. It is their bytes over the time since the oldest of them
began, but at least one sample, so that the first response is not an infinite rate.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

cimport cython

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    WAIT_MS_MAX = 1000


@cython.final
cdef class ReplicationQuota:
    """Rate limit. `samples` and `sample_ms`: Kafka's `replication.quota.window.num` and `.size.seconds`. No bound until
    `set_rate`. Times are of one clock that does not go back. One thread."""

    def __init__(self, int32_t samples=11, int64_t sample_ms=1000):
        if samples < 1:
            raise InvalidArgumentError(f"samples: {samples} is below 1")
        if sample_ms < 1:
            raise InvalidArgumentError(f"sample_ms: {sample_ms} is below 1")
        self.samples = samples
        self.sample_ms = sample_ms
        self.rate = 0x7FFFFFFFFFFFFFFF
        self.counted = <int64_t*>calloc(<size_t>samples, sizeof(int64_t))
        self.numbers = <int64_t*>calloc(<size_t>samples, sizeof(int64_t))
        if self.counted == NULL or self.numbers == NULL:
            raise MemoryError(f"{samples} samples")

    def __dealloc__(self):
        free(self.counted)
        free(self.numbers)

    def set_rate(self, int64_t bytes_per_second) -> None:
        """Set the bound from now on; the counts stay."""
        if bytes_per_second < 0:
            raise InvalidArgumentError(f"bytes_per_second: {bytes_per_second} is below 0")
        self.rate = bytes_per_second

    cpdef int record(self, int64_t bytes_count, int64_t now_ms) except -1:
        """Count bytes, whether that exceeds the rate or not."""
        cdef int64_t number = now_ms // self.sample_ms
        cdef Py_ssize_t place = <Py_ssize_t>(number % self.samples)
        if self.numbers[place] != number:
            self.numbers[place] = number
            self.counted[place] = 0
        self.counted[place] += bytes_count
        self.bytes_total += bytes_count
        return 0

    cpdef bint exceeded(self, int64_t now_ms) noexcept:
        """True when more than the rate was counted."""
        cdef int64_t elapsed_ms = 0
        cdef int64_t total = self.look(now_ms, &elapsed_ms)
        return total * 1000.0 > <double>self.rate * max(elapsed_ms, self.sample_ms)

    cpdef int64_t wait_ms(self, int64_t now_ms) noexcept:
        """Time to wait, at most a second: the rate may still be exceeded then."""
        cdef int64_t elapsed_ms = 0
        cdef int64_t total = self.look(now_ms, &elapsed_ms)
        if total * 1000.0 <= <double>self.rate * max(elapsed_ms, self.sample_ms):
            return 0
        if self.rate == 0:
            return WAIT_MS_MAX
        return <int64_t>min(total * 1000.0 / self.rate - elapsed_ms + 1, <double>WAIT_MS_MAX)

    cpdef int64_t throttle_ms(self, int64_t now_ms) noexcept:
        """Time for which a client must pause until the rate is kept again, over at least all samples but one: that many
        bytes may come at once (KIP-13)."""
        cdef int64_t elapsed_ms = 0
        cdef int64_t total = self.look(now_ms, &elapsed_ms)
        elapsed_ms = max(elapsed_ms, (self.samples - 1) * self.sample_ms)
        if self.rate == 0:
            return elapsed_ms if total > 0 else 0
        return max(0, <int64_t>min(total * 1000.0 / self.rate - elapsed_ms, <double>0x7FFFFFFF))

    cpdef int64_t window_bytes(self) noexcept:
        """Bytes that may come at once."""
        return <int64_t>min(self.rate / 1000.0 * self.sample_ms * max(1, self.samples - 1), <double>0x7FFFFFFF)

    cdef bint any_counted(self, int64_t now_ms) noexcept:
        cdef int64_t elapsed_ms = 0
        return self.look(now_ms, &elapsed_ms) > 0

    cdef int64_t look(self, int64_t now_ms, int64_t* elapsed_ms) noexcept nogil:
        cdef int64_t now = now_ms // self.sample_ms, oldest = now, total = 0
        cdef Py_ssize_t i
        for i in range(self.samples):
            if self.counted[i] > 0 and self.numbers[i] > now - self.samples:
                total += self.counted[i]
                oldest = min(oldest, self.numbers[i])
        elapsed_ms[0] = now_ms - oldest * self.sample_ms
        return total
