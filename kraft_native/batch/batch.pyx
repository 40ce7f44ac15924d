"""Record batches: inspecting bytes, walking batches, and the Python view of one batch.

Layout of the 61-byte header (KIP-98; all integers big-endian), followed by the records:

    0 baseOffset int64  |  8 batchLength int32  |  12 partitionLeaderEpoch int32  |  16 magic int8  |  17 crc uint32
    21 attributes int16  |  23 lastOffsetDelta int32  |  27 baseTimestamp int64  |  35 maxTimestamp int64
    43 producerId int64  |  51 producerEpoch int16  |  53 baseSequence int32  |  57 recordsCount int32

The CRC covers byte 21 to the end, so that a leader may assign offset and epoch without computing it again.

A message of format v0 or v1 (`legacy.pyx`) is treated as a batch of the records in it. It has no epoch, producer and
sequence, and only the attributes that it shares with v2. Its magic byte lies where that of v2 does.
"""

from libc.stdint cimport INT64_MAX
from libc.string cimport memcpy, memset

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize

cimport cython

from kraft_native.base.crc cimport crc32c
from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, fault_set, raise_fault
from kraft_native.base.limits cimport CODEC_NONE, TIMESTAMP_LOG_APPEND_TIME
from kraft_native.batch.legacy cimport (
    LEGACY_MESSAGE_BYTES_MIN, LegacyMessage, LegacySet, legacy_crc, legacy_message, legacy_survey,
)

from kraft_native.base.errors import CorruptRecordError

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# The layout for Python.
BASE_OFFSET_AT, LENGTH_AT, LEADER_EPOCH_AT, MAGIC_AT = BATCH_BASE_OFFSET, BATCH_LENGTH, BATCH_LEADER_EPOCH, BATCH_MAGIC
CRC_AT, ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT = BATCH_CRC, BATCH_ATTRIBUTES, BATCH_LAST_OFFSET_DELTA
BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT, PRODUCER_ID_AT = BATCH_BASE_TIMESTAMP, BATCH_MAX_TIMESTAMP, BATCH_PRODUCER_ID
PRODUCER_EPOCH_AT, BASE_SEQUENCE_AT, RECORD_COUNT_AT = BATCH_PRODUCER_EPOCH, BATCH_BASE_SEQUENCE, BATCH_RECORD_COUNT
HEADER_BYTES, OVERHEAD_BYTES = BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES


cdef BatchLook batch_look(const uint8_t* p, Py_ssize_t left, bint check_crc, BatchHeader* h,
                          Fault* fault) noexcept nogil:
    cdef uint8_t head[BATCH_HEADER_BYTES]
    cdef Fault unused
    if fault == NULL:
        fault = &unused
    if left <= 0:
        return LOOK_END
    if left < BATCH_HEADER_BYTES:
        memset(head, 0, sizeof(head))
        memcpy(head, p, <size_t>left)
        batch_load(head, h)
        if left > BATCH_MAGIC and 0 <= h.magic < MAGIC_CURRENT:
            return look_legacy(p, left, check_crc, h, fault)
        return look_short(left, h, fault)
    batch_load(p, h)
    if structure(h, fault) < 0:
        return look_legacy(p, left, check_crc, h, fault) if 0 <= h.magic < MAGIC_CURRENT else LOOK_CORRUPT
    if left < batch_bytes(h):
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "cut off: the batch has %lld bytes, only %lld exist",
                  batch_bytes(h), left)
        return LOOK_PARTIAL
    if check_crc and batch_crc(p, h) != h.crc:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "stored crc %lld, computed %lld", h.crc, batch_crc(p, h))
        return LOOK_CORRUPT
    return LOOK_OK


cdef BatchLook look_short(Py_ssize_t left, const BatchHeader* h, Fault* fault) noexcept nogil:
    """Judge bytes that end inside the header: partial, unless the present fields already exclude a batch."""
    if left >= 8 and h.base_offset < 0:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "base offset %lld is negative", h.base_offset, 0)
        return LOOK_CORRUPT
    cdef int length_min = (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES if left > BATCH_MAGIC
                           else BATCH_LENGTH_MIN_ANY_MAGIC)
    if left >= LOG_OVERHEAD_BYTES and h.batch_length < length_min:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "batch length %lld is below %lld", h.batch_length, length_min)
        return LOOK_CORRUPT
    if left > BATCH_MAGIC and h.magic != MAGIC_CURRENT:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "magic %lld, only 0 to %lld are supported", h.magic, MAGIC_CURRENT)
        return LOOK_CORRUPT
    fault_set(fault, ERROR_CORRUPT_MESSAGE, "cut off: %lld bytes of a %lld-byte header", left, BATCH_HEADER_BYTES)
    return LOOK_PARTIAL


cdef int structure(const BatchHeader* h, Fault* fault) noexcept nogil:
    """Check a whole header as far as no other bytes are needed. 0, or -1 with `fault` filled."""
    if h.batch_length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "batch length %lld is below %lld", h.batch_length,
                         BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES)
    if h.magic != MAGIC_CURRENT:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "magic %lld, only 0 to %lld are supported", h.magic,
                         MAGIC_CURRENT)
    if h.base_offset < 0:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "base offset %lld is negative", h.base_offset, 0)
    if h.last_offset_delta < 0 or h.base_offset > INT64_MAX - 1 - h.last_offset_delta:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "base offset %lld with last offset delta %lld", h.base_offset,
                         h.last_offset_delta)
    if h.record_count < 0 or <int64_t>h.record_count > <int64_t>h.last_offset_delta + 1:
        return fault_set(fault, ERROR_CORRUPT_MESSAGE, "%lld records with last offset delta %lld", h.record_count,
                         h.last_offset_delta)
    return 0


cdef BatchLook look_legacy(const uint8_t* p, Py_ssize_t left, bint check_crc, BatchHeader* h,
                           Fault* fault) noexcept nogil:
    """`batch_look` for magic 0 and 1. The base offset of a compressed message is inside: its CRC is always checked."""
    cdef LegacyMessage m
    cdef int found = legacy_message(p, left, &m)
    if found < 0 or h.base_offset == INT64_MAX:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "magic %lld: a message of length %lld is malformed", h.magic,
                  h.batch_length)
        return LOOK_CORRUPT
    if left < LEGACY_MESSAGE_BYTES_MIN:
        return look_short_legacy(left, h, fault)
    fill_legacy(&m, h)
    if found == 0:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "cut off: the batch has %lld bytes, only %lld exist",
                  batch_bytes(h), left)
        return LOOK_PARTIAL
    if (check_crc or batch_codec(h) != CODEC_NONE) and legacy_crc(p, m.length) != m.crc:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "magic %lld: stored crc %lld is not that of its bytes", h.magic, m.crc)
        return LOOK_CORRUPT
    survey_legacy(&m, h)
    return LOOK_OK


cdef BatchLook look_short_legacy(Py_ssize_t left, const BatchHeader* h, Fault* fault) noexcept nogil:
    """Judge bytes that end before a message can."""
    if h.base_offset < 0 or h.batch_length < BATCH_LENGTH_MIN_ANY_MAGIC:
        fault_set(fault, ERROR_CORRUPT_MESSAGE, "a message of offset %lld and length %lld", h.base_offset,
                  h.batch_length)
        return LOOK_CORRUPT
    fault_set(fault, ERROR_CORRUPT_MESSAGE, "cut off: %lld bytes of a message of at least %lld", left,
              LEGACY_MESSAGE_BYTES_MIN)
    return LOOK_PARTIAL


cdef void fill_legacy(const LegacyMessage* m, BatchHeader* h) noexcept nogil:
    """Fill the header from the fields outside of the value."""
    h.base_offset = m.offset
    h.base_timestamp = h.max_timestamp = m.timestamp
    h.producer_id = h.leader_epoch = h.base_sequence = h.producer_epoch = -1
    h.batch_length = m.length
    h.crc = m.crc
    h.last_offset_delta = 0
    h.record_count = 1
    h.attributes = m.attributes
    h.magic = m.magic


cdef void survey_legacy(const LegacyMessage* m, BatchHeader* h) noexcept nogil:
    """Fill the fields that only the messages inside give."""
    cdef LegacySet found
    legacy_survey(m, &found)
    h.base_offset = found.first_offset
    h.base_timestamp = found.first_timestamp
    h.last_offset_delta = <int32_t>(m.offset - found.first_offset)
    h.record_count = found.count


cdef void load_legacy(const uint8_t* p, BatchHeader* h) noexcept nogil:
    cdef LegacyMessage m
    cdef bint whole = legacy_message(p, <Py_ssize_t>LOG_OVERHEAD_BYTES + load_i32(p + BATCH_LENGTH), &m) == 1
    fill_legacy(&m, h)
    if whole:
        survey_legacy(&m, h)


cdef void batch_peek(const uint8_t* p, BatchHeader* h) noexcept nogil:
    cdef LegacyMessage m
    if not 0 <= <int8_t>p[BATCH_MAGIC] < MAGIC_CURRENT:
        batch_load(p, h)
        return
    legacy_message(p, LEGACY_MESSAGE_BYTES_MIN, &m)
    fill_legacy(&m, h)


cdef bint is_unknown_format(const uint8_t* p, Py_ssize_t left, int64_t offset_min) noexcept nogil:
    cdef BatchHeader h
    cdef Fault fault
    if left < LEGACY_MESSAGE_BYTES_MIN or <int8_t>p[BATCH_MAGIC] <= MAGIC_CURRENT:
        return False
    if not offset_min <= load_i64(p) <= offset_min + INT32_MAX_VALUE:
        return False
    if not BATCH_LENGTH_MIN_ANY_MAGIC + LOG_OVERHEAD_BYTES <= batch_bytes_at(p) <= left:
        return False
    if batch_bytes_at(p) < BATCH_HEADER_BYTES:
        return True
    # The magic byte lies outside of the CRC of v2: if it alone changed, all the rest is right.
    batch_load(p, &h)
    h.magic = MAGIC_CURRENT
    return structure(&h, &fault) < 0 or batch_crc(p, &h) != h.crc


cdef uint32_t batch_crc(const uint8_t* p, const BatchHeader* h) noexcept nogil:
    if h.magic < MAGIC_CURRENT:
        return legacy_crc(p, h.batch_length)
    return crc32c(0, p + BATCH_ATTRIBUTES, <size_t>(batch_bytes(h) - BATCH_ATTRIBUTES))


cdef int batch_require(const uint8_t* p, Py_ssize_t left, bint check_crc, BatchHeader* h) except -1:
    cdef Fault fault
    cdef BatchLook look = batch_look(p, left, check_crc, h, &fault)
    if look == LOOK_END:
        fault_set(&fault, ERROR_CORRUPT_MESSAGE, "no bytes, so no batch", 0, 0)
    if look != LOOK_OK:
        return raise_fault(&fault)
    return 0


cdef int64_t batch_count(const uint8_t* p, Py_ssize_t size, bint check_crc, Py_ssize_t* whole_bytes) noexcept nogil:
    cdef BatchHeader h
    cdef Py_ssize_t at = 0
    cdef int64_t count = 0
    while batch_look(p + at, size - at, check_crc, &h, NULL) == LOOK_OK:
        at += batch_bytes(&h)
        count += 1
    whole_bytes[0] = at
    return count


cdef str timestamp_type_name(int number):
    return "NoTimestampType" if number < 0 else "LogAppendTime" if number == TIMESTAMP_LOG_APPEND_TIME else "CreateTime"


@cython.final
cdef class HeldBuffer:
    def __cinit__(self, object source: Buffer) -> HeldBuffer:
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.data = <const uint8_t*>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef Batch batch_view(object owner, const uint8_t* data, const BatchHeader* h):
    cdef Batch batch = Batch.__new__(Batch)
    batch.owner = owner
    batch.data = data
    batch.h = h[0]
    return batch


@cython.final
@cython.freelist(64)
cdef class Batch:
    """One record batch in another object's memory, which it keeps alive and does not copy.

    Created by `walk` or `first_batch`, which check the structure of the header. `memoryview(batch)` and `bytes(batch)`
    give the whole batch, header included. Several threads may read it: nothing in it changes.
    """

    def __init__(self):
        raise TypeError("batches come from walk(), first_batch() or a log's read methods")

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*>self.data, batch_bytes(&self.h), True, flags)

    def __bytes__(self) -> bytes:
        return PyBytes_FromStringAndSize(<const char*>self.data, batch_bytes(&self.h))

    def __repr__(self) -> str:
        return (f"Batch(offsets {self.base_offset}..{self.last_offset}, {self.record_count} records, "
                f"{self.size_in_bytes} bytes, {self.codec}{', control' if self.is_control else ''}"
                f"{', transactional' if self.is_transactional else ''})")

    @property
    def base_offset(self) -> int:
        """The first offset the batch covers; its record may have been compacted away."""
        return self.h.base_offset

    @property
    def last_offset(self) -> int:
        """The last offset the batch covers, inclusive."""
        return batch_last_offset(&self.h)

    @property
    def next_offset(self) -> int:
        return batch_last_offset(&self.h) + 1

    @property
    def size_in_bytes(self) -> int:
        """Header and records."""
        return batch_bytes(&self.h)

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leader that appended it, -1 where none was assigned."""
        return self.h.leader_epoch

    @property
    def magic(self) -> int:
        return self.h.magic

    @property
    def crc(self) -> int:
        """The stored checksum."""
        return self.h.crc

    @property
    def attributes(self) -> int:
        return self.h.attributes

    @property
    def codec(self) -> str:
        """none, gzip, snappy, lz4 or zstd; `codec-5` and so on for numbers that Kafka never gave out."""
        cdef int codec = batch_codec(&self.h)
        return CODEC_NAMES[codec] if codec < 5 else f"codec-{codec}"

    @property
    def timestamp_type(self) -> str:
        """CreateTime, or LogAppendTime: then `max_timestamp_ms` is the time of every record. NoTimestampType in format
        v0."""
        return timestamp_type_name(batch_timestamp_type(&self.h))

    @property
    def is_control(self) -> bool:
        return batch_is_control(&self.h)

    @property
    def is_transactional(self) -> bool:
        return batch_is_transactional(&self.h)

    @property
    def base_timestamp_ms(self) -> int:
        """Base of the records' timestamp deltas."""
        return self.h.base_timestamp

    @property
    def max_timestamp_ms(self) -> int:
        return self.h.max_timestamp

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which the cleaner may drop the tombstones or the marker in it; None before the first cleaning."""
        return self.h.base_timestamp if batch_has_delete_horizon(&self.h) else None

    @property
    def producer_id(self) -> int:
        return self.h.producer_id

    @property
    def producer_epoch(self) -> int:
        return self.h.producer_epoch

    @property
    def base_sequence(self) -> int:
        return self.h.base_sequence

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 without sequences; wraps from 2147483647 to 0."""
        return batch_last_sequence(&self.h)

    @property
    def record_count(self) -> int:
        return self.h.record_count

    @property
    def valid(self) -> bool:
        """True when the stored CRC matches the bytes. Computed on every call."""
        return batch_crc(self.data, &self.h) == self.h.crc


@cython.final
cdef class BatchIterator:
    """Iterator of `walk`. Not to be shared between threads."""

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Batch:
        cdef BatchHeader h
        cdef Fault fault
        cdef const uint8_t* p = self.held.data + self.at
        cdef Py_ssize_t at = self.at
        cdef BatchLook look = batch_look(p, self.held.size - at, self.check_crc, &h, &fault)
        if look == LOOK_OK:
            self.at += batch_bytes(&h)
            return batch_view(self.held, p, &h)
        if look == LOOK_CORRUPT:
            try:
                raise_fault(&fault)
            except CorruptRecordError as error:
                raise CorruptRecordError(f"at byte {at}: {error}") from None
        raise StopIteration

    @property
    def position(self) -> int:
        """Position of the next batch; after the end, the bytes of whole batches."""
        return self.at


def walk(source: Buffer, *, bint check_crc=True) -> BatchIterator:
    """The batches in `source`, any object with the buffer protocol, in order and without copying.

    Ends at the first batch that is not whole, as a reader of a Fetch reply must (`position` is that place). Raises
    CorruptRecordError where the bytes cannot be a batch or, unless `check_crc` is off, the CRC is wrong.
    """
    cdef BatchIterator batches = BatchIterator.__new__(BatchIterator)
    batches.held = HeldBuffer(source)
    batches.check_crc = check_crc
    return batches


def first_batch(source: Buffer, *, bint check_crc=True) -> Batch:
    """The batch at the start of `source`. CorruptRecordError unless it is whole and valid."""
    cdef HeldBuffer held = HeldBuffer(source)
    cdef BatchHeader h
    batch_require(held.data, held.size, check_crc, &h)
    return batch_view(held, held.data, &h)


def count_batches(source: Buffer, *, bint check_crc=False) -> tuple[int, int]:
    """(whole batches from the start of `source`, bytes they take); stops at the first that is not one."""
    cdef HeldBuffer held = HeldBuffer(source)
    cdef Py_ssize_t whole = 0
    cdef int64_t count
    with nogil:
        count = batch_count(held.data, held.size, check_crc, &whole)
    return count, whole


def plain_end(source: Buffer, int64_t offset, int32_t leader_epoch) -> int:
    """End of the whole batches that begin at `offset`, follow each other without a gap, have that leader epoch and hold
    no control records; -1 when `source` is anything else. CRCs are not checked."""
    cdef HeldBuffer held = HeldBuffer(source)
    cdef const uint8_t* p = held.data
    cdef Py_ssize_t left = held.size
    cdef BatchHeader h
    if left == 0:
        return -1
    while left > 0:
        if (batch_look(p, left, False, &h, NULL) != LOOK_OK or h.base_offset != offset
                or h.leader_epoch != leader_epoch or batch_is_control(&h)):
            return -1
        offset = batch_last_offset(&h) + 1
        p += batch_bytes(&h)
        left -= batch_bytes(&h)
    return offset


def follow_batches(source: Buffer, int64_t offset, *, bint check_crc=True, bint gaps=False) -> tuple[int, int]:
    """Range of `source` that can be read from `offset` on: (bytes of whole batches from its start, offset after them).

    Batches before `offset` count. The range ends at the first batch that is not whole or not sound. Without `gaps` it
    also ends before a gap in the offsets. With nothing to read the offset is the one given.
    """
    cdef HeldBuffer held = HeldBuffer(source)
    cdef BatchHeader h
    cdef Fault fault
    cdef Py_ssize_t at = 0
    with nogil:
        while batch_look(held.data + at, held.size - at, check_crc, &h, &fault) == LOOK_OK:
            if h.base_offset > offset and not gaps:
                break
            at += batch_bytes(&h)
            offset = max(offset, batch_last_offset(&h) + 1)
    return at, offset
