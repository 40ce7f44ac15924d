"""Transaction indexes, checked before they are trusted.

A segment without aborted transactions has no index file. So a lost file looks like none was needed, and a wrong one has
no checksum. Either would show aborted records to read_committed readers, or hide committed ones. The first read of a
range with transactional batches therefore compares the index of each relevant segment with its batches. It uses the
producers at the segment's base, from the snapshot that every roll leaves, and the markers in the segment. Ranges
without transactional batches, those of most logs, cost nothing.

Where a marker is in the segment, the batches decide. An entry of the file that the batches do not explain is kept only
if its marker exists too, or lies in damage. Compaction removes the batches of a transaction before its marker. An entry
without a marker is dropped.
"""

import os

cimport cython
from libc.stdint cimport INT64_MAX, int64_t

from kraft_native.base.limits cimport CONTROL_ABORT
from kraft_native.batch.batch cimport (
    BatchHeader, batch_bytes, batch_is_control, batch_is_transactional, batch_last_offset,
)
from kraft_native.file.file_io cimport disk_is_full
from kraft_native.log.apply cimport ControlMark, read_control
from kraft_native.segment.producer_entry cimport AbortedTxn
from kraft_native.segment.producers cimport TXN_ABORTED, ProducerStates
from kraft_native.segment.segment cimport Segment
from kraft_native.segment.txn_index cimport TransactionIndex

from kraft_native.base.errors import CorruptFileError, StorageError
from kraft_native.segment.producer_snapshots import snapshot_path


@cython.final
cdef class TxnChecker:
    """Checker of the indexes of one log, best in ascending order: it keeps the producers as they were after the last
    segment."""

    def __init__(self, bytes directory):
        self.directory = directory
        self.snapshots_end = INT64_MAX

    cdef int require(self, list segments, Py_ssize_t slot, int64_t log_end) except -1:
        cdef Segment segment = segments[slot]
        cdef Py_ssize_t first
        if segment.txn_checked:
            return 0
        for first in range(self.load_producers(segments, slot), slot + 1):
            segment = segments[first]
            self.check_segment(segment, segment.next_base if segment.next_base >= 0 else log_end)
        return 0

    cdef Py_ssize_t load_producers(self, list segments, Py_ssize_t slot) except -1:
        """Bring the producers to the base of the nearest segment at or before segments[slot]; return its slot."""
        cdef Segment segment = segments[slot]
        if self.producers is not None and self.producers.map_end_offset == segment.base_offset:
            return slot
        self.producers = ProducerStates()
        while slot > 0:
            segment = segments[slot]
            path = snapshot_path(self.directory, segment.base_offset)
            if segment.base_offset <= self.snapshots_end and os.path.exists(path):
                try:
                    # At time 0 nothing has expired.
                    self.producers.load(path, segment.base_offset, 0)
                    return slot
                except CorruptFileError:
                    pass               # an older one serves as well
            slot -= 1
        segment = segments[0]
        self.producers.advance(segment.base_offset)
        return 0

    cdef int check_segment(self, Segment segment, int64_t end) except -1:
        """Replay the segment, which ends at offset `end`; correct its index."""
        cdef list markers = self.replay(segment)
        cdef list kept = [], stored = []
        cdef bint unreadable = False
        self.producers.advance(end)
        if segment.txn_checked:
            return 0
        try:
            stored = list(segment.txn_index)
        except CorruptFileError:
            unreadable = True
        for marker in markers:
            if marker[1] >= 0:
                kept.append(marker)
            else:
                kept += [entry for entry in stored if entry[0] == marker[0] and entry[2] == marker[2]]
        kept += [entry for entry in stored if in_damage(segment, entry[2])]
        kept.sort(key=last_offset_of)
        if unreadable or kept != stored:
            self.correct(segment.txn_index, kept)
        segment.txn_checked = True
        segment.unstable_after = self.producers.first_unstable(end)
        return 0

    cdef int correct(self, TransactionIndex index, list entries) except -1:
        """Write the entries; where the disk is full, or an earlier write failed, they are kept in memory."""
        if index.failure is not None:
            return index.answer_from(entries, index.failure)
        try:
            index.reset()
            for entry in entries:
                index.add(*entry)
            index.flush()
        except StorageError as error:
            if not disk_is_full(error):
                raise
            index.answer_from(entries, error)
        return 0

    cdef list replay(self, Segment segment):
        """(producer id, first offset or -1, last offset, last stable offset) of the abort markers in the segment."""
        cdef list markers = []
        cdef BatchHeader h
        cdef ControlMark mark
        cdef AbortedTxn aborted
        cdef int64_t position = 0, expected = segment.base_offset
        while segment.next_sound(&position, &expected, &h):
            mark.kind = mark.coordinator_epoch = -1
            if batch_is_control(&h):
                read_control(segment.data + position, &h, &mark)
            if h.producer_id >= 0:
                if self.producers.update(&h, mark.kind, mark.coordinator_epoch, &aborted) == TXN_ABORTED:
                    markers.append((aborted.producer_id, aborted.first_offset, aborted.last_offset,
                                    aborted.last_stable_offset))
                elif mark.kind == CONTROL_ABORT:
                    markers.append((h.producer_id, -1, h.base_offset, -1))
            expected = batch_last_offset(&h) + 1
            position += batch_bytes(&h)
        return markers


def last_offset_of(entry: tuple[int, int, int, int]) -> int:
    return entry[2]


cdef bint in_damage(Segment segment, int64_t offset) except -1:
    cdef int64_t first, end
    for _, _, first, end, _ in segment.damage:
        if first <= offset and (end < 0 or offset < end):
            return True
    return False


cdef bint has_transactions(list segments, Py_ssize_t slot, int64_t start_offset, int64_t end_offset) except -1:
    cdef BatchHeader h
    cdef Segment segment
    cdef int64_t position, expected
    for slot in range(slot, len(segments)):
        segment = segments[slot]
        expected = segment.base_offset
        if expected >= end_offset:
            break
        position = segment.locate(start_offset, &h, True)
        while position >= 0 and segment.next_sound(&position, &expected, &h) and h.base_offset < end_offset:
            if batch_is_transactional(&h):
                return True
            expected = batch_last_offset(&h) + 1
            position += batch_bytes(&h)
    return False
