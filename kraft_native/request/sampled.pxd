"""Handler that reports one of so many requests before it is served."""

from libc.stdint cimport int64_t

from kraft_native.request.reply cimport RequestHandler


cdef class SampledHandler(RequestHandler):
    """Handler in front of another one. `sampled` counts the requests that were reported."""
    cdef RequestHandler served_by
    cdef int64_t interval
    cdef int64_t left
    cdef object on_sample          # type: Callable[[Reply, bytes | None], object]
    cdef readonly int64_t sampled
