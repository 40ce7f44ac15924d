"""Fetch requests, versions 4 to 18: read, answer or wait."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch
from kraft_native.partition.cold_read cimport ColdReader, Warming
from kraft_native.partition.purgatory cimport Parked
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.client_quotas cimport ClientQuotas
from kraft_native.request.permissions cimport PermissionCache, Permissions
from kraft_native.request.reply cimport Reply, RequestHandler
from kraft_native.request.slices cimport SliceQueue
from kraft_native.serve.fetch_entry cimport FetchEntry, ReadRules
from kraft_native.serve.fetch_session cimport FetchSession, SessionCache
from kraft_native.serve.fetch_wire cimport FetchCursor, FetchParams


cdef class FetchHandler(RequestHandler):
    """Handler of Fetch for one listener."""
    cdef readonly PartitionTable table
    cdef readonly SessionCache sessions
    cdef readonly ColdReader cold_reader  # type: ColdReader | None  # None: reads wait for the disk
    cdef readonly int64_t bytes_max
    cdef readonly int64_t waiting_entries_max
    cdef readonly bint by_rack             # consumers are sent to replicas in their rack (KIP-392)
    cdef readonly int64_t waiting_entries  # partitions of all fetches that wait
    cdef SliceQueue slices         # None: a request is processed in one go
    cdef ClientQuotas quotas       # None: no quotas
    cdef public PermissionCache permissions  # None: everything is allowed
    cdef object on_follower        # called with a follower's connection when its session begins; None: nobody
    cdef Scratch out

    cdef int limit(self, ParkedFetch fetch) except -1
    # Finds the session that the fetch continues. Kafka's error for the whole request, 0 when it may continue.
    cdef int find_session(self, ParkedFetch fetch) except -1
    # Chooses the entries to read, after the session was updated with the request. The same errors.
    cdef int continue_session(self, ParkedFetch fetch, bint updated) except -1


cdef class ParkedFetch(Parked):
    """One Fetch, from its decoding to its reply."""
    cdef FetchHandler handler
    cdef Reply reply
    cdef FetchParams params
    cdef list entries              # FetchEntry of each partition to read
    cdef Permissions permissions   # of its client, as long as that is connected; None: everything is allowed
    # Of a large request, while it is decoded.
    cdef FetchCursor cursor
    cdef object body_owner         # keeps the bytes
    cdef bint receiving            # the generator that decoded it continues with the round of reads

    cdef bytes rack                # of a consumer that may be sent to another replica; else None
    cdef bytes near                # the nodes in that rack, for one round
    cdef FetchSession session      # None without
    cdef int32_t session_epoch     # that the session had after this request
    cdef bint begin_session
    cdef bint looked               # it has read its entries once
    cdef int64_t entries_waiting   # its share of the handler's `waiting_entries`
    cdef int warmed_count          # how often data was brought into memory for it
    # --- a round of reads, which may take several slices ---
    cdef ReadRules rules
    cdef Py_ssize_t read_count     # entries that were read
    cdef int64_t bytes_count       # of records read
    cdef bint at_once              # some content must not wait
    cdef bint cold                 # some data is not in memory
    cdef bint in_steps             # the round is not over: all events of the request wait meanwhile

    cdef int64_t stirred_bytes     # bytes that moved during the round
    cdef list spent                # entries of an answered long request, to be freed in slices
    cdef int64_t bytes_ready       # least size of its reply at the last read, plus what moved since

    cdef int receive_in_steps(self, const uint8_t* body, Py_ssize_t body_bytes) except -1
    cdef int refuse_session(self, int error) except -1
    cdef int start(self) except -1
    # Reads, and answers if there is enough, or with whatever is available when `final`. True when it waits no longer.
    cdef bint attempt(self, bint final) except -1
    # Reads that many further entries.
    cdef int read_more(self, Py_ssize_t count) except -1
    # All entries were read: answers, if there is enough.
    cdef bint end_round(self) except -1
    cdef bint has_enough(self) noexcept
    cdef int wait_for_more(self) except -1
    cdef int park(self) except -1
    # In a follower's session: the entries to read now.
    cdef int take_up(self) except -1
    # And those to read again later.
    cdef int put_back(self) except -1
    cdef int begin_round(self) except -1
    cdef int learn_permissions(self) except -1
    cdef bint fetch_cold(self) except -1
    cdef int answer(self) except -1
    cdef bint charge(self) except -1
    cdef int answer_throttled(self) except -1
    cdef bint is_throttled(self) except -1
    cdef int16_t session_error(self) noexcept
    cdef int32_t session_id(self, int16_t error) noexcept
    cdef int begin(self, FetchSession session) except -1
    # Of the entries from `start` on and before `end`.
    cdef int introduce(self, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int choose(self, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int account(self, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int leave(self) except -1
    cdef int forget(self) except -1


cdef class FetchWarming(Warming):
    """A fetch that waits for data that is not in memory."""
    cdef ParkedFetch fetch
    cdef Py_ssize_t left
