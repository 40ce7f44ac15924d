"""Reasons why a connection is not served: stalls, muting, authentication, its end."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.net.channel cimport RequestChannel
from kraft_native.net.frames cimport FrameReader
from kraft_native.request.endpoint cimport Endpoint

cdef enum:
    STALL_ROW = 1
    STALL_REQUEST = 2
    STALL_WRITE = 4
    STALL_MEMORY = 8
    STALL_ENDED = 16
    STALL_QUOTA = 32
    STALL_SLICE = 64

cdef enum:
    SASL_HANDSHAKE_KEY = 17
    SASL_AUTHENTICATE_KEY = 36
    RAW_VERSION = -1               # of a token without a request header


cdef class RestrainedEndpoint(Endpoint):
    cdef readonly RequestChannel channel
    cdef readonly str reason  # type: str | None  # why it is closed or being closed; None while open
    cdef FrameReader frames
    cdef int stall                 # why no request is processed; 0: none
    cdef int muted                 # number of unfinished periods for which the client is muted
    cdef bint closing              # nothing is sent or processed any more
    cdef bint active               # bytes moved since the last sweep
    cdef readonly bint is_authenticated    # False: only requests of the exchange are served
    cdef bint is_raw               # frames are tokens without a request header, as after version 0 of SaslHandshake
    cdef bint passes_api_versions  # a token is expected: ApiVersions is passed on, to be refused
    cdef bint is_expired           # the session is over: only a new exchange is served
    cdef public object exchange    # type: object  # the state of SASL; None where the listener has none
    cdef int64_t until_ms          # end of the session, or of the time for an exchange; -1: never

    # Pauses or resumes reading, after `stall` has changed.
    cdef int update_reading(self) except -1
    cpdef int delay(self, int32_t throttle_ms) except -1   # processes no request for this long
    # True for requests of the exchange, while the other side is not authenticated.
    cdef bint may_send(self, const uint8_t* frame, Py_ssize_t size) except -1
    # The time is up. False for that of an exchange: the connection is to be closed.
    cdef bint end_session(self) except -1
