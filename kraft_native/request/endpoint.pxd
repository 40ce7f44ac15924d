"""A connection as other parts see it."""

from libc.stdint cimport int64_t

from kraft_native.request.reply cimport ReplySink


cdef class Endpoint(ReplySink):
    cdef bint woken                # listed for a call already
    # type: tuple[str, str] | None
    cdef readonly tuple software   # name and version of the client's library; None: it has not named it
    # Continues after a change: sends what is ready, processes pending requests. Called at most once per loop iteration.
    cdef int take_turn(self) except -1
    cdef bint queued               # waits for its next slice
    # Processes requests for a slice, after it waited in the queue.
    cdef int take_slice(self) except -1
    # Whether the request that it processes is the only one that it has read.
    cdef bint has_one_request(self) except -1
    # After memory was refused: it may request it again, soon, but not from inside this call.
    cdef int memory_available(self) except -1
    # Enforces the limits that depend on time.
    cdef int sweep(self, int64_t now_ms) except -1
    # Closes at once, without replies.
    cdef int abort(self, str reason) except -1
    # No further requests; closes once every request is answered and sent.
    cdef int drain(self) except -1
