"""Duration of requests, stage by stage (Kafka's RequestMetrics): histograms per api key.

It always runs, so it must cost next to nothing. The clock is read once per read, once per request and once per write. A
request adds to six histograms when its reply was written. Buckets double in width; counting bits finds a bucket.
"""

from libc.stdlib cimport calloc, free

cimport cython

from kraft_native.base.clock cimport monotonic_ns

cdef extern from * nogil:
    int __builtin_clzll(unsigned long long value)

NAMES = ("RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseQueueTimeMs", "ResponseSendTimeMs",
         "TotalTimeMs")
BUCKET_ENDS_NS: tuple[int, ...] = tuple(1 << (TIME_BUCKET_SHIFT + bucket) for bucket in range(TIME_BUCKETS - 1))


cdef inline void count(TimeHistogram* histogram, int64_t time_ns) noexcept nogil:
    # A time of exactly a bucket's end belongs to it.
    cdef int bucket = 0
    if time_ns > 1 << TIME_BUCKET_SHIFT:
        bucket = 64 - TIME_BUCKET_SHIFT - __builtin_clzll(<unsigned long long>(time_ns - 1))
        bucket = min(bucket, TIME_BUCKETS - 1)
    histogram.counts[bucket] += 1
    histogram.sum_ns += time_ns


@cython.final
cdef class RequestTimes:
    """Histograms of one channel. Loop thread only."""

    def __dealloc__(self):
        for api_key in range(API_KEYS):
            free(self.apis[api_key])

    cdef int64_t read_clock(self) noexcept:
        self.now_ns = monotonic_ns()
        return self.now_ns

    cdef int left(self, const Moments* requests, Py_ssize_t count_of, int64_t begin_ns, int64_t end_ns) except -1:
        cdef const Moments* one
        cdef TimeHistogram* stages
        cdef Py_ssize_t i
        for i in range(count_of):
            one = requests + i
            if self.apis[one.api_key] == NULL:
                self.apis[one.api_key] = <ApiTimes*>calloc(1, sizeof(ApiTimes))
                if self.apis[one.api_key] == NULL:
                    raise MemoryError("histograms of an api")
            stages = self.apis[one.api_key].stages
            count(stages + STAGE_REQUEST_QUEUE, one.begun_ns - one.arrived_ns)
            count(stages + STAGE_LOCAL, one.handed_ns - one.begun_ns)
            count(stages + STAGE_REMOTE, one.answered_ns - one.handed_ns)
            count(stages + STAGE_RESPONSE_QUEUE, begin_ns - one.answered_ns)
            count(stages + STAGE_RESPONSE_SEND, end_ns - begin_ns)
            count(stages + STAGE_TOTAL, end_ns - one.arrived_ns)
        return 0

    def histograms(self) -> dict[int, list[tuple[list[int], int]]]:
        """Histograms by api key, in the order of `NAMES`: the count of each bucket, and the sum in nanoseconds. A
        request is counted when its reply was written; one without a reply (acks=0) when it was processed."""
        cdef TimeHistogram* histogram
        cdef int api_key, stage, bucket
        found = {}
        for api_key in range(API_KEYS):
            if self.apis[api_key] == NULL:
                continue
            stages = []
            for stage in range(STAGES):
                histogram = &self.apis[api_key].stages[stage]
                stages.append(([histogram.counts[bucket] for bucket in range(TIME_BUCKETS)], histogram.sum_ns))
            found[api_key] = stages
        return found
