"""Rules of compaction for one batch, and the batch rebuilt by them (Kafka's Cleaner and MemoryRecords.filterTo).

A record stays when its offset lies past the map, or when no later record has its key and it is not a tombstone past its
horizon. A record without a key is dropped. The records of an aborted transaction are dropped.

Tombstones. The first compaction that meets one sets the batch's delete horizon, now + delete.retention.ms. The horizon
is marked by attribute bit 6 and stored in place of the base timestamp; all timestamp deltas count from it. From that
time on a later compaction drops the batch's tombstones. Markers of transactions that have nothing left are dropped the
same way.

A batch of which everything stays is kept byte for byte. A message of format v0 or v1 is not. The rest of such a
message becomes a batch of v2, for v0 with CreateTime and no time (Kafka does the same since 4.0). A rebuilt batch keeps
base offset, last offset, sequence, epochs, attributes and codec. Its largest timestamp is that of the records left, or
stays if it is the LogAppendTime. A batch of which nothing stays is dropped, unless

- it is its producer's last: its header keeps the sequence and epoch, for fencing and for duplicates, or
- it ends where the round ends: otherwise the offsets after the last record would be forgotten.
"""

cimport cython
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from kraft_native.base.limits cimport (
    ATTR_CODEC_MASK, ATTR_DELETE_HORIZON, BATCH_HEADER_BYTES, CODEC_NONE, LOG_OVERHEAD_BYTES, NO_TIMESTAMP,
    RECORD_BYTES_MIN,
)
from kraft_native.base.span cimport span_of
from kraft_native.batch.batch cimport (
    batch_bytes, batch_codec, batch_has_delete_horizon, batch_is_control, batch_is_legacy, batch_is_log_append_time,
    batch_last_offset,
)
from kraft_native.batch.codecs cimport CODEC_LEVEL_DEFAULT, compress_into
from kraft_native.batch.records cimport RecordView, batch_seal, record_body_bytes, record_next, record_write, records_of
from kraft_native.compact.offset_map cimport KeyHash, km_prefetch
from kraft_native.segment.producer_entry cimport ProducerEntry

from kraft_native.base.errors import CorruptRecordError, MessageTooLargeError

cdef enum:
    # Number of records whose place in the map is prefetched before the first of them is searched.
    AHEAD = 32
    # Largest growth of a record by other timestamp deltas: 9 bytes of the delta, 1 of the length.
    RECORD_GROWTH_BYTES = 13


cdef struct Seen:
    const uint8_t* start
    Py_ssize_t size
    int64_t offset
    int64_t timestamp
    KeyHash hash
    bint keyed
    bint tombstone


@cython.final
cdef class RecordFilter:
    def __cinit__(self):
        self.unpacked = Scratch()
        self.kept = Scratch()
        self.body = Scratch()
        self.packed = Scratch()

    cdef int prepare(self, Py_ssize_t batch_size) except -1:
        self.kept.reserve(BATCH_HEADER_BYTES + batch_size)
        self.body.reserve(BATCH_HEADER_BYTES + batch_size + batch_size // RECORD_BYTES_MIN * RECORD_GROWTH_BYTES)
        return 0

    cdef FilterResult plain(self, const uint8_t* batch, const BatchHeader* h) noexcept nogil:
        cdef Span span = span_of(batch + BATCH_HEADER_BYTES,
                                 h.batch_length - (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES))
        cdef FilterResult result
        cdef Py_ssize_t size
        cdef uint8_t* batch_start
        self.records_read += h.record_count
        if not self.select(h, &span):
            return FILTER_MALFORMED
        result = self.settle(h, False)
        if result == FILTER_REBUILT:
            batch_start = self.encode(h, &size)
            if batch_start == NULL:
                return FILTER_MALFORMED
            self.finish(batch_start, BATCH_HEADER_BYTES + size)
        return result

    cdef FilterResult any(self, const uint8_t* batch, const BatchHeader* h, bint discard, bint empty_marker) except *:
        cdef Span span
        cdef FilterResult result
        cdef Py_ssize_t size
        cdef uint8_t* batch_start
        cdef bint sound
        self.records_read += h.record_count
        self.prepare(0)
        if discard or h.record_count == 0:
            span = span_of(NULL, 0)
            self.selected.count = 0
        else:
            try:
                span = records_of(batch, h, &self.limits, self.unpacked)
            except MessageTooLargeError as error:
                raise CorruptRecordError(str(error)) from None
            self.prepare(span.end - span.p + BATCH_HEADER_BYTES)
            if batch_is_control(h):
                self.selected.data = span.p
                self.selected.size = span.end - span.p
                self.selected.count = h.record_count
                self.selected.all = True
                self.selected.tombstone = False
                self.selected.first_timestamp = self.selected.max_timestamp = h.max_timestamp
            else:
                with nogil:
                    sound = self.select(h, &span)
                if not sound:
                    raise CorruptRecordError("its records contradict its header")
        result = self.settle(h, empty_marker)
        if result != FILTER_REBUILT:
            return result
        with nogil:
            batch_start = self.encode(h, &size)
        if batch_start == NULL:
            raise CorruptRecordError("its records contradict its header")
        if self.selected.count > 0 and batch_codec(h) != CODEC_NONE:
            self.packed.reserve(BATCH_HEADER_BYTES)
            self.packed.size = BATCH_HEADER_BYTES
            compress_into(batch_codec(h), CODEC_LEVEL_DEFAULT, batch_start + BATCH_HEADER_BYTES, size, self.packed)
            batch_start = self.packed.data
            size = self.packed.size - BATCH_HEADER_BYTES
        self.growth_left -= BATCH_HEADER_BYTES + size - batch_bytes(h)
        self.finish(batch_start, BATCH_HEADER_BYTES + size)
        return result

    cdef bint select(self, const BatchHeader* h, Span* span) noexcept nogil:
        """Fill `selected`; return False when the records are malformed or not as many as the header has."""
        cdef Selected* selected = &self.selected
        cdef Seen seen[AHEAD]
        cdef RecordView r
        cdef const uint8_t* run = span.p
        cdef uint8_t* kept = self.kept.data + BATCH_HEADER_BYTES
        cdef uint8_t* kept_end = kept
        cdef int64_t horizon = h.base_timestamp if batch_has_delete_horizon(h) else 0x7FFFFFFFFFFFFFFF
        cdef bint tombstones_stay = self.now_ms < horizon
        cdef int64_t read = 0
        cdef int found = 1, count, i
        cdef bint stays
        selected.count = 0
        selected.tombstone = False
        selected.first_timestamp = selected.max_timestamp = NO_TIMESTAMP
        while found == 1:
            count = 0
            while count < AHEAD:
                seen[count].start = span.p
                found = record_next(span, &r)
                if found != 1:
                    break
                # Records are about as large as their neighbours: prefetch one that comes soon.
                km_prefetch(span.p + 2 * r.size)
                if not 0 <= r.offset_delta <= h.last_offset_delta:
                    return False
                seen[count].size = r.size
                seen[count].offset = h.base_offset + r.offset_delta
                seen[count].timestamp = <int64_t>(<uint64_t>h.base_timestamp + <uint64_t>r.timestamp_delta)
                seen[count].tombstone = r.value_bytes < 0
                seen[count].keyed = r.key_bytes >= 0
                if r.key_bytes >= 0 and seen[count].offset < self.map_end:
                    seen[count].hash = self.map.hash_of(r.key, r.key_bytes)
                    self.map.prefetch(&seen[count].hash)
                count += 1
            if found < 0:
                return False
            read += count
            for i in range(count):
                if seen[i].offset >= self.map_end:
                    stays = True
                elif not seen[i].keyed:
                    self.records_without_key += 1
                    stays = False
                else:
                    stays = ((tombstones_stay or not seen[i].tombstone)
                             and self.map.get(&seen[i].hash) <= seen[i].offset)
                if stays:
                    if selected.count == 0:
                        selected.first_timestamp = seen[i].timestamp
                    selected.count += 1
                    selected.tombstone = selected.tombstone or seen[i].tombstone
                    selected.max_timestamp = max(selected.max_timestamp, seen[i].timestamp)
                else:
                    if run != seen[i].start:
                        memcpy(kept_end, run, <size_t>(seen[i].start - run))
                        kept_end += seen[i].start - run
                    run = seen[i].start + seen[i].size
        if read != h.record_count:
            return False
        selected.all = selected.count == read
        if selected.all:
            selected.data = run
            selected.size = span.p - run
        else:
            memcpy(kept_end, run, <size_t>(span.p - run))
            selected.data = kept
            selected.size = kept_end - kept + (span.p - run)
        return True

    cdef bint converts(self, const BatchHeader* h) noexcept nogil:
        """True when a batch of which everything stays is converted to v2. Messages of v0 and v1 are, as long as that
        does not make the segment too large."""
        return batch_is_legacy(h) and BATCH_HEADER_BYTES + h.batch_length // 8 <= self.growth_left

    cdef bint stays_if_empty(self, const BatchHeader* h) noexcept nogil:
        cdef ProducerEntry* producer
        if batch_last_offset(h) + 1 == self.round_end:
            return True
        if h.producer_id < 0:
            return False
        producer = self.producers.find(h.producer_id)
        if producer == NULL:
            return False
        if producer.batch_count > 0:
            return producer.batches[producer.batch_count - 1].last_offset == batch_last_offset(h)
        return batch_is_control(h) and producer.producer_epoch == h.producer_epoch

    cdef FilterResult settle(self, const BatchHeader* h, bint empty_marker) noexcept nogil:
        """Decide on the batch, given what was selected; write the header of a rebuilt one except for its length."""
        cdef Selected* selected = &self.selected
        cdef bint horizon_due
        self.records_kept += selected.count
        if selected.count == 0:
            if not self.stays_if_empty(h):
                return FILTER_DROP
            if h.record_count == 0 and batch_bytes(h) == BATCH_HEADER_BYTES:
                return FILTER_KEEP
            self.new = h[0]
            self.new.attributes &= ~(ATTR_CODEC_MASK | ATTR_DELETE_HORIZON)
            self.new.base_timestamp = NO_TIMESTAMP
            self.new.record_count = 0
            return FILTER_REBUILT
        horizon_due = (selected.tombstone or empty_marker) and not batch_has_delete_horizon(h)
        if selected.all and not horizon_due and not self.converts(h):
            return FILTER_KEEP
        self.new = h[0]
        self.new.record_count = selected.count
        if batch_is_log_append_time(h):
            selected.first_timestamp = h.max_timestamp
        else:
            self.new.max_timestamp = selected.max_timestamp
        if horizon_due:
            self.new.attributes |= ATTR_DELETE_HORIZON
            self.new.base_timestamp = self.horizon_ms
        elif not batch_has_delete_horizon(h):
            self.new.base_timestamp = selected.first_timestamp
        return FILTER_REBUILT

    cdef uint8_t* encode(self, const BatchHeader* h, Py_ssize_t* size) noexcept nogil:
        """Encode the selected records for the new header, after room for it; NULL when malformed."""
        cdef uint8_t* to = self.body.data
        cdef Span span = span_of(self.selected.data, self.selected.size)
        cdef RecordView r
        cdef uint8_t* p = to + BATCH_HEADER_BYTES
        cdef uint64_t timestamp
        cdef int64_t delta
        cdef int found
        size[0] = 0
        if self.selected.count == 0:
            return to
        if self.new.base_timestamp == h.base_timestamp and not batch_is_log_append_time(h) and not self.selected.all:
            size[0] = self.selected.size
            return self.kept.data
        while True:
            found = record_next(&span, &r)
            if found != 1:
                size[0] = p - to - BATCH_HEADER_BYTES
                return NULL if found < 0 else to
            timestamp = (<uint64_t>h.max_timestamp if batch_is_log_append_time(h)
                         else <uint64_t>h.base_timestamp + <uint64_t>r.timestamp_delta)
            delta = <int64_t>(timestamp - <uint64_t>self.new.base_timestamp)
            p = record_write(p, record_body_bytes(r.offset_delta, delta, r.key_bytes, r.value_bytes, r.headers_bytes,
                                                  r.header_count),
                             r.offset_delta, delta, r.key, r.key_bytes, r.value, r.value_bytes, r.headers,
                             r.headers_bytes, r.header_count)

    cdef void finish(self, uint8_t* batch, Py_ssize_t size) noexcept nogil:
        """Write header and checksum of the rebuilt batch of `size` bytes."""
        batch_seal(batch, size, &self.new)
        self.rebuilt = batch
