"""Message sets of formats v0 and v1, as Kafka wrote them before 0.11.

A message (all integers big-endian; v0 has no timestamp):

    0 offset int64  |  8 length int32, of the rest  |  12 crc uint32 (CRC-32 of IEEE 802.3, of byte 16 to the end)
    16 magic int8  |  17 attributes int8  |  v1: 18 timestamp int64
    key length int32 (-1: null), key  |  value length int32 (-1: null), value

Attributes: bits 0 to 2 the codec, bit 3 (v1) LogAppendTime. The value of a message with a codec is a compressed message
set. Its own offset is that of the last message inside. The messages inside have absolute offsets in v0 and relative
ones in v1, where only the distance to the last one counts. With LogAppendTime the time of the outer message is that of
all inside, else each has its own; the outer one has the largest.

The rest of the engine sees a message as a batch: `batch.pyx` fills a batch's header from it. `records.pyx` reads its
records after `legacy_records` has written them in v2's form. So the base offset of a compressed message must be known,
and only its content has it. A table keeps what was found inside. So a message is decompressed once to be checked, and
not each time that a walk passes it.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from kraft_native.base.bytes_be cimport load_i32, load_i64, load_u32
from kraft_native.base.limits cimport (
    ATTR_CODEC_MASK, ATTR_LOG_APPEND_TIME, BATCH_LENGTH, CODEC_LZ4, CODEC_NONE, CODEC_ZSTD, INT32_MAX_VALUE,
    LOG_OVERHEAD_BYTES, NO_TIMESTAMP, VARINT_BYTES_MAX, VARLONG_BYTES_MAX,
)
from kraft_native.base.span cimport Span, span_i32, span_i64, span_left, span_of, span_skip
from kraft_native.base.varint cimport put_varlong, varlong_bytes
from kraft_native.batch.codecs cimport decompress_into, decompress_limits_default, decompress_lz4_v0_into

from kraft_native.base.errors import CorruptRecordError, MessageTooLargeError

cdef enum:
    MESSAGE_V0_LENGTH_MIN = 14
    MESSAGE_V1_LENGTH_MIN = 22
    # The table covers this many compressed messages: about 64 MB of them, in 200 KB.
    KNOWN_SETS = 4096
    # A scratch for decompressing that is larger than this is not kept.
    IDLE_BYTES_MAX = 4 * 1024 * 1024


# The content of a compressed message, by its identifying fields. `length` 0: a free place.
cdef struct KnownSet:
    int64_t offset
    uint32_t crc
    int32_t length
    LegacySet found


# The checksum selects the place. Read and written under the interpreter lock.
cdef KnownSet known_sets[KNOWN_SETS]
cdef list idle_scratches = [Scratch()]
# CRC-32 eight bytes at a time: table k is for a byte that k others follow.
cdef uint32_t crc_tables[8][256]


cdef void fill_crc_tables() noexcept:
    cdef uint32_t value
    cdef int byte, table, _
    for byte in range(256):
        value = <uint32_t>byte
        for _ in range(8):
            value = (value >> 1) ^ (<uint32_t>0xEDB88320 if value & 1 else 0)
        crc_tables[0][byte] = value
    for table in range(1, 8):
        for byte in range(256):
            value = crc_tables[table - 1][byte]
            crc_tables[table][byte] = (value >> 8) ^ crc_tables[0][value & 0xFF]


fill_crc_tables()


cdef uint32_t legacy_crc(const uint8_t* p, int32_t length) noexcept nogil:
    cdef const uint8_t* end = p + LOG_OVERHEAD_BYTES + length
    cdef uint32_t crc = <uint32_t>0xFFFFFFFF
    p += LEGACY_MAGIC
    while end - p >= 8:
        crc ^= p[0] | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16) | (<uint32_t>p[3] << 24)
        crc = (crc_tables[7][crc & 0xFF] ^ crc_tables[6][(crc >> 8) & 0xFF] ^ crc_tables[5][(crc >> 16) & 0xFF]
               ^ crc_tables[4][crc >> 24] ^ crc_tables[3][p[4]] ^ crc_tables[2][p[5]] ^ crc_tables[1][p[6]]
               ^ crc_tables[0][p[7]])
        p += 8
    while p < end:
        crc = (crc >> 8) ^ crc_tables[0][(crc ^ p[0]) & 0xFF]
        p += 1
    return ~crc


cdef inline int sized_field(Span* s, const uint8_t** field, int32_t* size) noexcept nogil:
    """Read a length and that many bytes; -1 is null."""
    if span_i32(s, size) < 0 or size[0] < -1:
        return -1
    field[0] = s.p
    return span_skip(s, max(size[0], 0))


cdef int legacy_message(const uint8_t* p, Py_ssize_t left, LegacyMessage* m) noexcept nogil:
    cdef Span s
    if left < LEGACY_MESSAGE_BYTES_MIN:
        return 0
    m.offset = load_i64(p)
    m.length = load_i32(p + BATCH_LENGTH)
    m.crc = load_u32(p + LEGACY_CRC)
    m.magic = <int8_t>p[LEGACY_MAGIC]
    m.attributes = <int8_t>(p[LEGACY_ATTRIBUTES] & (ATTR_CODEC_MASK | (ATTR_LOG_APPEND_TIME if m.magic == 1 else 0)))
    m.timestamp = NO_TIMESTAMP
    if (
        m.offset < 0 or not 0 <= m.magic <= 1
        or m.length < (MESSAGE_V1_LENGTH_MIN if m.magic == 1 else MESSAGE_V0_LENGTH_MIN)
    ):
        return -1
    if left - LOG_OVERHEAD_BYTES < m.length:
        return 0
    s = span_of(p + LEGACY_ATTRIBUTES + 1, m.length - (LEGACY_ATTRIBUTES + 1 - LOG_OVERHEAD_BYTES))
    if m.magic == 1 and span_i64(&s, &m.timestamp) < 0:
        return -1
    if sized_field(&s, &m.key, &m.key_bytes) < 0 or sized_field(&s, &m.value, &m.value_bytes) < 0:
        return -1
    return 1


# --- compressed messages


cdef int unpack(const LegacyMessage* m, const DecompressLimits* limits, Scratch plain) except -1:
    """Decompress the message set that is the value of `m`."""
    cdef int codec = m.attributes & ATTR_CODEC_MASK
    if m.value_bytes < 0:
        raise CorruptRecordError(f"compressed message at offset {m.offset} without a value")
    if codec == CODEC_ZSTD:
        raise CorruptRecordError(f"message of magic {m.magic} at offset {m.offset}: zstd is not a codec of its format")
    if codec == CODEC_LZ4 and m.magic == 0:
        return decompress_lz4_v0_into(m.value, m.value_bytes, limits, plain)
    return decompress_into(codec, m.value, m.value_bytes, limits, plain)


cdef int inner_message(Span* s, const LegacyMessage* outer, LegacyMessage* inner) except -1:
    """Step to the next message inside: 1, or 0 at the end. A last one that is cut off is ignored, as in Kafka."""
    cdef int found = legacy_message(s.p, span_left(s), inner)
    if found < 0 or (found > 0 and (inner.attributes & ATTR_CODEC_MASK) != CODEC_NONE):
        raise CorruptRecordError(f"compressed message at offset {outer.offset}: a message inside is malformed")
    if found > 0:
        s.p += LOG_OVERHEAD_BYTES + inner.length
    return found


cdef int survey_plain(const LegacyMessage* m, Scratch plain, LegacySet* found) except -1:
    """Find count, first offset and first time of the messages in a decompressed set."""
    cdef Span s = span_of(plain.data, plain.size)
    cdef LegacyMessage inner
    cdef int64_t last_offset = -1
    found.count = 0
    while inner_message(&s, m, &inner):
        if inner.offset <= last_offset:
            raise CorruptRecordError(f"compressed message at offset {m.offset}: offset {inner.offset} inside follows "
                                     f"{last_offset}")
        if found.count == 0:
            found.first_offset = inner.offset
            found.first_timestamp = inner.timestamp
        last_offset = inner.offset
        found.count += 1
    if found.count == 0:
        raise CorruptRecordError(f"compressed message at offset {m.offset}: no messages inside")
    if last_offset > m.offset:
        raise CorruptRecordError(f"compressed message at offset {m.offset}: the last offset inside is {last_offset}")
    if m.magic == 1:
        found.first_offset += m.offset - last_offset
    if m.offset - found.first_offset > INT32_MAX_VALUE:
        raise CorruptRecordError(f"compressed message at offset {m.offset}: the first offset inside is "
                                 f"{found.first_offset}")
    if m.attributes & ATTR_LOG_APPEND_TIME:
        found.first_timestamp = m.timestamp
    return 0


cdef Scratch scratch_take():
    return idle_scratches.pop() if idle_scratches else Scratch()


cdef int scratch_give(Scratch scratch) except -1:
    if not idle_scratches:
        idle_scratches.append(scratch if scratch.capacity <= IDLE_BYTES_MAX else Scratch())
    return 0


cdef int survey_inside(const LegacyMessage* m, LegacySet* found) except -1:
    cdef DecompressLimits limits = decompress_limits_default()
    cdef Scratch plain = scratch_take()
    try:
        unpack(m, &limits, plain)
        return survey_plain(m, plain, found)
    finally:
        scratch_give(plain)


cdef void survey_single(const LegacyMessage* m, LegacySet* found) noexcept nogil:
    found.first_offset = m.offset
    found.first_timestamp = m.timestamp
    found.count = 1


cdef void survey_compressed(const LegacyMessage* m, LegacySet* found) noexcept with gil:
    cdef KnownSet* known = &known_sets[m.crc % KNOWN_SETS]
    if known.length == m.length and known.crc == m.crc and known.offset == m.offset:
        found[0] = known.found
        return
    try:
        survey_inside(m, found)
    except MemoryError:
        survey_single(m, found)
        return
    except (CorruptRecordError, MessageTooLargeError):
        # Its checksum is right: unreadable content is not absent content.
        survey_single(m, found)
    known.offset = m.offset
    known.crc = m.crc
    known.length = m.length
    known.found = found[0]


cdef void legacy_survey(const LegacyMessage* m, LegacySet* found) noexcept nogil:
    if (m.attributes & ATTR_CODEC_MASK) != CODEC_NONE:
        survey_compressed(m, found)
    else:
        survey_single(m, found)


# --- records


cdef int put_record(Scratch out, const LegacyMessage* m, int64_t offset_delta, int64_t timestamp_delta) except -1:
    """Append the message as a record of v2 (`records.pxd`)."""
    cdef Py_ssize_t body_bytes = (
        2 + varlong_bytes(timestamp_delta) + varlong_bytes(offset_delta) + varlong_bytes(m.key_bytes)
        + max(m.key_bytes, 0) + varlong_bytes(m.value_bytes) + max(m.value_bytes, 0))
    cdef uint8_t* p
    if body_bytes > INT32_MAX_VALUE - VARINT_BYTES_MAX:
        raise MessageTooLargeError(f"message at offset {m.offset}: {body_bytes} bytes as a record")
    out.reserve(out.size + VARLONG_BYTES_MAX + body_bytes)
    p = put_varlong(out.data + out.size, body_bytes)
    p[0] = 0                           # attributes
    p = put_varlong(p + 1, timestamp_delta)
    p = put_varlong(p, offset_delta)
    p = put_varlong(p, m.key_bytes)
    if m.key_bytes > 0:
        memcpy(p, m.key, <size_t>m.key_bytes)
        p += m.key_bytes
    p = put_varlong(p, m.value_bytes)
    if m.value_bytes > 0:
        memcpy(p, m.value, <size_t>m.value_bytes)
        p += m.value_bytes
    p[0] = 0                           # headers
    out.size = p + 1 - out.data
    return 0


cdef int put_records(const LegacyMessage* m, Scratch plain, int64_t base_offset, int64_t base_timestamp,
                     Scratch out) except -1:
    """Append the messages of a decompressed set."""
    cdef Span s = span_of(plain.data, plain.size)
    cdef LegacyMessage inner
    cdef LegacySet found
    cdef int64_t timestamp, first_inside = -1
    survey_plain(m, plain, &found)
    if found.first_offset != base_offset:
        raise CorruptRecordError(f"compressed message at offset {m.offset}: its first offset is {found.first_offset}, "
                                 f"not {base_offset}")
    while inner_message(&s, m, &inner):
        if first_inside < 0:
            first_inside = inner.offset
        timestamp = m.timestamp if m.attributes & ATTR_LOG_APPEND_TIME else inner.timestamp
        # Wraps like Java's subtraction; the reader's addition wraps back.
        put_record(out, &inner, inner.offset - first_inside,
                   <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp))
    return 0


cdef int legacy_records(const uint8_t* p, int64_t base_offset, int64_t base_timestamp, const DecompressLimits* limits,
                        Scratch out) except -1:
    cdef LegacyMessage m
    cdef Scratch plain
    out.size = 0
    if legacy_message(p, <Py_ssize_t>LOG_OVERHEAD_BYTES + load_i32(p + BATCH_LENGTH), &m) != 1:
        raise CorruptRecordError(f"message at offset {base_offset} is malformed")
    if (m.attributes & ATTR_CODEC_MASK) == CODEC_NONE:
        return put_record(out, &m, 0, 0)
    plain = scratch_take()
    try:
        unpack(&m, limits, plain)
        return put_records(&m, plain, base_offset, base_timestamp, out)
    finally:
        scratch_give(plain)
