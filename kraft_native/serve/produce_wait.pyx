"""A Produce that waits for a flush or for replicas. Its reply is encoded as if all went well; errors are written into
it, and with them the current leaders."""

from libc.stdint cimport int16_t, int32_t, uint8_t
from libc.stdlib cimport free, realloc
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cimport cython

from kraft_native.base.bytes_be cimport store_i16, store_i64
from kraft_native.base.fault cimport ERROR_NONE, ERROR_NOT_LEADER_OR_FOLLOWER, ERROR_REQUEST_TIMED_OUT
from kraft_native.partition.partition cimport COMMIT_PENDING
from kraft_native.partition.table cimport Absence
from kraft_native.request.fields cimport UVARINT_BYTES_MAX, put_count, put_i8, put_i32, put_string

cdef enum:
    # From a partition's error code to its tagged fields, in a version that reports leaders: code, three numbers, no
    # errors of single records, no message.
    PART_TAGS_AT = 28
    LEADER_BYTES = 11


@cython.final
cdef class ParkedProduce(Parked):
    def __dealloc__(self):
        free(self.pending)

    cdef int wake(self, int64_t bytes_count) except -1:
        return self.look()

    cdef int look(self) except -1:
        """Record the outcomes that became known; reply when none is open any more."""
        cdef Partition partition
        cdef Py_ssize_t place
        cdef int state
        for place in range(self.count):
            if self.pending[place].settled:
                continue
            partition = self.partitions[place]
            state = partition.commit_state(self.pending[place].end_offset, self.pending[place].leader_epoch,
                                           self.all_replicas)
            if state != COMMIT_PENDING:
                self.settle(place, state)
        if self.left == 0:
            self.purgatory.leave(self)
            self.finish()
        return 0

    cdef bint abandoned(self) noexcept:
        return self.reply.sink is None

    cdef int expire(self) except -1:
        cdef Py_ssize_t place
        for place in range(self.count):
            if not self.pending[place].settled:
                self.settle(place, ERROR_REQUEST_TIMED_OUT)
        if self.purgatory is not None:
            self.purgatory.leave(self)
        self.finish()
        return 0

    cdef int settle(self, Py_ssize_t place, int error) except -1:
        # No other code has seen these bytes yet.
        cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(self.encoded) + self.pending[place].position
        if error != ERROR_NONE:
            self.handler.count_error(error)
            store_i16(p, <int16_t>error)
            store_i64(p + 2, -1)
            store_i64(p + 10, -1)
            if self.with_log_start:
                store_i64(p + 18, -1)
            if error == ERROR_NOT_LEADER_OR_FOLLOWER and self.names_leaders:
                self.note_leader(&self.pending[place], self.partitions[place])
        self.pending[place].settled = True
        self.left -= 1
        return 0

    cdef int note_leader(self, PendingAppend* append, Partition partition) except -1:
        cdef Absence absence
        append.leader_id = partition.leader_id
        append.leader_epoch = partition.leader_epoch
        if partition.removed:
            self.table.begin_round()
            absence = self.table.absent(partition.topic_name, False).at(partition.index)
            append.leader_id = absence.leader_id
            append.leader_epoch = absence.leader_epoch
        append.leader_id = self.table.named(append.leader_id)
        append.moved = append.leader_epoch >= 0
        if append.leader_id >= 0:
            if self.leaders is None:
                self.leaders = set()
            self.leaders.add(append.leader_id)
        return 0

    cdef int finish(self) except -1:
        """Reply. New leaders are inserted between the pieces of the encoded reply."""
        cdef list pieces = []
        cdef uint8_t leader[LEADER_BYTES]
        cdef Py_ssize_t place, end, start = 0
        for place in range(self.count):
            if self.pending[place].moved:
                end = self.pending[place].position + PART_TAGS_AT
                put_leader(leader, self.pending[place].leader_id, self.pending[place].leader_epoch)
                pieces.append(self.encoded[start:end])
                pieces.append(PyBytes_FromStringAndSize(<const char*>leader, LEADER_BYTES))
                start = end
        if not pieces:
            return self.reply.finish([self.encoded])
        pieces.append(self.encoded[start:self.tags_at])
        pieces.append(self.table.endpoint_tags(self.leaders or set()))
        return self.reply.finish(pieces)


cdef uint8_t* put_leader(uint8_t* p, int32_t leader_id, int32_t leader_epoch) noexcept:
    p = put_i8(put_i8(put_i8(p, 1), 0), 9)             # one tagged field: tag 0, 9 bytes
    return put_i32(put_i32(p, leader_id), leader_epoch)


cdef int put_refusal(Scratch out, bint flexible, bytes message, tuple record_errors) except -1:
    cdef bytes text
    cdef uint8_t* p
    out.reserve(out.size + UVARINT_BYTES_MAX)
    p = put_count(out.data + out.size, flexible, <int32_t>len(record_errors))
    out.size = p - out.data
    for index, what in record_errors:
        text = what.encode()[:TEXT_BYTES_MAX]
        out.reserve(out.size + 4 + UVARINT_BYTES_MAX + len(text) + 1)
        p = put_i32(out.data + out.size, index)
        p = put_string(p, flexible, <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        if flexible:
            p = put_i8(p, 0)
        out.size = p - out.data
    out.reserve(out.size + UVARINT_BYTES_MAX + len(message))
    p = put_string(out.data + out.size, flexible, <const uint8_t*>PyBytes_AS_STRING(message),
                   PyBytes_GET_SIZE(message))
    out.size = p - out.data
    return 0


cdef void* grown(void* held, Py_ssize_t count, size_t element_bytes, str what) except NULL:
    cdef void* made = realloc(held, <size_t>count * element_bytes)
    if made == NULL:
        raise MemoryError(f"{count} {what} of a Produce request")
    return made
