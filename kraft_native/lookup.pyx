"""Finding things in a log. Nothing here changes the log.

Batches by offset (Kafka's UnifiedLog.read), offsets by time (fetchOffsetByTimestamp), aborted transactions
(collectAbortedTransactions).
"""

import os

from libc.stdint cimport int64_t

from kraft_native.batch cimport (
    BatchHeader, batch_bytes, batch_is_log_append_time, batch_last_offset,
)
from kraft_native.buffer cimport Slice, slice_bytes, slice_mapping
from kraft_native.fileio cimport file_resident
from kraft_native.limits cimport NO_TIMESTAMP
from kraft_native.records cimport RecordView, record_next, records_of
from kraft_native.span cimport Span
from kraft_native.txncheck cimport has_transactions

from kraft_native.errors import CorruptFileError, CorruptLogError, CorruptRecordError, OffsetOutOfRangeError

cdef enum:
    # The end of the active segment that is taken to be in memory without asking.
    TAIL_BYTES = 1 << 20


cdef Slice read_from(LogCore core, int64_t offset, int64_t max_bytes, int isolation):
    cdef int64_t limit = core.visible_limit(isolation)
    cdef Py_ssize_t slot
    cdef int64_t lost
    cdef Segment segment
    cdef Slice piece
    if offset < core.log_start or offset > core.log_end:
        raise OffsetOutOfRangeError(f"{os.fsdecode(core.directory)}: offset {offset} is outside {core.log_start} to "
                                    f"{core.log_end}")
    slot = core.slot_of(offset)
    while offset < limit:
        segment = core.segments[slot]
        if offset >= segment.base_offset:
            piece = segment.read(offset, max_bytes, limit, core.gaps_end)
            if piece is not None:
                return piece
            slot += 1
            if slot == len(core.segments):
                break
            segment = core.segments[slot]
        # The offsets up to the next segment are in no file. Compaction does that; elsewhere a part of the log is lost.
        lost = known_lost(core, offset, segment.base_offset)
        if segment.base_offset > core.gaps_end or lost >= 0:
            offset = max(offset, lost)
            segment = core.segments[max(slot - 1, 0)]
            raise CorruptLogError(os.fsdecode(segment.path), segment.size, offset,
                                  (<Segment>core.segments[slot]).base_offset, "no batch has these offsets")
        offset = segment.base_offset
    piece = slice_bytes(b"")
    piece.next_offset = offset
    return piece


cdef Slice cold_extent(LogCore core, int64_t offset, int64_t max_bytes):
    cdef Segment segment = core.segments[core.slot_of(offset)]
    cdef int64_t start, end
    cdef bint was_open, resident
    if segment is core.active and segment.size <= TAIL_BYTES:
        return None
    segment.load_indexes()
    start = segment.offset_index.lookup(offset, NULL)
    if segment is core.active and start >= segment.size - TAIL_BYTES:
        return None
    # An index entry lies at most one interval before the batch that is looked for.
    end = min(segment.size, start + max_bytes + segment.index_interval_bytes)
    if end <= start:
        return None
    segment.map_to(end)
    was_open = segment.fd >= 0
    segment.open_file(not segment.complete)
    resident = file_resident(segment.fd, start, segment.data + start, <size_t>(end - start))
    if not was_open:
        segment.close_file()           # sealed segments are read without a descriptor
    return None if resident else slice_mapping(segment.mapping, start, end - start)


cdef int64_t known_lost(LogCore core, int64_t offset, int64_t next_offset) except -2:
    """The first of the offsets up to `next_offset` that is known to be lost; -1."""
    cdef int64_t first, end
    for first, end in core.lost:
        if first < next_offset and offset < end:
            return max(first, offset)
    return -1


cdef list aborted_between(LogCore core, int64_t start_offset, int64_t end_offset):
    cdef list found = []
    cdef Py_ssize_t first = core.slot_of(start_offset), slot
    cdef int transactional = -1        # not known yet
    cdef bint done
    cdef Segment segment
    for slot in range(first, len(core.segments)):
        segment = core.segments[slot]
        if not segment.txn_checked:
            if transactional < 0:
                transactional = has_transactions(core.segments, first, start_offset, end_offset)
            if transactional:
                core.txn_checker.require(core.segments, slot, core.log_end)
        try:
            done = segment.txn_index.collect(start_offset, end_offset, found)
        except CorruptFileError:
            core.txn_checker.require(core.segments, slot, core.log_end)
            done = segment.txn_index.collect(start_offset, end_offset, found)
        if done:
            break
        # Every transaction with records below `end_offset` has ended within this segment.
        if segment.next_base >= end_offset and not -1 < segment.unstable_after < end_offset and segment.txn_checked:
            break
    return found


cdef tuple find_time(LogCore core, int64_t target, int64_t start_offset):
    cdef Py_ssize_t slot
    cdef Segment segment
    cdef tuple found
    cdef int64_t largest
    for slot in range(core.slot_of(start_offset), len(core.segments)):
        segment = core.segments[slot]
        largest = segment.largest_timestamp()
        if largest >= target:
            found = find_in_segment(core, segment, target, start_offset)
            if found is not None:
                return found
        elif largest < 0 and segment.modified_ms() >= target:
            # A segment that compaction left without a record counts by the time of its file, and ends the search: Kafka
            # answers so (LogSegment.largestTimestamp), and a client must not see two nodes disagree.
            return None
    return None


cdef tuple find_max_timestamp(LogCore core):
    cdef Segment segment, best = None
    cdef int64_t largest = NO_TIMESTAMP
    for segment in core.segments:
        # The first of equal ones, as Kafka's maxBy.
        if segment.largest_timestamp() > largest:
            largest = segment.largest_timestamp()
            best = segment
    if best is None:
        return None
    return find_in_segment(core, best, largest, best.base_offset)


cdef tuple find_in_segment(LogCore core, Segment segment, int64_t target, int64_t start_offset):
    """Looks on past damage: a time that can only be answered from damaged batches is answered by the next sound one."""
    cdef BatchHeader h
    cdef int64_t expected, offset = -1, timestamp = -1
    cdef int64_t position = segment.index_start(max(segment.time_start(target), start_offset), &expected)
    while segment.next_sound(&position, &expected, &h):
        if h.max_timestamp >= target and batch_last_offset(&h) >= start_offset:
            if find_in_batch(core, segment, position, &h, target, start_offset, &offset, &timestamp):
                return offset, timestamp, h.leader_epoch
        position += batch_bytes(&h)
        expected = batch_last_offset(&h) + 1
    return None


cdef bint find_in_batch(LogCore core, Segment segment, int64_t position, const BatchHeader* h, int64_t target,
                        int64_t start_offset, int64_t* offset, int64_t* timestamp) except -1:
    cdef RecordView record
    cdef Span span = records_of(segment.data + position, h, &core.config.validation.limits, core.scratch)
    cdef int found
    while True:
        found = record_next(&span, &record)
        if found == 0:
            return False
        if found < 0:
            raise CorruptRecordError(f"{os.fsdecode(segment.path)}: malformed record in the batch at offset "
                                     f"{h.base_offset}")
        offset[0] = h.base_offset + record.offset_delta
        timestamp[0] = (h.max_timestamp if batch_is_log_append_time(h)
                        else h.base_timestamp + record.timestamp_delta)
        if timestamp[0] >= target and offset[0] >= start_offset:
            return True
