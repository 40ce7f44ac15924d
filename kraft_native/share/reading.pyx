"""Records of a share partition: read from the log, and acquired for a member.

A read begins at the first record that may be acquired, and has whole batches. What is acquired of them is decided by
the state of each offset; the client ignores the other records of the batches. Offsets without a record, control records
and, for groups that read committed records only, those of aborted transactions are passed over.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

cimport cython

from kraft_native.base.fault cimport (
    ERROR_KAFKA_STORAGE_ERROR, ERROR_NONE, ERROR_TOPIC_AUTHORIZATION_FAILED, ERROR_UNKNOWN_SERVER_ERROR,
)
from kraft_native.batch.batch cimport (
    BatchHeader, batch_bytes, batch_bytes_at, batch_end_at, batch_is_control, batch_is_legacy, batch_is_transactional,
    batch_last_offset, batch_reload,
)
from kraft_native.log.core cimport ISOLATION_HIGH_WATERMARK, ISOLATION_LAST_STABLE, LogCore
from kraft_native.log.lookup cimport aborted_between, cold_extent, read_from
from kraft_native.partition.partition cimport Partition
from kraft_native.partition.table cimport Absence, Topic
from kraft_native.request.permissions cimport OPERATION_READ, RESOURCE_TOPIC
from kraft_native.serve.topic_access cimport topic_error
from kraft_native.share.partitions cimport SHARE_FAILED, SHARE_READY, SharePartition

from kraft_native.base.errors import KraftError


@cython.final
cdef class Extents:
    def __dealloc__(self):
        free(self.places)

    cdef int add(self, int64_t first, int64_t last, bint skipped) except -1:
        cdef Py_ssize_t capacity
        cdef Extent* grown
        if self.count == self.capacity:
            capacity = max(2 * self.capacity, <Py_ssize_t>64)
            grown = <Extent*>realloc(self.places, <size_t>capacity * sizeof(Extent))
            if grown == NULL:
                raise MemoryError(f"{capacity} batches of a ShareFetch")
            self.places = grown
            self.capacity = capacity
        self.places[self.count].first = first
        self.places[self.count].last = last
        self.places[self.count].skipped = skipped
        self.count += 1
        return 0

    cdef int fill(self, Slice records, int64_t offset, list aborted) except -1:
        cdef Py_ssize_t at = 0
        cdef int64_t first = offset
        cdef BatchHeader h
        self.count = 0
        while at < records.size:
            batch_reload(records.data + at, &h)
            if not batch_is_legacy(&h):
                first = h.base_offset
            self.add(first, batch_last_offset(&h), batch_is_control(&h) or h.record_count == 0
                     or (aborted is not None and is_aborted(&h, aborted)))
            first = batch_last_offset(&h) + 1
            at += batch_bytes(&h)
        return 0


cdef bint is_aborted(const BatchHeader* h, list aborted) except -1:
    cdef int64_t producer_id, first, last
    if batch_is_transactional(h):
        for producer_id, first, last, _ in aborted:
            if producer_id == h.producer_id and first <= h.base_offset <= last:
                return True
    return False


cdef int find_partition(SharePart part, PartitionTable table, Permissions permissions, object reply) except -2:
    cdef Topic topic
    cdef Absence absence
    cdef Partition partition = part.partition
    if partition is None or partition.removed:
        topic = table.lookup(part.topic_id, True)
        partition = part.partition = None if topic is None else topic.at(part.index)
    if permissions is not None and topic_error(
            table, permissions, OPERATION_READ, None if partition is None else partition.topic_name, part.topic_id,
            True) != ERROR_NONE:
        permissions.report(reply, RESOURCE_TOPIC, OPERATION_READ, part.topic_id, True)
        return ERROR_TOPIC_AUTHORIZATION_FAILED
    if partition is None:
        absence = table.absent(part.topic_id, True).at(part.index)
        part.leader_id = absence.leader_id
        part.leader_epoch = absence.leader_epoch
        return absence.error
    if partition.core.closed:
        return ERROR_KAFKA_STORAGE_ERROR
    return partition.fence(-1, True)


cdef int read_part(SharePart part, bytes group, PartitionTable table, SharePartitions shares, Permissions permissions,
                   object reply, ShareRules* rules) except -1:
    cdef SharePartition share = part.source
    cdef int error
    part.records = part.cold = None
    part.aborted = None
    rules.parts_left -= 1
    if share is not None and share.status == SHARE_FAILED:
        part.source = None
        part.error = share.error
        return 0
    error = find_partition(part, table, permissions, reply)
    if error == ERROR_NONE:
        share = part.source = shares.bring(group, part.partition)
        if share is None:
            error = ERROR_UNKNOWN_SERVER_ERROR             # this node has more share partitions than it may
    if error == ERROR_NONE and share.status == SHARE_READY:
        try:
            read_records(part, share, rules)
        except KraftError as refusal:
            error = refusal.code
            part.partition.note_read_failure(refusal)
    part.error = error
    if error != ERROR_NONE:
        part.records = part.cold = part.source = None
    return 0


cdef int read_records(SharePart part, SharePartition share, ShareRules* rules) except -1:
    cdef LogCore core = part.partition.core
    cdef int isolation = ISOLATION_LAST_STABLE if share.settings.committed else ISOLATION_HIGH_WATERMARK
    cdef int64_t bytes_max
    share.window.follow(core.log_start, core.log_end)
    if not share.window.has_room(share.settings.locks_max):
        return 0
    part.offset = share.window.next_offset()
    if part.offset >= core.visible_limit(isolation):
        return 0
    bytes_max = max(0, rules.bytes_left // (rules.parts_left + 1))
    if bytes_max == 0 and not rules.whole_first:
        return 0
    if rules.look_for_cold:
        part.cold = cold_extent(core, part.offset, bytes_max)
        if part.cold is not None:
            return 0
    part.records = read_from(core, part.offset, bytes_max, isolation)
    if part.records.size == 0 or (part.records.size > bytes_max and not rules.whole_first):
        part.records = None
        return 0
    if share.settings.committed:
        part.aborted = aborted_between(core, part.offset, part.records.next_offset)
    rules.whole_first = False
    rules.bytes_left = max(0, rules.bytes_left - part.records.size)
    return 0


cdef int64_t acquire_part(SharePart part, bytes member, Extents extents, const Bounds* bounds) except -1:
    cdef SharePartition share = part.source
    cdef int64_t taken
    extents.fill(part.records, part.offset, part.aborted)
    taken = share.window.acquire(extents.places, extents.count, part.offset, member, bounds)
    share.changed(False)
    if taken == 0:
        part.records = None
        return 0
    part.keep_acquired()
    trim(part)
    share.table.acquired_total += taken
    part.partition.fetched_bytes += part.records.size
    return taken


cdef int trim(SharePart part) except -1:
    """Leave only the batches from the first acquired record to the last one."""
    cdef Slice records = part.records
    cdef Py_ssize_t start = 0, end
    while batch_end_at(records.data + start) < part.acquired_first:
        start += batch_bytes_at(records.data + start)
    end = start
    while end < records.size:
        end += batch_bytes_at(records.data + end)
        if end < records.size and batch_end_at(records.data + end) > part.acquired_last and (
            next_first(records, end) > part.acquired_last
        ):
            break
    records.data += start
    records.size = end - start
    return 0


cdef int64_t next_first(Slice records, Py_ssize_t at) noexcept nogil:
    """Return the first offset of the batch at `at`; of one in an older format the last one."""
    cdef BatchHeader h
    batch_reload(records.data + at, &h)
    return h.base_offset
