"""Records inside a batch: the complete step, the encoders, and the Python objects.

Reading never trusts a length: every step is bounded by the record, the record by the batch. Malformed data in a stored
batch is CorruptRecordError (Kafka's CORRUPT_MESSAGE).
"""

from collections.abc import Iterable, Mapping
from operator import index as whole_number
from warnings import warn

from libc.string cimport memcpy, memset

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8

cimport cython

from kraft_native.base.bytes_be cimport store_u32
from kraft_native.base.clock cimport clock_ms
from kraft_native.base.crc cimport crc32c
from kraft_native.base.limits cimport (
    ATTR_CODEC_MASK, ATTR_CONTROL, ATTR_LOG_APPEND_TIME, ATTR_TRANSACTIONAL, BATCH_ATTRIBUTES, BATCH_CRC,
    BATCH_HEADER_BYTES, CODEC_NONE, INT32_MAX_VALUE, LOG_OVERHEAD_BYTES, MAGIC_CURRENT, NO_TIMESTAMP, VARINT_BYTES_MAX,
)
from kraft_native.base.span cimport span_bytes, span_i8, span_of, span_skip, span_varint, span_varlong
from kraft_native.base.varint cimport put_varlong, varlong_bytes
from kraft_native.batch.batch cimport (
    batch_codec, batch_is_control, batch_is_legacy, batch_is_log_append_time, batch_store, batch_timestamp_type,
    timestamp_type_name,
)
from kraft_native.batch.codecs cimport codec_id, codec_level, compress_into, decompress_into, decompress_limits_default
from kraft_native.batch.legacy cimport legacy_records

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError, TimestampWarning
from kraft_native.batch.batch import walk

cdef int64_t YEAR_2000_MS = 946_684_800_000


cdef int record_next_any(Span* s, RecordView* r) noexcept nogil:
    cdef Span body = s[0]
    cdef int32_t length
    cdef int8_t attributes
    cdef const uint8_t* end
    if s.p >= s.end:
        return 0
    if span_varint(&body, &length) < 0 or length < 0 or body.end - body.p < length:
        return -1
    end = body.p + length
    body.end = end
    if span_i8(&body, &attributes) < 0 or span_varlong(&body, &r.timestamp_delta) < 0:
        return -1
    if span_varint(&body, &r.offset_delta) < 0:
        return -1
    if span_varint(&body, &r.key_bytes) < 0 or r.key_bytes < -1:
        return -1
    r.key = body.p
    if r.key_bytes > 0 and span_skip(&body, r.key_bytes) < 0:
        return -1
    if span_varint(&body, &r.value_bytes) < 0 or r.value_bytes < -1:
        return -1
    r.value = body.p
    if r.value_bytes > 0 and span_skip(&body, r.value_bytes) < 0:
        return -1
    r.header_count = record_headers(body.p, end, &r.headers)
    if r.header_count < 0:
        return -1
    r.headers_bytes = end - r.headers
    r.size = end - s.p
    s.p = end
    return 1


cdef int32_t record_headers(const uint8_t* p, const uint8_t* end, const uint8_t** first) noexcept nogil:
    cdef Span s = span_of(p, end - p)
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int32_t key_bytes
    cdef int32_t value_bytes
    cdef int32_t count
    cdef int32_t _
    if span_varint(&s, &count) < 0:
        return -1
    first[0] = s.p
    for _ in range(count):
        if header_next(&s, &key, &key_bytes, &value, &value_bytes) != 1:
            return -1
    return count if s.p == end else -1


cdef int header_next(Span* s, const uint8_t** key, int32_t* key_bytes, const uint8_t** value,
                     int32_t* value_bytes) noexcept nogil:
    cdef Span at = s[0]
    if at.p >= at.end:
        return 0
    if span_varint(&at, key_bytes) < 0 or span_bytes(&at, key_bytes[0], key) < 0:
        return -1
    if span_varint(&at, value_bytes) < 0 or value_bytes[0] < -1:
        return -1
    value[0] = at.p
    if value_bytes[0] > 0 and span_skip(&at, value_bytes[0]) < 0:
        return -1
    s.p = at.p
    return 1


cdef Span records_of(const uint8_t* batch, const BatchHeader* h, const DecompressLimits* limits,
                     Scratch scratch) except *:
    cdef const uint8_t* body = batch + BATCH_HEADER_BYTES
    cdef Py_ssize_t body_bytes = h.batch_length - (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES)
    if batch_is_legacy(h):
        legacy_records(batch, h.base_offset, h.base_timestamp, limits, scratch)
        return span_of(scratch.data, scratch.size)
    if batch_codec(h) == CODEC_NONE:
        return span_of(body, body_bytes)
    # An empty batch left by compaction keeps its codec bits (KIP-354's cleaner), but has nothing to decompress.
    if h.record_count == 0 and body_bytes == 0:
        return span_of(body, 0)
    decompress_into(batch_codec(h), body, body_bytes, limits, scratch)
    return span_of(scratch.data, scratch.size)


# --- encoding


cdef Py_ssize_t record_body_bytes(int32_t offset_delta, int64_t timestamp_delta, Py_ssize_t key_bytes,
                                  Py_ssize_t value_bytes, Py_ssize_t headers_bytes,
                                  int32_t header_count) noexcept nogil:
    return (1 + varlong_bytes(timestamp_delta) + varlong_bytes(offset_delta) + varlong_bytes(key_bytes)
            + max(key_bytes, 0) + varlong_bytes(value_bytes) + max(value_bytes, 0) + varlong_bytes(header_count)
            + headers_bytes)


cdef uint8_t* record_write(uint8_t* p, Py_ssize_t body_bytes, int32_t offset_delta, int64_t timestamp_delta,
                           const uint8_t* key, Py_ssize_t key_bytes, const uint8_t* value, Py_ssize_t value_bytes,
                           const uint8_t* headers, Py_ssize_t headers_bytes, int32_t header_count) noexcept nogil:
    p = put_varlong(p, body_bytes)
    p[0] = 0
    p = put_varlong(p + 1, timestamp_delta)
    p = put_varlong(p, offset_delta)
    p = put_varlong(p, key_bytes)
    if key_bytes > 0:
        memcpy(p, key, <size_t>key_bytes)
        p += key_bytes
    p = put_varlong(p, value_bytes)
    if value_bytes > 0:
        memcpy(p, value, <size_t>value_bytes)
        p += value_bytes
    p = put_varlong(p, header_count)
    if headers_bytes > 0:
        memcpy(p, headers, <size_t>headers_bytes)
        p += headers_bytes
    return p


cdef int record_too_large(Py_ssize_t body_bytes) except -1:
    raise InvalidArgumentError(f"record of {body_bytes} bytes: key, value and headers must stay below "
                               f"{INT32_MAX_VALUE} bytes together")


cdef void batch_seal(uint8_t* batch, Py_ssize_t size, BatchHeader* h) noexcept nogil:
    h.batch_length = <int32_t>(size - LOG_OVERHEAD_BYTES)
    h.magic = MAGIC_CURRENT
    batch_store(batch, h)
    store_u32(batch + BATCH_CRC, crc32c(0, batch + BATCH_ATTRIBUTES, <size_t>(size - BATCH_ATTRIBUTES)))


cdef void seal_plain(uint8_t* batch, Py_ssize_t size, int64_t base_offset, int32_t leader_epoch, int64_t timestamp,
                     int32_t record_count) noexcept nogil:
    """Seal like `batch_seal`: not compressed, without a producer, all records with one time and without gaps."""
    cdef BatchHeader h
    h.base_offset = base_offset
    h.leader_epoch = leader_epoch
    h.attributes = 0
    h.last_offset_delta = record_count - 1
    h.base_timestamp = timestamp
    h.max_timestamp = timestamp
    h.producer_id = -1
    h.producer_epoch = -1
    h.base_sequence = -1
    h.record_count = record_count
    batch_seal(batch, size, &h)


cdef int encode_one(Scratch out, int64_t base_offset, int32_t leader_epoch, int64_t timestamp, const uint8_t* key,
                    Py_ssize_t key_bytes, const uint8_t* value, Py_ssize_t value_bytes, const uint8_t* headers,
                    Py_ssize_t headers_bytes, int32_t header_count) except -1:
    cdef Py_ssize_t body_bytes = record_body_bytes(0, 0, key_bytes, value_bytes, headers_bytes, header_count)
    cdef uint8_t* start
    cdef uint8_t* end
    if body_bytes > INT32_MAX_VALUE - BATCH_HEADER_BYTES - VARINT_BYTES_MAX:
        return record_too_large(body_bytes)
    out.reserve(out.size + BATCH_HEADER_BYTES + VARINT_BYTES_MAX + body_bytes)
    start = out.data + out.size
    end = record_write(start + BATCH_HEADER_BYTES, body_bytes, 0, 0, key, key_bytes, value, value_bytes, headers,
                       headers_bytes, header_count)
    seal_plain(start, end - start, base_offset, leader_epoch, timestamp, 1)
    out.size = end - out.data
    return 0


cdef int put_sized(Scratch out, object data, str what) except -1:
    """Append a varint length and the bytes of `data` (-1 and nothing for None)."""
    cdef Py_buffer view
    cdef uint8_t* p
    if data is None:
        out.reserve(out.size + 1)
        out.size = put_varlong(out.data + out.size, -1) - out.data
        return 0
    try:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    except TypeError:
        raise InvalidArgumentError(f"{what}: bytes-like expected, got {type(data).__name__}") from None
    try:
        if view.len > INT32_MAX_VALUE:
            record_too_large(view.len)
        out.reserve(out.size + VARINT_BYTES_MAX + view.len)
        p = put_varlong(out.data + out.size, view.len)
        memcpy(p, view.buf, <size_t>view.len)
        out.size = p + view.len - out.data
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int64_t timestamp_of(object time_ms, bint is_users) except? -2:
    """Convert a record's time to milliseconds since 1970; None is -1. `TypeError` for anything but a whole number.

    `is_users`: warn of a time before 2000. It mostly is in seconds, and retention would remove the record at once.
    """
    cdef int64_t found
    if time_ms is None:
        return NO_TIMESTAMP
    if type(time_ms) is not int:
        if isinstance(time_ms, bool) or not hasattr(type(time_ms), "__index__"):
            raise TypeError(f"timestamp_ms: {time_ms!r} is a {type(time_ms).__name__}, not a whole number of "
                            "milliseconds since 1970, such as int(time.time() * 1000)")
        time_ms = whole_number(time_ms)
    found = time_ms
    if is_users and 0 <= found < YEAR_2000_MS:
        warn(f"timestamp_ms {found} is before the year 2000; is it in seconds?", TimestampWarning, stacklevel=2)
    return found


cdef int32_t encode_headers(object headers, Scratch out) except -1:
    cdef int32_t count = 0
    if isinstance(headers, Mapping):
        headers = headers.items()
    elif not isinstance(headers, Iterable):
        raise InvalidArgumentError(f"headers: {type(headers).__name__} is no mapping, and no (name, value) pairs")
    for pair in headers:
        try:
            key, value = pair
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"headers: {pair!r} is no (name, value) pair") from None
        if isinstance(key, str):
            key = (<str>key).encode("utf-8", "surrogateescape")
        if key is None:
            raise InvalidArgumentError("header key: None is not allowed")
        put_sized(out, key, "header key")
        put_sized(out, value, "header value")
        count += 1
    return count


@cython.final
cdef class BatchBuilder:
    """Builder of one record batch from records, as a Kafka producer builds it.

    `codec` is none, gzip, snappy, lz4 or zstd, `level` the codec's own level (None: Kafka's default). `append` records,
    then `build`. `clear` starts over with the same settings. One thread only.
    """

    def __cinit__(self):
        self.records = Scratch()
        self.packed = Scratch()
        self.header_space = Scratch()
        self.start(CODEC_NONE, 0, 0)

    def __init__(self, codec: str = "none", level: int | None = None, *, bint transactional=False, bint control=False):
        cdef int number = codec_id(codec)
        self.start(number, codec_level(number, level),
                   (ATTR_TRANSACTIONAL if transactional else 0) | (ATTR_CONTROL if control else 0))

    cdef int start(self, int codec, int level, int16_t attributes) except -1:
        self.codec_id = codec
        self.level = level
        self.attributes = <int16_t>((attributes & ~ATTR_CODEC_MASK) | codec)
        self.records.size = 0
        self.base_fixed = False
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.record_count = 0
        self.last_offset_delta = -1
        return 0

    cdef int base_timestamp_set(self, int64_t timestamp) except -1:
        assert self.record_count == 0, "the base timestamp is fixed before the first record"
        self.base_fixed = True
        self.base_timestamp = timestamp
        return 0

    cdef int add(self, int64_t timestamp, const uint8_t* key, Py_ssize_t key_bytes, const uint8_t* value,
                 Py_ssize_t value_bytes, const uint8_t* headers, Py_ssize_t headers_bytes,
                 int32_t header_count) except -1:
        return self.add_at(self.last_offset_delta + 1, timestamp, key, key_bytes, value, value_bytes, headers,
                           headers_bytes, header_count)

    cdef int add_at(self, int32_t offset_delta, int64_t timestamp, const uint8_t* key, Py_ssize_t key_bytes,
                    const uint8_t* value, Py_ssize_t value_bytes, const uint8_t* headers, Py_ssize_t headers_bytes,
                    int32_t header_count) except -1:
        cdef int64_t delta
        cdef Py_ssize_t body_bytes
        cdef Scratch records = self.records
        if offset_delta <= self.last_offset_delta:
            raise InvalidArgumentError(f"offset delta {offset_delta} must be above the last one, "
                                       f"{self.last_offset_delta}")
        if self.record_count == 0 and not self.base_fixed:
            self.base_timestamp = timestamp
        # Wraps like Java's subtraction; the reader's addition wraps back.
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>self.base_timestamp)
        body_bytes = record_body_bytes(offset_delta, delta, key_bytes, value_bytes, headers_bytes, header_count)
        if body_bytes > INT32_MAX_VALUE - BATCH_HEADER_BYTES - VARINT_BYTES_MAX:
            return record_too_large(body_bytes)
        records.reserve(records.size + VARINT_BYTES_MAX + body_bytes)
        records.size = record_write(records.data + records.size, body_bytes, offset_delta, delta, key, key_bytes,
                                    value, value_bytes, headers, headers_bytes, header_count) - records.data
        self.last_offset_delta = offset_delta
        self.max_timestamp = timestamp if self.record_count == 0 else max(self.max_timestamp, timestamp)
        self.record_count += 1
        return 0

    cdef bytes finish(self, int64_t base_offset, int32_t leader_epoch, int64_t producer_id, int16_t producer_epoch,
                      int32_t base_sequence):
        cdef BatchHeader h
        cdef Scratch body = self.records
        cdef bytes batch
        cdef uint8_t* data
        cdef Py_ssize_t size
        if self.codec_id != CODEC_NONE and self.record_count > 0:
            body = self.packed
            body.size = 0
            compress_into(self.codec_id, self.level, self.records.data, self.records.size, body)
        size = BATCH_HEADER_BYTES + body.size
        if size > INT32_MAX_VALUE:
            raise InvalidArgumentError(f"a batch of {size} bytes; at most {INT32_MAX_VALUE} fit")
        batch = PyBytes_FromStringAndSize(NULL, size)
        data = <uint8_t*>PyBytes_AS_STRING(batch)
        if body.size > 0:
            memcpy(data + BATCH_HEADER_BYTES, body.data, <size_t>body.size)
        h.base_offset = base_offset
        h.leader_epoch = leader_epoch
        h.attributes = self.attributes
        h.last_offset_delta = max(self.last_offset_delta, 0)
        h.base_timestamp = self.base_timestamp
        h.max_timestamp = self.max_timestamp
        h.producer_id = producer_id
        h.producer_epoch = producer_epoch
        h.base_sequence = base_sequence
        h.record_count = self.record_count
        batch_seal(data, size, &h)
        return batch

    def __len__(self) -> int:
        """Records so far."""
        return self.record_count

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the batch if it were built now without compression."""
        return BATCH_HEADER_BYTES + self.records.size

    def append(self, value: Buffer | None, key: Buffer | None = None, timestamp_ms: int | None = None,
               headers: RecordHeaders = (), *, offset_delta: int | None = None) -> None:
        """Add one record. InvalidArgumentError leaves the builder as it was.

        `value` and `key` are bytes-like or None (a None value is a tombstone). `timestamp_ms` is in whole milliseconds,
        None: now, -1: no time. `headers` are a mapping or pairs of str or bytes and bytes-like or None. `offset_delta`,
        for batches with gaps, must rise from record to record.
        """
        cdef Py_buffer key_view
        cdef Py_buffer value_view
        cdef int64_t timestamp = clock_ms() if timestamp_ms is None else timestamp_of(timestamp_ms, False)
        cdef int32_t delta = self.last_offset_delta + 1 if offset_delta is None else offset_delta
        cdef int32_t header_count = 0
        if timestamp < NO_TIMESTAMP:
            raise InvalidArgumentError(f"timestamp_ms {timestamp}: 0 or more, or -1 for no time")
        self.header_space.size = 0
        if headers:
            header_count = encode_headers(headers, self.header_space)
        view_of(key, &key_view, "key")
        try:
            view_of(value, &value_view, "value")
            try:
                self.add_at(delta, timestamp, <const uint8_t*>key_view.buf, key_view.len,
                            <const uint8_t*>value_view.buf, value_view.len, self.header_space.data,
                            self.header_space.size, header_count)
            finally:
                PyBuffer_Release(&value_view)
        finally:
            PyBuffer_Release(&key_view)

    def build(self, base_offset: int = 0, *, leader_epoch: int = -1, producer_id: int = -1, producer_epoch: int = -1,
              base_sequence: int = -1, log_append_time_ms: int | None = None) -> bytes:
        """The finished batch. The records stay, so that it may be built again with other header fields.

        `log_append_time_ms` makes it a LogAppendTime batch: every record then has that time.
        """
        cdef int64_t max_timestamp = self.max_timestamp
        if self.record_count == 0:
            raise InvalidArgumentError("a batch needs at least one record")
        if base_offset < 0:
            raise InvalidArgumentError(f"base_offset {base_offset}: 0 or more")
        self.attributes &= ~ATTR_LOG_APPEND_TIME
        if log_append_time_ms is not None:
            self.attributes |= ATTR_LOG_APPEND_TIME
            self.max_timestamp = log_append_time_ms
        try:
            return self.finish(base_offset, leader_epoch, producer_id, producer_epoch, base_sequence)
        finally:
            self.max_timestamp = max_timestamp

    def clear(self) -> None:
        """Drop the records, keep codec, level and kind."""
        self.start(self.codec_id, self.level, self.attributes)


def values_batch(values: Iterable[bytes], int64_t timestamp_ms, *, int64_t base_offset, int32_t leader_epoch) -> bytes:
    """Build the uncompressed batch of one record without a key for each of `values`, `bytes` all of them, with one
    time: the same bytes as a builder's, without its copies."""
    cdef list held = list(values)
    cdef Py_ssize_t size = BATCH_HEADER_BYTES
    cdef Py_ssize_t body_bytes
    cdef bytes batch
    cdef uint8_t* p
    cdef int32_t delta
    cdef object value
    if not held:
        raise InvalidArgumentError("a batch needs at least one record")
    if timestamp_ms < NO_TIMESTAMP:
        raise InvalidArgumentError(f"timestamp_ms {timestamp_ms}: 0 or more, or -1 for no time")
    if base_offset < 0:
        raise InvalidArgumentError(f"base_offset {base_offset}: 0 or more")
    for delta, value in enumerate(held):
        if not PyBytes_CheckExact(value):
            raise InvalidArgumentError(f"value: bytes expected, got {type(value).__name__}")
        body_bytes = record_body_bytes(delta, 0, -1, PyBytes_GET_SIZE(value), 0, 0)
        size += varlong_bytes(body_bytes) + body_bytes
        if size > INT32_MAX_VALUE:
            raise InvalidArgumentError(f"a batch of more than {INT32_MAX_VALUE} bytes")
    batch = PyBytes_FromStringAndSize(NULL, size)
    p = <uint8_t*>PyBytes_AS_STRING(batch) + BATCH_HEADER_BYTES
    for delta, value in enumerate(held):
        body_bytes = record_body_bytes(delta, 0, -1, PyBytes_GET_SIZE(value), 0, 0)
        p = record_write(p, body_bytes, delta, 0, NULL, -1, <const uint8_t*>PyBytes_AS_STRING(value),
                         PyBytes_GET_SIZE(value), NULL, 0, 0)
    seal_plain(<uint8_t*>PyBytes_AS_STRING(batch), size, base_offset, leader_epoch, timestamp_ms, <int32_t>len(held))
    return batch


cdef int view_of(object data, Py_buffer* view, str what) except -1:
    """Hold a buffer; None is an empty one with length -1."""
    if data is None:
        memset(view, 0, sizeof(Py_buffer))
        view.len = -1
        return 0
    try:
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    except TypeError:
        raise InvalidArgumentError(f"{what}: bytes-like or None expected, got {type(data).__name__}") from None
    return 0


# --- Python objects


@cython.final
@cython.freelist(256)
cdef class Record:
    """One record. `key` and `value` are bytes or None, `headers` a tuple of (str, bytes or None).

    `timestamp_type` is CreateTime, LogAppendTime or, in format v0, NoTimestampType; `leader_epoch` that of its batch.
    Header keys that are not UTF-8 keep their bytes as lone surrogates (`surrogateescape`).
    """

    def __init__(self):
        raise TypeError("records come from records()")

    @property
    def timestamp_type(self) -> str:
        return timestamp_type_name(self.timestamp_kind)

    def __repr__(self) -> str:
        return (f"Record(offset={self.offset}, timestamp_ms={self.timestamp_ms}, key={self.key!r}, "
                f"value={self.value!r}, headers={self.headers!r})")


cdef Record record_object(const BatchHeader* h, const RecordView* r):
    cdef Record record = Record.__new__(Record)
    record.offset = h.base_offset + r.offset_delta
    record.timestamp_kind = batch_timestamp_type(h)
    record.timestamp_ms = (h.max_timestamp if batch_is_log_append_time(h)
                           else <int64_t>(<uint64_t>h.base_timestamp + <uint64_t>r.timestamp_delta))
    record.leader_epoch = h.leader_epoch
    record.key = PyBytes_FromStringAndSize(<const char*>r.key, r.key_bytes) if r.key_bytes >= 0 else None
    record.value = PyBytes_FromStringAndSize(<const char*>r.value, r.value_bytes) if r.value_bytes >= 0 else None
    record.headers = header_objects(r) if r.header_count > 0 else ()
    return record


cdef tuple header_objects(const RecordView* r):
    cdef Span s = span_of(r.headers, r.headers_bytes)
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int32_t key_bytes
    cdef int32_t value_bytes
    cdef list headers = []
    while header_next(&s, &key, &key_bytes, &value, &value_bytes) == 1:
        headers.append((
            PyUnicode_DecodeUTF8(<char*>key, key_bytes, "surrogateescape"),
            PyBytes_FromStringAndSize(<const char*>value, value_bytes) if value_bytes >= 0 else None,
        ))
    return tuple(headers)


@cython.final
cdef class RecordIterator:
    """Iterator of `records`. Not to be shared between threads."""
    cdef object batches
    cdef Batch batch
    cdef Scratch scratch
    cdef DecompressLimits limits
    cdef Span span
    cdef int32_t left
    cdef int64_t first_offset
    cdef bint control

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> Record:
        cdef RecordView r
        while True:
            while self.left == 0:
                if self.batch is not None and self.span.p != self.span.end:
                    raise CorruptRecordError(f"batch at offset {self.batch.h.base_offset}: "
                                             f"{self.span.end - self.span.p} bytes after its last record")
                self.batch = None
                self.open_batch(next(self.batches))
            if record_next(&self.span, &r) != 1:
                index = self.batch.h.record_count - self.left
                raise CorruptRecordError(f"batch at offset {self.batch.h.base_offset}: record {index} of "
                                         f"{self.batch.h.record_count} is malformed")
            self.left -= 1
            if self.batch.h.base_offset + r.offset_delta >= self.first_offset:
                return record_object(&self.batch.h, &r)

    cdef int open_batch(self, Batch batch) except -1:
        if batch_is_control(&batch.h) and not self.control:
            return 0
        self.span = records_of(batch.data, &batch.h, &self.limits, self.scratch)
        self.batch = batch
        self.left = batch.h.record_count
        return 0


def records(source: Buffer, *, bint check_crc=True, bint control=False, max_bytes: int | None = None,
            max_ratio: int | None = None, int64_t first_offset=-0x4000000000000000) -> RecordIterator:
    """Iterate over the records of `source` in order: a Batch, or any buffer of whole batches. Those below
    `first_offset` are skipped without an object for each.

    Control records (transaction markers and such) are left out unless `control` is set. Raises CorruptRecordError at
    damage, MessageTooLargeError where a batch decompresses to more than `max_bytes` or `max_ratio` times its size.
    """
    cdef RecordIterator iterator = RecordIterator.__new__(RecordIterator)
    iterator.limits = decompress_limits_default()
    if max_bytes is not None:
        iterator.limits.bytes_max = max_bytes
    if max_ratio is not None:
        iterator.limits.ratio_max = max_ratio
    iterator.batches = walk(source, check_crc=check_crc)
    iterator.scratch = Scratch()
    iterator.control = control
    iterator.first_offset = first_offset
    return iterator
