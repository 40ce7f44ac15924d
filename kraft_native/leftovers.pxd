"""The names in a log's directory: segments, and what interrupted work left there."""

# (base offset, size in bytes) of every segment, ascending. Removes or finishes what an interrupted deletion,
# replacement or compaction left, and adds the names it removed to `removed`. Unknown names are passed over.
cdef list tidy_directory(bytes directory, list removed)
