"""ShareFetch and ShareAcknowledge on the wire, versions 1 and 2."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.file.buffer cimport Scratch, Slice
from kraft_native.partition.partition cimport Partition
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.reply cimport Reply
from kraft_native.share.partitions cimport SharePartition
from kraft_native.share.window cimport Acquired, Change


cdef enum:
    SHARE_VERSION_MIN = 1
    SHARE_VERSION_MAX = 2
    SHARE_FETCH_KEY = 78
    SHARE_PARTITIONS_MAX = 2000    # in a request, and in a session


cdef struct ShareParams:
    int32_t session_epoch
    int32_t max_wait_ms
    int32_t min_bytes
    int32_t max_bytes
    int32_t max_records
    int32_t batch_size
    int8_t acquire_mode            # 0: whole batches, 1: at most `max_records`
    bint renews                    # the request may renew locks


cdef class SharePart:
    """A partition of a request: what it acknowledges, what it gets, and the result."""
    cdef bytes topic_id
    cdef int32_t index
    cdef Change* changes
    cdef Py_ssize_t change_count
    cdef Py_ssize_t capacity
    cdef bint acknowledges         # the request has acknowledgements for it
    cdef bint renews               # some of them renew locks
    cdef Partition partition       # None until found, or not here
    cdef int32_t leader_id         # of a partition that is not here, as far as it is known; else -1
    cdef int32_t leader_epoch
    # --- the acknowledgement ---
    cdef SharePartition share
    cdef int64_t write_id          # the write that it waits for; 0: none
    cdef int16_t acknowledge_error
    # --- the fetch ---
    cdef SharePartition source     # None: nothing is fetched from it
    cdef int64_t offset            # where the read began
    cdef Slice records             # None when empty
    cdef list aborted
    cdef Slice cold                # bytes to be loaded before this can be read; None
    cdef int16_t error
    cdef Acquired* acquired        # a copy
    cdef Py_ssize_t acquired_entries
    cdef int64_t acquired_first
    cdef int64_t acquired_last

    cdef int add(self, int64_t first, int64_t last, int event) except -1
    # Copies what its share partition has just acquired.
    cdef int keep_acquired(self) except -1
    cdef bint goes_out(self) noexcept


cdef SharePart new_part(bytes topic_id, int32_t index)
# Decodes a body. False when it is malformed. Group and member are None when they are null. `parts` gets a SharePart for
# each partition, `forgotten` (topic id, index).
cdef bint decode_share(Span* body, bint is_fetch, int version, ShareParams* params, list names, list parts,
                       list forgotten) except -1
# The reply, around the records of the parts that go out.
cdef list encode_share(Reply reply, bint is_fetch, PartitionTable table, int16_t error, int64_t lock_ms, list parts,
                       Scratch out)
