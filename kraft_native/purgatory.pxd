"""Requests that wait: for something to move, or for their time to be over."""

from libc.stdint cimport int64_t

from kraft_native.reply cimport ReplyWaiter


cdef enum:
    # A wake that counts as more bytes than any request can wait for.
    WAKE_BYTES_ALL = 0x7FFFFFFF


cdef enum:
    PARKED_INTERNAL                # somebody inside the node
    PARKED_PRODUCE
    PARKED_FETCH
    PARKED_KINDS


cdef class Watched:
    """Something that requests wait on: a partition."""
    cdef dict waiters              # of Parked, in the order in which they came; None until the first
    cdef list observers            # of Observer; None until the first
    cdef int64_t moved_bytes       # what became visible and was not told yet
    cdef bint moved                # in the purgatory's list of what is to be told

    # Looks again at what the flusher has done. True while something is still unflushed.
    cdef bint flushed(self) except -1


cdef class Observer:
    """Something that is told of every move of what it observes, at once."""

    # So many bytes became visible; `marks`: nothing did, only the high watermark moved.
    cdef int moved(self, Purgatory purgatory, int64_t bytes_count, bint marks) except -1


cdef class Parked(ReplyWaiter):
    """One request that waits. It stands in the wheel by its deadline, and at everything it watches."""
    cdef Purgatory purgatory       # None while it does not wait
    cdef int64_t deadline_ms
    cdef Py_ssize_t slot
    cdef list watched              # of Watched
    cdef int kind                  # of request, as metrics tell it

    # Something it watches moved by about so many bytes. It answers and leaves, or goes on waiting.
    cdef int wake(self, int64_t bytes_count) except -1
    # Its time is over: it answers and leaves.
    cdef int expire(self) except -1
    # Nobody is there any more to be answered.
    cdef bint abandoned(self) noexcept


cdef class Purgatory:
    """All that wait, of one loop. Loop thread only."""
    cdef readonly int64_t parked_max
    cdef readonly int64_t parked_count
    cdef int64_t[3] parked_by_kind
    cdef readonly int64_t parked_total         # since it was made
    cdef readonly int64_t expired_total
    cdef list slots                # of the wheel: dict of Parked, or None
    cdef int64_t swept_total       # `parked_total` when it was last swept
    cdef int64_t room_made_ms      # when `make_room` last swept
    cdef int64_t tick_ms           # everything due before it was taken out
    cdef int64_t armed_ms          # the timer's time, -1: none runs
    cdef object schedule
    cdef object arm
    cdef object drain_later        # self.drain, bound once
    cdef list to_tell              # of Watched whose waiters are to be woken
    cdef bint waking               # `drain` is at work
    cdef list after                # what is to be called when it has done
    cdef dict unflushed            # of Watched that wait for the flusher

    # Lets it wait until `deadline_ms` or until it leaves. False, and nothing done, when too many wait already.
    cdef bint park(self, Parked parked, list watched, int64_t deadline_ms) except -1
    # It waits no longer.
    cdef int leave(self, Parked parked) except -1
    # Its waiters are to be woken at the end of this turn of the loop: so many bytes became visible; for `marks` see
    # `Observer.moved`.
    cdef int tell(self, Watched watched, int64_t bytes_count, bint marks) except -1
    # Its `flushed` is to be called when the flusher has done something.
    cdef int await_flush(self, Watched watched) except -1
    # Lets those go whose client is gone.
    cdef int sweep(self) except -1
    # The same, a few times per second at most: for who has a limit of its own on what waits.
    cdef int make_room(self) except -1
    cdef int64_t next_deadline(self) noexcept
