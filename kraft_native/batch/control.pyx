"""Control records.

Key: int16 version (0), int16 type. Value of an abort or commit marker: int16 version (0), int32 epoch of the
transaction coordinator that wrote it. The value of every other type is a message of Kafka's whose first field is its
version; it is kept as bytes here. Higher versions only add fields, so they are read as version 0 (Kafka's
ControlRecordType).
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from cpython.bytes cimport PyBytes_FromStringAndSize

cimport cython

from kraft_native.base.bytes_be cimport load_i16, load_i32, store_i16, store_i32
from kraft_native.base.limits cimport (
    ATTR_CONTROL, ATTR_TRANSACTIONAL, BATCH_HEADER_BYTES, CODEC_NONE, CONTROL_ABORT, CONTROL_COMMIT,
    CONTROL_KRAFT_VERSION, CONTROL_KRAFT_VOTERS, CONTROL_LEADER_CHANGE, CONTROL_SNAPSHOT_FOOTER,
    CONTROL_SNAPSHOT_HEADER, LOG_OVERHEAD_BYTES, NO_SEQUENCE, VARINT_BYTES_MAX,
)
from kraft_native.base.span cimport Span, span_of
from kraft_native.batch.batch cimport Batch, batch_codec, batch_is_control
from kraft_native.batch.codecs cimport DecompressLimits, decompress_limits_default
from kraft_native.batch.records cimport (
    Record, batch_seal, record_body_bytes, record_next, record_object, record_write, records_of,
)
from kraft_native.file.buffer cimport Scratch

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder

# Kafka's names of the types, by number.
TYPES: dict[int, str] = {
    CONTROL_ABORT: "ABORT",
    CONTROL_COMMIT: "COMMIT",
    CONTROL_LEADER_CHANGE: "LEADER_CHANGE",
    CONTROL_SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    CONTROL_SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    CONTROL_KRAFT_VERSION: "KRAFT_VERSION",
    CONTROL_KRAFT_VOTERS: "KRAFT_VOTERS",
}


cdef int control_record(const RecordView* r, int32_t* type, int32_t* coordinator_epoch) noexcept nogil:
    coordinator_epoch[0] = -1
    if r.key_bytes < CONTROL_KEY_BYTES or load_i16(r.key) < 0:
        return -1
    type[0] = load_i16(r.key + 2)
    if type[0] == CONTROL_ABORT or type[0] == CONTROL_COMMIT:
        if r.value_bytes < MARKER_VALUE_BYTES or load_i16(r.value) < 0:
            return -1
        coordinator_epoch[0] = load_i32(r.value + 2)
    return 0


cdef int control_parse(const uint8_t* batch, const BatchHeader* h, int32_t* type,
                       int32_t* coordinator_epoch) noexcept nogil:
    cdef Span s
    cdef RecordView r
    if h.record_count == 0:
        return 0
    if batch_codec(h) != CODEC_NONE:
        return -1
    s = span_of(batch + BATCH_HEADER_BYTES, h.batch_length - (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES))
    if record_next(&s, &r) != 1 or control_record(&r, type, coordinator_epoch) < 0:
        return -1
    return 1


@cython.final
cdef class ControlRecord:
    """One control record. `type` is its number, `type_name` Kafka's name for it, `value` its bytes."""

    def __init__(self):
        raise TypeError("control records come from control_records()")

    @property
    def type_name(self) -> str:
        """ABORT, COMMIT, LEADER_CHANGE ...; UNKNOWN for a type that later versions may define: to be ignored."""
        return TYPES.get(self.type, "UNKNOWN")

    @property
    def coordinator_epoch(self) -> int | None:
        """Coordinator epoch of an abort or commit marker; None for other types."""
        return self.coordinator if self.type == CONTROL_ABORT or self.type == CONTROL_COMMIT else None

    def __repr__(self) -> str:
        return (f"ControlRecord(offset={self.offset}, type={self.type_name}, producer_id={self.producer_id}, "
                f"coordinator_epoch={self.coordinator_epoch})")


cdef ControlRecord control_object(Batch batch, const RecordView* r):
    cdef ControlRecord control = ControlRecord.__new__(ControlRecord)
    cdef Record record = record_object(&batch.h, r)
    if control_record(r, &control.type, &control.coordinator) < 0:
        raise CorruptRecordError(f"control record at offset {record.offset}: key {record.key!r}, "
                                 f"value {record.value!r}")
    control.offset = record.offset
    control.timestamp_ms = record.timestamp_ms
    control.leader_epoch = record.leader_epoch
    control.key_version = load_i16(r.key)
    control.value = record.value
    control.producer_id = batch.h.producer_id
    control.producer_epoch = batch.h.producer_epoch
    return control


def control_records(source: Buffer, *, bint check_crc=True) -> list[ControlRecord]:
    """The control records in `source`, a Batch or any buffer of whole batches, in order; data batches are skipped.

    CorruptRecordError at damage, like `records`.
    """
    cdef list found = []
    cdef Scratch scratch = Scratch()
    cdef DecompressLimits limits = decompress_limits_default()
    cdef RecordView r
    cdef Span s
    cdef Batch batch
    cdef int32_t i
    for batch in walk(source, check_crc=check_crc):
        if not batch_is_control(&batch.h):
            continue
        s = records_of(batch.data, &batch.h, &limits, scratch)
        for i in range(batch.h.record_count):
            if record_next(&s, &r) != 1:
                raise CorruptRecordError(f"batch at offset {batch.h.base_offset}: control record {i} is malformed")
            found.append(control_object(batch, &r))
    return found


cdef int encode_marker(Scratch out, bint commit, int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch,
                       int64_t timestamp_ms, int64_t base_offset, int32_t leader_epoch) except -1:
    cdef uint8_t key[CONTROL_KEY_BYTES]
    cdef uint8_t value[MARKER_VALUE_BYTES]
    cdef BatchHeader h
    cdef uint8_t* end
    store_i16(key, 0)
    store_i16(key + 2, CONTROL_COMMIT if commit else CONTROL_ABORT)
    store_i16(value, 0)
    store_i32(value + 2, coordinator_epoch)
    out.size = 0
    out.reserve(MARKER_BATCH_BYTES + VARINT_BYTES_MAX)
    end = record_write(out.data + BATCH_HEADER_BYTES,
                       record_body_bytes(0, 0, CONTROL_KEY_BYTES, MARKER_VALUE_BYTES, 0, 0), 0, 0, key,
                       CONTROL_KEY_BYTES, value, MARKER_VALUE_BYTES, NULL, 0, 0)
    h.base_offset = base_offset
    h.leader_epoch = leader_epoch
    h.attributes = ATTR_TRANSACTIONAL | ATTR_CONTROL
    h.last_offset_delta = 0
    h.base_timestamp = h.max_timestamp = timestamp_ms
    h.producer_id = producer_id
    h.producer_epoch = producer_epoch
    h.base_sequence = NO_SEQUENCE
    h.record_count = 1
    batch_seal(out.data, end - out.data, &h)
    out.size = end - out.data
    return 0


def marker(*, bint commit, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int,
           base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """Build the batch that ends a transaction: one commit or abort marker, as a Kafka leader appends it."""
    cdef Scratch out = Scratch()
    if producer_id < 0 or producer_epoch < 0 or coordinator_epoch < 0:
        raise InvalidArgumentError(f"producer_id {producer_id}, producer_epoch {producer_epoch}, coordinator_epoch "
                                   f"{coordinator_epoch}: 0 or more")
    encode_marker(out, commit, producer_id, producer_epoch, coordinator_epoch, timestamp_ms, base_offset, leader_epoch)
    return PyBytes_FromStringAndSize(<const char*>out.data, out.size)


def control_batch(entries: Iterable[tuple[int, Buffer]], *, timestamp_ms: int, base_offset: int = 0,
                  leader_epoch: int = -1) -> bytes:
    """Build a control batch of Raft: `entries` are (type, value) pairs, type 2 (leader change) to 6 (voters), value the
    bytes of Kafka's message of that name."""
    builder = BatchBuilder(control=True)
    for kind, value in entries:
        if kind not in TYPES or kind < CONTROL_LEADER_CHANGE:
            raise InvalidArgumentError(f"type {kind!r}: {CONTROL_LEADER_CHANGE} to {CONTROL_KRAFT_VOTERS}; "
                                       "transaction markers are made by marker()")
        if value is None:
            raise InvalidArgumentError(f"value of type {kind}: bytes expected, got None")
        builder.append(value, control_key(kind), timestamp_ms)
    return builder.build(base_offset, leader_epoch=leader_epoch)


cdef bytes control_key(int kind):
    return int(0).to_bytes(2, "big") + int(kind).to_bytes(2, "big")
