"""Requests that wait: Fetch for bytes, Produce for a flush or for replicas (Kafka's DelayedOperationPurgatory).

A request that cannot be answered yet is parked: it watches partitions, and it has a deadline. Whoever moves a
partition tells the purgatory; waiters are woken once per turn of the loop, so that a fetch sees all that a turn's
appends brought.

One timer. The wheel has a slot per millisecond and turns every two seconds; a deadline further away is met in passing,
and stays. `arm` is called with a deadline only when no timer runs that fires by then, so a client that fetches again
and again costs no timer per request: the one that is armed fires, finds nothing due, and gives the next deadline.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from posix.unistd cimport read

from kraft_native.clock cimport monotonic_ms

from kraft_native.errors import InvalidArgumentError

cdef enum:
    SLOTS = 2048                   # a power of two
    PARKED_MAX_DEFAULT = 100_000
    ROOM_INTERVAL_MS = 200


def now_ms() -> int:
    """The clock of all deadlines: monotonic, in milliseconds."""
    return monotonic_ms()


cdef class Watched:
    """Base of what can be waited on; not used by itself."""

    cdef bint flushed(self) except -1:
        raise AssertionError(f"{type(self).__name__} has nothing to flush")


cdef class Observer:
    """Base of what observes; not used by itself."""

    cdef int moved(self, Purgatory purgatory, int64_t bytes_count, bint marks) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what it is told for")


cdef class Parked(ReplyWaiter):
    """Base of what can wait; not used by itself."""

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
    """All requests that wait, of one event loop.

    `schedule(callback)` runs the callback soon, as `loop.call_soon`; without it whoever moves partitions calls `drain`.
    `arm(deadline_ms)` is to have `expire` called by then, on the clock of `now_ms`; `expire` gives the next deadline.
    """

    def __init__(self, schedule=None, arm=None, *, int64_t parked_max=PARKED_MAX_DEFAULT):
        if parked_max < 0:
            raise InvalidArgumentError(f"parked_max: {parked_max} is below 0")
        self.schedule = schedule
        self.arm = arm
        self.parked_max = parked_max
        self.slots = [None] * SLOTS
        self.tick_ms = monotonic_ms()
        self.armed_ms = -1
        self.drain_later = self.drain
        self.to_tell = []
        self.after = []
        self.unflushed = {}

    @property
    def deadline_ms(self) -> int:
        """When `expire` must be called, at the latest; -1 when nothing waits for a time."""
        return self.armed_ms

    @property
    def parked_produces(self) -> int:
        """Produce requests that wait."""
        return self.parked_by_kind[PARKED_PRODUCE]

    @property
    def parked_fetches(self) -> int:
        """Fetch requests that wait."""
        return self.parked_by_kind[PARKED_FETCH]

    # --- who waits --------------------------------------------------------------------------------------------------

    cdef bint park(self, Parked parked, list watched, int64_t deadline_ms) except -1:
        cdef Watched one
        cdef dict slot
        if self.parked_count >= self.parked_max:
            # Seldom enough that a full house does not pay for it with each request.
            if self.parked_total - self.swept_total >= self.parked_max // 8:
                self.sweep()
            if self.parked_count >= self.parked_max:
                return False
        if self.parked_count == 0:
            self.tick_ms = max(self.tick_ms, monotonic_ms())
        parked.slot = <Py_ssize_t>(max(deadline_ms, self.tick_ms) & (SLOTS - 1))
        slot = self.slots[parked.slot]
        if slot is None:
            slot = self.slots[parked.slot] = {}
        slot[parked] = None
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
        del (<dict>self.slots[parked.slot])[parked]
        for one in parked.watched:
            one.waiters.pop(parked, None)          # once, though it may watch one thing twice
        parked.watched = None
        self.parked_count -= 1
        self.parked_by_kind[parked.kind] -= 1
        return 0

    cdef int make_room(self) except -1:
        cdef int64_t now = monotonic_ms()
        if now - self.room_made_ms >= ROOM_INTERVAL_MS:
            self.room_made_ms = now
            self.sweep()
        return 0

    cdef int sweep(self) except -1:
        cdef Parked parked
        self.swept_total = self.parked_total
        for slot in self.slots:
            if slot:
                for parked in list(slot):
                    if parked.abandoned():
                        parked.expire()
        return 0

    # --- what moves -------------------------------------------------------------------------------------------------

    cdef int tell(self, Watched watched, int64_t bytes_count, bint marks) except -1:
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
        self.to_tell.append(watched)
        if len(self.to_tell) == 1 and self.schedule is not None:
            self.schedule(self.drain_later)
        return 0

    def call_soon(self, callback) -> None:
        """As the loop's, for those who send what the waiters answer: what they ask for while waiters are woken is
        called right after that, not in the loop's next turn."""
        if self.waking:
            self.after.append(callback)
        else:
            self.schedule(callback)

    def drain(self) -> None:
        """Wakes the waiters of everything that moved."""
        cdef list told = self.to_tell, after
        cdef Watched one
        cdef Parked parked
        cdef int64_t bytes_count
        self.to_tell = []
        self.waking = True
        try:
            for one in told:
                bytes_count = one.moved_bytes
                one.moved = False
                one.moved_bytes = 0
                for parked in list(one.waiters):
                    if parked.purgatory is not None:   # not woken meanwhile through something else
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
        """Call it when the flusher's `eventfd` is readable: the appends that became durable are shown and answered.
        Resets the descriptor that it is given, so that the loop can call it by itself."""
        cdef Watched one
        cdef uint64_t count
        if eventfd >= 0:
            read(eventfd, &count, sizeof(count))
        for one in list(self.unflushed):
            if not one.flushed():
                self.unflushed.pop(one, None)
        self.drain()                   # this is a turn of its own: nobody need wait for the next

    # --- time -------------------------------------------------------------------------------------------------------

    def expire(self, int64_t now_ms) -> int:
        """Answers everything whose deadline is `now_ms` or earlier. Gives the next deadline, -1 when there is none."""
        cdef list due = []
        cdef Parked parked
        cdef int64_t tick, last = max(now_ms, self.tick_ms)    # what was late when it was parked stands in `tick_ms`
        if self.parked_count > 0:
            # More than a whole turn late: every slot, once.
            for tick in range(max(self.tick_ms, last - SLOTS + 1), last + 1):
                slot = self.slots[<Py_ssize_t>(tick & (SLOTS - 1))]
                if slot:
                    due += [parked for parked in slot if parked.deadline_ms <= now_ms]
        self.tick_ms = max(self.tick_ms, now_ms + 1)
        for parked in due:
            if parked.purgatory is not None:
                self.expired_total += 1
                parked.expire()
                if parked.purgatory is not None:
                    raise AssertionError(f"{type(parked).__name__} goes on waiting after its deadline")
        self.armed_ms = self.next_deadline()
        return self.armed_ms

    def expire_fetches(self) -> None:
        """Answers every Fetch that waits, with what there is: the node stops, and will not be asked again."""
        cdef Parked parked
        for slot in self.slots:
            if slot:
                for parked in list(slot):
                    if parked.kind == PARKED_FETCH and parked.purgatory is not None:
                        self.expired_total += 1
                        parked.expire()

    cdef int64_t next_deadline(self) noexcept:
        """The earliest deadline; when all are further away than a turn of the wheel, the end of that turn."""
        cdef int64_t tick
        cdef Parked parked
        cdef dict slot
        if self.parked_count == 0:
            return -1
        for tick in range(self.tick_ms, self.tick_ms + SLOTS):
            slot = self.slots[<Py_ssize_t>(tick & (SLOTS - 1))]
            if not slot:
                continue
            for parked in slot:
                if parked.deadline_ms <= tick:
                    return max(parked.deadline_ms, 0)
        return self.tick_ms + SLOTS - 1
