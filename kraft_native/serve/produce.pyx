"""Produce requests, versions 3 to 13 (Kafka's handleProduceRequest and ReplicaManager.appendRecords).

A request is decoded whole before anything is appended, so a malformed one changes nothing. Each partition is then
appended to by itself and has its own outcome. A partition that needs a flush or replicas waits in the purgatory. Its
reply is already encoded: an error found later is written over the code, and a leader elected meanwhile is inserted.

| what | answer |
|---|---|
| acks not 0, 1, -1 | 21 for every partition |
| transactional batch, no TransactionalId, or one that the client may not write with | 53 for every partition |
| a topic that the client may not write to, whether it exists or not | 29 |
| unknown name; unknown id | 3; 100 |
| topic of the node's own | 17, except for Kafka's admin client; for the audit's topic except for other brokers |
| not the leader | 6, with the leader from version 10 |
| acks=-1 and too few in-sync replicas, before; after the append | 19; 20 |
| zstd below version 7 | 76 |
| transactional batches of more than one producer or epoch | 49 for every partition |
| the coordinator does not confirm the transaction | see `serve/verification.pyx` |
| transactional batch after a marker that may have ended what was confirmed | 48; from version 12 verified again |
| what the engine refuses | its code; with message and records from version 8 |
| not durable, or not replicated, in time | 7 |

acks=0 has no reply: a failure closes the connection.

A request with very many partitions is processed in slices of the loop's time (`request/slices.pyx`).

A compressed batch that would occupy the loop for long (`LOOP_RECORDS_BYTES_MAX`) is decompressed and checked by another
thread, then appended. Its connection is paused until the answer, so its order is kept. Batches of other connections to
the same partition may come first, as they might have on their way here.

A transactional batch whose producer has no open transaction in the log begins one there (KIP-890). Before that the
coordinator of its transactional id has to confirm the transaction; from version 12 on it adds the partition. The
request waits for the answer, and its connection is paused. Further batches of the transaction need no answer. How a
marker in between is noticed: `partition/verifications.pyx`.
"""

from libc.stdint cimport int16_t, int64_t, uint8_t
from libc.stdlib cimport malloc
from cpython.bytes cimport PyBytes_FromStringAndSize

cimport cython

from kraft_native.base.bytes_be cimport load_i16, load_i32, load_i64
from kraft_native.base.clock cimport clock_ms, monotonic_ms, monotonic_ns
from kraft_native.base.fault cimport (
    ERROR_CORRUPT_MESSAGE, ERROR_INVALID_PRODUCER_EPOCH, ERROR_INVALID_RECORD, ERROR_INVALID_REQUIRED_ACKS,
    ERROR_INVALID_TIMESTAMP, ERROR_INVALID_TOPIC_EXCEPTION, ERROR_INVALID_TXN_STATE, ERROR_KAFKA_STORAGE_ERROR,
    ERROR_MESSAGE_TOO_LARGE, ERROR_NONE, ERROR_NOT_ENOUGH_REPLICAS, ERROR_NOT_LEADER_OR_FOLLOWER,
    ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ERROR_TRANSACTION_ABORTABLE, ERROR_UNSUPPORTED_COMPRESSION_TYPE,
)
from kraft_native.base.limits cimport (
    ATTR_CODEC_MASK, BATCH_ATTRIBUTES, BATCH_BASE_SEQUENCE, BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_MAGIC,
    BATCH_PRODUCER_EPOCH, BATCH_PRODUCER_ID, CODEC_ZSTD, LOG_OVERHEAD_BYTES, MAGIC_CURRENT,
)
from kraft_native.base.span cimport span_of
from kraft_native.log.append cimport AppendInfo
from kraft_native.log.batch_check cimport BatchCheck, new_batch_check
from kraft_native.partition.partition cimport COMMIT_PENDING
from kraft_native.partition.purgatory cimport PARKED_PRODUCE
from kraft_native.partition.table cimport Absence, AbsentTopic, Topic
from kraft_native.partition.verifications cimport Verification
from kraft_native.request.permissions cimport OPERATION_WRITE, RESOURCE_TOPIC, RESOURCE_TRANSACTIONAL_ID
from kraft_native.request.reply cimport REPLY_OPEN, permissions_of
from kraft_native.segment.config cimport DURABILITY_GROUP_COMMIT
from kraft_native.segment.producer_entry cimport ProducerEntry
from kraft_native.serve.produce_wait cimport TEXT_BYTES_MAX, ParkedProduce, PendingAppend
from kraft_native.serve.produce_wire cimport (
    DECODE_DONE, DECODE_MORE, DECODE_REFUSED, PRODUCE_BY_ID_FROM, PRODUCE_LEADERS_FROM, PRODUCE_VERSION_MAX,
    PRODUCE_VERSION_MIN,
)
from kraft_native.serve.topic_access cimport topic_error
from kraft_native.serve.verification cimport ADDS_FROM, is_transactional, note_identity, produce_error, why_refused

from kraft_native.base.errors import KraftError

cdef enum:
    PARTITIONS_KEPT = 1024         # working space is released after larger requests than usual
    NAMED_MAX = 1_000              # records that one answer names, and partitions that have a message; then only codes
    LOOK_AT_CLOCK = 16             # partitions; a power of two
    DECODED_AT_ONCE = 4096         # partitions, and topics
    DECODED_WHOLE = 1 << 30        # without slices
    STEPS_PER_SLICE = 4
    VERIFIED_AT_ONCE = 1024        # partitions of one query to a coordinator, at most
    OUTDATED_MAX = 10              # verifications of one batch, each made worthless by a marker
    OUT_BYTES_KEPT = 256 * 1024

    # Why `append_from` stopped before the end.
    STOPPED_BY_COST = 0            # the batch is too costly to check here
    STOPPED_BY_TIME = 1
    STOPPED_UNVERIFIED = 2         # the batch begins a transaction that its coordinator has to confirm

cdef bytes ADMIN_CLIENT_ID = b"__admin_client"


@cython.final
cdef class ProduceHandler(RequestHandler):
    """Handler of Produce from `table`. One per listener, so that each replies with its own endpoints.

    `slices` shares the loop's time between long requests; without it each is processed in one go. `offload(deferred)`
    has another thread call its `run`, then the loop's thread its `resume`; without it all is done at once. `quotas`:
    how much clients may produce. `on_failure(cause)` gets internal failures in `resume`.

    `verifier(transactional_id, producer_id, producer_epoch, [(topic, index)], adds, callback)` has the coordinator
    confirm a transaction, and calls `callback(codes)` once, after it returned, with an error per partition. With `adds`
    the coordinator adds the partitions. Without a verifier no transaction begins. Without `verifies`
    (transaction.partition.verification.enable) that of an older client, which has added the partition, begins
    unconfirmed. `permissions` has what clients may do; without them everything is allowed.

    `is_audit_writer(client_id)` returns whether a client id is that of a broker's audit.
    """

    def __init__(self, PartitionTable table not None, offload: Callable[[DeferredProduce], object] | None = None,
                 ClientQuotas quotas=None, on_failure: Callable[[BaseException], object] | None = None,
                 SliceQueue slices=None):
        self.table = table
        self.slices = slices
        self.quotas = quotas
        self.offload = offload
        self.on_failure = on_failure
        self.verifies = True
        self.out = Scratch()
        self.data = ProduceData()

    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        cdef Span span = span_of(body, body_bytes)
        cdef ProduceData data = self.data
        cdef DeferredProduce deferred
        cdef Py_ssize_t i
        cdef int decoded = DECODE_REFUSED
        if data.in_use:                # an internal failure interrupted the previous request
            data.clear()
        if PRODUCE_VERSION_MIN <= reply.api_version <= PRODUCE_VERSION_MAX and data.begin(&span, reply.api_version):
            decoded = self.decode_some(data, &span, reply)
        if decoded == DECODE_REFUSED:
            return reply.refuse()
        if self.quotas is not None:
            self.quotas.charge_produce(reply, body_bytes)
        data.permissions = permissions_of(self.permissions, reply.sink)
        if decoded == DECODE_MORE:
            deferred = self.defer(data, reply, body, body_bytes)
            deferred.undecoded = span_of(deferred.body + (span.p - body), span.end - span.p)
            return self.slices.later(reply, deferred.steps(), True)
        if not self.refused_whole(data, reply):
            i = self.append_from(data, reply, 0, None)
            if i < data.part_count:
                return self.defer(data, reply, body, body_bytes).wait(i)
        return self.conclude(data, reply)

    cdef int decode_some(self, ProduceData data, Span* span, Reply reply) except -2:
        cdef Py_ssize_t first = data.part_count
        cdef Py_ssize_t end = DECODED_WHOLE if self.slices is None else first + DECODED_AT_ONCE
        cdef int decoded = data.decode_some(span, reply.api_version, end)
        note_identity(data, first)
        return decoded

    cdef bint refused_whole(self, ProduceData data, Reply reply) except -1:
        """Refuse every partition for an error of the request itself. Return whether it has one."""
        cdef Py_ssize_t i
        cdef int16_t error
        error = ERROR_INVALID_REQUIRED_ACKS if data.acks < -1 or data.acks > 1 else data.identity_error
        if error == ERROR_NONE and data.permissions is not None and not may_use_transaction(data):
            error = ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            data.permissions.report(reply, RESOURCE_TRANSACTIONAL_ID, OPERATION_WRITE, PyBytes_FromStringAndSize(
                <const char*>data.transactional_id, data.transactional_id_bytes), False)
        if error == ERROR_NONE:
            return False
        for i in range(data.part_count):
            data.parts[i].error = error
        return True

    cdef DeferredProduce defer(self, ProduceData data, Reply reply, const uint8_t* body, Py_ssize_t body_bytes):
        """Keep the body, which is `data`'s, until the rest of the request is done. Its connection is not read."""
        cdef DeferredProduce deferred = DeferredProduce.__new__(DeferredProduce)
        self.data = ProduceData()
        deferred.handler = self
        deferred.reply = reply
        deferred.data = data
        deferred.peer_host = getattr(reply.sink, "peer_host", "")
        deferred.body = body
        deferred.owner = reply.sink.keep_body(&deferred.body, body_bytes)
        data.move(body, deferred.body)
        reply.alone = True
        reply.held_bytes = body_bytes
        return deferred

    cdef int conclude(self, ProduceData data, Reply reply) except -1:
        """Reply, or park the request: all partitions have their outcome, or wait for it."""
        if data.acks != 0:
            if self.quotas is not None:
                self.quotas.charge_time(reply)
            data.encode(reply, self.table, self, self.out)
        return self.settle(data, reply, self.out)

    cdef int settle(self, ProduceData data, Reply reply, Scratch encoded) except -1:
        """Reply with what is encoded, or park the request."""
        cdef ParkedProduce parked
        if data.acks == 0:
            self.end_unacknowledged(data, reply)
        elif data.waiting:
            parked = self.make_parked(data, reply, encoded)
            if not self.table.purgatory.park(parked, data.waiting, monotonic_ms() + max(data.timeout_ms, 0)):
                parked.expire()        # too many wait: as if its time were over
            elif reply.state == REPLY_OPEN:
                reply.waiter = parked
        else:
            reply.finish_copy(encoded.data, encoded.size)
        data.clear()
        if self.data.part_capacity > PARTITIONS_KEPT or self.out.capacity > OUT_BYTES_KEPT:
            self.data = ProduceData()
            self.out = Scratch()
        return 0

    cdef int end_unacknowledged(self, ProduceData data, Reply reply) except -1:
        cdef Py_ssize_t i
        for i in range(data.part_count):
            if data.parts[i].error != ERROR_NONE:
                return reply.refuse("unacknowledged")
        return reply.skip()

    # --- appending --------------------------------------------------------------------------------------------------

    cdef Py_ssize_t append_from(self, ProduceData data, Reply reply, Py_ssize_t start, BatchCheck check) except -1:
        cdef int64_t now_ms = clock_ms()
        cdef int64_t until_ns = -1
        cdef bint by_id = reply.api_version >= PRODUCE_BY_ID_FROM
        cdef TopicData* named
        cdef PartitionData* part
        cdef Py_ssize_t i, place
        cdef Topic topic
        cdef AbsentTopic absent
        cdef Partition partition
        cdef int16_t refused = ERROR_NONE
        self.stopped = STOPPED_BY_COST
        self.table.begin_round()
        if self.slices is not None and data.part_count - start > LOOK_AT_CLOCK:
            until_ns = monotonic_ns() + self.slices.slice_ns // STEPS_PER_SLICE
        for i in range(data.topic_count):
            named = data.topics + i
            if named.count == 0 or named.first + named.count <= start:
                continue
            topic = self.table.find(named.key, named.key_bytes, by_id)
            absent = None
            if data.permissions is not None:
                refused = self.write_error(data, named, topic, by_id)
                if refused != ERROR_NONE and start <= named.first:
                    data.permissions.report(reply, RESOURCE_TOPIC, OPERATION_WRITE, PyBytes_FromStringAndSize(
                        <const char*>named.key, named.key_bytes), by_id)
            for place in range(max(named.first, start), named.first + named.count):
                if (until_ns > 0 and place > start and place & (LOOK_AT_CLOCK - 1) == 0
                        and monotonic_ns() >= until_ns):
                    self.stopped = STOPPED_BY_TIME
                    return place
                part = data.parts + place
                if refused != ERROR_NONE:
                    part.error = refused
                    continue
                partition = None if topic is None else topic.at(part.index)
                if partition is None:
                    absent = self.refuse_absent(absent, named, part, by_id)
                elif not self.append_one(data, part, place, partition, reply, now_ms,
                                         check if place == start else None):
                    return place
        return data.part_count

    cdef AbsentTopic refuse_absent(self, AbsentTopic absent, const TopicData* named, PartitionData* part, bint by_id):
        """Refuse a partition that this node does not have. Return the topic, for its other partitions; `absent`: None,
        or what this returned for an earlier one."""
        cdef Absence absence
        if absent is None:
            absent = self.table.absent(PyBytes_FromStringAndSize(<const char*>named.key, named.key_bytes), by_id)
        absence = absent.at(part.index)
        part.error = <int16_t>absence.error
        part.leader_id = absence.leader_id
        part.leader_epoch = absence.leader_epoch
        return absent

    cdef int16_t write_error(self, ProduceData data, const TopicData* named, Topic topic, bint by_id) except -1:
        if topic is not None:
            return topic_error(self.table, data.permissions, OPERATION_WRITE, topic.name, None, by_id)
        return topic_error(self.table, data.permissions, OPERATION_WRITE, None,
                           PyBytes_FromStringAndSize(<const char*>named.key, named.key_bytes), by_id)

    cdef bint append_one(self, ProduceData data, PartitionData* part, Py_ssize_t place, Partition partition,
                         Reply reply, int64_t now_ms, BatchCheck check) except -1:
        cdef AppendInfo info
        cdef int state
        part.error = forbidden(part, partition, reply, data.acks, self.is_audit_writer)
        if part.error == ERROR_NONE and is_transactional(part):
            if self.must_verify(data, part, place, partition, reply):
                self.stopped = STOPPED_UNVERIFIED
                return False
            part.error = self.transaction_error(data, part, place, partition, reply)
            if part.error == ERROR_INVALID_TXN_STATE and self.is_outdated(data, part, place, reply):
                del data.verified[place]
                part.outdated += 1
                self.stopped = STOPPED_UNVERIFIED
                return False
        if part.error == ERROR_NOT_LEADER_OR_FOLLOWER:
            part.leader_id = partition.leader_id
            part.leader_epoch = partition.leader_epoch
        if part.error != ERROR_NONE:
            partition.refused_produces += 1
            return True
        if check is not None and check.config is not partition.core.config:
            check = None               # by settings that are not in force any more
        try:
            info = partition.produce(part.records, max(part.records_bytes, 0), now_ms, check, self.offload is not None)
        except KraftError as error:
            self.refused(data, part, place, partition, error)
            return True
        if info is None:
            return False
        part.base_offset = info.first_offset
        part.log_append_time_ms = info.log_append_time_ms
        part.log_start_offset = info.log_start_offset
        if data.acks == 0 or (data.acks == 1 and partition.core.config.durability_kind != DURABILITY_GROUP_COMMIT):
            return True
        state = partition.commit_state(info.last_offset + 1, partition.leader_epoch, data.acks == -1)
        if state == COMMIT_PENDING:
            part.end_offset = info.last_offset + 1
            part.leader_epoch = partition.leader_epoch
            part.pending = True
            data.waiting.append(partition)
        elif state != ERROR_NONE:
            part.error = <int16_t>state
            part.base_offset = part.log_append_time_ms = part.log_start_offset = -1
        return True

    cdef int refused(self, ProduceData data, PartitionData* part, Py_ssize_t place, Partition partition,
                     object error) except -1:
        """Record the engine's refusal. Only faults of the records themselves get a message, as in Kafka."""
        part.error = error.code
        partition.refused_produces += 1
        partition.note_failure()
        if (part.error == ERROR_INVALID_RECORD or part.error == ERROR_INVALID_TIMESTAMP) \
                and len(data.refusals) < NAMED_MAX:
            named = error.record_errors if data.named_total < NAMED_MAX else ()
            data.named_total += len(<tuple>named)
            data.refusals[place] = (str(error).encode()[:TEXT_BYTES_MAX], named)
        if is_one_batch(part) and part.error != ERROR_CORRUPT_MESSAGE and part.error != ERROR_MESSAGE_TOO_LARGE \
                and part.error != ERROR_KAFKA_STORAGE_ERROR:
            part.log_start_offset = partition.core.log_start
        return 0

    cdef bint is_confirmed_first(self, Reply reply) noexcept:
        """Return whether a transaction begins by an answer of the coordinator: always where it adds the partition."""
        return self.verifies or reply.api_version >= ADDS_FROM

    cdef bint must_verify(self, ProduceData data, const PartitionData* part, Py_ssize_t place,
                          Partition partition, Reply reply) except -1:
        """Return whether the coordinator has to confirm the transaction of this batch, and was not requested to yet."""
        cdef int64_t producer_id = load_i64(part.records + BATCH_PRODUCER_ID)
        cdef int16_t producer_epoch = load_i16(part.records + BATCH_PRODUCER_EPOCH)
        cdef ProducerEntry* known = partition.core.producers.find(producer_id)
        if known != NULL and (producer_epoch < known.producer_epoch
                              or (known.txn_first_offset >= 0 and producer_epoch == known.producer_epoch)):
            return False               # fenced, or in its open transaction
        return (self.is_confirmed_first(reply) and self.verifier is not None and producer_id >= 0
                and part.verdict == ERROR_NONE
                and (data.verified is None or place not in data.verified))

    cdef bint is_outdated(self, ProduceData data, const PartitionData* part, Py_ssize_t place, Reply reply) except -1:
        """Return whether to verify the transaction again, after a marker that may be of the previous one.

        The end of a transaction is answered before its markers are written, and the first batch of the next one may
        overtake them. From version 12 on, the batch's epoch is that of its transaction alone, so that a new answer is
        about no other. Below that, a batch from before the marker is refused: two transactions may have its epoch.
        """
        return (part.verdict == ERROR_NONE and reply.api_version >= ADDS_FROM and part.outdated < OUTDATED_MAX
                and data.verified is not None and place in data.verified)

    cdef int16_t transaction_error(self, ProduceData data, const PartitionData* part, Py_ssize_t place,
                                   Partition partition, Reply reply) except -1:
        """Return the error of a transactional batch that needs no further query; 0 when it may be appended."""
        cdef int64_t producer_id = load_i64(part.records + BATCH_PRODUCER_ID)
        cdef int16_t producer_epoch = load_i16(part.records + BATCH_PRODUCER_EPOCH)
        cdef ProducerEntry* known
        if part.verdict != ERROR_NONE:
            return part.verdict
        if partition.in_transaction(producer_id, producer_epoch) or not self.is_confirmed_first(reply):
            return ERROR_NONE
        known = partition.core.producers.find(producer_id)
        if known != NULL and producer_epoch < known.producer_epoch:
            return ERROR_INVALID_PRODUCER_EPOCH
        if self.verifier is None or producer_id < 0:
            return ERROR_TRANSACTION_ABORTABLE if reply.api_version >= 11 else ERROR_INVALID_TXN_STATE
        return <int16_t>partition.check_verified(data.verified[place], producer_epoch,
                                                 load_i32(part.records + BATCH_BASE_SEQUENCE))

    cdef ParkedProduce make_parked(self, ProduceData data, Reply reply, Scratch encoded):
        cdef ParkedProduce parked = ParkedProduce.__new__(ParkedProduce)
        cdef Py_ssize_t place
        parked.kind = PARKED_PRODUCE
        parked.handler = self
        parked.reply = reply
        parked.encoded = PyBytes_FromStringAndSize(<const char*>encoded.data, encoded.size)
        parked.table = self.table
        parked.leaders = data.leaders
        parked.names_leaders = reply.api_version >= PRODUCE_LEADERS_FROM
        parked.tags_at = data.tags_at
        parked.partitions = data.waiting
        parked.all_replicas = data.acks == -1
        parked.with_log_start = reply.api_version >= 5
        parked.pending = <PendingAppend*>malloc(<size_t>len(data.waiting) * sizeof(PendingAppend))
        if parked.pending == NULL:
            raise MemoryError(f"{len(data.waiting)} appends that wait")
        for place in range(data.part_count):
            if data.parts[place].pending:
                parked.pending[parked.count].end_offset = data.parts[place].end_offset
                parked.pending[parked.count].position = data.parts[place].position
                parked.pending[parked.count].leader_epoch = data.parts[place].leader_epoch
                parked.pending[parked.count].settled = parked.pending[parked.count].moved = False
                parked.count += 1
        parked.left = parked.count
        return parked


cdef bint is_one_batch(const PartitionData* part) noexcept:
    """Return whether it is one batch by its length and its magic; this does not check that it is sound."""
    return (part.records_bytes >= BATCH_HEADER_BYTES and part.records[BATCH_MAGIC] == MAGIC_CURRENT
            and <Py_ssize_t>load_i32(part.records + BATCH_LENGTH) + LOG_OVERHEAD_BYTES == part.records_bytes)


cdef int16_t forbidden(const PartitionData* part, Partition partition, Reply reply, int16_t acks,
                       object is_audit_writer) except? -2:
    """Error that forbids an append to the partition, before the engine inspects the batch; 0 when allowed."""
    cdef int16_t attributes = 0
    if part.records_bytes >= BATCH_HEADER_BYTES:
        attributes = load_i16(part.records + BATCH_ATTRIBUTES)
    if attributes & ATTR_CODEC_MASK == CODEC_ZSTD and reply.api_version < 7:
        return ERROR_UNSUPPORTED_COMPRESSION_TYPE
    if partition.internal and not may_write_internal(partition, reply, is_audit_writer):
        return ERROR_INVALID_TOPIC_EXCEPTION
    if not partition.is_leader:
        return ERROR_NOT_LEADER_OR_FOLLOWER
    if acks == -1 and partition.progress.in_sync_count < partition.minimum_in_sync():
        return ERROR_NOT_ENOUGH_REPLICAS
    return ERROR_NONE


cdef bint may_write_internal(Partition partition, Reply reply, object is_audit_writer) except -1:
    """Return whether the client may write to an internal topic."""
    if not partition.audit:
        return reply.client_id == ADMIN_CLIENT_ID
    return is_audit_writer is not None and reply.client_id is not None and is_audit_writer(reply.client_id)


cdef bint may_use_transaction(ProduceData data) except -1:
    """Return whether the client may write with the transactional id of its transactional batches, if it has any."""
    if data.transactional_id_bytes < 0 or data.transactional_place < 0:
        return True
    return data.permissions.on_transactional_id(PyBytes_FromStringAndSize(
        <const char*>data.transactional_id, data.transactional_id_bytes)) >> OPERATION_WRITE & 1


@cython.final
cdef class DeferredProduce:

    cdef int wait(self, Py_ssize_t place) except -1:
        self.place = place
        self.check = None
        if self.handler.stopped == STOPPED_BY_TIME:
            # The bytes that the client has sent are charged, even when the connection is closed behind it.
            return self.handler.slices.later(self.reply, self.steps(), True)
        return self.verify() if self.handler.stopped == STOPPED_UNVERIFIED else self.submit()

    def steps(self) -> Generator[None]:
        """Process the rest of the request, slice by slice. Loop's thread."""
        cdef Scratch encoded = Scratch()
        cdef int decoded = DECODE_DONE
        while self.undecoded.p != NULL:
            decoded = self.handler.decode_some(self.data, &self.undecoded, self.reply)
            if decoded == DECODE_REFUSED:
                self.reply.refuse()
                return
            if decoded == DECODE_DONE:
                self.undecoded.p = NULL
                if self.handler.refused_whole(self.data, self.reply):
                    self.place = self.data.part_count
            yield
        while self.place < self.data.part_count:
            self.place = self.handler.append_from(self.data, self.reply, self.place, None)
            if self.place == self.data.part_count:
                break
            if self.handler.stopped != STOPPED_BY_TIME:
                self.wait(self.place)
                return
            yield
        if self.data.acks != 0:
            if self.handler.quotas is not None:
                self.handler.quotas.charge_time(self.reply)
            self.data.begin_reply(self.reply, encoded)
            while not self.data.encode_some(self.reply, self.handler.table, self.handler, encoded):
                yield
            self.data.end_reply(self.reply, self.handler.table, encoded)
        self.handler.settle(self.data, self.reply, encoded)

    cdef int submit(self) except -1:
        """Have the batch at `place` checked."""
        cdef PartitionData* part = self.data.parts + self.place
        cdef TopicData* named = self.data.topics
        cdef Partition partition
        while named.first + named.count <= self.place:
            named += 1
        partition = self.handler.table.find(
            named.key, named.key_bytes, self.reply.api_version >= PRODUCE_BY_ID_FROM).at(part.index)
        self.check = new_batch_check(self.owner, part.records, part.records_bytes, partition.core.config, clock_ms())
        self.handler.offload(self)
        return 0

    def run(self) -> None:
        """Check the batch. Any thread."""
        self.check.run()

    def resume(self) -> None:
        """Continue the request after the check of the batch. Loop's thread."""
        try:
            self.go_on()
        except BaseException as cause:
            if self.handler.on_failure is None:
                raise
            self.handler.on_failure(cause)

    cdef int go_on(self) except -1:
        cdef Py_ssize_t stopped = self.handler.append_from(self.data, self.reply, self.place, self.check)
        if stopped < self.data.part_count:
            self.wait(stopped)
        else:
            self.handler.conclude(self.data, self.reply)
        return 0

    # --- transactions -----------------------------------------------------------------------------------------------

    cdef int verify(self) except -1:
        """Have the coordinator confirm the transaction for the batch at `place` and those after it."""
        cdef ProduceData data = self.data
        cdef const uint8_t* first = data.parts[self.place].records
        cdef list partitions = []
        cdef TopicData* named
        cdef Topic topic
        cdef Py_ssize_t i, place, end = self.place + VERIFIED_AT_ONCE
        self.verifying = []
        if data.verified is None:
            data.verified = {}
        for i in range(data.topic_count):
            named = data.topics + i
            if named.first + named.count <= self.place or named.first >= end:
                continue
            topic = self.handler.table.find(named.key, named.key_bytes, self.reply.api_version >= PRODUCE_BY_ID_FROM)
            if topic is None or (data.permissions is not None and self.handler.write_error(
                    data, named, topic, self.reply.api_version >= PRODUCE_BY_ID_FROM) != ERROR_NONE):
                continue
            for place in range(max(named.first, self.place), min(named.first + named.count, end)):
                self.begin_verification(place, topic.at(data.parts[place].index), partitions)
        self.handler.verifier(
            PyBytes_FromStringAndSize(<const char*>data.transactional_id,
                                      data.transactional_id_bytes).decode(errors="replace"),
            load_i64(first + BATCH_PRODUCER_ID), load_i16(first + BATCH_PRODUCER_EPOCH), partitions,
            self.reply.api_version >= ADDS_FROM, self.verified)
        return 0

    cdef int begin_verification(self, Py_ssize_t place, Partition partition, list partitions) except -1:
        cdef PartitionData* part = self.data.parts + place
        cdef Verification verification
        if partition is None or not partition.is_leader or not is_transactional(part) \
                or not self.handler.must_verify(self.data, part, place, partition, self.reply):
            return 0
        verification = partition.verify(
            load_i64(part.records + BATCH_PRODUCER_ID), load_i16(part.records + BATCH_PRODUCER_EPOCH),
            load_i32(part.records + BATCH_BASE_SEQUENCE), self.reply.api_version >= ADDS_FROM, clock_ms())
        self.data.verified[place] = verification
        self.verifying.append(place)
        partitions.append((partition.topic, partition.index))
        return 0

    def verified(self, codes: Sequence[int]) -> None:
        """Continue the request with the coordinator's error for each partition. Loop's thread."""
        cdef ProduceData data = self.data
        cdef int16_t verdict
        for place, code in zip(self.verifying, codes, strict=True):
            verdict = produce_error(code, self.reply.api_version)
            data.parts[<Py_ssize_t>place].verdict = verdict
            if verdict != ERROR_NONE and len(data.refusals) < NAMED_MAX:
                why = why_refused(verdict, code)
                if why is not None:
                    data.refusals[place] = (why, ())
        self.verifying = None
        self.resume()
