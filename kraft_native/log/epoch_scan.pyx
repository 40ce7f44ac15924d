"""The leader epochs of a log by its batches: for when their file is unusable."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.batch.batch cimport BatchHeader, batch_bytes, batch_last_offset
from kraft_native.segment.segment cimport STEP_BATCH, Segment


cdef list epoch_starts(list segments, Py_ssize_t first):
    """(epoch, start offset) of the batches of segments[first:], ascending.

    The epoch of a batch lies outside its CRC, and epochs never fall. Two cases are errors of the disk. One is an epoch
    that a single batch has and that is above the next one. The other is an epoch below that of several batches before
    it. A segment whose first two batches have the epoch that the next one begins with has no other.
    """
    cdef list found = []               # [epoch, start offset, batches]
    cdef Segment segment
    cdef BatchHeader h
    cdef Py_ssize_t slot
    cdef int64_t position, expected
    cdef int seen                      # of the first two batches: how many have the epoch of the next segment
    for slot in range(first, len(segments)):
        segment = segments[slot]
        position = 0
        seen = 0
        expected = segment.base_offset
        while segment.next_sound(&position, &expected, &h):
            note_epoch(found, h.leader_epoch, h.base_offset)
            if slot + 1 < len(segments) and seen < 2 and first_epoch(segments[slot + 1]) == h.leader_epoch:
                seen += 1
                if seen == 2:
                    break
            else:
                seen = 3               # walk on: it has several
            expected = batch_last_offset(&h) + 1
            position += batch_bytes(&h)
    return [(epoch, start_offset) for epoch, start_offset, _ in found]


cdef int note_epoch(list found, int32_t epoch, int64_t offset) except -1:
    cdef list last
    if epoch < 0:                      # format v0, v1, or made of these
        return 0
    while found:
        last = found[len(found) - 1]
        if epoch >= <int32_t>last[0]:
            break
        if <int64_t>last[2] > 1:
            return 0
        found.pop()
    if found and epoch == <int32_t>found[len(found) - 1][0]:
        found[len(found) - 1][2] += 1
    else:
        found.append([epoch, offset, 1])
    return 0


cdef int32_t first_epoch(Segment segment) except? -2:
    """Epoch of the segment's first batch; -1 when that is not sound."""
    cdef BatchHeader h
    return h.leader_epoch if segment.step(0, segment.base_offset, &h) == STEP_BATCH else -1
