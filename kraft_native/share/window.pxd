"""The records of one partition that a share group has begun with and not finished."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t


# Neighbouring offsets in the same state.
cdef struct Run:
    int64_t first
    int64_t last
    int64_t deadline_ms            # end of the acquisition lock, of an acquired one and of a change that was decided
    int64_t write_id               # the write that has its change; 0: nothing is to be written
    int32_t member                 # number of the acquirer; 0: none
    int16_t deliveries
    uint8_t state


# Offsets and what happens to them.
cdef struct Change:
    int64_t first
    int64_t last
    int event


# A batch of the log, or offsets that are not delivered.
cdef struct Extent:
    int64_t first
    int64_t last
    bint skipped                   # aborted, of control records, or without records


# Offsets that a member has acquired, as its reply names them.
cdef struct Acquired:
    int64_t first
    int64_t last
    int16_t deliveries


# What bounds an acquisition.
cdef struct Bounds:
    int64_t records_max            # no further batch once so many were acquired
    int64_t records_per_entry      # of `Acquired`, as a target
    int64_t locks_max              # no new batch while so many records are in flight
    int64_t deadline_ms
    bint strict                    # `records_max` and `locks_max` cut batches


cdef class ShareWindow:
    cdef readonly int64_t start            # everything below is finished
    cdef readonly int64_t end              # nothing from here on was delivered
    cdef readonly int64_t log_start        # the log's start, as of the last `follow`
    cdef readonly int64_t acquired_count   # offsets that a member has, and those of decided changes
    cdef readonly int64_t available_count  # offsets below `end` that may be acquired
    cdef readonly int64_t deadline_ms      # the earliest end of a lock; -1: none
    cdef readonly int64_t open_write       # id of the next write
    cdef readonly int64_t write_in_flight  # id of the write that is not over; 0: none
    cdef readonly bint unwritten           # the next write has something
    cdef bint start_unwritten              # the start passed records whose end was not written
    cdef bint start_in_flight              # the same, of the write in flight

    cdef Run* runs
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef Acquired* acquired        # of the last `acquire`
    cdef Py_ssize_t acquired_entries
    cdef Py_ssize_t acquired_capacity
    cdef dict numbers              # member id -> number
    cdef dict failures             # id of a failed write -> Kafka's error

    # Number of a member; 0 when it has acquired nothing.
    cdef int32_t number_of(self, bytes member) except -1
    cdef int32_t enlist(self, bytes member) except -1
    cdef int reserve(self, Py_ssize_t count) except -1
    cdef int append(self, int64_t first, int64_t last, int state, int16_t deliveries) except -1
    # The first run that ends at `offset` or later; `count` when none does.
    cdef Py_ssize_t place_of(self, int64_t offset) noexcept nogil
    # Makes runs begin at each of these offsets, which ascend.
    cdef int split(self, const int64_t* cuts, Py_ssize_t cut_count) except -1
    # Removes finished runs from the front, joins equal neighbours, and counts.
    cdef int settle(self) noexcept
    cdef int apply(self, Run* run, int event, bint exhausted) noexcept
    # The offset to read from: the first available one, else `end`.
    cdef int64_t next_offset(self) noexcept
    # Whether something may be acquired, if the log has it.
    cdef bint has_room(self, int64_t locks_max) noexcept
    # Acquires for `member` what is available of these extents, which ascend; `from_offset` is where their read began.
    # Returns the number of offsets; `acquired` has them.
    cdef int64_t acquire(self, const Extent* extents, Py_ssize_t extent_count, int64_t from_offset, bytes member,
                         const Bounds* bounds) except -1
    cdef int take(self, Py_ssize_t place, int32_t member, const Bounds* bounds) except -1
    cdef int64_t growth(self, const Bounds* bounds) noexcept
    cdef Py_ssize_t clip(self, Py_ssize_t place, int64_t first, int64_t last) except -1
    cdef Py_ssize_t pass_over(self, Py_ssize_t place, int64_t first, int64_t last) except -1
    # Cuts at the ends of these changes.
    cdef int cut_for(self, const Change* changes, Py_ssize_t change_count) except -1
    # Kafka's error, 0 when all changes were decided; else nothing has changed. `write_id` is the write with the changes
    # then, 0 when nothing is to be written.
    cdef int change(self, const Change* changes, Py_ssize_t change_count, bytes member, int16_t deliveries_max,
                    int64_t renewed_until_ms, int64_t* write_id) except -1
    # Releases everything that a member has. True: something has become available.
    cpdef bint leave(self, bytes member) except -1
    # Ends the locks whose time is over. True: something has become available.
    cpdef bint expire(self, int64_t now_ms, int16_t deliveries_max) noexcept
    # Follows the log: what is below its start or from its end on is dropped.
    cpdef int follow(self, int64_t log_start, int64_t log_end) except -1
    # The outcome of a write: 0, Kafka's error, or -2 when it is not known yet.
    cpdef int outcome(self, int64_t write_id) except -3
