"""A Produce that waits for a flush or for replicas."""

from libc.stdint cimport int32_t, int64_t

from kraft_native.purgatory cimport Parked
from kraft_native.reply cimport Reply, RequestHandler


cdef struct PendingAppend:
    int64_t end_offset
    Py_ssize_t position            # of the error code in the reply
    int32_t leader_epoch


cdef class ParkedProduce(Parked):
    """A Produce whose appends are in the log, and whose reply waits for a flush or for replicas."""
    cdef RequestHandler handler    # that counts its errors
    cdef Reply reply
    cdef bytes encoded             # the reply as if all went well; error codes are written into it
    cdef list partitions           # Partition of each in `pending`; None once its outcome is known
    cdef PendingAppend* pending
    cdef Py_ssize_t count
    cdef Py_ssize_t left           # whose outcome is not known
    cdef bint all_replicas
    cdef bint with_log_start

    cdef void settle(self, Py_ssize_t place, int error) noexcept
    cdef int look(self) except -1
