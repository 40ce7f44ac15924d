"""A Produce that waits for a flush or for replicas. Its reply is encoded as if all went well; errors go into it."""

from libc.stdint cimport int16_t, uint8_t
from libc.stdlib cimport free
from cpython.bytes cimport PyBytes_AS_STRING

cimport cython

from kraft_native.bytes_be cimport store_i16, store_i64
from kraft_native.errors cimport ERROR_NONE, ERROR_REQUEST_TIMED_OUT
from kraft_native.partition cimport COMMIT_PENDING, Partition


@cython.final
cdef class ParkedProduce(Parked):
    def __dealloc__(self):
        free(self.pending)

    cdef int wake(self, int64_t bytes_count) except -1:
        return self.look()

    cdef int look(self) except -1:
        """Takes over what became known; answers when nothing is open any more."""
        cdef Partition partition
        cdef Py_ssize_t place
        cdef int state
        for place in range(self.count):
            partition = self.partitions[place]
            if partition is None:
                continue
            state = partition.commit_state(self.pending[place].end_offset, self.pending[place].leader_epoch,
                                           self.all_replicas)
            if state != COMMIT_PENDING:
                self.settle(place, state)
        if self.left == 0:
            self.purgatory.leave(self)
            self.reply.finish([self.encoded])
        return 0

    cdef bint abandoned(self) noexcept:
        return self.reply.sink is None

    cdef int expire(self) except -1:
        cdef Py_ssize_t place
        for place in range(self.count):
            if self.partitions[place] is not None:
                self.settle(place, ERROR_REQUEST_TIMED_OUT)
        if self.purgatory is not None:
            self.purgatory.leave(self)
        self.reply.finish([self.encoded])
        return 0

    cdef void settle(self, Py_ssize_t place, int error) noexcept:
        # Nobody has seen these bytes yet.
        cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(self.encoded) + self.pending[place].position
        if error != ERROR_NONE:
            self.handler.count_error(error)
            store_i16(p, <int16_t>error)
            store_i64(p + 2, -1)
            store_i64(p + 10, -1)
            if self.with_log_start:
                store_i64(p + 18, -1)
        self.partitions[place] = None
        self.left -= 1
