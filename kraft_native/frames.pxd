"""Frames out of a byte stream in bounded memory, and the memory of all streams together."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.buffer cimport Scratch
from kraft_native.endpoint cimport Endpoint


cdef class ReadWindow:
    """Where a read is to land, as an object that exports it. Loops ask for it and use it at once."""
    cdef uint8_t* data
    cdef Py_ssize_t size


cdef class RequestMemory:
    """What the requests of all connections hold together: partial frames, frames that wait for their turn, bodies that
    the Python side is working on, and answers until they have left. One per node; loop thread only."""
    cdef readonly int64_t limit_bytes
    cdef readonly int64_t used_bytes
    cdef readonly int64_t peak_bytes
    cdef Endpoint favoured       # the one user that may go past the limit, so that somebody always gets on
    cdef object waiting            # deque of users, longest wait first
    cdef dict unread               # user -> bytes of answers that its peer has not read
    cdef readonly int64_t unread_bytes
    cdef readonly int64_t cut_total    # users that were closed because of them
    cdef ReadWindow landing        # what the read under way was given
    cdef uint8_t* window           # where reads of connections with nothing pending land
    # Counts `count` more bytes for `user`. False when they must wait: then the user is queued and told later.
    cdef bint take(self, Endpoint user, int64_t count) except -1
    # Counts bytes that are there already, or gives back (negative).
    cdef int adjust(self, int64_t count) except -1
    # These parts of answers are left unread by the user's peer; None: none are. `with_pages`: slices of the log are no
    # copies. The user may be closed for it.
    cdef int hold_unread(self, Endpoint user, list rest, bint with_pages) except -1
    # The user's frame is whole, or the user is gone.
    cdef int settle(self, Endpoint user) except -1
    cdef int wake(self) except -1
    cdef int forget(self, Endpoint user) except -1
    cdef Py_ssize_t window_bytes(self) noexcept


cdef class FrameReader:
    """One connection's stream. `offer` says where to read, `arrived` how much came, `next` gives frames, `keep` ends
    the round."""
    cdef RequestMemory memory
    cdef Endpoint user
    cdef int32_t frame_bytes_max
    cdef Scratch kept              # bytes that outlive a round; None most of the time
    cdef Py_ssize_t kept_from      # the first byte in it that was not handed out
    cdef int64_t counted_bytes     # what of it the memory counts
    cdef Py_ssize_t proven_bytes   # the size of the last large frame that this connection completed
    cdef Py_ssize_t carried_bytes  # bytes of `kept` that were copied to the head of the window for this read
    cdef bint direct               # the read under way goes to the end of `kept`
    cdef bint known                # p..end is of this round
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef Py_ssize_t frame_total    # size of the frame under way with its length field; 0: none, or not known yet

    cdef int offer(self, uint8_t** data, Py_ssize_t* size) except -1
    cdef int arrived(self, Py_ssize_t count) except -1
    cdef int look_again(self) except -1
    cdef int next(self, const uint8_t** frame, Py_ssize_t* size) noexcept nogil
    cdef Py_ssize_t left(self) noexcept
    cdef bint has_whole(self) noexcept
    cdef bint keep(self) except -1
    cdef int discard(self) except -1
    cdef bint has_partial(self) noexcept
    cdef Py_ssize_t kept_bytes(self) noexcept
    cdef bint grow(self) except -1
    cdef int drop(self) except -1
    cdef int recount(self) except -1
    cdef bint through_window(self, Py_ssize_t left) noexcept
    cdef int keep_window(self, Py_ssize_t left) except -1
