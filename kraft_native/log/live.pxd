"""The live page for compiled callers (`_c/log/live.h` has the layout and the ordering rules)."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from "log/live.h" nogil:
    ctypedef struct kf_live_state:
        int64_t log_start
        int64_t high_watermark
        int64_t last_stable_offset
        int64_t log_end
        int64_t active_base
        int64_t active_bytes
        uint64_t truncation_generation
        uint64_t segments_generation
        uint64_t closed
    ctypedef struct kf_live_page:
        uint64_t magic
        uint32_t version
        uint32_t size
        int64_t owner_pid
        uint64_t owner_start_ticks
        uint64_t owner_pid_namespace
        uint64_t incarnation
        uint64_t sequence
        kf_live_state state
        uint32_t wake_word
        uint32_t armed


cdef enum:
    LIVE_EVENTS_MAX = 64


cdef class LivePage:
    """The owner's side. Owner's thread only."""
    cdef kf_live_page* page        # NULL once closed
    cdef int fd                    # holds the lock that says that the owner lives; -1 where the mapping does
    cdef readonly object path  # type: str
    cdef int event_count
    cdef int events[LIVE_EVENTS_MAX]

    # Publishes the limits for readers; < 30 ns when none waits. Call it after the bytes are in the file. Invariant:
    # log_start <= last_stable_offset <= high_watermark <= log_end. `active_bytes` counts whole batches of the segment
    # `active_base`. Wakes waiting readers when log start, high watermark or last stable offset changed.
    cdef void publish_limits(self, int64_t log_start, int64_t high_watermark, int64_t last_stable_offset,
                             int64_t log_end, int64_t active_base, int64_t active_bytes) noexcept nogil
    # Around anything that cuts or rewrites bytes below the log end. Publish the new limits in between.
    cdef void truncation_begins(self) noexcept nogil
    cdef void truncation_ends(self) noexcept nogil
    # Call it before and after segment files are added, replaced, removed, or reused for another segment.
    cdef void segments_change(self) noexcept nogil
    cdef void wake(self) noexcept nogil
    cdef void* _open(self, bytes path) except NULL
    cdef void* _map(self, int fd) except NULL
    cdef int _make_room(self, int fd, bytes path) except -1
    cdef int _take_over(self) except -1
    cdef int _need_open(self) except -1
    cdef void _release(self) noexcept


cdef class LiveView:
    """A reader's side, in any process. Any thread."""
    cdef const kf_live_page* page
    cdef int fd
    cdef readonly object path  # type: str
    cdef readonly bint writable    # False: the file may not be written, so waiting polls the page

    # Copies the state: 0, or -ESTALE when the owner died while it wrote.
    cdef int read_state(self, kf_live_state* out) noexcept nogil
    # Whether bytes read from the log's files since `state` was copied may be wrong. Full fence.
    cdef bint changed_since(self, const kf_live_state* state) noexcept nogil
    cdef uint64_t incarnation(self) noexcept nogil
    # Whether an owner has the log open. Costs about 1 us.
    cdef bint owner_lives(self) noexcept nogil
    # For a wait: `wake_word`, then `request_wake`, then read the state, then `sleep` with the result of `wake_word`.
    cdef uint32_t wake_word(self) noexcept nogil
    cdef void request_wake(self) noexcept nogil
    cdef void sleep(self, uint32_t seen, int64_t timeout_ns) noexcept nogil
    cdef bint _process_lives(self) noexcept
