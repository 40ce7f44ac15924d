"""ShareFetch (78) and ShareAcknowledge (79) on the wire, versions 1 and 2.

ShareFetch:
- group, member, session epoch, max wait, min bytes, max bytes, max records, batch size,
  [V2 acquire mode, whether locks are renewed], topics, forgotten topics;
- per partition: index, acknowledgements, each of first offset, last offset, types.
- Reply: throttle time, error, message, lock time, topics, addresses of leaders; per partition: index, error, message,
  error of the acknowledgements, message, leader, records, acquired records.

ShareAcknowledge:
- group, member, session epoch, [V2 whether locks are renewed], topics.
- Reply: throttle time, error, message, [V2 lock time], topics, addresses of leaders; per partition: index, error,
  message, leader.

One type in an acknowledgement is for all of its offsets; else there is one for each. Equal neighbours become one
`Change`. Errors within the acknowledgements of a partition refuse these, not the request.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cimport cython

from kraft_native.base.fault cimport (
    ERROR_FENCED_LEADER_EPOCH, ERROR_INVALID_REQUEST, ERROR_NONE, ERROR_NOT_LEADER_OR_FOLLOWER,
)
from kraft_native.base.span cimport span_bytes, span_i8, span_i32, span_i64
from kraft_native.file.buffer cimport make_room
from kraft_native.request.fields cimport (
    UUID_BYTES, UVARINT_BYTES_MAX, put_bytes, put_count, put_i8, put_i16, put_i32, put_i64, read_count, read_string,
    skip_tags,
)
from kraft_native.request.reply cimport put_reply_header
from kraft_native.share.transitions cimport EVENT_RENEW

cdef enum:
    CHANGES_MAX = 100_000          # in a request
    TYPES_PER_CHANGE = 16          # this many types of single records count as a change
    PART_BYTES_MAX = 64            # of a partition in a reply, besides records and acquired records
    ACQUIRED_BYTES = 19
    OFFSET_MAX = 0x7FFFFFFFFFFFFFFE


@cython.final
cdef class SharePart:
    def __dealloc__(self):
        free(self.changes)
        free(self.acquired)

    cdef int add(self, int64_t first, int64_t last, int event) except -1:
        cdef Py_ssize_t capacity
        cdef Change* grown
        if self.change_count > 0:
            grown = &self.changes[self.change_count - 1]
            if grown.event == event and grown.last + 1 == first:
                grown.last = last
                return 0
        if self.change_count == self.capacity:
            capacity = max(2 * self.capacity, <Py_ssize_t>4)
            grown = <Change*>realloc(self.changes, <size_t>capacity * sizeof(Change))
            if grown == NULL:
                raise MemoryError(f"{capacity} acknowledgements")
            self.changes = grown
            self.capacity = capacity
        self.changes[self.change_count].first = first
        self.changes[self.change_count].last = last
        self.changes[self.change_count].event = event
        self.change_count += 1
        return 0

    cdef int keep_acquired(self) except -1:
        cdef Py_ssize_t count = self.source.window.acquired_entries
        cdef size_t size = <size_t>count * sizeof(Acquired)
        free(self.acquired)
        self.acquired = NULL
        self.acquired_entries = 0
        if count > 0:
            self.acquired = <Acquired*>malloc(size)
            if self.acquired == NULL:
                raise MemoryError(f"{count} entries of acquired records")
            memcpy(self.acquired, self.source.window.acquired, size)
            self.acquired_entries = count
            self.acquired_first = self.acquired[0].first
            self.acquired_last = self.acquired[count - 1].last
        return 0

    cdef bint goes_out(self) noexcept:
        return self.acknowledges or self.error != ERROR_NONE or self.acquired_entries > 0


cdef SharePart new_part(bytes topic_id, int32_t index):
    cdef SharePart part = SharePart.__new__(SharePart)
    part.topic_id = topic_id
    part.index = index
    part.leader_id = part.leader_epoch = -1
    return part


# --- requests


cdef bint decode_share(Span* body, bint is_fetch, int version, ShareParams* params, list names, list parts,
                       list forgotten) except -1:
    cdef int32_t topic_count, changes_left = CHANGES_MAX
    cdef int8_t renews = 0
    cdef const uint8_t* text
    cdef Py_ssize_t size
    for _ in range(2):
        if read_string(body, True, &text, &size) < 0:
            return False
        names.append(None if size < 0 else PyBytes_FromStringAndSize(<const char*>text, size))
    params.acquire_mode = 0
    if span_i32(body, &params.session_epoch) < 0:
        return False
    if is_fetch and (
        span_i32(body, &params.max_wait_ms) < 0 or span_i32(body, &params.min_bytes) < 0
        or span_i32(body, &params.max_bytes) < 0 or span_i32(body, &params.max_records) < 0
        or span_i32(body, &params.batch_size) < 0
        or (version >= 2 and span_i8(body, &params.acquire_mode) < 0)
    ):
        return False
    if version >= 2 and span_i8(body, &renews) < 0:
        return False
    params.renews = renews != 0
    if read_count(body, True, UUID_BYTES + 2, &topic_count) < 0 or topic_count < 0:
        return False
    for _ in range(topic_count):
        if not decode_topic(body, params.renews, &changes_left, parts):
            return False
    if is_fetch and not decode_forgotten(body, forgotten):
        return False
    return skip_tags(body, True) == 0


cdef bint decode_topic(Span* body, bint renews, int32_t* changes_left, list parts) except -1:
    cdef const uint8_t* key
    cdef int32_t count, index
    cdef bytes topic_id
    cdef SharePart part
    if span_bytes(body, UUID_BYTES, &key) < 0 or read_count(body, True, 6, &count) < 0 or count < 0:
        return False
    if len(parts) + count > SHARE_PARTITIONS_MAX:
        return False
    topic_id = PyBytes_FromStringAndSize(<const char*>key, UUID_BYTES)
    for _ in range(count):
        if span_i32(body, &index) < 0:
            return False
        part = new_part(topic_id, index)
        if not decode_acknowledgements(body, renews, changes_left, part) or skip_tags(body, True) < 0:
            return False
        parts.append(part)
    return skip_tags(body, True) == 0


cdef bint decode_acknowledgements(Span* body, bint renews, int32_t* changes_left, SharePart part) except -1:
    cdef int32_t count, type_count, place
    cdef int64_t first, last, before = -1, end
    cdef const uint8_t* types
    cdef Py_ssize_t known
    if read_count(body, True, 18, &count) < 0 or count < 0:
        return False
    part.acknowledges = count > 0
    for _ in range(count):
        if (
            span_i64(body, &first) < 0 or span_i64(body, &last) < 0 or read_count(body, True, 1, &type_count) < 0
            or type_count < 0 or span_bytes(body, type_count, &types) < 0 or skip_tags(body, True) < 0
        ):
            return False
        known = part.change_count
        if first <= before or last < first or last > <int64_t>OFFSET_MAX or type_count == 0 or (
            type_count > 1 and last - first != type_count - 1
        ):
            part.acknowledge_error = ERROR_INVALID_REQUEST
            continue
        before = last
        for place in range(type_count):
            if types[place] > EVENT_RENEW or (types[place] == EVENT_RENEW and not renews):
                part.acknowledge_error = ERROR_INVALID_REQUEST
                break
            end = last if type_count == 1 else first + place
            part.add(first + place, end, types[place])
            part.renews = part.renews or types[place] == EVENT_RENEW
        changes_left[0] -= max(1, <int32_t>(part.change_count - known)) + type_count // TYPES_PER_CHANGE
        if changes_left[0] < 0:
            return False
    return True


cdef bint decode_forgotten(Span* body, list forgotten) except -1:
    cdef const uint8_t* key
    cdef int32_t topic_count, count, index
    cdef bytes topic_id
    if read_count(body, True, UUID_BYTES + 2, &topic_count) < 0 or topic_count < 0:
        return False
    for _ in range(topic_count):
        if span_bytes(body, UUID_BYTES, &key) < 0 or read_count(body, True, 4, &count) < 0 or count < 0:
            return False
        if len(forgotten) + count > SHARE_PARTITIONS_MAX:
            return False
        topic_id = PyBytes_FromStringAndSize(<const char*>key, UUID_BYTES)
        for _ in range(count):
            if span_i32(body, &index) < 0:
                return False
            forgotten.append((topic_id, index))
        if skip_tags(body, True) < 0:
            return False
    return True


# --- replies


cdef list encode_share(Reply reply, bint is_fetch, PartitionTable table, int16_t error, int64_t lock_ms, list parts,
                       Scratch out):
    cdef dict topics = {}
    cdef list pieces = [], members
    cdef set leaders = set()
    cdef SharePart part
    cdef bytes topic_id, endpoints
    cdef Py_ssize_t cut = 0
    cdef uint8_t* p
    for part in parts:
        if part.goes_out():
            members = topics.get(part.topic_id)
            if members is None:
                members = topics[part.topic_id] = []
            members.append(part)
    out.size = 0
    make_room(out, 64)
    p = out.data
    p += put_reply_header(p, reply.correlation_id, 1)
    p = put_i32(p, reply.throttle_ms)
    p = put_i16(p, error)
    p = put_i8(p, 0)                   # no message
    if is_fetch or reply.api_version >= 2:
        p = put_i32(p, <int32_t>min(lock_ms, <int64_t>0x7FFFFFFF))
    p = put_count(p, True, <int32_t>len(topics))
    out.size = p - out.data
    for topic_id, members in topics.items():
        make_room(out, out.size + UUID_BYTES + UVARINT_BYTES_MAX)
        p = put_bytes(out.data + out.size, <const uint8_t*>PyBytes_AS_STRING(topic_id), UUID_BYTES)
        out.size = put_count(p, True, <int32_t>len(members)) - out.data
        for part in members:
            if is_fetch:
                cut = encode_fetched(part, table, leaders, out, cut, pieces)
            else:
                encode_acknowledged(part, table, leaders, out)
        make_room(out, out.size + 1)
        out.size = put_i8(out.data + out.size, 0) - out.data
    endpoints = table.endpoint_array(leaders)
    make_room(out, out.size + PyBytes_GET_SIZE(endpoints) + 1)
    p = put_bytes(out.data + out.size, <const uint8_t*>PyBytes_AS_STRING(endpoints), PyBytes_GET_SIZE(endpoints))
    out.size = put_i8(p, 0) - out.data
    pieces.append(PyBytes_FromStringAndSize(<const char*>out.data + cut, out.size - cut))
    return pieces


cdef uint8_t* put_leader(uint8_t* p, SharePart part, int16_t error, PartitionTable table, set leaders) except NULL:
    """Encode the current leader, for a client that did not reach it; else zeros, as Kafka does."""
    cdef int32_t leader_id = 0, leader_epoch = 0
    if error == ERROR_NOT_LEADER_OR_FOLLOWER or error == ERROR_FENCED_LEADER_EPOCH:
        leader_id = table.named(part.leader_id if part.partition is None else part.partition.leader_id)
        leader_epoch = part.leader_epoch if part.partition is None else part.partition.leader_epoch
        if leader_id >= 0:
            leaders.add(leader_id)
    return put_i8(put_i32(put_i32(p, leader_id), leader_epoch), 0)


cdef Py_ssize_t encode_fetched(SharePart part, PartitionTable table, set leaders, Scratch out, Py_ssize_t cut,
                               list pieces) except -1:
    """Encode a partition of a ShareFetch. The bytes from `cut` on are not in `pieces` yet; returns the new `cut`."""
    cdef Py_ssize_t place, size = 0 if part.records is None else part.records.size
    cdef uint8_t* p
    make_room(out, out.size + PART_BYTES_MAX + part.acquired_entries * ACQUIRED_BYTES)
    p = put_i32(out.data + out.size, part.index)
    p = put_i8(put_i16(p, part.error), 0)
    p = put_i8(put_i16(p, part.acknowledge_error), 0)
    p = put_leader(p, part, part.error if part.error != ERROR_NONE else part.acknowledge_error, table, leaders)
    p = put_count(p, True, <int32_t>size)
    out.size = p - out.data
    if size > 0:
        pieces.append(PyBytes_FromStringAndSize(<const char*>out.data + cut, out.size - cut))
        pieces.append(part.records)
        cut = out.size
    p = put_count(p, True, <int32_t>part.acquired_entries)
    for place in range(part.acquired_entries):
        p = put_i64(p, part.acquired[place].first)
        p = put_i64(p, part.acquired[place].last)
        p = put_i8(put_i16(p, part.acquired[place].deliveries), 0)
    out.size = put_i8(p, 0) - out.data
    return cut


cdef int encode_acknowledged(SharePart part, PartitionTable table, set leaders, Scratch out) except -1:
    cdef uint8_t* p
    make_room(out, out.size + PART_BYTES_MAX)
    p = put_i32(out.data + out.size, part.index)
    p = put_i8(put_i16(p, part.acknowledge_error), 0)
    p = put_leader(p, part, part.acknowledge_error, table, leaders)
    out.size = put_i8(p, 0) - out.data
    return 0
