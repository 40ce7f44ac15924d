"""Reasons why a connection is not served: stalls, muting, authentication, its end.

A listener with SASL demands an exchange. Until it ends, only its requests are served, their frames are small, and time
is limited: `demand_exchange`, `expect_tokens`, `authenticated`. The identity that it found may be valid for a limited
time. After that, the first request other than a new exchange closes the connection (KIP-368).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.base.bytes_be cimport load_i16
from kraft_native.net.channel cimport API_VERSIONS_KEY


cdef class RestrainedEndpoint(Endpoint):
    """Abstract; the connection is the only subclass. Loop thread only."""

    def __init__(self, RequestChannel channel not None):
        self.channel = channel
        self.frames = FrameReader(channel.memory, channel.request_bytes_max)
        self.active = True
        self.principal = channel.principal
        self.is_authenticated = True
        self.until_ms = -1

    cdef int update_reading(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say how it pauses")

    # --- muting, the end

    cpdef int delay(self, int32_t throttle_ms) except -1:
        if self.channel.call_later is not None and not self.closing:
            self.stall |= STALL_QUOTA
            self.muted += 1
            self.channel.call_later(throttle_ms / 1000.0, self.unmute)
        return 0

    def unmute(self) -> None:
        """End one of the periods for which the client is muted."""
        self.muted -= 1
        if self.muted == 0 and not self.closing:
            self.stall &= ~STALL_QUOTA
            self.active = True
            self.channel.wake(self)

    def end(self, str reason not None) -> None:
        """Process no further request, and close once the pending replies are sent; `reason` is counted."""
        if self.closing or self.reason is not None:
            return
        self.reason = reason
        self.stall |= STALL_ENDED
        self.update_reading()
        self.channel.wake(self)

    cdef int drain(self) except -1:
        self.end("drained")
        return 0

    def hold(self) -> None:
        """Process no further input, until the connection is closed."""
        self.stall |= STALL_ENDED
        self.update_reading()

    # --- authentication

    def demand_exchange(self, int64_t until_ms, int32_t frame_bytes_max) -> None:
        """Serve nothing but ApiVersions and the SASL exchange, which must end before `until_ms`, a time of the sweep.
        Frames have at most `frame_bytes_max` bytes."""
        self.is_authenticated = self.is_raw = self.passes_api_versions = self.is_expired = False
        self.until_ms = until_ms
        self.frames.frame_bytes_max = min(frame_bytes_max, self.channel.request_bytes_max)

    def pass_api_versions(self) -> None:
        """Pass ApiVersions to `on_request` until the exchange ends: its time is over with the handshake."""
        self.passes_api_versions = True

    def expect_tokens(self) -> None:
        """Read the next frames as tokens without a request header. They reach `on_request` as SaslAuthenticate of
        version -1."""
        self.is_raw = True

    def authenticated(self, principal: object, int64_t until_ms) -> None:
        """End the exchange: the other side is `principal` until `until_ms`; -1: for as long as it is connected."""
        self.principal = principal
        self.is_authenticated = True
        self.is_raw = self.passes_api_versions = self.is_expired = False
        self.until_ms = until_ms
        self.frames.frame_bytes_max = self.channel.request_bytes_max

    cdef bint may_send(self, const uint8_t* frame, Py_ssize_t size) except -1:
        """True for requests of the exchange. When the session is over, only the first of them may follow."""
        cdef int key = load_i16(frame) if size >= 2 else -1
        if key == SASL_HANDSHAKE_KEY:
            return True
        return not self.is_expired and (key == API_VERSIONS_KEY or key == SASL_AUTHENTICATE_KEY)

    cdef bint end_session(self) except -1:
        if not self.is_authenticated:
            return False
        self.is_authenticated, self.is_expired, self.until_ms = False, True, -1
        return True
