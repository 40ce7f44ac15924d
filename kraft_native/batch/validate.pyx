"""Checks and changes of a batch by the leader before it is stored.

The order of the checks is Kafka's (ProduceRequest, UnifiedLog.analyzeAndValidateRecords, LogValidator), because the
first one that fails decides the code. Checks marked * are made for clients only, + not for Raft's own batches.

| what is wrong | code |
|---|---|
| length field below 14, magic below 0 or above 2, also in what follows the batch | 2 |
| the batch is cut off, or there is none; magic 0 or 1; a second whole batch follows | 87 |
| shorter than a header | 2 |
| * base offset not 0 | 87 |
| larger than max.message.bytes | 10 |
| CRC | 2 |
| codec 5 to 7 | 2 (Kafka: -1) |
| record count below 1, or not last offset delta + 1 | 87 |
| * control batch; producer id without a sequence | 87 |
| payload cannot be decompressed | 2 (Kafka: -1) |
| payload becomes larger than the limits | 10 (Kafka has no limit) |
| a record is malformed, or bytes are left after the last one | 87 |
| + no key where one is required | 87, with the records |
| + time out of range, or LogAppendTime claimed on a LogAppendTime topic | 32, with the records |
| larger than max.message.bytes after it was encoded again | 10 |

Stricter than Kafka on purpose, because its Java consumers could not read the batch: lengths below -1, and records of a
compressed batch whose fields do not fill their length. As lenient as Kafka: trailing bytes that are no whole batch are
dropped; inner offset deltas of an uncompressed batch and record attributes may be anything.

Changes: the maximum timestamp and the timestamp type (the CRC is then derived from the old one in constant time). The
records are encoded again in two cases: the topic's codec differs from the batch's, or a compressed batch does not
number its records 0, 1, 2 ... Control batches keep their codec.
"""

cimport cython

from libc.stdint cimport INT64_MAX, int16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kraft_native.base.bytes_be cimport load_i32, store_u32
from kraft_native.base.crc cimport crc32c, crc32c_combine
from kraft_native.base.fault cimport (
    ERROR_CORRUPT_MESSAGE, ERROR_INVALID_RECORD, ERROR_MESSAGE_TOO_LARGE, Fault, fault_set, raise_fault,
)
from kraft_native.base.limits cimport (
    ATTR_LOG_APPEND_TIME, ATTR_TRANSACTIONAL, BATCH_ATTRIBUTES, BATCH_CRC, BATCH_LENGTH,
    BATCH_LENGTH_MIN_ANY_MAGIC, BATCH_MAGIC, CODEC_NONE, CODEC_ZSTD, INT32_MAX_VALUE, LOG_OVERHEAD_BYTES,
    MAGIC_CURRENT, NO_TIMESTAMP, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, VARINT_BYTES_MAX, VARLONG_BYTES_MAX,
)
from kraft_native.base.span cimport Span
from kraft_native.batch.batch cimport (
    HeldBuffer, batch_bytes, batch_codec, batch_crc, batch_is_control, batch_is_log_append_time, batch_load,
    batch_store,
)
from kraft_native.batch.codecs cimport codec_id, codec_level, compress_into, decompress_limits_default
from kraft_native.batch.records cimport RecordView, record_body_bytes, record_next, record_write, records_of

from kraft_native.base.errors import (
    InvalidArgumentError, InvalidRecordError, InvalidTimestampError, MessageTooLargeError,
)

cdef enum:
    # Below this a walk is too short to be worth releasing the interpreter lock.
    UNLOCKED_BYTES_MIN = 64 * 1024
    # A record encoded again may need that many more bytes than before: its length and both deltas at their longest.
    RECORD_GROWTH_BYTES_MAX = 2 * VARINT_BYTES_MAX + VARLONG_BYTES_MAX


# Results of one walk over the records.
cdef struct Findings:
    int64_t timestamp_max          # -1 when no record has a time above it
    int64_t timestamp_min          # of those that are not -1
    int64_t max_timestamp_delta
    int32_t keys_missing
    bint numbered                  # inner offset deltas are 0, 1, 2 ...


# --- the header


cdef Py_ssize_t next_batch_bytes(const uint8_t* p, Py_ssize_t left, Fault* fault) noexcept nogil:
    """Kafka's ByteBufferLogInputStream: bytes of the batch at `p`, 0 when none is whole, -1 when it cannot be one."""
    cdef int32_t length
    cdef int magic
    if left < LOG_OVERHEAD_BYTES:
        return 0
    length = load_i32(p + BATCH_LENGTH)
    if length < BATCH_LENGTH_MIN_ANY_MAGIC:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "batch length %lld is below %lld", length,
                         BATCH_LENGTH_MIN_ANY_MAGIC)
    if left <= BATCH_MAGIC:
        return 0
    magic = <int8_t>p[BATCH_MAGIC]
    if magic < 0 or magic > MAGIC_CURRENT:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "magic %lld, only %lld is supported", magic, MAGIC_CURRENT)
    if left < <Py_ssize_t>LOG_OVERHEAD_BYTES + length:
        return 0
    return <Py_ssize_t>LOG_OVERHEAD_BYTES + length


cdef int check_single(const uint8_t* data, Py_ssize_t size, Fault* fault) noexcept nogil:
    """Check for exactly one whole batch of magic 2, and enough of it for a header."""
    cdef Py_ssize_t whole = next_batch_bytes(data, size, fault)
    cdef Py_ssize_t second
    if whole < 0:
        return -1
    if whole == 0:
        return fault_set(fault, ERROR_INVALID_RECORD, "no whole batch in %lld bytes", size, 0)
    if data[BATCH_MAGIC] != MAGIC_CURRENT:
        return fault_set(fault, ERROR_INVALID_RECORD, "magic %lld, only %lld may be written", data[BATCH_MAGIC],
                         MAGIC_CURRENT)
    second = next_batch_bytes(data + whole, size - whole, fault)
    if second < 0:
        return -1
    if second > 0:
        return fault_set(fault, ERROR_INVALID_RECORD, "a second batch at byte %lld, one is allowed", whole, 0)
    if whole < BATCH_HEADER_BYTES:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "a batch of %lld bytes is shorter than its header, %lld", whole,
                         BATCH_HEADER_BYTES)
    return 0


cdef int check_header(const uint8_t* data, const BatchHeader* h, const ValidateOptions* options,
                      Fault* fault) noexcept nogil:
    cdef bint client = options.origin == ORIGIN_CLIENT
    if client and h.base_offset != 0:
        return fault_set(fault, ERROR_INVALID_RECORD, "base offset %lld, a producer's is 0", h.base_offset, 0)
    # A marker ends a transaction whatever the limit is: without it readers would wait indefinitely.
    if batch_bytes(h) > options.batch_bytes_max and (client or not batch_is_control(h)):
        return fault_set(fault, ERROR_MESSAGE_TOO_LARGE, "a batch of %lld bytes, max.message.bytes is %lld",
                         batch_bytes(h), options.batch_bytes_max)
    if batch_crc(data, h) != h.crc:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "stored crc %lld, computed %lld", h.crc, batch_crc(data, h))
    if batch_codec(h) > CODEC_ZSTD:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "codec %lld: no such codec", batch_codec(h), 0)
    if h.record_count < 1 or <int64_t>h.record_count != <int64_t>h.last_offset_delta + 1:
        return fault_set(fault, ERROR_INVALID_RECORD, "%lld records with last offset delta %lld", h.record_count,
                         h.last_offset_delta)
    if client and batch_is_control(h):
        return fault_set(fault, ERROR_INVALID_RECORD, "clients must not write control batches", 0, 0)
    if client and h.producer_id >= 0 and h.base_sequence < 0:
        return fault_set(fault, ERROR_INVALID_RECORD, "base sequence %lld with producer id %lld", h.base_sequence,
                         h.producer_id)
    return 0


# --- the records


cdef inline int64_t time_of(const BatchHeader* h, const RecordView* r) noexcept nogil:
    """A record's time as Kafka reads it: sums wrap as Java's do."""
    if batch_is_log_append_time(h):
        return h.max_timestamp
    return <int64_t>(<uint64_t>h.base_timestamp + <uint64_t>r.timestamp_delta)


cdef int scan(Span s, const BatchHeader* h, Findings* found, Fault* fault) noexcept nogil:
    """Walk over all records: check their structure, and collect what the later steps need."""
    cdef RecordView r
    cdef int64_t base_timestamp = h.base_timestamp
    cdef int64_t timestamp
    cdef int64_t highest = NO_TIMESTAMP
    cdef int64_t lowest = INT64_MAX
    cdef int64_t max_timestamp_delta = 0
    cdef int32_t keys_missing = 0
    cdef int32_t gaps = 0
    cdef int32_t count = h.record_count
    cdef int32_t i
    for i in range(count):
        if record_next(&s, &r) != 1:
            return fault_set(fault, ERROR_INVALID_RECORD, "record %lld of %lld is malformed", i, count)
        timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>r.timestamp_delta)
        if timestamp > highest:
            highest = timestamp
            max_timestamp_delta = r.offset_delta
        if timestamp < lowest and timestamp != NO_TIMESTAMP:
            lowest = timestamp
        keys_missing += r.key_bytes < 0
        gaps |= r.offset_delta ^ i
    if s.p != s.end:
        return fault_set(fault, ERROR_INVALID_RECORD, "%lld bytes after the last of %lld records", s.end - s.p, count)
    if batch_is_log_append_time(h):
        highest = max(h.max_timestamp, <int64_t>NO_TIMESTAMP)
        lowest = h.max_timestamp
        max_timestamp_delta = 0
    found.timestamp_max = highest
    found.timestamp_min = lowest
    found.max_timestamp_delta = max_timestamp_delta
    found.keys_missing = keys_missing
    found.numbered = gaps == 0
    return 0


cdef inline bint time_too_far(int64_t timestamp, const ValidateOptions* options) noexcept nogil:
    """True outside [now - before, now + after]. `now_ms` is not negative, so only the first difference can overflow."""
    if timestamp >= options.now_ms:
        return timestamp - options.now_ms > options.timestamp_after_max_ms
    if timestamp < 0 and options.now_ms > INT64_MAX + timestamp:
        return True
    return options.now_ms - timestamp > options.timestamp_before_max_ms


cdef inline bint time_refused(int64_t timestamp, const BatchHeader* h, const ValidateOptions* options) noexcept nogil:
    if options.timestamp_type == TIMESTAMP_CREATE_TIME and timestamp != NO_TIMESTAMP:
        return time_too_far(timestamp, options)
    return batch_is_log_append_time(h)


cdef bint rules_kept(const BatchHeader* h, const Findings* found, const ValidateOptions* options) noexcept nogil:
    """True when no record breaks a rule of the topic. All times lie between the extremes, so these two decide."""
    if options.key_required and found.keys_missing:
        return False
    if batch_is_log_append_time(h):
        return not time_refused(h.max_timestamp, h, options)
    if options.timestamp_type != TIMESTAMP_CREATE_TIME or found.timestamp_min > found.timestamp_max:
        return True                # the leader's time replaces them, or none has one
    return not (time_refused(found.timestamp_min, h, options) or time_refused(found.timestamp_max, h, options))


cdef int raise_records(Span s, const BatchHeader* h, const ValidateOptions* options) except -1:
    """Walk again to name the first records that break a rule, and to count all of them. A missing key hides a wrong
    time, as in Kafka."""
    cdef RecordView r
    cdef int64_t timestamp
    cdef int32_t i
    cdef int32_t count = 0
    cdef bint times = False
    cdef list errors = []
    for i in range(h.record_count):
        record_next(&s, &r)
        timestamp = time_of(h, &r)
        if options.key_required and r.key_bytes < 0:
            count += 1
            if count <= NAMED_RECORDS_MAX:
                errors.append((i, "a compacted topic needs a key"))
        elif time_refused(timestamp, h, options):
            times = True
            count += 1
            if count > NAMED_RECORDS_MAX:
                continue
            errors.append((i, f"timestamp {timestamp} is not within [{options.now_ms - options.timestamp_before_max_ms}"
                              f", {<object>options.now_ms + <object>options.timestamp_after_max_ms}]"
                              if time_too_far(timestamp, options) and not batch_is_log_append_time(h) else
                              "a producer must not claim LogAppendTime"))
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:3])
    text = f"{count} of {h.record_count} records are refused: {shown}"
    if count > NAMED_RECORDS_MAX:
        text += f"; the first {NAMED_RECORDS_MAX} are named one by one"
    raise (InvalidTimestampError if times else InvalidRecordError)(text, tuple(errors))


# --- what is stored


cdef int keep_body(const uint8_t* data, const ValidateOptions* options, const Findings* found,
                   PreparedBatch* out) noexcept nogil:
    """Prepare the client's own bytes, with timestamp type and maximum timestamp corrected.

    The CRC is linear: the change of the 40 bytes before the body, carried over the body's length, changes the whole.
    """
    cdef BatchHeader* h = &out.h
    cdef bint late = options.timestamp_type == TIMESTAMP_LOG_APPEND_TIME
    cdef int64_t timestamp = options.now_ms if late else found.timestamp_max
    cdef uint32_t before
    cdef uint32_t after
    memcpy(out.header, data, BATCH_HEADER_BYTES)
    out.body = data + BATCH_HEADER_BYTES
    out.body_bytes = batch_bytes(h) - BATCH_HEADER_BYTES
    out.max_timestamp_delta = 0 if late else found.max_timestamp_delta
    if options.origin == ORIGIN_RAFT_LEADER:
        return 0
    if batch_is_log_append_time(h) == late and h.max_timestamp == timestamp:
        return 0
    h.attributes = <int16_t>((h.attributes & ~ATTR_LOG_APPEND_TIME) | (ATTR_LOG_APPEND_TIME if late else 0))
    h.max_timestamp = timestamp
    batch_store(out.header, h)
    before = crc32c(0, data + BATCH_ATTRIBUTES, BATCH_HEADER_BYTES - BATCH_ATTRIBUTES)
    after = crc32c(0, out.header + BATCH_ATTRIBUTES, BATCH_HEADER_BYTES - BATCH_ATTRIBUTES)
    h.crc = crc32c_combine(before ^ after, h.crc, <uint64_t>out.body_bytes)
    store_u32(out.header + BATCH_CRC, h.crc)
    return 0


cdef uint8_t* write_again(Span* s, const BatchHeader* source, int64_t base_timestamp, const Findings* found, uint8_t* p,
                          int64_t* max_timestamp_delta) noexcept nogil:
    """Encode the records again from `p` on, numbered 0, 1, 2 ...; return their end."""
    cdef RecordView r
    cdef int64_t timestamp, delta
    cdef int32_t i
    for i in range(source.record_count):
        record_next(s, &r)
        timestamp = time_of(source, &r)
        if timestamp == found.timestamp_max and max_timestamp_delta[0] < 0:
            max_timestamp_delta[0] = i
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp)
        p = record_write(p, record_body_bytes(i, delta, r.key_bytes, r.value_bytes, r.headers_bytes, r.header_count),
                         i, delta, r.key, r.key_bytes, r.value, r.value_bytes, r.headers, r.headers_bytes,
                         r.header_count)
    return p


cdef int encode_again(Span s, const ValidateOptions* options, int codec, const Findings* found, Scratch records,
                      Scratch rewrite, PreparedBatch* out) except -1:
    """Number the records 0, 1, 2 ... and compress them with the topic's codec, as Kafka's MemoryRecordsBuilder would:
    deltas count from the first record's time, only the transactional bit is kept."""
    cdef BatchHeader* h = &out.h
    cdef BatchHeader source = h[0]
    cdef bint late = options.timestamp_type == TIMESTAMP_LOG_APPEND_TIME
    cdef bint inside = batch_codec(h) != CODEC_NONE     # the records were decompressed into the same scratch
    cdef Py_ssize_t start = records.size if inside else 0
    cdef Py_ssize_t plain_bytes = s.end - s.p
    cdef Span ahead
    cdef RecordView r
    cdef uint8_t* p
    records.reserve(start + plain_bytes + <Py_ssize_t>RECORD_GROWTH_BYTES_MAX * h.record_count)
    if inside:
        s.p = records.data
        s.end = records.data + plain_bytes
    p = records.data + start
    out.max_timestamp_delta = -1
    ahead = s
    record_next(&ahead, &r)
    h.base_timestamp = time_of(&source, &r)
    if plain_bytes >= UNLOCKED_BYTES_MIN:
        with nogil:
            p = write_again(&s, &source, h.base_timestamp, found, p, &out.max_timestamp_delta)
    else:
        p = write_again(&s, &source, h.base_timestamp, found, p, &out.max_timestamp_delta)
    if late or out.max_timestamp_delta < 0:
        out.max_timestamp_delta = 0
    rewrite.size = 0
    compress_into(codec, options.target_level if options.target_codec >= 0 else codec_level(codec, None),
                  records.data + start, p - records.data - start, rewrite)
    if rewrite.size + BATCH_HEADER_BYTES > options.batch_bytes_max:
        raise MessageTooLargeError(f"a batch of {rewrite.size + BATCH_HEADER_BYTES} bytes once it is encoded again, "
                                   f"max.message.bytes is {options.batch_bytes_max}")
    h.batch_length = <int32_t>(rewrite.size + BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES)
    h.attributes = <int16_t>((h.attributes & ATTR_TRANSACTIONAL) | codec | (ATTR_LOG_APPEND_TIME if late else 0))
    h.max_timestamp = options.now_ms if late else found.timestamp_max
    out.body = rewrite.data
    out.body_bytes = rewrite.size
    batch_store(out.header, h)
    h.crc = crc32c(crc32c(0, out.header + BATCH_ATTRIBUTES, BATCH_HEADER_BYTES - BATCH_ATTRIBUTES), rewrite.data,
                   <size_t>rewrite.size)
    store_u32(out.header + BATCH_CRC, h.crc)
    return 0


cdef int validate_batch(const uint8_t* data, Py_ssize_t size, const ValidateOptions* options, Scratch records,
                        Scratch rewrite, PreparedBatch* out) except -1:
    cdef BatchHeader* h = &out.h
    cdef DecompressLimits limits = options.limits
    cdef Findings found
    cdef Fault fault
    cdef Span span
    cdef int codec
    cdef int target
    cdef int result
    if check_single(data, size, &fault) < 0:
        return raise_fault(&fault)
    batch_load(data, h)
    codec = batch_codec(h)
    if options.bounded and codec != CODEC_NONE:
        # Records that were worth compressing are about twice as large.
        if size > LOOP_RECORDS_BYTES_MAX // 2:
            return VALIDATE_COSTLY
        limits.bytes_max = min(limits.bytes_max, <int64_t>LOOP_RECORDS_BYTES_MAX)
    if size >= UNLOCKED_BYTES_MIN:
        with nogil:
            result = check_header(data, h, options, &fault)
    else:
        result = check_header(data, h, options, &fault)
    if result < 0:
        return raise_fault(&fault)
    try:
        span = records_of(data, h, &limits, records)
    except MessageTooLargeError:
        if limits.bytes_max < options.limits.bytes_max:
            return VALIDATE_COSTLY
        raise
    if span.end - span.p >= UNLOCKED_BYTES_MIN:
        with nogil:
            result = scan(span, h, &found, &fault)
    else:
        result = scan(span, h, &found, &fault)
    if result < 0:
        return raise_fault(&fault)
    if options.origin == ORIGIN_RAFT_LEADER:
        return keep_body(data, options, &found, out)
    if not rules_kept(h, &found, options):
        return raise_records(span, h, options)
    target = codec if options.target_codec < 0 or batch_is_control(h) else options.target_codec
    if target != codec or (codec != CODEC_NONE and not found.numbered):
        if options.bounded and target != CODEC_NONE and span.end - span.p > LOOP_RECODED_BYTES_MAX:
            return VALIDATE_COSTLY
        return encode_again(span, options, target, &found, records, rewrite, out)
    return keep_body(data, options, &found, out)


# --- Python


@cython.final
cdef class ValidatedBatch:
    """A batch as the leader would store it, but for base offset and leader epoch, which its log assigns.

    `data` is the whole batch, `max_timestamp_delta` the offset delta of the first record with its maximum timestamp,
    `rewritten` True when the records were encoded again.
    """

    def __init__(self):
        raise TypeError("validated batches come from validate()")


ORIGINS = ("client", "coordinator", "raft-leader")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def validate(data: Buffer, *, now_ms: int, timestamp_type: str = "CreateTime", timestamp_before_max_ms: int = INT64_MAX,
             timestamp_after_max_ms: int = 3_600_000, batch_bytes_max: int = 1_048_588,
             compression_type: str = "producer", level: int | None = None, key_required: bool = False,
             origin: str = "client", max_bytes: int | None = None, max_ratio: int | None = None) -> ValidatedBatch:
    """Check one batch, any contiguous buffer, as a leader does before it appends it.

    The options are the topic's (message.timestamp.type, message.timestamp.before.max.ms and after, max.message.bytes,
    compression.type with its level, cleanup.policy=compact as `key_required`) with Kafka's defaults; `max_bytes` and
    `max_ratio` bound what the records may decompress to. Raises CorruptRecordError, InvalidRecordError,
    InvalidTimestampError, MessageTooLargeError (see the table at the head of the module), InvalidArgumentError for an
    option.
    """
    cdef ValidateOptions options
    cdef PreparedBatch prepared
    cdef HeldBuffer held = HeldBuffer(data)
    cdef Scratch rewrite = Scratch()
    cdef ValidatedBatch result
    if origin not in ORIGINS:
        raise InvalidArgumentError(f"origin {origin!r}: one of {', '.join(ORIGINS)}")
    if timestamp_type not in TIMESTAMP_TYPES:
        raise InvalidArgumentError(f"timestamp_type {timestamp_type!r}: one of {', '.join(TIMESTAMP_TYPES)}")
    if min(now_ms, timestamp_before_max_ms, timestamp_after_max_ms) < 0:
        raise InvalidArgumentError(f"now_ms {now_ms}, timestamp_before_max_ms {timestamp_before_max_ms}, "
                                   f"timestamp_after_max_ms {timestamp_after_max_ms}: 0 or more")
    if not 0 <= batch_bytes_max <= INT32_MAX_VALUE:
        raise InvalidArgumentError(f"batch_bytes_max {batch_bytes_max}: 0 to {INT32_MAX_VALUE}")
    options.now_ms = now_ms
    options.timestamp_before_max_ms = timestamp_before_max_ms
    options.timestamp_after_max_ms = timestamp_after_max_ms
    options.limits = decompress_limits_default()
    if max_bytes is not None:
        options.limits.bytes_max = max_bytes
    if max_ratio is not None:
        options.limits.ratio_max = max_ratio
    options.batch_bytes_max = batch_bytes_max
    options.target_codec = -1 if compression_type == "producer" else codec_id(compression_type)
    options.target_level = 0 if options.target_codec < 0 else codec_level(options.target_codec, level)
    options.timestamp_type = <int8_t>TIMESTAMP_TYPES.index(timestamp_type)
    options.origin = <int8_t>ORIGINS.index(origin)
    options.key_required = key_required
    options.bounded = False
    validate_batch(held.data, held.size, &options, Scratch(), rewrite, &prepared)
    result = ValidatedBatch.__new__(ValidatedBatch)
    result.data = (<char*>prepared.header)[:BATCH_HEADER_BYTES] + (<char*>prepared.body)[:prepared.body_bytes]
    result.max_timestamp_delta = prepared.max_timestamp_delta
    result.rewritten = prepared.body == rewrite.data
    return result
