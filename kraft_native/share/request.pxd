"""ShareFetch and ShareAcknowledge: sessions, acknowledgements, reads, and the wait for all of these."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch
from kraft_native.partition.cold_read cimport ColdReader, Warming
from kraft_native.partition.purgatory cimport Parked
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.client_quotas cimport ClientQuotas
from kraft_native.request.permissions cimport PermissionCache, Permissions
from kraft_native.request.reply cimport Reply, RequestHandler
from kraft_native.share.partitions cimport SharePartitions
from kraft_native.share.reading cimport Extents, ShareRules
from kraft_native.share.sessions cimport ShareSession, ShareSessions
from kraft_native.share.wire cimport SharePart, ShareParams


cdef class ShareHandler(RequestHandler):
    """Handler of ShareFetch or of ShareAcknowledge, or of both."""
    cdef readonly PartitionTable table
    cdef readonly SharePartitions shares
    cdef readonly ShareSessions sessions
    cdef readonly ColdReader cold_reader  # type: ColdReader | None  # None: reads wait for the disk
    cdef readonly int64_t bytes_max
    cdef readonly int64_t waiting_entries_max
    cdef readonly int64_t waiting_entries  # partitions of all requests that wait
    cdef public bint enabled               # share groups are a finalized feature of the cluster
    cdef ClientQuotas quotas               # None: no quotas
    cdef public PermissionCache permissions  # None: everything is allowed
    cdef Scratch out
    cdef Extents extents

    # Kafka's error for the whole request, 0 when it may continue.
    cdef int admit(self, ParkedShare request) except -2
    cdef int find_session(self, ParkedShare request, list forgotten) except -1
    # Releases what the member of a closed session has.
    cdef int ended(self, ShareSession session) except -1


cdef class ParkedShare(Parked):
    """One request, from its decoding to its reply."""
    cdef ShareHandler handler
    cdef Reply reply
    cdef ShareParams params
    cdef bint is_fetch
    cdef bytes group
    cdef bytes member
    cdef Permissions permissions   # of its client; None: everything is allowed
    cdef ShareSession session
    cdef list parts                # SharePart of each partition that the reply may have
    cdef list sources              # those to fetch from, in the order of the session
    cdef Py_ssize_t writes_left    # partitions whose acknowledgements are not written yet
    cdef int64_t begun_ms
    cdef int64_t entries_waiting   # its share of the handler's `waiting_entries`
    cdef int warmed_count

    cdef int refuse(self, int error) except -1
    # Decides the acknowledgements.
    cdef int acknowledge(self) except -1
    cdef int acknowledge_part(self, SharePart part, int64_t now_ms) except -2
    cdef int prepare(self) except -1
    # Answers, or waits; `final`: it waits no longer.
    cdef int step(self, bint final) except -1
    cdef int collect_outcomes(self, bint final) except -1
    cdef bint attempt(self, bint final) except -1
    cdef int64_t read(self, bint* at_once, bint* cold) except -1
    cdef int64_t acquire(self) except -1
    cdef bint fetch_cold(self) except -1
    cdef int wait(self, int64_t deadline_ms, list watched) except -1
    # Where it waits: for writes, and for records.
    cdef list written_parts(self)
    cdef list awaited(self)
    cdef int forget(self) except -1
    cdef int answer(self) except -1
    cdef int leave(self) except -1


cdef class ShareWarming(Warming):
    """A ShareFetch that waits for data that is not in memory."""
    cdef ParkedShare request
    cdef Py_ssize_t left
