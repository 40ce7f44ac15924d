"""The names in a log's directory: segments, and leftovers of interrupted work."""

from libc.stdint cimport int64_t

# Puts (base offset, size in bytes) of every segment into `found`, ascending. Removes or finishes what an interrupted
# deletion, replacement or compaction left, and adds the names it removed to `removed`. Unknown names are ignored.
# Returns the highest base offset of a compaction's output that took its sources' place only now; -1: none.
cdef int64_t tidy_directory(bytes directory, list found, list removed) except -2

# The same of a directory that is not ours: nothing is removed or renamed. The names of `.log` files that still have to
# be renamed are in `named`, by base offset.
cdef int64_t view_directory(bytes directory, list found, dict named) except -2
