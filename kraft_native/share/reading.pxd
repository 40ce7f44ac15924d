"""Records of a share partition: read from the log, and acquired for a member."""

from libc.stdint cimport int64_t

from kraft_native.file.buffer cimport Slice
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.permissions cimport Permissions
from kraft_native.share.partitions cimport SharePartitions
from kraft_native.share.window cimport Bounds, Extent
from kraft_native.share.wire cimport SharePart


# Rules of one round of reads.
cdef struct ShareRules:
    int64_t bytes_left
    int64_t parts_left             # of which each gets an equal share of these bytes
    bint whole_first               # nothing was read yet: the next batch counts whatever its size
    bint look_for_cold             # do not wait for data that is not in memory


cdef class Extents:
    """Room for the batches of one slice. One for each handler."""
    cdef Extent* places
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity

    cdef int add(self, int64_t first, int64_t last, bint skipped) except -1
    # The batches of a slice that was read from `offset` on, without those of aborted transactions.
    cdef int fill(self, Slice records, int64_t offset, list aborted) except -1


# Finds the partition here, and whether the client may use it. Kafka's error.
cdef int find_partition(SharePart part, PartitionTable table, Permissions permissions, object reply) except -2
# Reads what a partition has for the group: `part` gets the records, or an error.
cdef int read_part(SharePart part, bytes group, PartitionTable table, SharePartitions shares, Permissions permissions,
                   object reply, ShareRules* rules) except -1
# Acquires what was read. Only the batches with acquired records are left in `part`. Returns the number of offsets.
cdef int64_t acquire_part(SharePart part, bytes member, Extents extents, const Bounds* bounds) except -1
