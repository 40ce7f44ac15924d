"""Produce requests as they arrive and leave: decoded into arrays of topics and partitions, and their replies encoded.

Reply per partition, fixed part: index int32, error int16, base offset int64, append time int64, log start int64 (V5).
"""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cimport cython

from kraft_native.base.fault cimport ERROR_NONE, ERROR_NOT_LEADER_OR_FOLLOWER
from kraft_native.base.span cimport span_bytes, span_i16, span_i32
from kraft_native.file.buffer cimport make_room
from kraft_native.request.fields cimport (
    UUID_BYTES, UVARINT_BYTES_MAX, put_bytes, put_count, put_i8, put_i16, put_i32, put_i64, put_string,
    read_blob, read_count, read_string, skip_tags,
)
from kraft_native.request.reply cimport put_reply_header
from kraft_native.serve.produce_wait cimport grown, put_leader, put_refusal

cdef enum:
    FLEXIBLE_FROM = 9
    PARTITIONS_MAX = 100_000       # of one request; a larger one is refused
    PARTITIONS_AT_ONCE = 1_024     # of one step of the encoding
    # Index, code, three numbers, counts of errors, null message, leader tag: one partition's bytes without errors.
    PART_REPLY_BYTES_MAX = 64


@cython.final
cdef class ProduceData:
    def __cinit__(self):
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

    # --- the request ------------------------------------------------------------------------------------------------

    cdef bint begin(self, Span* body, int version) except -1:
        cdef bint flexible = version >= FLEXIBLE_FROM
        self.topic_count = self.part_count = self.parts_left = 0
        self.transactional_place = -1
        self.identity_error = ERROR_NONE
        self.in_use = True
        if (
            read_string(body, flexible, &self.transactional_id, &self.transactional_id_bytes) < 0
            or span_i16(body, &self.acks) < 0
            or span_i32(body, &self.timeout_ms) < 0
            or read_count(body, flexible, 2, &self.topics_left) < 0
            or self.topics_left < 0
            or self.topics_left > PARTITIONS_MAX
        ):
            return False
        self.reserve(self.topics_left, self.topics_left)
        return True

    cdef int decode_some(self, Span* body, int version, Py_ssize_t end) except -2:
        cdef bint flexible = version >= FLEXIBLE_FROM
        cdef Py_ssize_t topics_end = self.topic_count + end - self.part_count      # topics without partitions cost, too
        while self.topics_left > 0 or self.parts_left > 0:
            if self.part_count >= end or self.topic_count >= topics_end:
                return DECODE_MORE
            if self.parts_left == 0 and not self.decode_topic(body, version):
                return DECODE_REFUSED
            if not self.decode_parts(body, flexible, end):
                return DECODE_REFUSED
            if self.parts_left == 0 and skip_tags(body, flexible) < 0:
                return DECODE_REFUSED
        return DECODE_DONE if skip_tags(body, flexible) == 0 else DECODE_REFUSED

    cdef bint decode_topic(self, Span* body, int version) except -1:
        cdef TopicData* topic = self.topics + self.topic_count
        cdef bint flexible = version >= FLEXIBLE_FROM
        cdef int32_t count
        if version >= PRODUCE_BY_ID_FROM:
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
        self.parts_left = count
        self.topic_count += 1
        self.topics_left -= 1
        return True

    cdef bint decode_parts(self, Span* body, bint flexible, Py_ssize_t end) except -1:
        cdef PartitionData* part
        while self.parts_left > 0 and self.part_count < end:
            part = self.parts + self.part_count
            if (
                span_i32(body, &part.index) < 0
                or read_blob(body, flexible, &part.records, &part.records_bytes) < 0
                or skip_tags(body, flexible) < 0
            ):
                return False
            part.base_offset = part.log_append_time_ms = part.log_start_offset = -1
            part.leader_id = part.leader_epoch = -1
            part.error = part.verdict = ERROR_NONE
            part.outdated = 0
            part.pending = False
            self.part_count += 1
            self.parts_left -= 1
        return True

    cdef int move(self, const uint8_t* body, const uint8_t* moved_to) except -1:
        cdef Py_ssize_t i
        if body == moved_to:
            return 0
        if self.transactional_id_bytes > 0:
            self.transactional_id = moved_to + (self.transactional_id - body)
        for i in range(self.topic_count):
            self.topics[i].key = moved_to + (self.topics[i].key - body)
        for i in range(self.part_count):
            if self.parts[i].records_bytes > 0:
                self.parts[i].records = moved_to + (self.parts[i].records - body)
        return 0

    cdef int clear(self) except -1:
        if self.waiting:
            self.waiting = []
        if self.refusals:
            self.refusals = {}
        if self.verified is not None:
            self.verified = None
        if self.permissions is not None:
            self.permissions = None
        self.named_total = 0
        self.in_use = False
        return 0

    # --- the reply --------------------------------------------------------------------------------------------------

    cdef int encode(self, Reply reply, PartitionTable table, RequestHandler counter, Scratch out) except -1:
        self.begin_reply(reply, out)
        while not self.encode_some(reply, table, counter, out):
            pass
        return self.end_reply(reply, table, out)

    cdef int begin_reply(self, Reply reply, Scratch out) except -1:
        cdef bint flexible = reply.api_version >= FLEXIBLE_FROM
        cdef uint8_t* p
        self.leaders = None
        self.encoded_topics = self.encoded_parts = 0
        out.size = 0
        make_room(out, 32)
        p = out.data
        p += put_reply_header(p, reply.correlation_id, 1 if flexible else 0)
        p = put_count(p, flexible, <int32_t>self.topic_count)
        out.size = p - out.data
        return 0

    cdef bint encode_some(self, Reply reply, PartitionTable table, RequestHandler counter, Scratch out) except -1:
        cdef Py_ssize_t end = min(self.part_count, self.encoded_parts + PARTITIONS_AT_ONCE)
        cdef Py_ssize_t topics_end = min(self.topic_count, self.encoded_topics + PARTITIONS_AT_ONCE)
        cdef TopicData* topic
        while self.encoded_topics < topics_end:
            topic = self.topics + self.encoded_topics
            if topic.count > 0 and topic.first >= end:
                return False           # the next call begins with it
            self.encode_topic(topic, reply.api_version, table, counter, out, end)
            if self.encoded_parts < topic.first + topic.count:
                return False
            self.encoded_topics += 1
        return self.encoded_topics == self.topic_count

    cdef int end_reply(self, Reply reply, PartitionTable table, Scratch out) except -1:
        cdef bint flexible = reply.api_version >= FLEXIBLE_FROM
        cdef bytes tags = b"\0"
        cdef uint8_t* p
        if self.leaders:
            tags = table.endpoint_tags(self.leaders)
        make_room(out, out.size + 4 + PyBytes_GET_SIZE(tags))
        p = put_i32(out.data + out.size, reply.throttle_ms)
        self.tags_at = p - out.data
        if flexible:
            p = put_bytes(p, <const uint8_t*>PyBytes_AS_STRING(tags), PyBytes_GET_SIZE(tags))
        out.size = p - out.data
        return 0

    cdef int name_leader(self, int32_t leader_id) except -1:
        if self.leaders is None:
            self.leaders = set()
        self.leaders.add(leader_id)
        return 0

    cdef int encode_topic(self, TopicData* topic, int version, PartitionTable table, RequestHandler counter,
                          Scratch out, Py_ssize_t end) except -1:
        """Encode the partitions of a topic that are not encoded yet, those before `end`."""
        cdef bint flexible = version >= FLEXIBLE_FROM
        cdef PartitionData* part
        cdef Py_ssize_t place
        cdef Py_ssize_t topic_end = topic.first + topic.count
        cdef uint8_t* p
        end = min(end, topic_end)
        make_room(out, out.size + topic.key_bytes + 2 * UVARINT_BYTES_MAX
                  + (end - self.encoded_parts) * PART_REPLY_BYTES_MAX)
        p = out.data + out.size
        if self.encoded_parts == topic.first:
            if version >= PRODUCE_BY_ID_FROM:
                p = put_bytes(p, topic.key, UUID_BYTES)
            else:
                p = put_string(p, flexible, topic.key, topic.key_bytes)
            p = put_count(p, flexible, <int32_t>topic.count)
        for place in range(self.encoded_parts, end):
            part = self.parts + place
            if part.error != ERROR_NONE:
                counter.count_error(part.error)
            p = put_i32(p, part.index)
            part.position = p - out.data
            p = put_i16(p, part.error)
            p = put_i64(p, part.base_offset)
            p = put_i64(p, part.log_append_time_ms)
            if version >= 5:
                p = put_i64(p, part.log_start_offset)
            if version >= 8:
                if self.refusals and place in self.refusals:
                    out.size = p - out.data
                    message, record_errors = self.refusals[place]
                    put_refusal(out, flexible, message, record_errors)
                    make_room(out, out.size + (end - place) * PART_REPLY_BYTES_MAX)
                    p = out.data + out.size
                else:
                    p = put_count(p, flexible, 0)
                    p = put_string(p, flexible, NULL, -1)
            if not flexible:
                continue
            if (part.error == ERROR_NOT_LEADER_OR_FOLLOWER and part.leader_epoch >= 0
                    and version >= PRODUCE_LEADERS_FROM):
                part.leader_id = table.named(part.leader_id)
                p = put_leader(p, part.leader_id, part.leader_epoch)
                if part.leader_id >= 0:
                    self.name_leader(part.leader_id)
            p = put_i8(p, 0)           # no (more) tagged fields
        self.encoded_parts = end
        if flexible and end == topic_end:
            p = put_i8(p, 0)
        out.size = p - out.data
        return 0
