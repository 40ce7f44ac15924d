"""Pending requests: they wait for a partition to move, or for their deadline."""

from libc.stdint cimport int64_t

from kraft_native.request.reply cimport ReplyWaiter


cdef enum:
    # A wake-up that counts as more bytes than any request can wait for.
    WAKE_BYTES_ALL = 0x7FFFFFFF


cdef enum:
    PARKED_INTERNAL                # a waiter inside the node
    PARKED_PRODUCE
    PARKED_FETCH
    PARKED_KINDS


cdef class Watched:
    """A partition, as an object that requests wait on."""
    cdef dict waiters              # of Parked, oldest first; None until the first
    cdef list observers            # of Observer; None until the first
    cdef int64_t moved_bytes       # newly visible bytes, not reported yet
    cdef bint moved                # in the purgatory's list of what to report

    # Reads the flusher's progress again. True while something is still unflushed.
    cdef bint flushed(self) except -1


cdef class Observer:
    """An object that is notified of every move of what it observes, at once."""

    # `bytes_count` bytes became visible; `marks`: none did, only the high watermark moved.
    cdef int moved(self, Purgatory purgatory, int64_t bytes_count, bint marks) except -1


cdef class Parked(ReplyWaiter):
    """One pending request. It is in the wheel by its deadline, and registered at everything it watches."""
    cdef Purgatory purgatory       # None while it is not parked
    cdef int64_t deadline_ms
    cdef Py_ssize_t slot
    cdef Parked slot_previous      # its neighbours in that slot; None at an end
    cdef Parked slot_next
    cdef list watched              # of Watched
    cdef int kind                  # kind of request, for metrics

    # Something it watches moved by about that many bytes. It answers and leaves, or continues to wait.
    cdef int wake(self, int64_t bytes_count) except -1
    # Its deadline has passed: it answers and leaves.
    cdef int expire(self) except -1
    # No client is left to be answered.
    cdef bint abandoned(self) noexcept


cdef class Purgatory:
    """Pending requests of one loop. Loop thread only."""
    cdef readonly int64_t parked_max
    cdef readonly int64_t parked_count
    cdef int64_t[3] parked_by_kind
    cdef readonly int64_t parked_total         # since its creation
    cdef readonly int64_t expired_total

    cdef list slots                # of the wheel: the newest Parked of each, or None
    cdef int64_t swept_total       # `parked_total` when it was last swept

    cdef int64_t room_made_ms      # when `make_room` last swept
    cdef int64_t tick_ms           # everything due before it was removed
    cdef int64_t armed_ms          # the timer's deadline, -1: none is running
    cdef object schedule
    cdef object arm
    cdef object drain_later        # self.drain, bound once
    cdef list to_notify              # of Watched whose waiters are to be woken
    cdef bint waking               # `drain` is running
    cdef list after                # callbacks to run after it
    cdef dict unflushed            # of Watched that wait for the flusher

    # Parks it until `deadline_ms` or until it leaves. False, and nothing done, when too many are parked already.
    cdef bint park(self, Parked parked, list watched, int64_t deadline_ms) except -1
    # Ends its wait.
    cdef int leave(self, Parked parked) except -1
    # Has its waiters woken at the end of this loop iteration: so many bytes became visible; for `marks` see
    # `Observer.moved`.
    cdef int notify(self, Watched watched, int64_t bytes_count, bint marks) except -1
    # Has its `flushed` called after the flusher's next progress.
    cdef int await_flush(self, Watched watched) except -1
    # Removes those whose client has disconnected.
    cdef int sweep(self) except -1
    # The same, a few times per second at most: for callers with a limit of their own on pending requests.
    cdef int make_room(self) except -1
    cdef int64_t next_deadline(self) noexcept
    # The members of a slot, oldest first.
    cdef list members(self, Py_ssize_t slot)
    cdef int unlink(self, Parked parked) except -1
