"""Fetch sessions: what a client fetches, kept between its requests (KIP-227)."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.partition.purgatory cimport Parked, Watched
from kraft_native.serve.fetch_entry cimport FetchEntry, Unread


cdef class FetchSession(Watched):
    cdef readonly int32_t session_id
    cdef readonly int32_t epoch            # that the next request must carry
    cdef bint by_id
    cdef bint of_follower
    cdef Parked waiting                    # its pending request; None
    cdef int64_t created_ms
    cdef int64_t used_ms
    cdef int64_t looked_ms                 # time of the last read of all its partitions
    cdef Unread unread                     # a follower's: those to read; None: all
    cdef bint is_enrolled                  # it is one of the cache
    cdef bint wakes_for_marks
    cdef Py_ssize_t reserved               # partitions that are counted for it until it is enrolled
    # (topic as the request names it, index) -> FetchEntry; without `unread` the next to serve is the first.
    cdef dict entries

    # Its data was sent: the next time the others come first.
    cdef int move_to_end(self, FetchEntry entry) except -1
    # The entries that a request arriving now has to read.
    cdef list due(self, int64_t now_ms, int64_t upkeep_ms)
    cdef int admit(self, FetchEntry entry) except -1


cdef class SessionCache:
    """All sessions of a node. Loop thread only."""
    cdef readonly int64_t slots_max
    cdef readonly int64_t partitions_max
    cdef readonly int64_t eviction_ms
    cdef readonly int64_t upkeep_ms
    cdef readonly int64_t partition_count
    cdef readonly int64_t evictions_total
    cdef dict sessions                     # id -> FetchSession

    cdef FetchSession get(self, int32_t session_id)
    cdef int remove(self, int32_t session_id) except -1
    # A new session of these entries; None when there is no room for it.
    cdef FetchSession create(self, list entries, bint by_id, bint of_follower, bint wakes_for_marks, int64_t now_ms)
    # The same in steps: `prepare` reserves the room, `fill` adds entries. `enroll` is False when others took the room.
    cdef FetchSession prepare(self, Py_ssize_t size, bint by_id, bint of_follower, bint wakes_for_marks,
                              int64_t now_ms)
    cdef int fill(self, FetchSession session, list entries, Py_ssize_t start, Py_ssize_t end) except -1
    cdef bint enroll(self, FetchSession session) except -1
    # Adds, changes and removes partitions, and advances to the next epoch. False: there is no room for new ones, or
    # nothing is left, and the session has ended.
    cdef bint update(self, FetchSession session, list entries, list forgotten, int64_t now_ms) except -1
    # The changes with these numbers: entries are added first, then the forgotten are removed. Like its parts it is
    # False when the session has ended.
    cdef bint change(self, FetchSession session, list entries, list forgotten, Py_ssize_t start,
                     Py_ssize_t end) except -1
    cdef bint add(self, FetchSession session, list entries, Py_ssize_t start, Py_ssize_t end) except -1
    cdef bint drop(self, FetchSession session, list forgotten, Py_ssize_t start, Py_ssize_t end) except -1
    cdef bint renew(self, FetchSession session, int64_t now_ms) except -1
    cdef FetchSession least_recently_used(self)
    cdef bint make_room(self, Py_ssize_t size, bint of_follower, int64_t now_ms) except -1


cdef inline int32_t next_epoch(int32_t epoch) noexcept nogil:
    """Wrap from 2147483647 to 1: 0 begins a session."""
    return 1 if epoch == 0x7FFFFFFF else epoch + 1
