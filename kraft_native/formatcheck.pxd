"""Batches of a format younger than ours at the end of a segment."""

# Checks segments, without a change to any file. CorruptLogError when one ends with batches of a format younger than
# ours: what we cannot understand we must not cut off as a torn end.
cdef int refuse_unknown_formats(list segments) except -1
