"""The leader epochs of a log by its batches."""

# (epoch, start offset) of the batches of segments[first:], ascending.
cdef list epoch_starts(list segments, Py_ssize_t first)
