"""Records inside a batch: one bounded step per record, and the encoder.

A record (all lengths and deltas are zig-zag varints, as Kafka's ByteUtils writes them):

    length | int8 attributes (unused, 0) | timestampDelta varlong | offsetDelta
    key length (-1: null), key | value length (-1: null), value | header count, headers

and a header: key length (never negative), key (UTF-8) | value length (-1: null), value.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kraft_native.base.span cimport Span
from kraft_native.batch.batch cimport Batch, BatchHeader, BatchIterator
from kraft_native.batch.codecs cimport DecompressLimits
from kraft_native.file.buffer cimport Scratch


# One record's fields, pointing into the bytes it was read from. (`Record` is the Python class.)
cdef struct RecordView:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_bytes              # -1: null
    int32_t value_bytes            # -1: null
    int32_t header_count
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers         # first header, headers_bytes long, all of them checked
    Py_ssize_t headers_bytes
    Py_ssize_t size                # whole record with its length varint

# The complete step, for every record that `record_next` does not take itself.
cdef int record_next_any(Span* s, RecordView* r) noexcept nogil

# Reads the header count and the headers in [p, end), which they must fill exactly: their count, or -1.
cdef int32_t record_headers(const uint8_t* p, const uint8_t* end, const uint8_t** first) noexcept nogil

cdef extern from *:
    """
    #define kn_likely(condition) __builtin_expect(!!(condition), 1)
    """
    bint kn_likely(bint condition) noexcept nogil


cdef inline const uint8_t* short_varint(const uint8_t* p, uint32_t* v) noexcept nogil:
    """An unsigned varint of one to three bytes from four readable ones. NULL when it is longer."""
    cdef uint32_t b = p[0]
    if kn_likely(b < 0x80):
        v[0] = b
        return p + 1
    b = (b & 0x7F) | (<uint32_t>p[1] << 7)
    if kn_likely(b < 0x80 << 7):
        v[0] = b
        return p + 2
    b = (b & 0x3FFF) | (<uint32_t>p[2] << 14)
    if b < 0x80 << 14:
        v[0] = b
        return p + 3
    return NULL


cdef inline int32_t unzigzag(uint32_t v) noexcept nogil:
    return <int32_t>((v >> 1) ^ (<uint32_t>0 - (v & 1)))


cdef inline int record_next_copied(Span* s, RecordView* r) noexcept nogil:
    """Run `record_next_any` on copies. The addresses of the caller's own structs are then never taken. So they live in
    registers, and fields that are not read are never written: that saves a third of the cost of a step."""
    cdef Span span = s[0]
    cdef RecordView record
    cdef int result = record_next_any(&span, &record)
    if result != 1:
        # Never read; it lets the compiler see that every field has a value.
        r.timestamp_delta = r.headers_bytes = r.size = 0
        r.offset_delta = r.key_bytes = r.value_bytes = r.header_count = 0
        r.key = r.value = r.headers = NULL
        return result
    r[0] = record
    s[0] = span
    return 1


# Steps over one record:
# - 1: filled;
# - 0: no bytes left;
# - -1: malformed; the span then stays where it was.
#
# Malformed means: a field leaves the record, a length is below -1, a header key is null, or bytes are left over inside
# the record.
#
# This is the hot loop of all code that reads batches, so the usual record is handled here. Its lengths and deltas have
# at most three bytes, and the span has 32 bytes, which cover the fields up to the key without a check per byte. Key and
# value are skipped unchecked and not touched: it is enough that the last field ends where the record does. All else
# goes to `record_next_any`, which judges, and is the one to read first.
cdef inline int record_next(Span* s, RecordView* r) noexcept nogil:
    cdef const uint8_t* p = s.p
    cdef const uint8_t* end
    cdef const uint8_t* headers
    cdef uint32_t v
    if s.end - p < 32:
        return record_next_copied(s, r)
    p = short_varint(p, &v)
    if p == NULL or (v & 1) != 0 or s.end - p < <Py_ssize_t>(v >> 1):
        return record_next_copied(s, r)
    end = p + (v >> 1)
    p = short_varint(p + 1, &v)
    if p == NULL:
        return record_next_copied(s, r)
    r.timestamp_delta = unzigzag(v)
    p = short_varint(p, &v)
    if p == NULL:
        return record_next_copied(s, r)
    r.offset_delta = unzigzag(v)
    p = short_varint(p, &v)
    if p == NULL:
        return record_next_copied(s, r)
    r.key = p
    r.key_bytes = unzigzag(v)
    if (v & 1) == 0:
        p += v >> 1
        if s.end - p < 4:
            return record_next_copied(s, r)
    elif v != 1:
        return record_next_copied(s, r)
    p = short_varint(p, &v)
    if p == NULL:
        return record_next_copied(s, r)
    r.value = p
    r.value_bytes = unzigzag(v)
    if kn_likely((v & 1) == 0):
        p += v >> 1
    elif v != 1:
        return record_next_copied(s, r)
    if kn_likely(p + 1 == end and p[0] == 0):
        r.header_count = 0
        r.headers = end
        r.headers_bytes = 0
    else:
        r.header_count = record_headers(p, end, &headers) if p < end else -1
        if r.header_count < 0:
            return record_next_copied(s, r)
        r.headers = headers
        r.headers_bytes = end - headers
    r.size = end - s.p
    s.p = end
    return 1

# Steps over one header inside RecordView.headers: same results.
cdef int header_next(Span* s, const uint8_t** key, int32_t* key_bytes, const uint8_t** value,
                     int32_t* value_bytes) noexcept nogil

# Returns the uncompressed records of the batch at `batch`, whose header was checked. The span lies in the batch itself
# when it is not compressed, else in `scratch`. Records of magic 0 and 1 are written there in the form of v2. Raises
# CorruptRecordError or MessageTooLargeError.
cdef Span records_of(const uint8_t* batch, const BatchHeader* h, const DecompressLimits* limits,
                     Scratch scratch) except *

# Bytes of one record after its length varint, and the record itself, written at `p` where there is room for that and
# VARINT_BYTES_MAX; returns the byte after it.
cdef Py_ssize_t record_body_bytes(int32_t offset_delta, int64_t timestamp_delta, Py_ssize_t key_bytes,
                                  Py_ssize_t value_bytes, Py_ssize_t headers_bytes,
                                  int32_t header_count) noexcept nogil
cdef uint8_t* record_write(uint8_t* p, Py_ssize_t body_bytes, int32_t offset_delta, int64_t timestamp_delta,
                           const uint8_t* key, Py_ssize_t key_bytes, const uint8_t* value, Py_ssize_t value_bytes,
                           const uint8_t* headers, Py_ssize_t headers_bytes, int32_t header_count) noexcept nogil

# Writes the header before the records of a batch of `size` bytes, with length, magic and CRC.
cdef void batch_seal(uint8_t* batch, Py_ssize_t size, BatchHeader* h) noexcept nogil

# Appends to `out` a whole uncompressed batch of one record, without a producer, CRC included. key_bytes/value_bytes
# -1 = null; `headers` is the encoded header list without its count.
cdef int encode_one(Scratch out, int64_t base_offset, int32_t leader_epoch, int64_t timestamp, const uint8_t* key,
                    Py_ssize_t key_bytes, const uint8_t* value, Py_ssize_t value_bytes, const uint8_t* headers,
                    Py_ssize_t headers_bytes, int32_t header_count) except -1

# A record's time as the caller passed it: None is -1, `TypeError` for no whole number; `is_users` warns of early ones.
cdef int64_t timestamp_of(object time_ms, bint is_users) except? -2

# Appends the encoded form of `headers`, an iterable of (str or bytes, bytes-like or None), to `out`; returns their
# count.
cdef int32_t encode_headers(object headers, Scratch out) except -1


cdef class BatchBuilder:
    """Builder of one batch. Reusable: `start` drops the content. Offsets are base_offset + 0, 1, 2 ... unless `add_at`
    gets the delta (compaction).

    Between the last `add` and `finish` a caller may raise `last_offset_delta` (a compacted batch keeps its range) and
    set `max_timestamp` (LogAppendTime, an empty batch). `base_timestamp` is the first record's unless
    `base_timestamp_set` was called (the delete horizon lives there).
    """
    cdef Scratch records           # encoded records, uncompressed
    cdef Scratch packed            # the same, compressed
    cdef Scratch header_space      # of the Python append
    cdef readonly int codec_id
    cdef int level
    cdef int16_t attributes        # codec and extra bits: transactional, control, delete horizon, LogAppendTime
    cdef bint base_fixed
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp
    cdef int32_t record_count
    cdef int32_t last_offset_delta  # -1: no record yet

    cdef int start(self, int codec, int level, int16_t attributes) except -1
    # Fixes the base timestamp before the first record; deltas count from it.
    cdef int base_timestamp_set(self, int64_t timestamp) except -1
    # key_bytes/value_bytes -1 = null. `headers` is the encoded header list without its count (NULL when 0 headers).
    cdef int add(self, int64_t timestamp, const uint8_t* key, Py_ssize_t key_bytes, const uint8_t* value,
                 Py_ssize_t value_bytes, const uint8_t* headers, Py_ssize_t headers_bytes,
                 int32_t header_count) except -1
    # `offset_delta` must be above that of the record before it.
    cdef int add_at(self, int32_t offset_delta, int64_t timestamp, const uint8_t* key, Py_ssize_t key_bytes,
                    const uint8_t* value, Py_ssize_t value_bytes, const uint8_t* headers, Py_ssize_t headers_bytes,
                    int32_t header_count) except -1
    # Header, (compressed) records and CRC. The records stay: the same batch can be finished again with another offset.
    cdef bytes finish(self, int64_t base_offset, int32_t leader_epoch, int64_t producer_id, int16_t producer_epoch,
                      int32_t base_sequence)


cdef class Record:
    """One record as Python objects; see `records.pyx`."""
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef readonly bytes key  # type: bytes | None
    cdef readonly bytes value  # type: bytes | None
    cdef readonly tuple headers  # type: tuple[tuple[str, bytes | None], ...]
    cdef readonly int32_t leader_epoch
    cdef int timestamp_kind        # as `batch_timestamp_type` returns it

# The Python object of the record `r` of the batch `h`.
cdef Record record_object(const BatchHeader* h, const RecordView* r)
