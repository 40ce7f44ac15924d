"""Batches of a format newer than ours at the end of a segment."""

# Checks segments, without a change to any file. CorruptLogError when one ends with batches of a format newer than ours:
# data of an unknown format must not be cut off as a torn end.
cdef int refuse_unknown_formats(list segments) except -1
