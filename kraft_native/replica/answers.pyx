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
    """Receiver of a connection with one request at a time, as an `asyncio.BufferedProtocol`. It receives frames, each
    its size in four bytes and that many bytes, which begin with a correlation id. One thread.

    A base class, which does nothing itself. `take_frame(frame)` gets each whole frame without its size, valid during
    that call only: the next one is received in the same place. `refuse_frame(why)` is called for a frame of more than
    `frame_bytes_max` or less than four bytes, after which nothing is processed, and for a `KraftError` that
    `take_frame` raised.

    The buffer has `room` bytes and grows with the received bytes, not with the announced ones. If it exceeds `kept`, it
    shrinks to `room` once it is empty. `InvalidArgumentError` when `room` is less than four or more than `kept`.
    """

    cdef bytearray buffer
    cdef object view               # of all of `buffer`
    cdef Py_ssize_t filled, room, kept, frame_bytes_max
    cdef LeasedFollower follower
    cdef object form, request
    cdef bytes tail
    cdef int fd
    cdef int32_t awaited           # correlation id of the answer that the follower may accept
    cdef readonly int32_t correlation   # of the last request that is known to have been sent; 0 before the first
    cdef public object waiting     # type: object  # describes the last request that was sent; None: it is answered
    cdef public bint is_abandoned  # nothing more is accepted

    def __init__(self, Py_ssize_t room, Py_ssize_t kept, Py_ssize_t frame_bytes_max):
        if not SIZE_BYTES <= room <= kept:
            raise InvalidArgumentError(f"room: {room} must be from {SIZE_BYTES} to kept, {kept}")
        self.room = room
        self.kept = kept
        self.frame_bytes_max = frame_bytes_max
        self.buffer = bytearray(room)
        self.view = memoryview(self.buffer)

    def follow(self, LeasedFollower follower not None, form: Template, bytes tail not None, request: Template,
               int fd) -> None:
        """Pass answers to the follower first: to the last request, or to the next one when that is answered.

        The follower gets a frame without tags that `form.read_bytes` reads and that has records. A frame that it does
        not accept goes to `take_frame` like any other. The later Fetches are frames of `request`, whose numbers are the
        correlation id, the log end and the high watermark. They are sent by `fd`.
        """
        self.awaited = self.after() if self.waiting is None else self.correlation
        self.form = form
        self.tail = tail
        self.request = request
        self.fd = fd
        self.follower = follower

    def unfollow(self) -> None:
        """Pass every frame to `take_frame` again."""
        self.follower = None

    @property
    def is_following(self) -> bool:
        """Return whether answers go to a follower first."""
        return self.follower is not None

    @property
    def next_correlation(self) -> int:
        """Correlation id of the request after that: the next number, 0 after 2147483647."""
        return self.after()

    def request_left(self, waiting: object) -> None:
        """Record that the next request has been sent."""
        self.correlation = self.after()
        self.waiting = waiting

    cdef int32_t after(self) noexcept:
        return 0 if self.correlation == INT32_MAX else self.correlation + 1

    def next_fetch(self, int64_t end_offset, int64_t high_watermark) -> tuple[int, bytes]:
        """Record that the follower has accepted an answer; return `fd` and the frame of the next request."""
        self.correlation = self.awaited
        self.waiting = None
        self.awaited = self.after()
        return self.fd, self.request.write(self.awaited, end_offset, high_watermark)

    def take_frame(self, frame: memoryview) -> None:
        pass

    def refuse_frame(self, why: str) -> None:
        pass

    def get_buffer(self, sizehint: int) -> memoryview:
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
