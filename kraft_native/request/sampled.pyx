"""Reports of one of so many requests, for an API that compiled code serves.

Where nothing is sampled this handler is not in the path. Where it is, a request that is not sampled costs one count.
"""

from libc.stdint cimport uint8_t

cimport cython

from kraft_native.request.reply cimport Reply

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    BODY_BYTES_MAX = 256 * 1024        # a larger body is not copied


@cython.final
cdef class SampledHandler(RequestHandler):
    """Handler that passes all requests on to `served_by`, and reports every `interval`-th one before.

    `on_sample(reply, body)` gets it; `body` is None for one above 256 KiB. It must not answer. What it raises is an
    internal error.
    """

    def __init__(self, RequestHandler served_by not None, int64_t interval,
                 on_sample not None: Callable[[Reply, bytes | None], object]):
        if interval < 1:
            raise InvalidArgumentError(f"interval must be 1 or more, not {interval}")
        self.served_by = served_by
        self.interval = self.left = interval
        self.on_sample = on_sample

    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        self.left -= 1
        if self.left <= 0:
            self.left = self.interval
            self.sampled += 1
            self.on_sample(reply, <bytes>body[:body_bytes] if body_bytes <= BODY_BYTES_MAX else None)
        return self.served_by.handle(reply, body, body_bytes)
