"""Fetch sessions (KIP-227; Kafka's FetchSession and FetchSessionCache).

A client that fetches from many partitions names them once. Later requests carry only changes, later replies only news.
Requests are counted: the session knows which epoch must come next.

Room. There are `slots_max` sessions. When all are in use, a new one replaces another by these rules:

- the least recently used one, if it was not used for `eviction_ms`;
- else, for a follower, the smallest session of a consumer;
- else, for a consumer, the smallest session of a consumer that is older than `eviction_ms`, unless that one is larger
  than the new one.

Otherwise the client continues without a session. All sessions together keep at most `partitions_max` partitions.

The cost of a follower's session depends on the partitions that moved, not on their number. Its entries observe their
partitions. Those that moved, and those with something to report at their last read, are its `unread`, and only these
are read. Once in `upkeep_ms` a request reads all: so their partitions know that the follower still has everything.
"""

from os import urandom

from libc.stdint cimport int32_t, int64_t

cimport cython

from kraft_native.base.clock cimport monotonic_ms
from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    SLOTS_MAX_DEFAULT = 1000
    PARTITIONS_MAX_DEFAULT = 500_000
    EVICTION_MS_DEFAULT = 120_000
    UPKEEP_MS_DEFAULT = 1000


@cython.final
cdef class FetchSession(Watched):
    """One client's session."""

    cdef int move_to_end(self, FetchEntry entry) except -1:
        cdef tuple key
        if self.unread is not None:
            if entry.session is self:                      # a later request may have removed it
                self.unread.add_last(entry)
            return 0
        key = (entry.topic, entry.spec.index)
        if self.entries.pop(key, None) is not None:
            self.entries[key] = entry
        return 0

    cdef list due(self, int64_t now_ms, int64_t upkeep_ms):
        cdef FetchEntry entry
        cdef list found
        if self.unread is not None and now_ms - self.looked_ms < upkeep_ms:
            return self.unread.entries()
        self.looked_ms = now_ms
        if self.unread is None:
            return list(self.entries.values())
        found = self.unread.entries()
        for entry in self.entries.values():
            if entry.unread_at < 0:
                found.append(entry)
        return found

    cdef int admit(self, FetchEntry entry) except -1:
        if self.unread is not None:
            entry.enter(self, self.unread, self.wakes_for_marks)
        return 0


@cython.final
cdef class SessionCache:
    """max.incremental.fetch.session.cache.slots and min.incremental.fetch.session.eviction.ms are `slots_max` and
    `eviction_ms`; `upkeep_ms` should be a small part of replica.lag.time.max.ms. One cache serves all listeners of a
    node."""

    def __init__(self, int64_t slots_max=SLOTS_MAX_DEFAULT, *, int64_t partitions_max=PARTITIONS_MAX_DEFAULT,
                 int64_t eviction_ms=EVICTION_MS_DEFAULT, int64_t upkeep_ms=UPKEEP_MS_DEFAULT):
        for name, value in (("slots_max", slots_max), ("partitions_max", partitions_max), ("eviction_ms", eviction_ms),
                            ("upkeep_ms", upkeep_ms)):
            if value < 0:
                raise InvalidArgumentError(f"{name}: {value} is below 0")
        self.slots_max = slots_max
        self.partitions_max = partitions_max
        self.eviction_ms = eviction_ms
        self.upkeep_ms = upkeep_ms
        self.sessions = {}

    def __len__(self) -> int:
        return len(self.sessions)

    cdef FetchSession get(self, int32_t session_id):
        return self.sessions.get(session_id)

    cdef int remove(self, int32_t session_id) except -1:
        cdef FetchSession session = self.sessions.pop(session_id, None)
        cdef FetchEntry entry
        if session is not None:
            session.is_enrolled = False
            self.partition_count -= len(session.entries)
            for entry in session.entries.values():
                entry.exit()
        return 0

    cdef FetchSession create(self, list entries, bint by_id, bint of_follower, bint wakes_for_marks, int64_t now_ms):
        cdef FetchSession session = self.prepare(len(entries), by_id, of_follower, wakes_for_marks, now_ms)
        if session is None:
            return None
        self.fill(session, entries, 0, len(entries))
        return session if self.enroll(session) else None

    cdef FetchSession prepare(self, Py_ssize_t size, bint by_id, bint of_follower, bint wakes_for_marks,
                              int64_t now_ms):
        cdef FetchSession session
        if size == 0 or not self.make_room(size, of_follower, now_ms):
            return None
        session = FetchSession.__new__(FetchSession)
        session.epoch = 1
        session.by_id = by_id
        session.of_follower = of_follower
        session.created_ms = session.used_ms = session.looked_ms = now_ms
        session.unread = Unread() if of_follower else None
        session.wakes_for_marks = wakes_for_marks
        session.entries = {}
        session.reserved = size
        self.partition_count += size
        return session

    cdef int fill(self, FetchSession session, list entries, Py_ssize_t start, Py_ssize_t end) except -1:
        cdef FetchEntry entry, known
        cdef Py_ssize_t place
        cdef tuple key
        for place in range(start, end):
            entry = entries[place]
            key = (entry.topic, entry.spec.index)
            known = session.entries.get(key)           # the last mention of a partition has its place
            if known is not None:
                known.exit()
            session.entries[key] = entry
            session.admit(entry)
        return 0

    cdef bint enroll(self, FetchSession session) except -1:
        cdef FetchEntry entry
        self.partition_count -= session.reserved
        if not self.make_room(len(session.entries), session.of_follower, session.created_ms):
            for entry in session.entries.values():     # others took the room meanwhile
                entry.exit()
            return False
        while session.session_id == 0 or session.session_id in self.sessions:
            # Hard to guess, like numbers of `secrets`, which is Python itself.
            session.session_id = int.from_bytes(urandom(4), "big") & 0x7FFFFFFF
        self.sessions[session.session_id] = session
        session.is_enrolled = True
        self.partition_count += len(session.entries)
        return True

    cdef FetchSession least_recently_used(self):
        cdef FetchSession session, found = None
        for session in self.sessions.values():
            if found is None or session.used_ms < found.used_ms:
                found = session
        return found

    cdef bint make_room(self, Py_ssize_t size, bint of_follower, int64_t now_ms) except -1:
        cdef FetchSession session, victim = None
        if self.partition_count + size > self.partitions_max or self.slots_max == 0:
            return False
        if len(self.sessions) < self.slots_max:
            return True
        session = self.least_recently_used()
        if now_ms - session.used_ms > self.eviction_ms:
            victim = session
        else:
            for session in self.sessions.values():
                if session.of_follower or (not of_follower and now_ms - session.created_ms <= self.eviction_ms):
                    continue
                if victim is None or len(session.entries) < len(victim.entries):
                    victim = session
            if victim is not None and not of_follower and len(victim.entries) > size:
                victim = None
        if victim is None:
            return False
        self.remove(victim.session_id)
        self.evictions_total += 1
        return True

    cdef bint update(self, FetchSession session, list entries, list forgotten, int64_t now_ms) except -1:
        return (self.change(session, entries, forgotten, 0, len(entries) + len(forgotten))
                and self.renew(session, now_ms))

    def update_steps(self, FetchSession session not None, list entries not None: list[FetchEntry],
                     list forgotten not None: list[tuple[bytes, int]], Py_ssize_t step) -> Generator[None, None, bool]:
        """Run `update` in steps."""
        cdef Py_ssize_t at, count = len(entries) + len(forgotten)
        for at in range(0, count, step):
            if not self.change(session, entries, forgotten, at, min(at + step, count)):
                return False
            yield
        return self.renew(session, monotonic_ms())

    cdef bint change(self, FetchSession session, list entries, list forgotten, Py_ssize_t start,
                     Py_ssize_t end) except -1:
        cdef Py_ssize_t added = len(entries)
        return (self.add(session, entries, min(start, added), min(end, added))
                and self.drop(session, forgotten, max(0, start - added), max(0, end - added)))

    cdef bint add(self, FetchSession session, list entries, Py_ssize_t start, Py_ssize_t end) except -1:
        cdef FetchEntry entry, known
        cdef Py_ssize_t place
        cdef tuple key
        if not session.is_enrolled:
            return False
        for place in range(start, end):
            entry = entries[place]
            key = (entry.topic, entry.spec.index)
            known = session.entries.get(key)
            if known is not None:
                if known.spec.current_leader_epoch != entry.spec.current_leader_epoch:
                    # A follower that begins again may have ignored the answers of before.
                    known.reported_high_watermark = known.reported_log_start = -1
                known.spec = entry.spec
                if session.unread is not None:
                    session.unread.add(known)
                continue
            if self.partition_count >= self.partitions_max:
                self.remove(session.session_id)
                return False
            session.entries[key] = entry
            session.admit(entry)
            self.partition_count += 1
        return True

    cdef bint drop(self, FetchSession session, list forgotten, Py_ssize_t start, Py_ssize_t end) except -1:
        cdef FetchEntry known
        cdef Py_ssize_t place
        if not session.is_enrolled:
            return False
        for place in range(start, end):
            known = session.entries.pop(forgotten[place], None)
            if known is not None:
                known.exit()
                self.partition_count -= 1
        return True

    cdef bint renew(self, FetchSession session, int64_t now_ms) except -1:
        if not session.is_enrolled:
            return False
        if not session.entries:
            self.remove(session.session_id)
            return False
        session.used_ms = now_ms
        session.epoch = next_epoch(session.epoch)
        return True
