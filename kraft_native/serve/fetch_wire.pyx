"""Fetch on the wire, versions 4 to 18.

Request:
- [replica id, to V14] max wait, min bytes, max bytes, isolation,
- [V7 session id, session epoch], topics, [V7 forgotten topics], [V11 rack];
- tags (V12): 0 cluster id, 1 replica state (V15).
- Per partition: index, [V9 current leader epoch], fetch offset, [V12 last fetched epoch], [V5 log start], max bytes.

Reply:
- throttle time, [V7 error, session id], topics, tags: 0 node endpoints (V16).
- Per partition: index, error, high watermark, last stable offset, [V5 log start], aborted transactions,
  [V11 preferred replica], records;
- tags (V12): 0 diverging epoch, 1 current leader (from V16).

Topics are named by id from version 13.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from kraft_native.base.fault cimport ERROR_FENCED_LEADER_EPOCH, ERROR_NOT_LEADER_OR_FOLLOWER
from kraft_native.base.span cimport Span, span_bytes, span_i8, span_i32, span_i64, span_of, span_uvarint
from kraft_native.base.varint cimport put_uvarint
from kraft_native.file.buffer cimport make_room
from kraft_native.request.fields cimport (
    UUID_BYTES, UVARINT_BYTES_MAX, put_bytes, put_count, put_i8, put_i16, put_i32, put_i64, put_string,
    read_count, read_string, read_tag, skip_tags,
)
from kraft_native.request.reply cimport put_reply_header
from kraft_native.serve.fetch_entry cimport FetchEntry, FetchSpec, new_entry

cdef enum:
    FLEXIBLE_FROM = 12
    # Parts of a request, in their order.
    PART_HEAD = 0
    PART_TOPICS = 1
    PART_FORGOTTEN = 2
    PART_END = 3
    LEADER_REPORTED_FROM = 16
    # Bytes of a partition in a reply besides records and aborted transactions, and bytes of one such transaction.
    PART_REPLY_BYTES_MAX = 96
    ABORTED_REPLY_BYTES = 17


# --- the request


cdef FetchCursor fetch_cursor(const uint8_t* body, Py_ssize_t body_bytes) noexcept:
    cdef FetchCursor at
    at.body = span_of(body, body_bytes)
    at.part = PART_HEAD
    at.topics_left = 0
    at.partitions_left = -1
    return at


cdef Py_ssize_t partition_bytes_min(int version) noexcept:
    return 16 + 8 * (version >= 5) + 4 * (version >= 9) + 5 * (version >= FLEXIBLE_FROM)


cdef int decode_fetch(FetchCursor* at, int version, FetchParams* params, list entries, list forgotten,
                      Py_ssize_t count_max) except -1:
    cdef bint flexible = version >= FLEXIBLE_FROM
    if at.part == PART_HEAD:
        if not decode_head(&at.body, version, params) or not begin_topics(at, flexible, PART_TOPICS):
            return FETCH_MALFORMED
    while at.part == PART_TOPICS:
        if count_max <= 0:
            return FETCH_DECODES
        if at.topics_left == 0 and at.partitions_left < 0:
            if version < 7:
                at.part = PART_END
            elif not begin_topics(at, flexible, PART_FORGOTTEN):
                return FETCH_MALFORMED
        elif not decode_topic(at, version, entries, &count_max):
            return FETCH_MALFORMED
    while at.part == PART_FORGOTTEN:
        if count_max <= 0:
            return FETCH_DECODES
        if at.topics_left == 0 and at.partitions_left < 0:
            at.part = PART_END
        elif not decode_forgotten(at, version, forgotten, &count_max):
            return FETCH_MALFORMED
    if version >= 11 and (
        read_string(&at.body, flexible, &params.rack, &params.rack_bytes) < 0 or params.rack_bytes < 0
    ):
        return FETCH_MALFORMED
    return FETCH_DECODED if not flexible or decode_tags(&at.body, version, params) else FETCH_MALFORMED


cdef bint decode_head(Span* body, int version, FetchParams* params) noexcept:
    params.replica_id = -1
    params.broker_epoch = -1
    params.session_id = 0
    params.session_epoch = -1
    params.rack = NULL
    params.rack_bytes = 0
    if (
        (version <= 14 and span_i32(body, &params.replica_id) < 0)
        or span_i32(body, &params.max_wait_ms) < 0
        or span_i32(body, &params.min_bytes) < 0
        or span_i32(body, &params.max_bytes) < 0
        or span_i8(body, &params.isolation) < 0
        or not 0 <= params.isolation <= 1
    ):
        return False
    return version < 7 or (span_i32(body, &params.session_id) == 0 and span_i32(body, &params.session_epoch) == 0)


cdef bint begin_topics(FetchCursor* at, bint flexible, int part) noexcept:
    at.part = part
    return (read_count(&at.body, flexible, 2, &at.topics_left) == 0 and 0 <= at.topics_left <= FETCH_PARTITIONS_MAX)


cdef bytes decode_topic_key(Span* body, int version):
    """Decode the topic's name or id; None when it is missing."""
    cdef const uint8_t* key = NULL
    cdef Py_ssize_t key_bytes = UUID_BYTES
    if version >= FETCH_BY_ID_FROM:
        if span_bytes(body, UUID_BYTES, &key) < 0:
            return None
    elif read_string(body, version >= FLEXIBLE_FROM, &key, &key_bytes) < 0 or key_bytes < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*>key, key_bytes)


cdef bint begin_partitions(FetchCursor* at, bint flexible, Py_ssize_t bytes_min, Py_ssize_t known) noexcept:
    at.topics_left -= 1
    return (read_count(&at.body, flexible, bytes_min, &at.partitions_left) == 0 and at.partitions_left >= 0
            and known + at.partitions_left <= FETCH_PARTITIONS_MAX)


cdef bint end_topic(FetchCursor* at, bint flexible) noexcept:
    if at.partitions_left > 0:
        return True
    at.partitions_left = -1
    return skip_tags(&at.body, flexible) == 0


cdef bint decode_topic(FetchCursor* at, int version, list entries, Py_ssize_t* count_max) except -1:
    """Decode the next topic, or continue with its partitions. Of a topic with partitions at least one is decoded: the
    last entry has the topic's key for the next call."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef Span* body = &at.body
    cdef FetchSpec spec
    cdef bytes topic
    count_max[0] -= 1
    if at.partitions_left < 0:
        topic = decode_topic_key(body, version)
        if topic is None or not begin_partitions(at, flexible, 16, len(entries)):
            return False
    else:
        topic = (<FetchEntry>entries[len(entries) - 1]).topic
    spec.current_leader_epoch = spec.last_fetched_epoch = -1
    spec.log_start_offset = -1
    while at.partitions_left > 0:
        if (
            span_i32(body, &spec.index) < 0
            or (version >= 9 and span_i32(body, &spec.current_leader_epoch) < 0)
            or span_i64(body, &spec.fetch_offset) < 0
            or (version >= 12 and span_i32(body, &spec.last_fetched_epoch) < 0)
            or (version >= 5 and span_i64(body, &spec.log_start_offset) < 0)
            or span_i32(body, &spec.bytes_max) < 0
            or skip_tags(body, flexible) < 0
        ):
            return False
        entries.append(new_entry(topic, version >= FETCH_BY_ID_FROM, &spec))
        at.partitions_left -= 1
        count_max[0] -= 1
        if count_max[0] <= 0:
            break
    return end_topic(at, flexible)


cdef bint decode_forgotten(FetchCursor* at, int version, list forgotten, Py_ssize_t* count_max) except -1:
    """Decode the next forgotten topic, or continue with its partitions, as `decode_topic` does."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef int32_t index
    cdef bytes topic
    count_max[0] -= 1
    if at.partitions_left < 0:
        topic = decode_topic_key(&at.body, version)
        if topic is None or not begin_partitions(at, flexible, 4, len(forgotten)):
            return False
    else:
        topic = forgotten[len(forgotten) - 1][0]
    while at.partitions_left > 0:
        if span_i32(&at.body, &index) < 0:
            return False
        forgotten.append((topic, index))
        at.partitions_left -= 1
        count_max[0] -= 1
        if count_max[0] <= 0:
            break
    return end_topic(at, flexible)


cdef bint decode_tags(Span* body, int version, FetchParams* params) except -1:
    cdef uint32_t count, tag
    cdef Span value
    if span_uvarint(body, &count) < 0:
        return False
    while count > 0:
        if read_tag(body, &tag, &value) < 0:
            return False
        if tag == 1 and version >= 15 and (
            span_i32(&value, &params.replica_id) < 0
            or span_i64(&value, &params.broker_epoch) < 0
            or skip_tags(&value, True) < 0
        ):
            return False
        count -= 1
    return True


# --- the reply


cdef list encode_fetch(Reply reply, PartitionTable table, int16_t error, int32_t session_id, list entries,
                       Scratch out):
    cdef FetchEncoding place = begin_encoding(reply, error, session_id, entries, out)
    cdef list parts = []
    encode_some(&place, reply.api_version, table, entries, out, parts, len(entries))
    end_encoding(&place, reply.api_version, table, entries, out, parts)
    return parts


cdef FetchEncoding begin_encoding(Reply reply, int16_t error, int32_t session_id, list entries, Scratch out) except *:
    cdef int version = reply.api_version
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef FetchEncoding place
    cdef uint8_t* p
    place.at = place.run_end = place.cut = 0
    place.names_leaders = False
    out.size = 0
    make_room(out, 64)
    p = out.data
    p += put_reply_header(p, reply.correlation_id, 1 if flexible else 0)
    p = put_i32(p, reply.throttle_ms)
    if version >= 7:
        p = put_i16(p, error)
        p = put_i32(p, session_id)
    p = put_count(p, flexible, count_runs(entries))
    out.size = p - out.data
    return place


cdef bint encode_some(FetchEncoding* place, int version, PartitionTable table, list entries, Scratch out,
                      list parts, Py_ssize_t count_max) except -1:
    cdef Py_ssize_t end, count
    while place.at < len(entries) and count_max > 0:
        if place.at == place.run_end:
            place.run_end = run_end(entries, place.at, &count)
            if count == 0:
                count_max -= place.run_end - place.at
                place.at = place.run_end
                continue
            encode_topic(out, version, entries[place.at], count)
        end = min(place.run_end, place.at + count_max)
        count_max -= end - place.at
        encode_entries(place, end, version, table, entries, out, parts)
        if place.at == place.run_end and version >= FLEXIBLE_FROM:
            make_room(out, out.size + 1)
            out.size = put_i8(out.data + out.size, 0) - out.data
    return place.at < len(entries)


cdef int end_encoding(FetchEncoding* place, int version, PartitionTable table, list entries, Scratch out,
                      list parts) except -1:
    cdef bytes tags
    cdef uint8_t* p
    if version >= FLEXIBLE_FROM:
        tags = table.endpoint_tags(named_leaders(entries)) if place.names_leaders else b"\0"
        make_room(out, out.size + PyBytes_GET_SIZE(tags))
        p = put_bytes(out.data + out.size, <const uint8_t*>PyBytes_AS_STRING(tags), PyBytes_GET_SIZE(tags))
        out.size = p - out.data
    if out.size > place.cut:
        parts.append(PyBytes_FromStringAndSize(<const char*>out.data + place.cut, out.size - place.cut))
    return 0


cdef set named_leaders(list entries):
    """Return the leaders that the encoded entries name."""
    cdef set leaders = set()
    cdef FetchEntry entry
    for entry in entries:
        if entry.goes_out and entry.named_leader >= 0:
            leaders.add(entry.named_leader)
    return leaders


cdef Py_ssize_t run_end(list entries, Py_ssize_t start, Py_ssize_t* included) noexcept:
    """End of the entries of one topic from `start` on, with the count of those that go into the reply."""
    cdef FetchEntry first = entries[start], entry
    cdef Py_ssize_t at = start
    included[0] = 0
    while at < len(entries):
        entry = entries[at]
        if entry.topic is not first.topic and entry.topic != first.topic:
            break
        included[0] += entry.goes_out
        at += 1
    return at


cdef int32_t count_runs(list entries) noexcept:
    """Count the topics of the reply. One that comes again after others counts again."""
    cdef Py_ssize_t at = 0, count
    cdef int32_t runs = 0
    while at < len(entries):
        at = run_end(entries, at, &count)
        runs += count > 0
    return runs


cdef int encode_topic(Scratch out, int version, FetchEntry entry, Py_ssize_t count) except -1:
    """Encode a topic up to its partitions, their count included."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef bytes topic = entry.topic
    cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(topic)
    cdef uint8_t* p
    out.reserve(out.size + topic_bytes + 2 * UVARINT_BYTES_MAX)
    p = out.data + out.size
    if version >= FETCH_BY_ID_FROM:
        p = put_bytes(p, <const uint8_t*>PyBytes_AS_STRING(topic), UUID_BYTES)
    else:
        p = put_string(p, flexible, <const uint8_t*>PyBytes_AS_STRING(topic), topic_bytes)
    p = put_count(p, flexible, <int32_t>count)
    out.size = p - out.data
    return 0


cdef int encode_entries(FetchEncoding* place, Py_ssize_t end, int version, PartitionTable table, list entries,
                        Scratch out, list parts) except -1:
    """Encode the entries before `end` of the current topic."""
    cdef FetchEntry entry
    while place.at < end:
        entry = entries[place.at]
        place.at += 1
        if not entry.goes_out:
            continue
        encode_head(out, version, entry)
        if entry.records is not None:
            parts.append(PyBytes_FromStringAndSize(<const char*>out.data + place.cut, out.size - place.cut))
            parts.append(entry.records)
            place.cut = out.size
        if version >= FLEXIBLE_FROM:
            encode_partition_tags(place, version, out, table, entry)
    return 0


cdef int encode_head(Scratch out, int version, FetchEntry entry) except -1:
    """Encode a partition up to its records, their size included."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef Py_ssize_t aborted_count = -1 if entry.aborted is None else len(entry.aborted)
    cdef uint8_t* p
    make_room(out, out.size + PART_REPLY_BYTES_MAX + max(aborted_count, 0) * ABORTED_REPLY_BYTES)
    p = out.data + out.size
    p = put_i32(p, entry.spec.index)
    p = put_i16(p, entry.error)
    p = put_i64(p, entry.high_watermark)
    p = put_i64(p, entry.last_stable_offset)
    if version >= 5:
        p = put_i64(p, entry.log_start_offset)
    p = put_count(p, flexible, <int32_t>aborted_count)
    if aborted_count > 0:
        for producer_id, first_offset, _, _ in entry.aborted:
            p = put_i64(p, producer_id)
            p = put_i64(p, first_offset)
            if flexible:
                p = put_i8(p, 0)
    if version >= 11:
        p = put_i32(p, entry.preferred)
    p = put_count(p, flexible, <int32_t>entry.size())
    out.size = p - out.data
    return 0


cdef int encode_partition_tags(FetchEncoding* place, int version, Scratch out, PartitionTable table,
                               FetchEntry entry) except -1:
    cdef int32_t leader_id = entry.leader_id if entry.partition is None else entry.partition.leader_id
    cdef int32_t leader_epoch = entry.leader_epoch if entry.partition is None else entry.partition.leader_epoch
    cdef bint with_leader = version >= LEADER_REPORTED_FROM and (entry.partition is not None or leader_epoch >= 0) and (
        entry.error == ERROR_NOT_LEADER_OR_FOLLOWER or entry.error == ERROR_FENCED_LEADER_EPOCH)
    cdef uint8_t* p
    entry.named_leader = -1
    make_room(out, out.size + PART_REPLY_BYTES_MAX)
    p = out.data + out.size
    p = put_uvarint(p, <uint32_t>((entry.diverging_epoch >= 0) + with_leader))
    if entry.diverging_epoch >= 0:
        p = put_i8(put_i8(p, 0), 13)   # tag, bytes
        p = put_i32(p, entry.diverging_epoch)
        p = put_i64(p, entry.diverging_end)
        p = put_i8(p, 0)
    if with_leader:
        leader_id = table.named(leader_id)
        p = put_i8(put_i8(p, 1), 9)
        p = put_i32(p, leader_id)
        p = put_i32(p, leader_epoch)
        p = put_i8(p, 0)
        entry.named_leader = leader_id
        place.names_leaders |= leader_id >= 0
    out.size = p - out.data
    return 0
