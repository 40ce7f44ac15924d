"""Duration of requests, stage by stage: histograms per api key."""

from libc.stdint cimport int16_t, int64_t


cdef enum:
    STAGE_REQUEST_QUEUE            # read, not processed yet
    STAGE_LOCAL                    # its handler works on it
    STAGE_REMOTE                   # it waits for bytes, a flush, replicas, other members
    STAGE_RESPONSE_QUEUE           # answered, and not written yet
    STAGE_RESPONSE_SEND            # the write
    STAGE_TOTAL
    STAGES


cdef enum:
    TIME_BUCKETS = 28
    TIME_BUCKET_SHIFT = 10         # bucket 0 ends at 2^10 ns, each further one at twice that; the last one has no end


cdef struct TimeHistogram:
    int64_t sum_ns
    int64_t[28] counts


cdef enum:
    API_KEYS = 1024                # keys that a listener may serve: 0 to 1023


cdef struct ApiTimes:
    TimeHistogram[6] stages


# The moments of one request, on the clock of `monotonic_ns`; they never go back.
cdef struct Moments:
    int64_t arrived_ns             # its last byte was read
    int64_t begun_ns               # its processing began
    int64_t handed_ns              # its handler returned; 0: it has not yet
    int64_t answered_ns
    int16_t api_key


cdef class RequestTimes:
    """Histograms of one channel. Loop thread only."""
    cdef ApiTimes* apis[API_KEYS]      # by api key; NULL until one was answered
    cdef int64_t now_ns            # last reading of the clock

    cdef int64_t read_clock(self) noexcept
    # `count` requests were written from `begin_ns` to `end_ns`.
    cdef int left(self, const Moments* requests, Py_ssize_t count, int64_t begin_ns, int64_t end_ns) except -1
