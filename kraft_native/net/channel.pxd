"""Dispatch of the requests of one kind of listener: versions served, handlers, limits, counts."""

from libc.stdint cimport int16_t, int32_t, int64_t

from kraft_native.base.span cimport Span
from kraft_native.net.frames cimport RequestMemory
from kraft_native.net.outgoing cimport Outgoing
from kraft_native.request.client_quotas cimport ClientQuotas
from kraft_native.request.endpoint cimport Endpoint
from kraft_native.request.reply cimport Reply, RequestHandler
from kraft_native.request.slices cimport SliceQueue
from kraft_native.request.times cimport API_KEYS, RequestTimes

cdef enum:
    API_VERSIONS_KEY = 18


cdef struct Api:
    bint served
    bint pipelined                 # the Python side may process several of one connection at once
    int16_t first_version
    int16_t last_version
    int16_t flexible_from          # the first version whose request header has tagged fields
    int64_t requests


cdef class RequestChannel:
    """Shared state of the connections of one kind of listener. Loop thread only."""
    cdef readonly str name
    cdef readonly RequestMemory memory
    cdef readonly RequestTimes times
    cdef readonly SliceQueue slices
    cdef Outgoing outgoing
    cdef Api apis[API_KEYS]
    cdef list handlers             # by api key: RequestHandler or None
    cdef object on_request
    cdef object on_failure
    cdef object call_soon
    cdef object call_later         # None: no connection is ever muted
    cdef ClientQuotas quotas       # None: no client has any
    cdef dict api_versions         # version -> body
    cdef dict invalid_client       # version -> body with INVALID_REQUEST
    cdef bytes api_versions_unsupported
    cdef dict software             # what clients name themselves: (name, version) in bytes -> in text
    cdef list woken                # endpoints that are due
    cdef bint turn_due
    cdef readonly dict connections  # type: dict[Endpoint, None]  # in the order of their arrival
    cdef readonly int64_t now_ms   # the time of the last sweep
    cdef readonly int32_t request_bytes_max
    cdef readonly int64_t answer_bytes_max
    cdef readonly int32_t requests_in_progress_max
    cdef readonly int64_t frame_timeout_ms
    cdef readonly int64_t idle_timeout_ms
    cdef readonly int64_t reply_timeout_ms
    cdef readonly int64_t rate_min_bytes_per_second
    cdef readonly int64_t bytes_in
    cdef readonly int64_t bytes_out
    cdef readonly int64_t connections_opened
    cdef readonly int64_t requests_in_progress
    cdef readonly dict closed  # type: dict[str, int]  # reason -> count
    cdef readonly bint failed
    cdef readonly object principal  # type: object  # of connections that are not authenticated

    cdef Api* api(self, int16_t api_key) noexcept
    cdef int wake(self, Endpoint endpoint) except -1
    # The body that answers an ApiVersions request; None when the request is malformed. The endpoint remembers what the
    # client names itself.
    cdef bytes api_versions_body(self, int16_t api_version, Span* body, Endpoint endpoint)
    # Name and version of a client's software, from its ApiVersions request; None when it does not name itself.
    cdef tuple client_software(self, int16_t api_version, Span* body)
    # Counts the copied part of an answer as memory until it is sent; pages of the log do not count. One that is too
    # large is refused. Returns the size of all.
    cdef Py_ssize_t count_answer(self, Reply reply) except -1
    cdef int count_closed(self, str reason) except -1
    # An internal error: requests that the node stop.
    cdef int fail(self, object cause) except -1
