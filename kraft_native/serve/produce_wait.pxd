"""A Produce that waits for a flush or for replicas."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch
from kraft_native.partition.partition cimport Partition
from kraft_native.partition.purgatory cimport Parked
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.reply cimport Reply, RequestHandler

cdef enum:
    TEXT_BYTES_MAX = 32_767        # of one text in a reply


cdef struct PendingAppend:
    int64_t end_offset
    Py_ssize_t position            # of the error code in the reply
    int32_t leader_epoch           # of the append; once `moved`, of the reported leader
    int32_t leader_id              # the reported leader
    bint settled                   # its outcome is known
    bint moved                     # another node leads now, and the reply names it


cdef class ParkedProduce(Parked):
    """A Produce whose appends are in the log, and whose reply waits for a flush or for replicas."""
    cdef RequestHandler handler    # that counts its errors
    cdef PartitionTable table
    cdef Reply reply
    cdef bytes encoded             # the reply as if all went well, with errors written in
    cdef Py_ssize_t tags_at        # where its own tagged fields begin

    cdef set leaders               # those that it names; None: none yet
    cdef bint names_leaders        # its version does
    cdef list partitions           # Partition of each in `pending`: the list that it watches
    cdef PendingAppend* pending
    cdef Py_ssize_t count
    cdef Py_ssize_t left           # count of those whose outcome is not known
    cdef bint all_replicas
    cdef bint with_log_start

    cdef int settle(self, Py_ssize_t place, int error) except -1
    cdef int note_leader(self, PendingAppend* append, Partition partition) except -1
    cdef int finish(self) except -1
    cdef int look(self) except -1


# A partition's tagged field CurrentLeader, up to the leader's own tagged fields.
cdef uint8_t* put_leader(uint8_t* p, int32_t leader_id, int32_t leader_epoch) noexcept
# The records at fault and what is wrong: (place in the batch, text) each, and a message.
cdef int put_refusal(Scratch out, bint flexible, bytes message, tuple record_errors) except -1
# The array, grown to `count` elements.
cdef void* grown(void* held, Py_ssize_t count, size_t element_bytes, str what) except NULL
