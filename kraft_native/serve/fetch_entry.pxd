"""One partition of a Fetch: the request, its progress, and the data read."""

from libc.stdint cimport int16_t, int32_t, int64_t

from kraft_native.file.buffer cimport Slice
from kraft_native.partition.partition cimport Partition
from kraft_native.partition.purgatory cimport Observer, Purgatory, Watched
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.permissions cimport Permissions


# A request's fields about one partition.
cdef struct FetchSpec:
    int64_t fetch_offset
    int64_t log_start_offset       # of a follower; -1 from consumers
    int32_t index
    int32_t current_leader_epoch   # -1: not checked
    int32_t last_fetched_epoch     # -1: not known
    int32_t bytes_max


# Rules of one round of reads.
cdef struct ReadRules:
    int64_t bytes_left             # of the whole reply
    int64_t broker_epoch           # of the follower's process; -1: not given
    int32_t replica_id             # -1: a consumer
    int isolation
    const int32_t* near            # the nodes in the consumer's rack, if it is to read from these; none: anywhere
    Py_ssize_t near_count
    bint need_leader
    bint whole_first               # nothing was read yet: the next batch counts whatever its size
    bint committed                 # aborted transactions are to be returned
    bint is_forbidden              # to a client that is no node of the cluster, whatever it names
    bint look_for_cold             # do not wait for data that is not in memory


cdef class Unread:
    """Entries of a follower's session that are to be read. A place counts while its entry names it."""
    cdef list places               # of FetchEntry, in the order in which they are served

    cdef int add(self, FetchEntry entry) except -1
    cdef int add_last(self, FetchEntry entry) except -1
    cdef list entries(self)
    cdef int clear(self) except -1


cdef class FetchEntry(Observer):
    """A partition's place in a request or in a session. Its read data is transient: read and encoded in one go."""
    cdef FetchSpec spec
    cdef bytes topic               # name or id, as the request has it
    cdef bint by_id
    cdef Partition partition       # None until resolved, or not here
    cdef int32_t leader_id         # of a partition that is not here, as far as it is known; else -1
    cdef int32_t leader_epoch
    # --- the data read ---
    cdef int16_t error
    cdef int64_t high_watermark
    cdef int64_t last_stable_offset
    cdef int64_t log_start_offset
    cdef int32_t diverging_epoch   # -1: none
    cdef int64_t diverging_end
    cdef int32_t preferred         # the replica to read from instead; -1: this one
    cdef Slice records             # None when empty
    cdef list aborted              # of (producer id, first offset, last offset, last stable offset); None: not wanted

    cdef Slice cold                # bytes to be loaded before this can be read; None
    cdef bint at_end               # nothing is left to be read, and the follower's position is known to all
    cdef bint goes_out             # goes into the reply
    cdef int32_t named_leader      # that the reply has the address of; -1: none
    # --- last reported to a session's client ---
    cdef int64_t reported_high_watermark
    cdef int64_t reported_log_start
    # --- in a follower's session ---
    cdef Watched session           # None elsewhere
    cdef Unread unread             # of the session
    cdef Py_ssize_t unread_at      # its place there; -1: none
    cdef bint wakes_for_marks      # a new high watermark is worth an answer

    # In a follower's session it observes its partition: any move makes it one of the `unread`.
    cdef int enter(self, Watched session, Unread unread, bint wakes_for_marks) except -1
    cdef int exit(self) except -1
    cdef int observe(self, Partition partition) except -1
    cdef int unobserve(self) except -1
    # Nothing is left to be reported until the partition moves.
    cdef bint is_settled(self) noexcept
    cdef Py_ssize_t size(self) noexcept
    # Finds its partition, again if the known one was removed. False when none exists.
    cdef bint resolve(self, PartitionTable table) except -1
    # `permissions` of a consumer; None: everything is allowed.
    cdef int read(self, PartitionTable table, Permissions permissions, ReadRules* rules) except -1
    cdef int forbid(self) except -1
    # Reports a refusal, unless that of the topic was reported just before: returns the topic.
    cdef bytes report_refusal(self, Permissions permissions, object reply, bytes reported)
    # The client of a session learns what was read.
    cdef int note_reported(self) noexcept
    # Something that the client of a session does not know.
    cdef bint has_news(self) noexcept
    # Others wait until a follower learns what was just read: its consumers, if it has any, for the high watermark,
    # DeleteRecords for the log start.
    cdef bint is_awaited(self, bint by_consumers) noexcept
    cdef int read_records(self, ReadRules* rules) except -1
    # True when that offset's epoch ended earlier, or cannot be judged: the reply is filled in.
    cdef bint diverges(self) except -1
    cdef int fail(self, int error) noexcept
    cdef int forget(self) noexcept
    # Counts the bytes that are sent.
    cdef int account(self, bint of_follower) except -1


cdef FetchEntry new_entry(bytes topic, bint by_id, const FetchSpec* spec)
