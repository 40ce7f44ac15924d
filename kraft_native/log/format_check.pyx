"""Batches of a format newer than ours at the end of a segment."""

import os

from libc.stdint cimport int64_t

from kraft_native.batch.batch cimport BatchHeader, batch_bytes, batch_last_offset, is_unknown_format
from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import CorruptLogError


cdef int refuse_unknown_formats(list segments) except -1:
    cdef Segment segment
    cdef BatchHeader h
    cdef int64_t position, expected, start
    for segment in segments:
        position = 0
        expected = segment.base_offset
        while segment.next_sound(&position, &expected, &h):
            position += batch_bytes(&h)
            expected = batch_last_offset(&h) + 1
        for start, _, offset, next_offset, what in segment.damage[max(len(segment.damage) - 1, 0):]:
            if next_offset < 0 and is_unknown_format(segment.data + start, segment.size - start, offset):
                raise CorruptLogError(os.fsdecode(segment.path), start, offset, -1,
                                      f"{what}: a format younger than this version knows; the log was not changed")
    return 0
