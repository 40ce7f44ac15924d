"""Produce requests, versions 3 to 13 (Kafka's handleProduceRequest and ReplicaManager.appendRecords).

A request is decoded whole before anything is appended, so a malformed one changes nothing. Each partition is then
appended to by itself and has its own outcome. A partition that needs a flush or replicas waits in the purgatory. Its
reply is already encoded: an error found later is written over the code, and a leader elected meanwhile is inserted.

| what | answer |
|---|---|
| acks not 0, 1, -1 | 21 for every partition |
| transactional batch, no TransactionalId | 53 for every partition |
| unknown name; unknown id | 3; 100 |
| topic of the node's own | 17, except for Kafka's admin client |
| not the leader | 6, with the leader from version 10 |
| acks=-1 and too few in-sync replicas, before; after the append | 19; 20 |
| zstd below version 7 | 76 |
| transactional batch outside the producer's open transaction in this log | 120; below version 11 48 |
| what the engine refuses | its code; with message and records from version 8 |
| not durable, or not replicated, in time | 7 |

acks=0 has no reply: a failure closes the connection.

A request with very many partitions is processed in slices of the loop's time (`request/slices.pyx`).

A compressed batch that would occupy the loop for long (`LOOP_RECORDS_BYTES_MAX`) is decompressed and checked by another
thread, then appended. Its connection is paused until the answer, so its order is kept. Batches of other connections to
the same partition may come first, as they might have on their way here.

Reply per partition, fixed part: index int32, error int16, base offset int64, append time int64, log start int64 (V5).
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cimport cython

from kraft_native.base.bytes_be cimport load_i16, load_i32, load_i64
from kraft_native.base.clock cimport clock_ms, monotonic_ms, monotonic_ns
from kraft_native.base.fault cimport (
    ERROR_CORRUPT_MESSAGE, ERROR_INVALID_RECORD, ERROR_INVALID_REQUIRED_ACKS, ERROR_INVALID_TIMESTAMP,
    ERROR_INVALID_TOPIC_EXCEPTION, ERROR_INVALID_TXN_STATE, ERROR_KAFKA_STORAGE_ERROR, ERROR_MESSAGE_TOO_LARGE,
    ERROR_NONE, ERROR_NOT_ENOUGH_REPLICAS, ERROR_NOT_LEADER_OR_FOLLOWER, ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ERROR_TRANSACTION_ABORTABLE, ERROR_UNSUPPORTED_COMPRESSION_TYPE,
)
from kraft_native.base.limits cimport (
    ATTR_CODEC_MASK, ATTR_TRANSACTIONAL, BATCH_ATTRIBUTES, BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_MAGIC,
    BATCH_PRODUCER_EPOCH, BATCH_PRODUCER_ID, CODEC_ZSTD, LOG_OVERHEAD_BYTES, MAGIC_CURRENT,
)
from kraft_native.base.span cimport span_bytes, span_i16, span_i32, span_of
from kraft_native.log.append cimport AppendInfo
from kraft_native.log.batch_check cimport BatchCheck, new_batch_check
from kraft_native.partition.partition cimport COMMIT_PENDING
from kraft_native.partition.purgatory cimport PARKED_PRODUCE
from kraft_native.partition.table cimport Absence, AbsentTopic, Topic
from kraft_native.request.fields cimport (
    UUID_BYTES, UVARINT_BYTES_MAX, put_bytes, put_count, put_i8, put_i16, put_i32, put_i64, put_string,
    read_blob, read_count, read_string, skip_tags,
)
from kraft_native.request.reply cimport REPLY_OPEN, put_reply_header
from kraft_native.segment.config cimport DURABILITY_GROUP_COMMIT
from kraft_native.segment.producer_entry cimport ProducerEntry
from kraft_native.serve.produce_wait cimport (
    TEXT_BYTES_MAX, ParkedProduce, PendingAppend, grown, put_leader, put_refusal)

from kraft_native.base.errors import KraftError

cdef enum:
    VERSION_MIN = 3
    VERSION_MAX = 13
    FLEXIBLE_FROM = 9
    LEADER_REPORTED_FROM = 10
    BY_ID_FROM = 13
    # Limit for one request; a larger one is refused. Working space is released after larger requests than usual.
    PARTITIONS_MAX = 100_000
    PARTITIONS_KEPT = 1024
    # Index, code, three numbers, counts of errors, null message, leader tag: one partition's bytes without errors.
    PART_REPLY_BYTES_MAX = 64
    NAMED_MAX = 1_000              # records that one answer names, and partitions that have a message; then only codes
    LOOK_AT_CLOCK = 16             # partitions; a power of two
    STEPS_PER_SLICE = 4
    OUT_BYTES_KEPT = 256 * 1024

cdef bytes ADMIN_CLIENT_ID = b"__admin_client"


@cython.final
cdef class ProduceHandler(RequestHandler):
    """Handler of Produce from `table`. One per listener, so that each replies with its own endpoints.

    `slices` shares the loop's time between long requests; without it each is processed in one go. `offload(deferred)`
    has another thread call its `run`, then the loop's thread its `resume`; without it all is done at once. `quotas`:
    how much clients may produce. `on_failure(cause)` gets internal failures in `resume`.
    """

    def __init__(self, PartitionTable table not None, offload=None, ClientQuotas quotas=None, on_failure=None,
                 SliceQueue slices=None):
        self.table = table
        self.slices = slices
        self.quotas = quotas
        self.offload = offload
        self.on_failure = on_failure
        self.out = Scratch()
        self.refusals = {}
        self.waiting = []

    def __dealloc__(self):
        free(self.topics)
        free(self.parts)

    cdef int reserve(self, Py_ssize_t topic_count, Py_ssize_t part_count) except -1:
        if topic_count > self.topic_capacity:
            topic_count = max(topic_count, 2 * self.topic_capacity)
            self.topics = <TopicData*>grown(self.topics, topic_count, sizeof(TopicData), "topics")
            self.topic_capacity = topic_count
        if part_count > self.part_capacity:
            part_count = max(part_count, 2 * self.part_capacity)
            self.parts = <PartitionData*>grown(self.parts, part_count, sizeof(PartitionData), "partitions")
            self.part_capacity = part_count
        return 0

    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        cdef Span span = span_of(body, body_bytes)
        cdef int16_t acks = 0
        cdef int32_t timeout_ms = 0
        cdef bint transactional = False
        cdef Py_ssize_t i
        cdef int16_t error = ERROR_NONE
        cdef DeferredProduce deferred
        # Empty, unless an internal failure interrupted the previous request.
        if self.waiting:
            self.waiting.clear()
        if self.refusals:
            self.refusals.clear()
        self.named_total = 0
        if not VERSION_MIN <= reply.api_version <= VERSION_MAX or not self.decode(
            &span, reply.api_version, &acks, &timeout_ms, &transactional
        ):
            return reply.refuse()
        if self.quotas is not None:
            self.quotas.charge_produce(reply, body_bytes)
        if acks < -1 or acks > 1:
            error = ERROR_INVALID_REQUIRED_ACKS
        elif not transactional and self.any_transactional():
            error = ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if error != ERROR_NONE:
            for i in range(self.part_count):
                self.parts[i].error = error
        else:
            i = self.append_from(reply, acks, 0, None)
            if i < self.part_count:
                deferred = DeferredProduce.__new__(DeferredProduce)
                deferred.handler = self
                deferred.reply = reply
                deferred.peer_host = getattr(reply.sink, "peer_host", "")
                deferred.acks = acks
                deferred.timeout_ms = timeout_ms
                deferred.body = body
                deferred.owner = reply.sink.keep_body(&deferred.body, body_bytes)
                reply.alone = True
                reply.held_bytes = body_bytes
                deferred.save(body)
                return deferred.wait(i)
        return self.conclude(reply, acks, timeout_ms)

    cdef int conclude(self, Reply reply, int16_t acks, int32_t timeout_ms) except -1:
        """Reply, or park the request: all partitions have their outcome, or wait for it."""
        cdef ParkedProduce parked
        if self.quotas is not None and acks != 0:
            self.quotas.charge_time(reply)
        if acks == 0:
            self.end_unacknowledged(reply)
        elif self.waiting:
            parked = self.make_parked(reply, acks)
            if not self.table.purgatory.park(parked, self.waiting, monotonic_ms() + max(timeout_ms, 0)):
                parked.expire()        # too many wait: as if its time were over
            elif reply.state == REPLY_OPEN:
                reply.waiter = parked
            self.waiting = []
        else:
            self.encode(reply)
            reply.finish_copy(self.out.data, self.out.size)
        if self.refusals:
            self.refusals = {}
        if self.part_capacity > PARTITIONS_KEPT or self.out.capacity > OUT_BYTES_KEPT:
            self.give_back()
        return 0

    cdef int give_back(self) except -1:
        free(self.parts)
        free(self.topics)
        self.parts = NULL
        self.topics = NULL
        self.part_capacity = self.topic_capacity = 0
        self.out = Scratch()
        return 0

    cdef int end_unacknowledged(self, Reply reply) except -1:
        cdef Py_ssize_t i
        for i in range(self.part_count):
            if self.parts[i].error != ERROR_NONE:
                return reply.refuse("unacknowledged")
        return reply.skip()

    # --- the request ------------------------------------------------------------------------------------------------

    cdef bint decode(self, Span* body, int version, int16_t* acks, int32_t* timeout_ms, bint* transactional) except -1:
        cdef const uint8_t* transactional_id
        cdef Py_ssize_t transactional_id_bytes
        cdef int32_t topic_count
        cdef bint flexible = version >= FLEXIBLE_FROM
        self.topic_count = self.part_count = 0
        if (
            read_string(body, flexible, &transactional_id, &transactional_id_bytes) < 0
            or span_i16(body, acks) < 0
            or span_i32(body, timeout_ms) < 0
            or read_count(body, flexible, 2, &topic_count) < 0
            or topic_count < 0
            or topic_count > PARTITIONS_MAX
        ):
            return False
        transactional[0] = transactional_id_bytes >= 0
        self.reserve(topic_count, topic_count)
        while self.topic_count < topic_count:
            if not self.decode_topic(body, version):
                return False
        return skip_tags(body, flexible) == 0

    cdef bint decode_topic(self, Span* body, int version) except -1:
        cdef TopicData* topic = self.topics + self.topic_count
        cdef PartitionData* part
        cdef bint flexible = version >= FLEXIBLE_FROM
        cdef int32_t count
        if version >= BY_ID_FROM:
            topic.key_bytes = UUID_BYTES
            if span_bytes(body, UUID_BYTES, &topic.key) < 0:
                return False
        elif read_string(body, flexible, &topic.key, &topic.key_bytes) < 0 or topic.key_bytes < 0:
            return False
        if read_count(body, flexible, 5, &count) < 0 or count < 0 or self.part_count + count > PARTITIONS_MAX:
            return False
        topic.first = self.part_count
        topic.count = count
        self.reserve(0, self.part_count + count)
        while count > 0:
            part = self.parts + self.part_count
            if (
                span_i32(body, &part.index) < 0
                or read_blob(body, flexible, &part.records, &part.records_bytes) < 0
                or skip_tags(body, flexible) < 0
            ):
                return False
            part.base_offset = part.log_append_time_ms = part.log_start_offset = -1
            part.leader_id = part.leader_epoch = -1
            part.error = ERROR_NONE
            part.pending = False
            self.part_count += 1
            count -= 1
        self.topic_count += 1
        return skip_tags(body, flexible) == 0

    cdef bint any_transactional(self) noexcept:
        cdef Py_ssize_t i
        for i in range(self.part_count):
            if (
                self.parts[i].records_bytes >= BATCH_HEADER_BYTES
                and load_i16(self.parts[i].records + BATCH_ATTRIBUTES) & ATTR_TRANSACTIONAL
            ):
                return True
        return False

    # --- appending --------------------------------------------------------------------------------------------------

    cdef Py_ssize_t append_from(self, Reply reply, int16_t acks, Py_ssize_t start, BatchCheck check) except -1:
        cdef int64_t now_ms = clock_ms()
        cdef int64_t until_ns = -1
        cdef bint by_id = reply.api_version >= BY_ID_FROM
        cdef TopicData* data
        cdef PartitionData* part
        cdef Py_ssize_t i, place
        cdef Topic topic
        cdef AbsentTopic absent
        cdef Partition partition
        cdef Absence absence
        self.paused = False
        self.table.begin_round()
        if self.slices is not None and self.part_count - start > LOOK_AT_CLOCK:
            until_ns = monotonic_ns() + self.slices.slice_ns // STEPS_PER_SLICE
        for i in range(self.topic_count):
            data = self.topics + i
            if data.count == 0 or data.first + data.count <= start:
                continue
            topic = self.table.find(data.key, data.key_bytes, by_id)
            absent = None
            for place in range(max(data.first, start), data.first + data.count):
                if (until_ns > 0 and place > start and place & (LOOK_AT_CLOCK - 1) == 0
                        and monotonic_ns() >= until_ns):
                    self.paused = True
                    return place
                part = self.parts + place
                partition = None if topic is None else topic.at(part.index)
                if partition is None:
                    if absent is None:
                        absent = self.table.absent(
                            PyBytes_FromStringAndSize(<const char*>data.key, data.key_bytes), by_id)
                    absence = absent.at(part.index)
                    part.error = <int16_t>absence.error
                    part.leader_id = absence.leader_id
                    part.leader_epoch = absence.leader_epoch
                elif not self.append_one(part, place, partition, reply, acks, now_ms,
                                         check if place == start else None):
                    return place
        return self.part_count

    cdef bint append_one(self, PartitionData* part, Py_ssize_t place, Partition partition, Reply reply, int16_t acks,
                         int64_t now_ms, BatchCheck check) except -1:
        cdef AppendInfo info
        cdef int state
        part.error = forbidden(part, partition, reply, acks)
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
            self.refused(part, place, partition, error)
            return True
        if info is None:
            return False
        part.base_offset = info.first_offset
        part.log_append_time_ms = info.log_append_time_ms
        part.log_start_offset = info.log_start_offset
        if acks == 0 or (acks == 1 and partition.core.config.durability_kind != DURABILITY_GROUP_COMMIT):
            return True
        state = partition.commit_state(info.last_offset + 1, partition.leader_epoch, acks == -1)
        if state == COMMIT_PENDING:
            part.end_offset = info.last_offset + 1
            part.leader_epoch = partition.leader_epoch
            part.pending = True
            self.waiting.append(partition)
        elif state != ERROR_NONE:
            part.error = <int16_t>state
            part.base_offset = part.log_append_time_ms = part.log_start_offset = -1
        return True

    cdef int refused(self, PartitionData* part, Py_ssize_t place, Partition partition, object error) except -1:
        """Record the engine's refusal. Only faults of the records themselves get a message, as in Kafka."""
        part.error = error.code
        partition.refused_produces += 1
        partition.note_failure()
        if (part.error == ERROR_INVALID_RECORD or part.error == ERROR_INVALID_TIMESTAMP) \
                and len(self.refusals) < NAMED_MAX:
            named = error.record_errors if self.named_total < NAMED_MAX else ()
            self.named_total += len(<tuple>named)
            self.refusals[place] = (str(error).encode()[:TEXT_BYTES_MAX], named)
        if is_one_batch(part) and part.error != ERROR_CORRUPT_MESSAGE and part.error != ERROR_MESSAGE_TOO_LARGE \
                and part.error != ERROR_KAFKA_STORAGE_ERROR:
            part.log_start_offset = partition.core.log_start
        return 0

    # --- the reply --------------------------------------------------------------------------------------------------

    cdef int encode(self, Reply reply) except -1:
        """Encode the whole reply, header included, into `out`."""
        cdef int version = reply.api_version
        cdef bint flexible = version >= FLEXIBLE_FROM
        cdef bytes tags = b"\0"
        cdef uint8_t* p
        cdef Py_ssize_t i
        self.leaders = set() if version >= LEADER_REPORTED_FROM else None
        self.out.size = 0
        self.out.reserve(32)
        p = self.out.data
        p += put_reply_header(p, reply.correlation_id, 1 if flexible else 0)
        p = put_count(p, flexible, <int32_t>self.topic_count)
        self.out.size = p - self.out.data
        for i in range(self.topic_count):
            self.encode_topic(self.topics + i, version)
        if self.leaders:
            tags = self.table.endpoint_tags(self.leaders)
        self.out.reserve(self.out.size + 4 + PyBytes_GET_SIZE(tags))
        p = put_i32(self.out.data + self.out.size, reply.throttle_ms)
        self.tags_at = p - self.out.data
        if flexible:
            p = put_bytes(p, <const uint8_t*>PyBytes_AS_STRING(tags), PyBytes_GET_SIZE(tags))
        self.out.size = p - self.out.data
        return 0

    cdef int encode_topic(self, TopicData* topic, int version) except -1:
        cdef bint flexible = version >= FLEXIBLE_FROM
        cdef PartitionData* part
        cdef Py_ssize_t place
        cdef uint8_t* p
        self.out.reserve(self.out.size + topic.key_bytes + 2 * UVARINT_BYTES_MAX
                         + topic.count * PART_REPLY_BYTES_MAX)
        p = self.out.data + self.out.size
        if version >= BY_ID_FROM:
            p = put_bytes(p, topic.key, UUID_BYTES)
        else:
            p = put_string(p, flexible, topic.key, topic.key_bytes)
        p = put_count(p, flexible, <int32_t>topic.count)
        for place in range(topic.first, topic.first + topic.count):
            part = self.parts + place
            if part.error != ERROR_NONE:
                self.count_error(part.error)
            p = put_i32(p, part.index)
            part.position = p - self.out.data
            p = put_i16(p, part.error)
            p = put_i64(p, part.base_offset)
            p = put_i64(p, part.log_append_time_ms)
            if version >= 5:
                p = put_i64(p, part.log_start_offset)
            if version >= 8:
                if self.refusals and place in self.refusals:
                    self.out.size = p - self.out.data
                    message, record_errors = self.refusals[place]
                    put_refusal(self.out, flexible, message, record_errors)
                    self.out.reserve(self.out.size + (topic.first + topic.count - place) * PART_REPLY_BYTES_MAX)
                    p = self.out.data + self.out.size
                else:
                    p = put_count(p, flexible, 0)
                    p = put_string(p, flexible, NULL, -1)
            if not flexible:
                continue
            if self.leaders is not None and part.error == ERROR_NOT_LEADER_OR_FOLLOWER and part.leader_epoch >= 0:
                part.leader_id = self.table.named(part.leader_id)
                p = put_leader(p, part.leader_id, part.leader_epoch)
                if part.leader_id >= 0:
                    self.leaders.add(part.leader_id)
            p = put_i8(p, 0)           # no (more) tagged fields
        if flexible:
            p = put_i8(p, 0)
        self.out.size = p - self.out.data
        return 0

    cdef ParkedProduce make_parked(self, Reply reply, int16_t acks):
        cdef ParkedProduce parked = ParkedProduce.__new__(ParkedProduce)
        cdef Py_ssize_t place
        parked.kind = PARKED_PRODUCE
        parked.handler = self
        parked.reply = reply
        self.encode(reply)
        parked.encoded = PyBytes_FromStringAndSize(<const char*>self.out.data, self.out.size)
        parked.table = self.table
        parked.leaders = self.leaders
        parked.tags_at = self.tags_at
        parked.partitions = list(self.waiting)
        parked.all_replicas = acks == -1
        parked.with_log_start = reply.api_version >= 5
        parked.pending = <PendingAppend*>malloc(<size_t>len(self.waiting) * sizeof(PendingAppend))
        if parked.pending == NULL:
            raise MemoryError(f"{len(self.waiting)} appends that wait")
        for place in range(self.part_count):
            if self.parts[place].pending:
                parked.pending[parked.count].end_offset = self.parts[place].end_offset
                parked.pending[parked.count].position = self.parts[place].position
                parked.pending[parked.count].leader_epoch = self.parts[place].leader_epoch
                parked.pending[parked.count].moved = False
                parked.count += 1
        parked.left = parked.count
        return parked


cdef bint is_one_batch(const PartitionData* part) noexcept:
    """Return whether it is one batch by its length and its magic; this does not check that it is sound."""
    return (part.records_bytes >= BATCH_HEADER_BYTES and part.records[BATCH_MAGIC] == MAGIC_CURRENT
            and <Py_ssize_t>load_i32(part.records + BATCH_LENGTH) + LOG_OVERHEAD_BYTES == part.records_bytes)


cdef int16_t forbidden(const PartitionData* part, Partition partition, Reply reply, int16_t acks) except? -2:
    """Error that forbids an append to the partition, before the engine inspects the batch; 0 when allowed."""
    cdef int16_t attributes = 0
    cdef ProducerEntry* producer
    if part.records_bytes >= BATCH_HEADER_BYTES:
        attributes = load_i16(part.records + BATCH_ATTRIBUTES)
    if attributes & ATTR_CODEC_MASK == CODEC_ZSTD and reply.api_version < 7:
        return ERROR_UNSUPPORTED_COMPRESSION_TYPE
    if partition.internal and reply.client_id != ADMIN_CLIENT_ID:
        return ERROR_INVALID_TOPIC_EXCEPTION
    if not partition.is_leader:
        return ERROR_NOT_LEADER_OR_FOLLOWER
    if acks == -1 and partition.progress.in_sync_count < partition.minimum_in_sync():
        return ERROR_NOT_ENOUGH_REPLICAS
    if attributes & ATTR_TRANSACTIONAL:
        # Only a coordinator can add the partition to the transaction; once it has begun in this log, it belongs.
        producer = partition.core.producers.find(load_i64(part.records + BATCH_PRODUCER_ID))
        if (
            producer == NULL
            or producer.txn_first_offset < 0
            or producer.producer_epoch != load_i16(part.records + BATCH_PRODUCER_EPOCH)
        ):
            return ERROR_TRANSACTION_ABORTABLE if reply.api_version >= 11 else ERROR_INVALID_TXN_STATE
    return ERROR_NONE


@cython.final
cdef class DeferredProduce:
    def __dealloc__(self):
        free(self.topics)
        free(self.parts)

    cdef int save(self, const uint8_t* body) except -1:
        cdef ProduceHandler handler = self.handler
        cdef Py_ssize_t i
        self.topics, self.topic_count, self.topic_capacity = handler.topics, handler.topic_count, handler.topic_capacity
        self.parts, self.part_count, self.part_capacity = handler.parts, handler.part_count, handler.part_capacity
        handler.topics = NULL
        handler.parts = NULL
        handler.topic_count = handler.topic_capacity = handler.part_count = handler.part_capacity = 0
        if body != self.body:
            for i in range(self.topic_count):
                self.topics[i].key = self.body + (self.topics[i].key - body)
            for i in range(self.part_count):
                if self.parts[i].records_bytes > 0:
                    self.parts[i].records = self.body + (self.parts[i].records - body)
        self.named_total = handler.named_total
        self.waiting = handler.waiting
        self.refusals = handler.refusals
        handler.waiting = []
        handler.refusals = {}
        return 0

    cdef int restore(self) except -1:
        cdef ProduceHandler handler = self.handler
        free(handler.topics)
        free(handler.parts)
        handler.topics, handler.topic_count, handler.topic_capacity = self.topics, self.topic_count, self.topic_capacity
        handler.parts, handler.part_count, handler.part_capacity = self.parts, self.part_count, self.part_capacity
        self.topics = NULL
        self.parts = NULL
        handler.named_total = self.named_total
        handler.waiting = self.waiting
        handler.refusals = self.refusals
        return 0

    cdef int wait(self, Py_ssize_t place) except -1:
        if not self.handler.paused:
            return self.submit(place)
        self.place = place
        self.check = None
        # The bytes that the client has sent are charged, even when the connection is closed behind it.
        return self.handler.slices.later(self.reply, self.steps(), True)

    def steps(self):
        """Process the rest of the request, slice by slice. Loop's thread."""
        cdef Py_ssize_t stopped
        while True:
            self.restore()
            stopped = self.handler.append_from(self.reply, self.acks, self.place, None)
            if stopped == self.handler.part_count:
                self.handler.conclude(self.reply, self.acks, self.timeout_ms)
                return
            self.save(self.body)
            if not self.handler.paused:
                self.submit(stopped)
                return
            self.place = stopped
            yield

    cdef int submit(self, Py_ssize_t place) except -1:
        """Have the batch at `place` checked."""
        cdef PartitionData* part = self.parts + place
        cdef bint by_id = self.reply.api_version >= BY_ID_FROM
        cdef TopicData* data = self.topics
        cdef Partition partition
        while data.first + data.count <= place:
            data += 1
        partition = self.handler.table.find(data.key, data.key_bytes, by_id).at(part.index)
        self.place = place
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
        cdef Py_ssize_t stopped
        self.restore()
        stopped = self.handler.append_from(self.reply, self.acks, self.place, self.check)
        if stopped < self.handler.part_count:
            self.save(self.body)
            self.wait(stopped)
        else:
            self.handler.conclude(self.reply, self.acks, self.timeout_ms)
        return 0
