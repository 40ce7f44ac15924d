"""Produce requests, versions 3 to 13: decode, append, answer or wait."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.file.buffer cimport Scratch
from kraft_native.log.batch_check cimport BatchCheck
from kraft_native.partition.partition cimport Partition
from kraft_native.partition.table cimport AbsentTopic, PartitionTable, Topic
from kraft_native.request.client_quotas cimport ClientQuotas
from kraft_native.request.permissions cimport PermissionCache
from kraft_native.request.reply cimport Reply, RequestHandler
from kraft_native.request.slices cimport SliceQueue
from kraft_native.serve.produce_wait cimport ParkedProduce
from kraft_native.serve.produce_wire cimport PartitionData, ProduceData, TopicData


cdef class ProduceHandler(RequestHandler):
    """Handler of Produce for one listener."""
    cdef readonly PartitionTable table
    cdef ProduceData data          # of the current request
    cdef Scratch out
    cdef int stopped               # why `append_from` stopped before the end

    cdef SliceQueue slices         # None: a request is processed in one go
    cdef ClientQuotas quotas       # None: no quotas
    cdef public PermissionCache permissions  # None: everything is allowed
    cdef object offload            # has another thread do costly work; None: this one does
    cdef object on_failure         # gets an internal failure there; None: it is raised
    # type: Callable[[str, int, int, list[tuple[str, int]], bool, Callable[[Sequence[int]], None]], object] | None
    cdef public object verifier    # has a coordinator confirm a transaction; None: none can begin
    cdef public bint verifies      # without it transactions begin unconfirmed
    # type: Callable[[bytes], bool] | None
    cdef public object is_audit_writer  # whether a client id is that of a broker's audit; None: none is

    # Appends from the place `start` on, for which `check` is. Returns the place of the first batch that cannot be
    # appended yet, see `stopped`, or the end.
    cdef Py_ssize_t append_from(self, ProduceData data, Reply reply, Py_ssize_t start, BatchCheck check) except -1
    # TOPIC_AUTHORIZATION_FAILED when the client may not write to the topic, which may have no partition here.
    cdef AbsentTopic refuse_absent(self, AbsentTopic absent, const TopicData* named, PartitionData* part, bint by_id)
    cdef int16_t write_error(self, ProduceData data, const TopicData* named, Topic topic, bint by_id) except -1
    # False when the batch cannot be appended yet.
    cdef bint append_one(self, ProduceData data, PartitionData* part, Py_ssize_t place, Partition partition,
                         Reply reply, int64_t now_ms, BatchCheck check) except -1
    cdef bint is_confirmed_first(self, Reply reply) noexcept
    cdef bint must_verify(self, ProduceData data, const PartitionData* part, Py_ssize_t place,
                          Partition partition, Reply reply) except -1
    cdef bint is_outdated(self, ProduceData data, const PartitionData* part, Py_ssize_t place, Reply reply) except -1
    cdef int16_t transaction_error(self, ProduceData data, const PartitionData* part, Py_ssize_t place,
                                   Partition partition, Reply reply) except -1
    # Decodes a step of the request. Returns DECODE_REFUSED, DECODE_MORE or DECODE_DONE.
    cdef int decode_some(self, ProduceData data, Span* span, Reply reply) except -2
    cdef bint refused_whole(self, ProduceData data, Reply reply) except -1
    cdef DeferredProduce defer(self, ProduceData data, Reply reply, const uint8_t* body, Py_ssize_t body_bytes)
    cdef int conclude(self, ProduceData data, Reply reply) except -1
    cdef int settle(self, ProduceData data, Reply reply, Scratch encoded) except -1
    cdef int refused(self, ProduceData data, PartitionData* part, Py_ssize_t place, Partition partition,
                     object error) except -1
    cdef int end_unacknowledged(self, ProduceData data, Reply reply) except -1
    cdef ParkedProduce make_parked(self, ProduceData data, Reply reply, Scratch encoded)


cdef class DeferredProduce:
    """A Produce that waits for its next slice, for another thread to check a costly batch, or for a coordinator to
    confirm a transaction. Its connection is not read meanwhile, so order is kept; its partitions before that batch are
    appended to already."""
    cdef ProduceHandler handler
    cdef Reply reply
    cdef ProduceData data
    cdef object owner              # keeps the request's body
    cdef const uint8_t* body       # its place; all pointers refer to it
    cdef Span undecoded            # the rest of the body; its `p` is NULL when all is decoded
    cdef Py_ssize_t place          # of the batch that waits, or the next one
    cdef list verifying            # places that the coordinator is to confirm
    cdef readonly BatchCheck check
    cdef readonly str peer_host    # of its client; empty where a test's sink has none

    # Has the batch at `place` checked or verified, or the rest done in a later slice.
    cdef int wait(self, Py_ssize_t place) except -1
    cdef int submit(self) except -1
    cdef int verify(self) except -1
    cdef int begin_verification(self, Py_ssize_t place, Partition partition, list partitions) except -1
    cdef int go_on(self) except -1
