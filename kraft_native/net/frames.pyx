"""Frames out of a byte stream in bounded memory, and the memory of all streams together.

A frame is an int32 length and that many bytes. An announced length costs nothing: memory follows the received bytes, at
most three times of them. Only a connection that completed a frame of about that size before gets the room for the next
one at once.

Reads land in one window that all connections share, because a read is processed before the next one starts. The rest,
the head of a frame, is copied out. For frames up to half a window it is copied back before the next read, which may
then bring many more frames. Larger frames are read directly into their final place, a bounded part in each read. A
socket may hold tens of megabytes, and to copy all of them takes as long as many slices.

When the limit is reached, a connection waits with its partial frame, unread. The one that has waited longest may exceed
the limit, and no other may until its frame is whole or discarded. So the memory of incomplete frames is at most the
limit and one largest frame, and there is always progress. Kafka's `queued.max.request.bytes` is this limit.

Answers count until they are sent. Those that peers leave unread may take half of the limit; beyond it the connection
with most of them is closed. So many small requests for large answers cannot exhaust memory, and other clients need not
wait.
"""

from collections import deque

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from cpython.buffer cimport PyBuffer_FillInfo

cimport cython

from kraft_native.base.bytes_be cimport load_i32
from kraft_native.file.buffer cimport Slice
from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    WINDOW_BYTES = 256 * 1024
    WINDOW_BYTES_SHORT = 4 * 1024          # offered while memory is scarce

    FRAME_BYTES_LARGE = WINDOW_BYTES // 2  # frames from here on are not carried through the window
    DIRECT_BYTES_MIN = 64 * 1024           # received bytes of a large frame before it gets room of its own


@cython.final
cdef class ReadWindow:
    """Writable memory for one read."""

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, False, flags)


@cython.final
cdef class RequestMemory:
    """Memory that the requests of all connections hold together: partial frames, frames that wait their turn, bodies
    that the Python side processes, and answers until they are sent. One per node; loop thread only."""

    def __cinit__(self):
        self.landing = ReadWindow()
        self.window = <uint8_t*>malloc(WINDOW_BYTES)
        if self.window == NULL:
            raise MemoryError("the window that connections read into")

    def __dealloc__(self):
        free(self.window)

    def __init__(self, limit_bytes: int):
        if not 0 < limit_bytes <= 1 << 62:
            raise InvalidArgumentError(f"limit_bytes must be 1 to 2^62, not {limit_bytes}")
        self.limit_bytes = limit_bytes
        self.waiting = deque()
        self.unread = {}

    @property
    def waiting_users(self) -> int:
        """Connections that are not read because memory is used up."""
        return len(self.waiting)

    cdef bint take(self, Endpoint user, int64_t count) except -1:
        if self.used_bytes + count > self.limit_bytes and self.favoured is not user:
            if self.favoured is not None or len(self.waiting) > 0:
                self.waiting.append(user)
                return False
            self.favoured = user
        self.exceeded |= self.favoured is user and self.used_bytes + count > self.limit_bytes
        self.adjust(count)
        return True

    cdef int adjust(self, int64_t count) except -1:
        self.used_bytes += count
        if self.used_bytes > self.peak_bytes:
            self.peak_bytes = self.used_bytes
        assert self.used_bytes >= 0
        if count < 0 and len(self.waiting) > 0:
            if self.favoured is None:
                self.wake()
            elif self.used_bytes < self.limit_bytes - (self.limit_bytes >> 2):
                (<Endpoint>self.waiting.popleft()).memory_available()
        return 0

    cdef int hold_unread(self, Endpoint user, list rest, bint with_pages) except -1:
        cdef Endpoint most
        cdef int64_t count = 0, before
        if rest is None and len(self.unread) == 0:
            return 0
        before = self.unread.pop(user, 0)
        if rest is not None:
            for part in rest:
                if not with_pages or type(part) is not memoryview or type(part.obj) is not Slice:
                    count += len(part)
        if count > 0:
            self.unread[user] = count
        self.unread_bytes += count - before
        self.adjust(count - before)
        while self.unread_bytes > self.limit_bytes >> 1 and len(self.unread) > 0:
            most = max(self.unread, key=self.unread.get)
            self.cut_total += 1
            most.abort("slow_reader")
            if most in self.unread:
                raise AssertionError("a closed connection holds answers")
        return 0

    cdef int settle(self, Endpoint user) except -1:
        if self.favoured is user:
            self.favoured = None
            self.exceeded = False
            if len(self.waiting) > 0:
                self.wake()
        return 0

    cdef int stand_aside(self, Endpoint user) except -1:
        return 0 if self.exceeded else self.settle(user)

    cdef int wake(self) except -1:
        """Favour the longest waiting user, at once, so that no other takes the room first."""
        cdef Endpoint user = self.waiting.popleft()
        self.favoured = user
        user.memory_available()
        return 0

    cdef int forget(self, Endpoint user) except -1:
        """Remove a user that has disconnected."""
        if user in self.waiting:
            self.waiting.remove(user)
        self.settle(user)
        return 0

    cdef Py_ssize_t window_bytes(self) noexcept:
        return WINDOW_BYTES if self.used_bytes <= self.limit_bytes >> 1 else WINDOW_BYTES_SHORT


@cython.final
cdef class FrameReader:
    """One connection's stream, cut into frames. Loop thread only. Its owner passes itself where memory is settled: a
    reference to it would be a cycle, and memory of closed connections would wait for a garbage collection."""

    def __cinit__(self, RequestMemory memory not None, int32_t frame_bytes_max):
        self.memory = memory
        self.frame_bytes_max = frame_bytes_max

    cdef int offer(self, uint8_t** data, Py_ssize_t* size) except -1:
        """Set where to put the next bytes, and how many fit (at least one). `arrived` reads this memory at once, so
        nothing may be kept of it when no bytes come."""
        cdef Scratch kept = self.kept
        cdef Py_ssize_t left
        self.direct = False
        self.carried_bytes = 0
        if kept is None:
            data[0] = self.memory.window
            size[0] = self.memory.window_bytes()
            return 0
        left = kept.size - self.kept_from
        if self.through_window(left):
            memcpy(self.memory.window, kept.data + self.kept_from, <size_t>left)
            self.carried_bytes = left
            data[0] = self.memory.window + left
            size[0] = max(self.memory.window_bytes() - left, WINDOW_BYTES_SHORT)
            return 0
        self.direct = True
        if kept.size == kept.capacity:
            # Only a stalled connection comes here: the bytes it may still send before its reading pauses.
            kept.reserve(kept.size + WINDOW_BYTES_SHORT)
            self.recount()
        data[0] = kept.data + kept.size
        size[0] = min(kept.capacity - kept.size, READ_BYTES_MAX)
        if self.frame_total >= FRAME_BYTES_LARGE and size[0] > self.frame_total - left > 0:
            size[0] = self.frame_total - left
        return 0

    cdef bint through_window(self, Py_ssize_t left) noexcept:
        """True when the kept bytes go to the head of the window for the next read."""
        if self.frame_total < FRAME_BYTES_LARGE:
            return left < FRAME_BYTES_LARGE
        return left < DIRECT_BYTES_MIN and self.kept.capacity < self.frame_total

    cdef int arrived(self, Py_ssize_t count) except -1:
        """Begin a round: `count` bytes were put where `offer` said."""
        if self.direct:
            self.kept.size += count
            return self.look_again()
        self.p = self.memory.window
        self.end = self.p + self.carried_bytes + count
        self.known = True
        return 0

    cdef int look_again(self) except -1:
        """Begin a round over the kept bytes."""
        self.direct = True
        self.known = True
        if self.kept is None:
            self.p = self.memory.window
            self.end = self.p
            return 0
        self.p = self.kept.data + self.kept_from
        self.end = self.kept.data + self.kept.size
        return 0

    cdef int next(self, const uint8_t** frame, Py_ssize_t* size) noexcept nogil:
        """Return 1 and the next whole frame, without its length; 0 when none is whole; -1 when its length is negative
        or over the limit. The frame is valid until `keep`."""
        cdef Py_ssize_t left = self.end - self.p
        cdef int32_t length
        self.frame_total = 0
        if left < 4:
            return 0
        length = load_i32(self.p)
        if length < 0 or length > self.frame_bytes_max:
            return -1
        if left - 4 < length:
            self.frame_total = <Py_ssize_t>length + 4
            return 0
        frame[0] = self.p + 4
        size[0] = length
        self.p += 4 + <Py_ssize_t>length
        if length >= FRAME_BYTES_LARGE - 4:
            self.proven_bytes = 4 + <Py_ssize_t>length
        return 1

    cdef Py_ssize_t left(self) noexcept:
        """Bytes of the round that were not handed out."""
        return self.end - self.p

    cdef bint has_whole(self) noexcept:
        """True when the rest of the round begins with a whole frame, or one with a negative length."""
        cdef Py_ssize_t left = self.end - self.p
        return left >= 4 and left - 4 >= load_i32(self.p)

    cdef bint keep(self, Endpoint user) except -1:
        """End the round: bytes not handed out outlive it. Return False when the next read must wait for memory; the
        user is notified when it may try `grow`."""
        cdef Py_ssize_t left = self.end - self.p
        assert self.known
        self.known = False
        if left == 0:
            self.frame_total = 0
            self.drop(user)
            return True
        if self.direct:
            self.kept_from = self.p - self.kept.data
        else:
            self.keep_window(left)
        self.p = self.end = NULL
        if self.frame_total < FRAME_BYTES_LARGE:
            self.memory.settle(user)
            return True
        return self.grow(user)

    cdef int discard(self, Endpoint user) except -1:
        """End the round, and keep nothing. The memory of an incomplete frame goes back to the system: many such frames
        would leave more of it idle than all requests together may use."""
        self.known = False
        self.p = self.end = NULL
        self.frame_total = 0
        if self.kept is not None:
            self.kept.release()
        return self.drop(user)

    cdef int keep_window(self, Py_ssize_t left) except -1:
        """Copy the end of the window out. Its head may be in `kept` already."""
        if self.kept is None:
            self.kept = Scratch()
        if self.carried_bytes > 0 and self.p == self.memory.window:
            self.kept.put(self.p + self.carried_bytes, left - self.carried_bytes)
        else:
            self.kept.size = 0
            self.kept_from = 0
            self.kept.put(self.p, left)
        return self.recount()

    cdef bint grow(self, Endpoint user) except -1:
        """Make room for more of a large frame: as much again as has arrived, or all of it when such frames were
        seen."""
        cdef Scratch kept = self.kept
        cdef Py_ssize_t want
        cdef bint proven
        if kept is None or self.frame_total < FRAME_BYTES_LARGE:
            return True
        if self.kept_from > 0:
            kept.size -= self.kept_from
            memmove(kept.data, kept.data + self.kept_from, <size_t>kept.size)
            self.kept_from = 0
        # Batches of one producer differ a little in size.
        proven = self.frame_total <= self.proven_bytes + (self.proven_bytes >> 3)
        if kept.capacity >= self.frame_total or (kept.size < DIRECT_BYTES_MIN and not proven):
            return True
        if kept.size < kept.capacity and not proven:
            return True
        want = self.frame_total if proven else min(self.frame_total, 2 * kept.size)
        if not self.memory.take(user, want - self.counted_bytes):
            return False
        self.counted_bytes = want
        kept.reserve(want)
        self.recount()
        return True

    cdef Scratch detach(self, Py_ssize_t size):
        cdef Scratch kept = self.kept
        if not self.direct or kept is None or self.p != self.end or kept.capacity > 2 * size:
            return None
        self.memory.adjust(-self.counted_bytes)
        self.counted_bytes = 0
        self.kept = None
        self.kept_from = 0
        return kept

    cdef bint has_partial(self) noexcept:
        """True while the end of a frame is awaited."""
        return self.kept is not None

    cdef Py_ssize_t kept_bytes(self) noexcept:
        return 0 if self.kept is None else self.kept.size - self.kept_from

    cdef int recount(self) except -1:
        cdef int64_t capacity = self.kept.capacity
        if capacity != self.counted_bytes:
            self.memory.adjust(capacity - self.counted_bytes)
            self.counted_bytes = capacity
        return 0

    cdef int drop(self, Endpoint user) except -1:
        """Release all kept bytes."""
        cdef int64_t counted = self.counted_bytes
        self.memory.settle(user)
        if self.kept is not None:
            self.kept = None
            self.kept_from = 0
            self.counted_bytes = 0
            self.memory.adjust(-counted)
        return 0
