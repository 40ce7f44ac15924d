"""Single records of batches, found by their offsets.

A record's place in its batch follows from the lengths of all records before it. So the first search in a batch walks
through all of it and writes down where every fourth record begins; a compressed batch is decompressed. Both are kept
for the next search in that batch, up to a limit of memory.
"""

from kraft_native.base.limits cimport CODEC_NONE
from kraft_native.base.span cimport Span, span_of
from kraft_native.batch.batch cimport (
    HeldBuffer, batch_bytes, batch_codec, batch_is_control, batch_is_legacy, batch_last_offset, batch_require,
)
from kraft_native.batch.codecs cimport decompress_limits_default
from kraft_native.batch.records cimport RecordView, record_next, record_object, records_of
from kraft_native.file.buffer cimport Slice

cimport cython

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError

cdef int32_t STRIDE = 4
cdef int32_t SMALL_BATCH = 16      # records up to which a walk costs less than what would be kept

cdef enum:
    BYTES_MAX_DEFAULT = 4 * 1024 * 1024


@cython.final
cdef class KnownBatch:

    def __init__(self):
        raise TypeError("only RecordFinder creates these")

    cdef bint is_of(self, const BatchHeader* h) noexcept:
        return self.base_offset == h.base_offset and self.crc == h.crc and self.batch_length == h.batch_length

    cdef Py_ssize_t bytes_used(self) noexcept:
        return self.marks.capacity + (self.records.capacity if self.records is not None else 0)

    cdef const Mark* mark(self, int32_t offset_delta) noexcept:
        """The last mark at or before a record; NULL when the first one is behind it."""
        cdef const Mark* marks = <const Mark*>self.marks.data
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.marks.size // <Py_ssize_t>sizeof(Mark)
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) >> 1
            if marks[middle].offset_delta <= offset_delta:
                low = middle + 1
            else:
                high = middle
        return &marks[low - 1] if low > 0 else NULL


@cython.final
cdef class RecordFinder:
    """Finds records by their offsets. One thread only.

    It keeps at most `bytes_max` for batches that were used last. A batch that needs more alone is searched from its
    first record each time.
    """

    def __init__(self, Py_ssize_t bytes_max=BYTES_MAX_DEFAULT):
        if bytes_max < 0:
            raise InvalidArgumentError(f"bytes_max {bytes_max}: 0 or more")
        self.known = {}
        self.last = None
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self.limits = decompress_limits_default()

    @property
    def held_bytes(self) -> int:
        """Memory for batches that were used."""
        return self.bytes_held

    def find(self, source: Buffer, int64_t offset) -> Record | None:
        """Return the record at an offset in `source`, a buffer of whole batches. None when it is not in them, and for a
        control record. Raises CorruptRecordError at damage; CRCs are not checked."""
        cdef HeldBuffer held
        cdef const uint8_t* p
        cdef Py_ssize_t left
        cdef BatchHeader h
        if isinstance(source, Slice):
            p, left = (<Slice>source).data, (<Slice>source).size
        else:
            held = HeldBuffer(source)
            p, left = held.data, held.size
        while left > 0:
            batch_require(p, left, False, &h)
            if offset < h.base_offset:
                return None
            if offset <= batch_last_offset(&h):
                return None if batch_is_control(&h) else self.find_in(p, &h, <int32_t>(offset - h.base_offset))
            p += batch_bytes(&h)
            left -= batch_bytes(&h)
        return None

    cdef Record find_in(self, const uint8_t* batch, const BatchHeader* h, int32_t offset_delta):
        cdef KnownBatch known = None
        cdef const Mark* mark
        cdef Span span
        cdef RecordView r
        if h.record_count == 0:
            return None
        if h.record_count > SMALL_BATCH or batch_codec(h) != CODEC_NONE or batch_is_legacy(h):
            known = self.known_of(batch, h)
            mark = known.mark(offset_delta)
            if mark == NULL:
                return None
            span = records_of(batch, h, &self.limits, None) if known.records is None else \
                span_of(known.records.data, known.records.size)
            span.p += mark.position
        else:
            span = records_of(batch, h, &self.limits, None)
        while span.p < span.end:
            if record_next(&span, &r) != 1:
                raise CorruptRecordError(f"batch at offset {h.base_offset}: a record before offset delta "
                                         f"{offset_delta} is malformed")
            if r.offset_delta >= offset_delta:
                return record_object(h, &r) if r.offset_delta == offset_delta else None
        return None

    cdef KnownBatch known_of(self, const uint8_t* batch, const BatchHeader* h):
        """The marks of a batch, made unless it is known."""
        cdef KnownBatch found = self.last
        cdef Span span
        cdef const uint8_t* start
        cdef const uint8_t* p
        cdef RecordView r
        cdef Mark mark
        cdef int32_t index
        cdef int32_t before = -1
        if found is not None and found.is_of(h):
            return found
        found = self.known.get(h.base_offset)
        if found is not None and found.is_of(h):
            self.known[h.base_offset] = self.known.pop(h.base_offset)
            self.last = found
            return found
        found = KnownBatch.__new__(KnownBatch)
        found.base_offset, found.crc, found.batch_length = h.base_offset, h.crc, h.batch_length
        found.marks = Scratch()
        found.records = None if batch_codec(h) == CODEC_NONE and not batch_is_legacy(h) else Scratch()
        span = records_of(batch, h, &self.limits, found.records)
        start = span.p
        for index in range(h.record_count):
            p = span.p
            if record_next(&span, &r) != 1 or r.offset_delta <= before:
                raise CorruptRecordError(f"batch at offset {h.base_offset}: record {index} of {h.record_count} is "
                                         "malformed")
            if index % STRIDE == 0:
                mark.position, mark.offset_delta = p - start, r.offset_delta
                found.marks.put(<const uint8_t*>&mark, sizeof(Mark))
            before = r.offset_delta
        if span.p != span.end:
            raise CorruptRecordError(f"batch at offset {h.base_offset}: {span.end - span.p} bytes after its last "
                                     "record")
        self.keep(found)
        return found

    cdef int keep(self, KnownBatch found) except -1:
        cdef KnownBatch other = self.known.pop(found.base_offset, None)
        if other is not None:
            self.bytes_held -= other.bytes_used()
        self.last = None
        if found.bytes_used() > self.bytes_max:
            return 0
        self.bytes_held += found.bytes_used()
        self.known[found.base_offset] = found
        self.last = found
        while self.bytes_held > self.bytes_max:
            other = self.known.pop(next(iter(self.known)))
            self.bytes_held -= other.bytes_used()
        return 0
