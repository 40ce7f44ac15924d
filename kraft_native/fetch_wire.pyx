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

from kraft_native.errors cimport ERROR_FENCED_LEADER_EPOCH, ERROR_NOT_LEADER_OR_FOLLOWER
from kraft_native.fetch_entry cimport FetchEntry, FetchSpec, new_entry
from kraft_native.reply cimport put_reply_header
from kraft_native.span cimport span_bytes, span_i8, span_i32, span_i64, span_uvarint
from kraft_native.fields cimport (
    UUID_BYTES, UVARINT_BYTES_MAX, put_bytes, put_count, put_i8, put_i16, put_i32, put_i64, put_string,
    read_count, read_string, read_tag, skip_tags,
)
from kraft_native.varint cimport put_uvarint

cdef enum:
    FLEXIBLE_FROM = 12
    LEADER_REPORTED_FROM = 16
    # Bytes of a partition in a reply besides records and aborted transactions, and bytes of one such transaction.
    PART_REPLY_BYTES_MAX = 96
    ABORTED_REPLY_BYTES = 17


# --- the request


cdef bint decode_fetch(Span* body, int version, FetchParams* params, list entries, list forgotten) except -1:
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef int32_t topic_count
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
    if version >= 7 and (span_i32(body, &params.session_id) < 0 or span_i32(body, &params.session_epoch) < 0):
        return False
    if read_count(body, flexible, 2, &topic_count) < 0 or topic_count < 0:
        return False
    while topic_count > 0:
        if not decode_topic(body, version, entries):
            return False
        topic_count -= 1
    if version >= 7 and not decode_forgotten(body, version, forgotten):
        return False
    if version >= 11 and (
        read_string(body, flexible, &params.rack, &params.rack_bytes) < 0 or params.rack_bytes < 0
    ):
        return False
    return not flexible or decode_tags(body, version, params)


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


cdef bint decode_topic(Span* body, int version, list entries) except -1:
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef bytes topic = decode_topic_key(body, version)
    cdef FetchSpec spec
    cdef int32_t count
    if (
        topic is None
        or read_count(body, flexible, 16, &count) < 0
        or count < 0
        or len(entries) + count > FETCH_PARTITIONS_MAX
    ):
        return False
    spec.current_leader_epoch = spec.last_fetched_epoch = -1
    spec.log_start_offset = -1
    while count > 0:
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
        count -= 1
    return skip_tags(body, flexible) == 0


cdef bint decode_forgotten(Span* body, int version, list forgotten) except -1:
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef bytes topic
    cdef int32_t topic_count, count, index
    if read_count(body, flexible, 2, &topic_count) < 0 or topic_count < 0:
        return False
    while topic_count > 0:
        topic = decode_topic_key(body, version)
        if (
            topic is None
            or read_count(body, flexible, 4, &count) < 0
            or count < 0
            or len(forgotten) + count > FETCH_PARTITIONS_MAX
        ):
            return False
        while count > 0:
            if span_i32(body, &index) < 0:
                return False
            forgotten.append((topic, index))
            count -= 1
        if skip_tags(body, flexible) < 0:
            return False
        topic_count -= 1
    return True


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
    cdef int version = reply.api_version
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef list parts = []
    cdef Py_ssize_t cut = 0, at = 0, end, count
    cdef set leaders = set() if version >= LEADER_REPORTED_FROM else None
    cdef bytes tags
    cdef uint8_t* p
    out.size = 0
    out.reserve(64)
    p = out.data
    p += put_reply_header(p, reply.correlation_id, 1 if flexible else 0)
    p = put_i32(p, reply.throttle_ms)
    if version >= 7:
        p = put_i16(p, error)
        p = put_i32(p, session_id)
    p = put_count(p, flexible, count_runs(entries))
    out.size = p - out.data
    while at < len(entries):
        end = run_end(entries, at, &count)
        if count > 0:
            cut = encode_run(out, version, entries, at, end, count, leaders, parts, cut)
        at = end
    if flexible:
        tags = table.endpoint_tags(leaders) if leaders else b"\0"
        out.reserve(out.size + PyBytes_GET_SIZE(tags))
        p = put_bytes(out.data + out.size, <const uint8_t*>PyBytes_AS_STRING(tags), PyBytes_GET_SIZE(tags))
        out.size = p - out.data
    if out.size > cut:
        parts.append(PyBytes_FromStringAndSize(<const char*>out.data + cut, out.size - cut))
    return parts


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


cdef Py_ssize_t encode_run(Scratch out, int version, list entries, Py_ssize_t start, Py_ssize_t end, Py_ssize_t count,
                           set leaders, list parts, Py_ssize_t cut) except -1:
    """Encode one topic. Return the place in `out` up to which everything is in `parts`."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef FetchEntry entry = entries[start]
    cdef bytes topic = entry.topic
    cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(topic), at
    cdef uint8_t* p
    out.reserve(out.size + topic_bytes + 2 * UVARINT_BYTES_MAX)
    p = out.data + out.size
    if version >= FETCH_BY_ID_FROM:
        p = put_bytes(p, <const uint8_t*>PyBytes_AS_STRING(topic), UUID_BYTES)
    else:
        p = put_string(p, flexible, <const uint8_t*>PyBytes_AS_STRING(topic), topic_bytes)
    p = put_count(p, flexible, <int32_t>count)
    out.size = p - out.data
    for at in range(start, end):
        entry = entries[at]
        if not entry.goes_out:
            continue
        encode_head(out, version, entry)
        if entry.records is not None:
            parts.append(PyBytes_FromStringAndSize(<const char*>out.data + cut, out.size - cut))
            parts.append(entry.records)
            cut = out.size
        if flexible:
            encode_partition_tags(out, version, entry, leaders)
    if flexible:
        out.reserve(out.size + 1)
        out.size = put_i8(out.data + out.size, 0) - out.data
    return cut


cdef int encode_head(Scratch out, int version, FetchEntry entry) except -1:
    """Encode a partition up to its records, their size included."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef Py_ssize_t aborted_count = -1 if entry.aborted is None else len(entry.aborted)
    cdef uint8_t* p
    out.reserve(out.size + PART_REPLY_BYTES_MAX + max(aborted_count, 0) * ABORTED_REPLY_BYTES)
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


cdef int encode_partition_tags(Scratch out, int version, FetchEntry entry, set leaders) except -1:
    cdef int32_t leader_id = entry.leader_id if entry.partition is None else entry.partition.leader_id
    cdef int32_t leader_epoch = entry.leader_epoch if entry.partition is None else entry.partition.leader_epoch
    cdef bint with_leader = leaders is not None and (entry.partition is not None or leader_epoch >= 0) and (
        entry.error == ERROR_NOT_LEADER_OR_FOLLOWER or entry.error == ERROR_FENCED_LEADER_EPOCH)
    cdef uint8_t* p
    out.reserve(out.size + PART_REPLY_BYTES_MAX)
    p = out.data + out.size
    p = put_uvarint(p, <uint32_t>((entry.diverging_epoch >= 0) + with_leader))
    if entry.diverging_epoch >= 0:
        p = put_i8(put_i8(p, 0), 13)   # tag, bytes
        p = put_i32(p, entry.diverging_epoch)
        p = put_i64(p, entry.diverging_end)
        p = put_i8(p, 0)
    if with_leader:
        p = put_i8(put_i8(p, 1), 9)
        p = put_i32(p, leader_id)
        p = put_i32(p, leader_epoch)
        p = put_i8(p, 0)
        if leader_id >= 0:
            leaders.add(leader_id)
    out.size = p - out.data
    return 0
