"""Produce requests, versions 3 to 13: decode, append, answer or wait."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.file.buffer cimport Scratch
from kraft_native.log.batch_check cimport BatchCheck
from kraft_native.partition.partition cimport Partition
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.client_quotas cimport ClientQuotas
from kraft_native.request.reply cimport Reply, RequestHandler
from kraft_native.request.slices cimport SliceQueue
from kraft_native.serve.produce_wait cimport ParkedProduce


cdef struct TopicData:
    const uint8_t* key             # name or id, as the request names the topic; inside the request's body
    Py_ssize_t key_bytes
    Py_ssize_t first               # of its partitions in `parts`
    Py_ssize_t count


# One partition of a request: the input, then the outcome.
cdef struct PartitionData:
    const uint8_t* records
    Py_ssize_t records_bytes       # -1: null
    int64_t base_offset
    int64_t log_append_time_ms
    int64_t log_start_offset
    int64_t end_offset             # of the append
    Py_ssize_t position            # of the error code in the reply
    int32_t index
    int32_t leader_id              # reported when this node is not the leader
    int32_t leader_epoch
    int16_t error
    bint pending                   # waits for a flush or for replicas


cdef class ProduceHandler(RequestHandler):
    """Handler of Produce for one listener."""
    cdef readonly PartitionTable table
    cdef TopicData* topics
    cdef PartitionData* parts
    cdef Py_ssize_t topic_count, topic_capacity, part_count, part_capacity
    cdef Scratch out

    cdef dict refusals             # place in `parts` -> (message, record errors), where more than a code is returned
    cdef list waiting              # Partition of each pending place, in order

    cdef set leaders               # those that the reply in `out` names; None: its version names none
    cdef Py_ssize_t tags_at        # of the reply in `out`: where its own tagged fields begin
    cdef Py_ssize_t named_total    # records in `refusals`

    cdef bint paused               # `append_from` stopped because its time was used up

    cdef SliceQueue slices         # None: a request is processed in one go
    cdef ClientQuotas quotas       # None: no quotas
    cdef object offload            # has another thread do costly work; None: this one does
    cdef object on_failure         # gets an internal failure there; None: it is raised

    cdef int reserve(self, Py_ssize_t topic_count, Py_ssize_t part_count) except -1
    # False when the body is no such request.
    cdef bint decode(self, Span* body, int version, int16_t* acks, int32_t* timeout_ms, bint* transactional) except -1
    cdef bint decode_topic(self, Span* body, int version) except -1
    # Appends from the place `start` on, for which `check` is. Returns the place of the first batch that is too costly
    # to check here, or where it paused, or the end.
    cdef Py_ssize_t append_from(self, Reply reply, int16_t acks, Py_ssize_t start, BatchCheck check) except -1
    # False when the batch is too costly.
    cdef bint append_one(self, PartitionData* part, Py_ssize_t place, Partition partition, Reply reply, int16_t acks,
                         int64_t now_ms, BatchCheck check) except -1
    cdef int conclude(self, Reply reply, int16_t acks, int32_t timeout_ms) except -1
    cdef int refused(self, PartitionData* part, Py_ssize_t place, Partition partition, object error) except -1
    cdef bint any_transactional(self) noexcept
    cdef int end_unacknowledged(self, Reply reply) except -1
    cdef ParkedProduce make_parked(self, Reply reply, int16_t acks)
    cdef int give_back(self) except -1
    cdef int encode(self, Reply reply) except -1
    cdef int encode_topic(self, TopicData* topic, int version) except -1


cdef class DeferredProduce:
    """A Produce that waits for its next slice, or for another thread to check a costly batch. Its connection is not
    read meanwhile, so order is kept; its partitions before that batch are appended to already."""
    cdef ProduceHandler handler
    cdef Reply reply
    cdef object owner              # keeps the request's body
    cdef const uint8_t* body       # its place; all pointers refer to it
    cdef int16_t acks
    cdef int32_t timeout_ms
    cdef TopicData* topics
    cdef PartitionData* parts
    cdef Py_ssize_t topic_count, topic_capacity, part_count, part_capacity, named_total
    cdef Py_ssize_t place          # of the costly batch, or the next one
    cdef dict refusals
    cdef list waiting
    cdef readonly BatchCheck check
    cdef readonly str peer_host    # of its client; empty where a test's sink has none

    # Adopts the handler's state. `body`: where its pointers refer to.
    cdef int save(self, const uint8_t* body) except -1
    cdef int restore(self) except -1
    # Has the batch at `place` checked, or the rest done in a later slice.
    cdef int wait(self, Py_ssize_t place) except -1
    cdef int submit(self, Py_ssize_t place) except -1
    cdef int go_on(self) except -1
