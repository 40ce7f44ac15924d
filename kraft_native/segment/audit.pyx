"""Examination of one `.log` file: every batch, and every index entry against the batches.

For tools that inspect a log which they do not own. It uses plain reads, so that a file which shrinks meanwhile is an
early end and not a signal. It holds one window of the file, never the file. It writes nothing.

Memory: the window, 1 MiB by default (it stays in the processor's cache), and 64 MiB during the search for the next
sound batch after damage. A whole batch is in memory only for `stretch`, and if it is a message of format v0 or v1.
"""

import os

cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from kraft_native.base.bytes_be cimport load_i16, load_i32, load_i64
from kraft_native.base.crc cimport crc32c
from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, Fault, fault_set, fault_text
from kraft_native.base.limits cimport (
    BATCH_ATTRIBUTES, BATCH_HEADER_BYTES, CONTROL_ABORT, CONTROL_COMMIT, INT32_MAX_VALUE, OFFSET_INDEX_ENTRY_BYTES,
    TIME_INDEX_ENTRY_BYTES,
)
from kraft_native.base.span cimport Span, span_of, span_skip
from kraft_native.batch.batch cimport (
    LOOK_CORRUPT, LOOK_OK, LOOK_PARTIAL, BatchHeader, batch_bytes, batch_codec, batch_is_control, batch_is_legacy,
    batch_is_transactional, batch_last_offset, batch_look,
)
from kraft_native.batch.legacy cimport LEGACY_MESSAGE_BYTES_MIN
from kraft_native.batch.records cimport RecordView, record_next
from kraft_native.file.buffer cimport Scratch
from kraft_native.file.file_io cimport check, file_close, file_open, file_read, file_size
from kraft_native.segment.scan cimport scan_resync

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    WINDOW_BYTES = 1 << 20
    WINDOW_BYTES_MIN = 4096
    RESYNC_WINDOW_BYTES = 64 << 20
    EVENTS_MAX = 8192
    EVENTS_PER_STRETCH = EVENTS_MAX // 2

EVENT_NAMES = ("epoch", "data", "commit", "abort", "offset entry", "time entry")

cdef enum EventKind:
    EVENT_EPOCH = 0          # a batch of another leader epoch than the one before it; value: the epoch
    EVENT_DATA = 1           # transactional records; value: the producer id
    EVENT_COMMIT = 2         # a marker; value: the producer id
    EVENT_ABORT = 3
    EVENT_OFFSET_ENTRY = 4   # an entry of the offset index that is wrong; value: its slot
    EVENT_TIME_ENTRY = 5     # of the time index; value: its slot, position: the largest timestamp so far


@cython.final
cdef class SegmentAudit:
    """Walk over a segment's batches from the front, in stretches: sound batches that lie back to back in the file.

    A batch is sound when its structure and its CRC are right and its offsets neither go back nor leave the segment.
    `step` examines the next stretch. `damage` lists the bytes between two stretches, as (position, end position, first
    offset that cannot be read, next readable offset or -1, what is wrong).

    `end_bytes` bounds the examination (-1: the file's size now). `next_base` is the next segment's base offset, -1 for
    the last segment. `zeros_end`: zeros up to the end of the file are no damage; the owner reserved that space in
    advance, and `reserved_bytes` counts it. One thread at a time.
    """

    def __cinit__(self, object path: FilePath, int64_t base_offset, *, int64_t next_base=-1, int64_t end_bytes=-1,
                  bint check_crc=True, bint zeros_end=False, int64_t window_bytes=WINDOW_BYTES):
        self.fd = -1
        if base_offset < 0:
            raise InvalidArgumentError(f"base_offset must not be negative: {base_offset}")
        if window_bytes < WINDOW_BYTES_MIN:
            raise InvalidArgumentError(f"window_bytes must be at least {WINDOW_BYTES_MIN}: {window_bytes}")
        self.path = os.fsencode(path)
        self.events = <AuditEvent*>calloc(EVENTS_MAX, sizeof(AuditEvent))
        if self.events == NULL:
            raise MemoryError()
        self.window = Scratch()
        self.fd = <int>check(file_open(self.path, os.O_RDONLY | os.O_CLOEXEC, 0), self.path)
        self.base_offset = base_offset
        self.offset_end = next_base if next_base >= 0 else base_offset + INT32_MAX_VALUE + <int64_t>1
        self.next_offset = base_offset
        self.end_bytes = check(file_size(self.fd), self.path)
        if 0 <= end_bytes < self.end_bytes:
            self.end_bytes = end_bytes
        self.check_crc = check_crc
        self.zeros_end = zeros_end
        self.window_bytes = window_bytes
        self.min_timestamp_ms = -1
        self.max_timestamp_ms = -1
        self.epoch = -2
        self.data_producer = -1
        self.damage = []

    def __dealloc__(self):
        self.close()
        free(self.events)

    def close(self) -> None:
        """Close the file; figures stay. Idempotent."""
        if self.fd >= 0:
            file_close(self.fd)
            self.fd = -1

    def __enter__(self) -> SegmentAudit:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def codecs(self) -> dict[int, int]:
        """Count of batches by codec id."""
        return {codec: self.codec_batches[codec] for codec in range(8) if self.codec_batches[codec]}

    # --- indexes ----------------------------------------------------------------------------------------------------

    def expect_offset_entries(self, bytes entries not None) -> None:
        """Set the whole entries of the offset index, checked as the walk passes them. Before the first `step`."""
        self.offset_entries = entries
        self.offset_data = <const uint8_t*>PyBytes_AS_STRING(entries)
        self.offset_slots = len(entries) // OFFSET_INDEX_ENTRY_BYTES

    def expect_time_entries(self, bytes entries not None) -> None:
        """Set the whole entries of the time index, likewise."""
        self.time_entries = entries
        self.time_data = <const uint8_t*>PyBytes_AS_STRING(entries)
        self.time_slots = len(entries) // TIME_INDEX_ENTRY_BYTES

    cdef void check_offset_entries(self, int64_t position, const BatchHeader* h) noexcept nogil:
        """Check entries: one is right when it points at a batch and no offset from its own on lies before that
        batch."""
        cdef const uint8_t* entry
        cdef int64_t offset, target
        while self.offset_slot < self.offset_slots:
            entry = self.offset_data + self.offset_slot * OFFSET_INDEX_ENTRY_BYTES
            offset = self.base_offset + load_i32(entry)
            target = load_i32(entry + 4)
            if target > position:
                return
            if target < position or not h.base_offset <= offset < self.offset_end:
                self.note(EVENT_OFFSET_ENTRY, target, offset, self.offset_slot)
            self.offset_slot += 1

    cdef void check_time_entries(self, const BatchHeader* h) noexcept nogil:
        """Check entries: one is right when its timestamp is the largest of all batches up to the one with its offset.
        After damage that is a lower bound only."""
        cdef const uint8_t* entry
        cdef int64_t offset, timestamp
        while self.time_slot < self.time_slots:
            entry = self.time_data + self.time_slot * TIME_INDEX_ENTRY_BYTES
            timestamp = load_i64(entry)
            offset = self.base_offset + load_i32(entry + 8)
            if offset > batch_last_offset(h):
                return
            if timestamp != self.max_timestamp_ms and (timestamp < self.max_timestamp_ms or not self.damaged):
                self.note(EVENT_TIME_ENTRY, self.max_timestamp_ms, offset, self.time_slot)
            self.time_slot += 1

    # --- the walk ---------------------------------------------------------------------------------------------------

    def seek(self, int64_t position, int64_t offset) -> bool:
        """Start the walk at `position`, where an index says that a batch begins, if a sound one does and `offset` does
        not lie before it. Before the first `step`."""
        cdef BatchHeader h
        cdef Fault fault
        if not 0 < position < self.end_bytes or self.batch_count > 0:
            return False
        self.position = position
        self.fill(self.window_bytes)
        if (batch_look(self.window.data, self.window.size, True, &h, &fault) == LOOK_OK
                and self.base_offset <= h.base_offset <= offset):
            self.next_offset = h.base_offset
            return True
        self.position = 0
        return False

    def step(self, int64_t until_offset=INT64_MAX) -> bool:
        """Examine the next stretch; return False when none was left. Damage met on the way is in `damage` then.

        The stretch ends before the first batch whose last offset is `until_offset` or more; such a batch begins the
        next one. So a division by offsets does not depend on where segments end.
        """
        cdef BatchHeader h
        cdef BatchLook look
        cdef Fault fault
        cdef int64_t size
        self.stretch_position = self.position
        self.stretch_bytes = 0
        self.until_offset = until_offset
        self.held_back = False
        while self.position < self.end_bytes and self.stretch_bytes == 0 and not self.held_back:
            self.fill(BATCH_HEADER_BYTES)
            if self.position >= self.end_bytes:
                break
            self.stretch_position = self.position
            with nogil:
                self.stretch_bytes = self.walk(&h, &look, &fault)
            self.position += self.stretch_bytes
            if look == LOOK_CORRUPT:
                self.note_damage(&fault)
            elif look == LOOK_PARTIAL and self.stretch_bytes == 0:
                size = batch_bytes(&h) if self.end_bytes - self.position >= BATCH_HEADER_BYTES else BATCH_HEADER_BYTES
                if size > self.end_bytes - self.position:
                    # The structure of the header is sound as far as it reaches; the rest of the batch is missing.
                    self.note_damage(&fault)
                elif size <= self.window_bytes or batch_is_legacy(&h):
                    self.fill(size)
                else:
                    self.step_large(&h)
        self.sound_bytes += self.stretch_bytes
        return self.stretch_bytes > 0

    cdef int64_t walk(self, BatchHeader* h, BatchLook* look, Fault* fault) noexcept nogil:
        """Walk over sound batches from `position` on that lie in the window whole: their bytes, and what stopped the
        walk."""
        cdef int64_t start = self.position - self.window_position
        cdef int64_t end = self.window.size
        cdef int64_t at = start
        while self.event_count < EVENTS_PER_STRETCH:
            look[0] = batch_look(self.window.data + at, end - at, self.check_crc, h, fault)
            if look[0] != LOOK_OK:
                return at - start
            if self.check_offsets(h, fault) < 0:
                look[0] = LOOK_CORRUPT
                return at - start
            if batch_last_offset(h) >= self.until_offset:
                self.held_back = True
                return at - start
            self.count(self.window_position + at, span_of(self.window.data + at, batch_bytes(h)), h)
            at += batch_bytes(h)
        look[0] = LOOK_OK
        return at - start

    cdef int check_offsets(self, const BatchHeader* h, Fault* fault) noexcept nogil:
        if h.base_offset < self.next_offset:
            return fault_set(fault, ERROR_CORRUPT_MESSAGE, "base offset %lld where at least %lld was due",
                             h.base_offset, self.next_offset)
        if batch_last_offset(h) >= self.offset_end:
            return fault_set(fault, ERROR_CORRUPT_MESSAGE, "last offset %lld in a segment that ends before %lld",
                             batch_last_offset(h), self.offset_end)
        return 0

    cdef void count(self, int64_t position, Span data, const BatchHeader* h) noexcept nogil:
        """Count a sound batch: figures, events, index entries. `data` is its part in the window, from its start."""
        self.next_offset = batch_last_offset(h) + 1
        self.batch_count += 1
        self.record_count += h.record_count
        self.codec_batches[batch_codec(h)] += 1
        if h.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = h.max_timestamp
        if h.record_count > 0 and h.base_timestamp >= 0 and not h.base_timestamp >= self.min_timestamp_ms >= 0:
            self.min_timestamp_ms = h.base_timestamp
        if h.leader_epoch != self.epoch:
            self.epoch = h.leader_epoch
            self.note(EVENT_EPOCH, position, h.base_offset, h.leader_epoch)
        if batch_is_control(h):
            self.control_batch_count += 1
            self.note_control(position, data, h)
        elif batch_is_transactional(h) and h.producer_id != self.data_producer:
            self.data_producer = h.producer_id
            self.note(EVENT_DATA, position, h.base_offset, h.producer_id)
        if self.offset_slot < self.offset_slots:
            self.check_offset_entries(position, h)
        if self.time_slot < self.time_slots:
            self.check_time_entries(h)

    cdef void note_control(self, int64_t position, Span data, const BatchHeader* h) noexcept nogil:
        """Report a transaction's marker; ignore other control records."""
        cdef RecordView record
        cdef int kind
        if (
            not batch_is_transactional(h) or span_skip(&data, BATCH_HEADER_BYTES) < 0
            or record_next(&data, &record) != 1 or record.key_bytes < 4
        ):
            return
        kind = load_i16(record.key + 2)
        if kind == CONTROL_ABORT or kind == CONTROL_COMMIT:
            self.data_producer = -1
            self.note(EVENT_ABORT if kind == CONTROL_ABORT else EVENT_COMMIT, position, h.base_offset, h.producer_id)

    cdef void note(self, int kind, int64_t position, int64_t offset, int64_t value) noexcept nogil:
        cdef AuditEvent* event
        if self.event_count < EVENTS_MAX:
            event = self.events + self.event_count
            event.kind = kind
            event.position = position
            event.offset = offset
            event.value = value
            self.event_count += 1

    def take_events(self) -> list[tuple[str, int, int, int]]:
        """Events since the last call, in file order, as (name of the event, position, offset, value).

        Events:
        - `epoch`: the first batch of a leader epoch (value).
        - `data`: transactional records of a producer id (value), reported once per run of batches.
        - `commit`, `abort`: a transaction's marker.
        - `offset entry`: entry number `value` of the offset index is wrong.
        - `time entry`: of the time index; position is the largest timestamp up to its offset.

        Take them after every step: a stretch ends early when there are many.
        """
        cdef int slot
        taken = [(EVENT_NAMES[self.events[slot].kind], self.events[slot].position, self.events[slot].offset,
                  self.events[slot].value) for slot in range(self.event_count)]
        self.event_count = 0
        return taken

    def stretch(self) -> bytes:
        """The batches of the last step. They are read again if they did not fit the window."""
        cdef int64_t at = self.stretch_position - self.window_position
        cdef bytes data
        if 0 <= at and at + self.stretch_bytes <= self.window.size:
            return PyBytes_FromStringAndSize(<const char*>self.window.data + at, self.stretch_bytes)
        data = PyBytes_FromStringAndSize(NULL, self.stretch_bytes)
        got = check(file_read(self.fd, PyBytes_AS_STRING(data), <size_t>self.stretch_bytes, self.stretch_position),
                    self.path)
        return data if got == self.stretch_bytes else b""

    # --- plumbing ---------------------------------------------------------------------------------------------------

    cdef int fill(self, int64_t bytes_wanted) except -1:
        """Fill the window with `bytes_wanted` bytes from `position` on, or all that exist."""
        cdef int64_t at = self.position - self.window_position
        cdef int64_t size, got
        bytes_wanted = min(bytes_wanted, self.end_bytes - self.position)
        if 0 <= at and at + bytes_wanted <= self.window.size:
            return 0
        size = min(max(self.window_bytes, bytes_wanted), self.end_bytes - self.position)
        self.window.reserve(size)
        self.window.size = 0
        with nogil:
            got = file_read(self.fd, self.window.data, <size_t>size, self.position)
        self.window.size = check(got, self.path)
        self.window_position = self.position
        if got < size:
            self.end_bytes = self.position + got      # the owner cut the file: the removed part is not examined
        return 0

    cdef int step_large(self, const BatchHeader* h) except -1:
        """Check a batch larger than the window: its checksum is computed in pieces, and it is a stretch of its own."""
        cdef int64_t start = self.position
        cdef int64_t size = batch_bytes(h)
        cdef int64_t done = BATCH_ATTRIBUTES
        cdef int64_t piece
        cdef uint32_t crc = 0
        cdef Fault fault
        if self.check_offsets(h, &fault) < 0:
            return self.note_damage(&fault)
        if batch_last_offset(h) >= self.until_offset:
            self.held_back = True
            return 0
        while self.check_crc and done < size:
            self.position = start + done
            self.fill(min(size - done, self.window_bytes))
            piece = min(self.window.size - (self.position - self.window_position), size - done)
            if piece <= 0:
                break
            with nogil:
                crc = crc32c(crc, self.window.data + (self.position - self.window_position), <size_t>piece)
            done += piece
        self.position = start
        if start + size > self.end_bytes:
            return 0
        if self.check_crc and crc != h.crc:
            fault_set(&fault, ERROR_CORRUPT_MESSAGE, "CRC %lld where %lld was computed", h.crc, crc)
            return self.note_damage(&fault)
        self.fill(BATCH_HEADER_BYTES)
        piece = start - self.window_position
        with nogil:
            self.count(start, span_of(self.window.data + piece, min(size, self.window.size - piece)), h)
        self.stretch_bytes = size
        self.position = start + size
        return 0

    cdef int note_damage(self, const Fault* fault) except -1:
        """Record damage at `position` and move to the start of the next sound batch, or to the end."""
        cdef BatchHeader h
        cdef int64_t start = self.position
        cdef int64_t found = -1
        if self.zeros_end and self.only_zeros_left():
            self.reserved_bytes = self.end_bytes - start
            self.end_bytes = self.position = start
            return 0
        what = fault_text(fault)
        self.position = start
        self.damaged = True
        self.position += 1
        while found < 0 and self.end_bytes - self.position >= LEGACY_MESSAGE_BYTES_MIN:
            self.fill(RESYNC_WINDOW_BYTES)
            with nogil:
                found = scan_resync(self.window.data, self.position - self.window_position, self.window.size,
                                    self.next_offset, self.offset_end, &h)
            if found >= 0:
                self.position = self.window_position + found
            elif self.position + RESYNC_WINDOW_BYTES < self.end_bytes:
                # A batch may begin in this window and end in the next one: they overlap by half.
                self.position += RESYNC_WINDOW_BYTES // 2
            else:
                break
        if found < 0:
            self.position = self.end_bytes
        self.damage.append((start, self.position, self.next_offset, h.base_offset if found >= 0 else -1, what))
        self.skip_entries(self.position, h.base_offset if found >= 0 else self.offset_end)
        if found >= 0:
            self.next_offset = h.base_offset
        self.data_producer = -1
        return 0

    cdef bint only_zeros_left(self) except -1:
        """Read on from `position` to check this. Moves `position`."""
        cdef int64_t at
        while self.position < self.end_bytes:
            self.fill(self.window_bytes)
            at = self.position - self.window_position
            # Equal to itself one byte further on, and zero at the start: all zeros.
            if at < self.window.size and (
                self.window.data[at] != 0
                or memcmp(self.window.data + at, self.window.data + at + 1, <size_t>(self.window.size - at - 1)) != 0
            ):
                return False
            self.position = self.window_position + self.window.size
        return True

    cdef int skip_entries(self, int64_t position, int64_t offset) except -1:
        """Skip entries that point into damage and cannot be judged: those below `position` and `offset`."""
        while (self.offset_slot < self.offset_slots
               and load_i32(self.offset_data + self.offset_slot * OFFSET_INDEX_ENTRY_BYTES + 4) < position):
            self.offset_slot += 1
        while (self.time_slot < self.time_slots
               and self.base_offset + load_i32(self.time_data + self.time_slot * TIME_INDEX_ENTRY_BYTES + 8) < offset):
            self.time_slot += 1
        return 0

    def remaining_entries(self) -> tuple[int, int]:
        """Counts, after the last step, of offset index and time index entries past the last batch."""
        return self.offset_slots - self.offset_slot, self.time_slots - self.time_slot
