"""Receiver of a connection with one request at a time."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE

from kraft_native.base.bytes_be cimport load_i32
from kraft_native.replica.leased_follower cimport LeasedFollower

from kraft_native.base.errors import InvalidArgumentError, KraftError

cdef enum:
    SIZE_BYTES = 4
    CORRELATION_BYTES = 4
    NO_TAGS = 0


cdef class AnswerReceiver:
    """See the stub."""

    cdef bytearray buffer
    cdef object view               # of all of `buffer`
    cdef Py_ssize_t filled, room, kept, frame_bytes_max
    cdef LeasedFollower follower
    cdef object form, request
    cdef bytes tail
    cdef int fd
    cdef int32_t awaited           # correlation id of the answer that the follower may accept
    cdef readonly int32_t correlation
    cdef public object waiting
    cdef public bint is_abandoned

    def __init__(self, Py_ssize_t room, Py_ssize_t kept, Py_ssize_t frame_bytes_max):
        if not SIZE_BYTES <= room <= kept:
            raise InvalidArgumentError(f"room: {room} must be from {SIZE_BYTES} to kept, {kept}")
        self.room = room
        self.kept = kept
        self.frame_bytes_max = frame_bytes_max
        self.buffer = bytearray(room)
        self.view = memoryview(self.buffer)

    def follow(self, LeasedFollower follower not None, form, bytes tail not None, request, int fd) -> None:
        self.awaited = self.after() if self.waiting is None else self.correlation
        self.form = form
        self.tail = tail
        self.request = request
        self.fd = fd
        self.follower = follower

    def unfollow(self) -> None:
        self.follower = None

    @property
    def is_following(self) -> bool:
        return self.follower is not None

    @property
    def next_correlation(self) -> int:
        return self.after()

    def request_left(self, waiting) -> None:
        self.correlation = self.after()
        self.waiting = waiting

    cdef int32_t after(self) noexcept:
        return 0 if self.correlation == INT32_MAX else self.correlation + 1

    def next_fetch(self, int64_t end_offset, int64_t high_watermark) -> tuple:
        self.correlation = self.awaited
        self.waiting = None
        self.awaited = self.after()
        return self.fd, self.request.write(self.awaited, end_offset, high_watermark)

    def take_frame(self, frame) -> None:
        pass

    def refuse_frame(self, why) -> None:
        pass

    def get_buffer(self, sizehint) -> memoryview:
        if self.filled == PyByteArray_GET_SIZE(self.buffer):
            self.go_on_in(2 * self.filled, 0)
        return self.view[self.filled:] if self.filled else self.view

    def buffer_updated(self, Py_ssize_t nbytes) -> None:
        cdef Py_ssize_t start = 0, size, end
        cdef const uint8_t* data
        self.filled += nbytes
        while not self.is_abandoned and self.filled - start >= SIZE_BYTES:
            data = <const uint8_t*>PyByteArray_AS_STRING(self.buffer) + start
            size = load_i32(data)
            if not CORRELATION_BYTES <= size <= self.frame_bytes_max:
                self.refuse_frame(f"a frame of {size} bytes")
                return
            end = start + SIZE_BYTES + size
            if end > self.filled:
                break
            if self.follower is None or not self.is_accepted(data + SIZE_BYTES, start + SIZE_BYTES, end):
                try:
                    self.take_frame(self.view[start + SIZE_BYTES:end])
                except KraftError as error:
                    self.refuse_frame(str(error))
            start = end
        if start == self.filled and PyByteArray_GET_SIZE(self.buffer) <= self.kept:
            self.filled = 0            # the usual case: one answer, and nothing after it
        elif start:
            self.go_on_in(self.room, start)

    cdef bint is_accepted(self, const uint8_t* frame, Py_ssize_t start, Py_ssize_t end) except -1:
        """Return whether the frame from `start` to `end` of the buffer was like the previous one, and the follower has
        accepted it."""
        if (end - start <= CORRELATION_BYTES or frame[CORRELATION_BYTES] != NO_TAGS
                or load_i32(frame) != self.awaited):
            return False
        body = self.view[start + CORRELATION_BYTES + 1:end]
        found = self.form.read_bytes(body, self.tail)
        if found is None or found[1] == found[2]:
            return False
        return self.follower.accept(self, found[0][0], body[found[1]:found[2]])

    cdef go_on_in(self, Py_ssize_t room, Py_ssize_t start):
        """Continue in a buffer of at least `room` bytes with the bytes received from `start` on. The old one stays with
        its other users."""
        received = self.view[start:self.filled]
        self.filled -= start
        self.buffer = bytearray(max(room, self.filled))
        self.view = memoryview(self.buffer)
        self.view[:self.filled] = received
