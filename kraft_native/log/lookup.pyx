"""Look-ups in a log. Nothing here changes the log.

Batches by offset (Kafka's UnifiedLog.read), offsets by time (fetchOffsetByTimestamp), aborted transactions
(collectAbortedTransactions).
"""

import os

from libc.stdint cimport int64_t
from posix.fcntl cimport O_RDONLY

from kraft_native.base.bytes_be cimport load_i64
from kraft_native.base.clock cimport monotonic_ns
from kraft_native.base.limits cimport NO_TIMESTAMP
from kraft_native.base.mutants cimport (
    BATCH_THAT_HOLDS_THE_OFFSET_IS_LEFT_OUT, KRAFT_MUTANTS, READ_BEGINS_AT_THE_INDEX_ENTRY, mutant,
)
from kraft_native.base.span cimport Span
from kraft_native.batch.batch cimport (
    BatchHeader, batch_bytes, batch_is_log_append_time, batch_last_offset,
)
from kraft_native.batch.records cimport RecordView, record_next, records_of
from kraft_native.file.buffer cimport Mapping, Slice, map_file, slice_bytes, slice_mapping
from kraft_native.file.file_io cimport file_close, file_open, file_resident, file_size
from kraft_native.log.core cimport ISOLATION_LOG_END
from kraft_native.log.txn_check cimport has_transactions
from kraft_native.segment.index_file cimport IndexFile

from kraft_native.base.errors import CorruptFileError, CorruptLogError, CorruptRecordError, OffsetOutOfRangeError

cdef enum:
    # The last bytes of the active segment that are assumed to be in memory without a check.
    TAIL_BYTES = 1 << 20
    # Data read for the first time is checked in pieces of this size.
    CHECKED_BYTES = 256 << 10
    # Residency in memory is checked this far ahead, and the result is trusted for this long.
    LOOK_BYTES = 1 << 20
    RESIDENT_NS = 100_000_000
    # Few batches are larger: max.message.bytes.
    BATCH_BYTES = 1 << 20


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
            if mutant(BATCH_THAT_HOLDS_THE_OFFSET_IS_LEFT_OUT) or (
                mutant(READ_BEGINS_AT_THE_INDEX_ENTRY) and isolation != ISOLATION_LOG_END
            ):
                offset = misplaced(segment, offset, &max_bytes)
            piece = segment.read(offset, max_bytes, limit, core.gaps_end)
            if piece is not None:
                piece.settled = isolation != ISOLATION_LOG_END
                return piece
            slot += 1
            if slot == len(core.segments):
                break
            segment = core.segments[slot]
        # The offsets up to the next segment are in no file. Compaction does that; otherwise a part of the log is lost.
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


cdef int64_t misplaced(Segment segment, int64_t offset, int64_t* max_bytes) except -1:
    """Return the offset at which a read begins by the planted bug, instead of `offset`."""
    cdef BatchHeader h
    cdef int64_t start, position = segment.locate(offset, &h, True)
    if position < 0 or not KRAFT_MUTANTS:
        return offset
    if mutant(BATCH_THAT_HOLDS_THE_OFFSET_IS_LEFT_OUT):
        return batch_last_offset(&h) + 1 if h.base_offset < offset else offset
    start = segment.offset_index.lookup(offset, NULL)
    max_bytes[0] += position - start + batch_bytes(&h)
    return load_i64(segment.data + start)


cdef Slice cold_extent(LogCore core, int64_t offset, int64_t max_bytes):
    cdef Py_ssize_t slot
    cdef Segment segment
    cdef Slice cold
    cdef BatchHeader h
    cdef int64_t start, end
    for slot in range(core.slot_of(offset), len(core.segments)):
        segment = core.segments[slot]
        if segment is core.active and segment.size <= TAIL_BYTES:
            return None
        cold = cold_indexes(segment)
        if cold is not None:
            return cold
        segment.load_indexes()
        start = segment.offset_index.lookup(offset, NULL)
        # An index entry lies at most one interval before the wanted batch.
        end = min(segment.size, start + max(max_bytes, <int64_t>CHECKED_BYTES) + segment.index_interval_bytes)
        cold = cold_part(core, segment, start, end)
        # Where compaction has left nothing from the offset on, the next segment is read.
        if (cold is not None or segment is core.active or offset < segment.offset_index.last_offset()
                or segment.locate(offset, &h, True) >= 0):
            return cold
    return None


cdef Slice cold_part(LogCore core, Segment segment, int64_t start, int64_t end):
    if end <= start or (segment is core.active and start >= segment.size - TAIL_BYTES):
        return None
    if segment.resident_start <= start and end <= segment.resident_end and monotonic_ns() < segment.resident_until_ns:
        return None
    segment.map_to(end)
    return None if look_for_resident(segment, start, end) else slice_mapping(segment.mapping, start, end - start)


cdef bint look_for_resident(Segment segment, int64_t start, int64_t end) except -1:
    """Return whether these bytes are in memory. When more of what follows is in memory, that is noted, so that a reader
    of small pieces does not need a check for each."""
    cdef bint was_open = segment.fd >= 0
    cdef int64_t ahead_end = min(start + LOOK_BYTES, min(segment.size, <int64_t>segment.mapping.size))
    cdef bint resident
    segment.open_file(not segment.complete)
    resident = ahead_end > end and file_resident(segment.fd, start, segment.data + start, <size_t>(ahead_end - start))
    if not resident:
        ahead_end = end
        resident = file_resident(segment.fd, start, segment.data + start, <size_t>(end - start))
    if not was_open:
        segment.close_file()           # sealed segments are read without an open descriptor
    if resident:
        segment.resident_start = start
        segment.resident_end = ahead_end
        segment.resident_until_ns = monotonic_ns() + RESIDENT_NS
    return resident


cdef Slice cold_indexes(Segment segment):
    """An index of a segment that was not used yet, if it is not in memory. The active segment's is being written."""
    cdef Slice cold
    if not segment.sealed or segment.indexes_ready:
        return None
    cold = cold_index(segment.offset_index)
    return cold if cold is not None else cold_index(segment.time_index)


cdef Slice cold_index(IndexFile index):
    """The file of a sealed index that was not used yet, if it is not in memory."""
    cdef Mapping mapping
    cdef int64_t size
    cdef int fd
    if index.loaded or index.apart:
        return None
    fd = file_open(index.path, O_RDONLY, 0)
    if fd < 0:
        return None                    # the caller that loads it reports the error
    try:
        size = file_size(fd)
        if size <= 0:
            return None
        mapping = map_file(fd, size, False, index.path)
        if file_resident(fd, 0, mapping.data, <size_t>size):
            return None
        return slice_mapping(mapping, 0, size)
    finally:
        file_close(fd)


cdef int64_t known_lost(LogCore core, int64_t offset, int64_t next_offset) except -2:
    """The first of the offsets up to `next_offset` that is known to be lost; -1 if none is."""
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
            # For a segment that compaction left without a record the time of its file applies, and the search ends.
            # Kafka does the same (LogSegment.largestTimestamp), and a client must not see two nodes disagree.
            return None
    return None


cdef tuple find_max_timestamp(LogCore core):
    cdef Segment best = with_max_timestamp(core)
    if best is None:
        return None
    return find_in_segment(core, best, best.largest_timestamp(), best.base_offset)


cdef Segment with_max_timestamp(LogCore core):
    cdef Segment segment, best = None
    cdef int64_t largest = NO_TIMESTAMP
    for segment in core.segments:
        # The first of equal ones, like Kafka's maxBy.
        if segment.largest_timestamp() > largest:
            largest = segment.largest_timestamp()
            best = segment
    return best


cdef Slice cold_for_time(LogCore core, int64_t target, int64_t start_offset):
    """Follow the path of `find_time` as far as it is in memory."""
    cdef Py_ssize_t slot
    cdef Segment segment
    cdef Slice cold
    cdef int64_t largest
    for slot in range(core.slot_of(start_offset), len(core.segments)):
        segment = core.segments[slot]
        cold = cold_for_largest(core, segment)
        if cold is not None:
            return cold
        largest = segment.largest_timestamp()
        if largest >= target:
            cold = cold_around(core, segment, target, start_offset)
            # In the segment where the log begins, only records before the log start may have that time.
            if (cold is not None or start_offset <= segment.base_offset
                    or find_in_segment(core, segment, target, start_offset) is not None):
                return cold
        elif largest < 0 and segment.modified_ms() >= target:
            return None
    return None


cdef Slice cold_for_max_timestamp(LogCore core):
    cdef Segment segment
    cdef Slice cold
    for segment in core.segments:
        cold = cold_for_largest(core, segment)
        if cold is not None:
            return cold
    segment = with_max_timestamp(core)
    return None if segment is None else cold_around(core, segment, segment.largest_timestamp(), segment.base_offset)


cdef Slice cold_for_largest(LogCore core, Segment segment):
    """Data that gives the largest time of a segment, while that is unknown: its indexes, and the batches from the one
    that the last entry of its time index names."""
    cdef Slice cold
    if segment.timestamps_loaded:
        return None
    cold = cold_indexes(segment)
    if cold is not None:
        return cold
    segment.load_indexes()
    return cold_part(core, segment, segment.offset_index.lookup(segment.time_index.last_offset(), NULL), segment.size)


cdef Slice cold_around(LogCore core, Segment segment, int64_t target, int64_t start_offset):
    """Range that `find_in_segment` reads: from the last time index entry not above `target` to the batch that the next
    entry names, which has such a time."""
    cdef Py_ssize_t slot
    cdef int64_t start, end = segment.size
    segment.load_indexes()
    slot = segment.time_index.slot_for(target)
    start = segment.offset_index.lookup(max(segment.time_index.offset_in(slot), start_offset), NULL)
    if slot + 1 < segment.time_index.count:
        end = segment.offset_index.lookup(max(segment.time_index.offset_in(slot + 1), start_offset), NULL)
        end = min(segment.size, end + segment.index_interval_bytes + BATCH_BYTES)
    return cold_part(core, segment, start, end)


cdef tuple find_in_segment(LogCore core, Segment segment, int64_t target, int64_t start_offset):
    """Search on past damage: a time whose record lies in damaged batches resolves to the next sound one."""
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
