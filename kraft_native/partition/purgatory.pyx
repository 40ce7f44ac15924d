"""Requests that wait: Fetch for bytes, Produce for a flush or for replicas (Kafka's DelayedOperationPurgatory).

A request that cannot be answered yet is parked: it watches partitions, and it has a deadline. The code that moves a
partition reports it to the purgatory. Waiters are woken once per iteration of the loop, so that a fetch sees all
appends of the iteration.

One timer. The wheel has a slot per millisecond and goes round every two seconds; a deadline further away is passed over
until its round. `arm` is called with a deadline only when no running timer fires by then. So a client that fetches
again and again costs no timer per request: the running one fires, finds nothing due, and returns the next deadline.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from posix.unistd cimport read

from kraft_native.base.clock cimport monotonic_ms

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    SLOTS = 2048                   # a power of two
    PARKED_MAX_DEFAULT = 100_000
    ROOM_INTERVAL_MS = 200


def now_ms() -> int:
    """Read the clock of all deadlines: monotonic, in milliseconds."""
    return monotonic_ms()


cdef class Watched:
    """Base of objects that can be waited on; not used by itself."""

    cdef bint flushed(self) except -1:
        raise AssertionError(f"{type(self).__name__} has nothing to flush")


cdef class Observer:
    """Base of observers; not used by itself."""

    cdef int moved(self, Purgatory purgatory, int64_t bytes_count, bint marks) except -1:
        raise AssertionError(f"{type(self).__name__} does not define what it observes")


cdef class Parked(ReplyWaiter):
    """Base of waiting requests; not used by itself."""

    cdef int abandon(self) except -1:
        if self.purgatory is not None:
            self.purgatory.leave(self)
        return 0

    cdef int wake(self, int64_t bytes_count) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what wakes it")

    cdef int expire(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what happens in the end")

    cdef bint abandoned(self) noexcept:
        return False


@cython.final
cdef class Purgatory:
    """Pending requests of one event loop.

    `schedule(callback)` runs the callback soon, like `loop.call_soon`; without it the code that moves partitions calls
    `drain`. `arm(deadline_ms)` has to call `expire` by then, on the clock of `now_ms`; `expire` returns the next
    deadline.
    """

    def __init__(self, schedule: Callable[[Callable[[], None]], object] | None = None,
                 arm: Callable[[int], object] | None = None, *, int64_t parked_max=PARKED_MAX_DEFAULT):
        if parked_max < 0:
            raise InvalidArgumentError(f"parked_max: {parked_max} is below 0")
        self.schedule = schedule
        self.arm = arm
        self.parked_max = parked_max
        self.slots = [None] * SLOTS
        self.tick_ms = monotonic_ms()
        self.armed_ms = -1
        self.drain_later = self.drain
        self.to_notify = []
        self.after = []
        self.unflushed = {}

    @property
    def deadline_ms(self) -> int:
        """Latest time for the next call of `expire`; -1 when no deadline is pending."""
        return self.armed_ms

    @property
    def parked_produces(self) -> int:
        """Number of pending Produce requests."""
        return self.parked_by_kind[PARKED_PRODUCE]

    @property
    def parked_fetches(self) -> int:
        """Number of pending Fetch requests."""
        return self.parked_by_kind[PARKED_FETCH]

    # --- parking ----------------------------------------------------------------------------------------------------

    cdef bint park(self, Parked parked, list watched, int64_t deadline_ms) except -1:
        cdef Watched one
        cdef Parked newest
        if self.parked_count >= self.parked_max:
            # Seldom enough that a full purgatory does not pay for it with each request.
            if self.parked_total - self.swept_total >= self.parked_max // 8:
                self.sweep()
            if self.parked_count >= self.parked_max:
                return False
        if self.parked_count == 0:
            self.tick_ms = max(self.tick_ms, monotonic_ms())
        parked.slot = <Py_ssize_t>(max(deadline_ms, self.tick_ms) & (SLOTS - 1))
        newest = self.slots[parked.slot]
        parked.slot_next = newest
        if newest is not None:
            newest.slot_previous = parked
        self.slots[parked.slot] = parked
        for one in watched:
            if one.waiters is None:
                one.waiters = {}
            one.waiters[parked] = None
        parked.purgatory = self
        parked.deadline_ms = deadline_ms
        parked.watched = watched
        self.parked_count += 1
        self.parked_by_kind[parked.kind] += 1
        self.parked_total += 1
        if self.armed_ms < 0 or deadline_ms < self.armed_ms:
            self.armed_ms = deadline_ms
            if self.arm is not None:
                self.arm(deadline_ms)
        return True

    cdef int leave(self, Parked parked) except -1:
        cdef Watched one
        if parked.purgatory is None:
            return 0
        parked.purgatory = None
        self.unlink(parked)
        for one in parked.watched:
            one.waiters.pop(parked, None)          # once, though it may watch one thing twice
        parked.watched = None
        self.parked_count -= 1
        self.parked_by_kind[parked.kind] -= 1
        return 0

    cdef int unlink(self, Parked parked) except -1:
        if parked.slot_previous is None:
            self.slots[parked.slot] = parked.slot_next
        else:
            parked.slot_previous.slot_next = parked.slot_next
        if parked.slot_next is not None:
            parked.slot_next.slot_previous = parked.slot_previous
        parked.slot_previous = parked.slot_next = None
        return 0

    cdef list members(self, Py_ssize_t slot):
        cdef list found = []
        cdef Parked parked = self.slots[slot]
        while parked is not None:
            found.append(parked)
            parked = parked.slot_next
        found.reverse()
        return found

    cdef int make_room(self) except -1:
        cdef int64_t now = monotonic_ms()
        if now - self.room_made_ms >= ROOM_INTERVAL_MS:
            self.room_made_ms = now
            self.sweep()
        return 0

    cdef int sweep(self) except -1:
        cdef Parked parked
        cdef Py_ssize_t slot
        self.swept_total = self.parked_total
        for slot in range(SLOTS):
            if self.slots[slot] is not None:
                for parked in self.members(slot):
                    if parked.abandoned():
                        parked.expire()
        return 0

    # --- moves ------------------------------------------------------------------------------------------------------

    cdef int notify(self, Watched watched, int64_t bytes_count, bint marks) except -1:
        cdef Observer observer
        if watched.observers is not None:
            for observer in watched.observers:
                observer.moved(self, bytes_count, marks)
        if not watched.waiters:
            return 0
        watched.moved_bytes = min(watched.moved_bytes + bytes_count, <int64_t>WAKE_BYTES_ALL)
        if watched.moved:
            return 0
        watched.moved = True
        self.to_notify.append(watched)
        if len(self.to_notify) == 1 and self.schedule is not None:
            self.schedule(self.drain_later)
        return 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Schedule a callback like the loop's `call_soon`, for code that sends the waiters' answers. While waiters are
        woken, the callback runs right after that, not in the loop's next iteration."""
        if self.waking:
            self.after.append(callback)
        else:
            self.schedule(callback)

    def drain(self) -> None:
        """Wake the waiters of everything that moved."""
        cdef list due = self.to_notify, after
        cdef Watched one
        cdef Parked parked
        cdef int64_t bytes_count
        self.to_notify = []
        self.waking = True
        try:
            for one in due:
                bytes_count = one.moved_bytes
                one.moved = False
                one.moved_bytes = 0
                for parked in list(one.waiters):
                    if parked.purgatory is not None:   # not woken meanwhile through another partition
                        parked.wake(bytes_count)
        finally:
            self.waking = False
            after = self.after
            self.after = []
            for callback in after:
                callback()

    cdef int await_flush(self, Watched watched) except -1:
        self.unflushed[watched] = None
        return 0

    def flush_done(self, int eventfd=-1) -> None:
        """Publish and answer the appends that became durable; call it when the flusher's `eventfd` is readable. Resets
        the descriptor passed to it, so that the loop can call it directly."""
        cdef Watched one
        cdef uint64_t count
        if eventfd >= 0:
            read(eventfd, &count, sizeof(count))
        for one in list(self.unflushed):
            if not one.flushed():
                self.unflushed.pop(one, None)
        self.drain()                   # the loop called this: no need to wait for the next iteration

    # --- time -------------------------------------------------------------------------------------------------------

    def expire(self, int64_t now_ms) -> int:
        """Answer everything whose deadline is `now_ms` or earlier. Return the next deadline, -1 when none is
        pending."""
        cdef list due = []
        cdef Parked parked
        cdef Py_ssize_t slot
        cdef int64_t tick, last = max(now_ms, self.tick_ms)    # a request already late when parked is in `tick_ms`
        if self.parked_count > 0:
            # More than a whole round late: every slot, once.
            for tick in range(max(self.tick_ms, last - SLOTS + 1), last + 1):
                slot = <Py_ssize_t>(tick & (SLOTS - 1))
                if self.slots[slot] is not None:
                    for parked in self.members(slot):
                        if parked.deadline_ms <= now_ms:
                            due.append(parked)
        self.tick_ms = max(self.tick_ms, now_ms + 1)
        for parked in due:
            if parked.purgatory is not None:
                self.expired_total += 1
                parked.expire()
                if parked.purgatory is not None:
                    raise AssertionError(f"{type(parked).__name__} still waits after its deadline")
        self.armed_ms = self.next_deadline()
        return self.armed_ms

    def expire_fetches(self) -> None:
        """Answer every pending Fetch with the available data: the node stops, and no further request will come."""
        cdef Parked parked
        cdef Py_ssize_t slot
        for slot in range(SLOTS):
            if self.slots[slot] is not None:
                for parked in self.members(slot):
                    if parked.kind == PARKED_FETCH and parked.purgatory is not None:
                        self.expired_total += 1
                        parked.expire()

    cdef int64_t next_deadline(self) noexcept:
        """The earliest deadline; when all are more than one round of the wheel away, the end of that round."""
        cdef int64_t tick
        cdef Parked parked
        if self.parked_count == 0:
            return -1
        for tick in range(self.tick_ms, self.tick_ms + SLOTS):
            parked = self.slots[<Py_ssize_t>(tick & (SLOTS - 1))]
            while parked is not None:
                if parked.deadline_ms <= tick:
                    return max(parked.deadline_ms, 0)
                parked = parked.slot_next
        return self.tick_ms + SLOTS - 1
