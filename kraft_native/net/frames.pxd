"""Frames out of a byte stream in bounded memory, and the memory of all streams together."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch
from kraft_native.request.endpoint cimport Endpoint


cdef enum:
    READ_BYTES_MAX = 1024 * 1024   # of one read: well below a millisecond


cdef class ReadWindow:
    """Target of a read, as an object that exports the memory. Loops request it and use it at once."""
    cdef uint8_t* data
    cdef Py_ssize_t size


cdef class RequestMemory:
    """Memory that the requests of all connections hold together: partial frames, frames that wait their turn, bodies
    that the Python side processes, and answers until they are sent. One per node; loop thread only."""
    cdef readonly int64_t limit_bytes
    cdef readonly int64_t used_bytes
    cdef readonly int64_t peak_bytes
    cdef Endpoint favoured         # the one user that may exceed the limit, so that progress is certain
    cdef bint exceeded             # it took bytes beyond the limit
    cdef object waiting            # deque of users, longest wait first
    cdef dict unread               # user -> bytes of answers that its peer has not read
    cdef readonly int64_t unread_bytes
    cdef readonly int64_t cut_total    # users that were closed because of them
    cdef ReadWindow landing        # memory given to the current read
    cdef uint8_t* window           # target for reads of connections with nothing pending
    # Counts `count` more bytes for `user`. False when they must wait: then the user is queued and notified later.
    cdef bint take(self, Endpoint user, int64_t count) except -1
    # Counts bytes that exist already, or returns them (negative).
    cdef int adjust(self, int64_t count) except -1
    # Records the parts of answers that the user's peer leaves unread; None: none. `with_pages`: slices of the log are
    # no copies. The user may be closed for it.
    cdef int hold_unread(self, Endpoint user, list rest, bint with_pages) except -1
    # The user's frame is whole, or the user has disconnected.
    cdef int settle(self, Endpoint user) except -1
    # The user has no use for memory now: another may exceed the limit, unless this one did.
    cdef int stand_aside(self, Endpoint user) except -1
    cdef int wake(self) except -1
    cdef int forget(self, Endpoint user) except -1
    cdef Py_ssize_t window_bytes(self) noexcept


cdef class FrameReader:
    """One connection's stream. `offer` returns where to read, `arrived` gets the byte count, `next` returns frames,
    `keep` ends the round. `user` is the connection."""
    cdef RequestMemory memory
    cdef int32_t frame_bytes_max
    cdef Scratch kept              # bytes that outlive a round; None most of the time
    cdef Py_ssize_t kept_from      # the first byte in it that was not handed out
    cdef int64_t counted_bytes     # the part of it that the memory counts

    cdef Py_ssize_t proven_bytes   # the size of the last large frame that this connection completed
    cdef Py_ssize_t carried_bytes  # bytes of `kept` that were copied to the head of the window for this read

    cdef bint direct               # the current read goes to the end of `kept`
    cdef bint known                # p..end belongs to this round
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef Py_ssize_t frame_total    # size of the current frame with its length field; 0: none, or not known yet

    cdef int offer(self, uint8_t** data, Py_ssize_t* size) except -1
    cdef int arrived(self, Py_ssize_t count) except -1
    cdef int look_again(self) except -1
    cdef int next(self, const uint8_t** frame, Py_ssize_t* size) noexcept nogil
    cdef Py_ssize_t left(self) noexcept
    cdef bint has_whole(self) noexcept
    cdef bint keep(self, Endpoint user) except -1
    cdef int discard(self, Endpoint user) except -1
    # Gives away the memory that holds the frame of the last `next`, of `size` bytes. None when it holds other frames
    # too, or is much larger: then the frame must be copied.
    cdef Scratch detach(self, Py_ssize_t size)
    cdef bint has_partial(self) noexcept
    cdef Py_ssize_t kept_bytes(self) noexcept
    cdef bint grow(self, Endpoint user) except -1
    cdef int drop(self, Endpoint user) except -1
    cdef int recount(self) except -1
    cdef bint through_window(self, Py_ssize_t left) noexcept
    cdef int keep_window(self, Py_ssize_t left) except -1
