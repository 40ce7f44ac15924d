"""One segment: a `.log` file with its indexes.

Only the active segment is written, at its end (`segment_file.pyx` has the file). `size` counts whole batches only.

Trust. Bytes that this process appended were checked before. All others are checked once (structure, CRC, rising
offsets), when they are first walked over. So is their leader epoch, which the CRC does not cover. Anything unsound is
recorded in `damage` with the position where sound batches begin again, and is never returned. An index entry is trusted
only when the batch that it names exists and ends at its offset; otherwise the indexes are rebuilt from the log.
"""

import errno
import os

cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from posix.fcntl cimport O_CREAT, O_EXCL, O_RDWR

from kraft_native.base.bytes_be cimport load_i64
from kraft_native.base.fault cimport Fault, fault_text
from kraft_native.base.limits cimport BATCH_MAGIC, INT32_MAX_VALUE, MAGIC_CURRENT, NO_TIMESTAMP
from kraft_native.batch.batch cimport (
    LOOK_OK, BatchHeader, batch_bytes, batch_bytes_at, batch_end_at, batch_is_legacy, batch_last_offset, batch_look,
    batch_reload,
)
from kraft_native.file.buffer cimport Slice, slice_bytes, slice_mapping
from kraft_native.file.file_io cimport check, disk_is_full, file_open
from kraft_native.segment.epoch_check cimport check_epochs
from kraft_native.segment.index cimport OffsetIndex, TimeIndex
from kraft_native.segment.ranges cimport RangeSet
from kraft_native.segment.scan cimport ScanBounds, scan_behind, scan_sound
from kraft_native.segment.segment_file cimport remove_files, set_files_aside
from kraft_native.segment.txn_index cimport TransactionIndex

from kraft_native.base.errors import CorruptFileError, CorruptLogError, StorageError
from kraft_native.file.file_io import is_unreadable

cdef enum:
    # Distance that one check goes ahead of the reader.
    CHECK_STEP_BYTES = 256 * 1024
    # Bytes of formats v0 and v1 that one read checks at most.
    DEAR_BYTES_MAX = 2 * CHECK_STEP_BYTES

# The suffixes of a segment's files, the log last: the segment exists as long as its log does.
SUFFIXES: tuple[bytes, ...] = (b".index", b".timeindex", b".txnindex", b".log")


cdef bytes segment_path(bytes directory, int64_t offset, bytes suffix):
    return b"%b/%020d%b" % (directory, offset, suffix)


cdef Segment make(bytes directory, int64_t base_offset, int64_t index_interval_bytes, int64_t index_bytes_max):
    cdef Segment segment = Segment.__new__(Segment)
    segment.directory = directory
    segment.path = segment_path(directory, base_offset, b".log")
    segment.base_offset = base_offset
    segment.index_interval_bytes = index_interval_bytes
    segment.index_bytes_max = index_bytes_max
    segment.txn_index = TransactionIndex(segment_path(directory, base_offset, b".txnindex"), base_offset)
    return segment


cdef Segment segment_load(bytes directory, int64_t base_offset, int64_t size, bint sealed, int64_t next_base,
                          int64_t index_interval_bytes, int64_t index_bytes_max):
    cdef Segment segment = make(directory, base_offset, index_interval_bytes, index_bytes_max)
    segment.size = size
    segment.sealed = segment.complete = sealed
    segment.next_base = next_base
    if sealed:
        segment.offset_index = OffsetIndex.open_sealed(segment_path(directory, base_offset, b".index"), base_offset)
        segment.time_index = TimeIndex.open_sealed(segment_path(directory, base_offset, b".timeindex"), base_offset)
    return segment


cdef Segment segment_create(bytes directory, int64_t base_offset, int64_t index_interval_bytes,
                            int64_t index_bytes_max):
    cdef Segment segment = make(directory, base_offset, index_interval_bytes, index_bytes_max)
    segment.fd = <int>check(file_open(segment.path, O_RDWR | O_CREAT | O_EXCL, 0o644), segment.path)
    segment.make_indexes(False)
    segment.timestamps_loaded = segment.txn_checked = True
    return segment


cdef Segment segment_detached(bytes directory, int64_t base_offset, int64_t index_interval_bytes,
                              int64_t index_bytes_max):
    cdef Segment segment = make(directory, base_offset, index_interval_bytes, index_bytes_max)
    segment.make_indexes(True)
    segment.timestamps_loaded = segment.txn_checked = True
    return segment


@cython.final
cdef class Segment(SegmentFile):
    """A view for tools and tests; a Log drives it from compiled code.

    `damage` lists the unreadable ranges as (position, end position, first offset, next offset or -1, what).
    """

    def __cinit__(self):
        self.next_base = self.known_end = -1
        self.gaps_end = INT64_MAX
        self.unstable_after = 0
        self.max_timestamp = self.first_timestamp = NO_TIMESTAMP
        self.checked = RangeSet()
        self.damage = []

    def __repr__(self) -> str:
        return f"<Segment {os.fsdecode(self.path)}: {self.size} bytes{'' if self.sealed else ', active'}>"

    @property
    def verified_to(self) -> int:
        """Bytes from the front whose CRC and structure were checked."""
        return self.checked.covered_to(0)

    cdef int make_indexes(self, bint detached) except -1:
        """Create empty, growing indexes; their files are replaced. `detached`: in memory only."""
        self.offset_index = OffsetIndex.create(segment_path(self.directory, self.base_offset, b".index"),
                                               self.base_offset, self.index_bytes_max, detached=detached)
        self.time_index = TimeIndex.create(segment_path(self.directory, self.base_offset, b".timeindex"),
                                           self.base_offset, self.index_bytes_max, detached=detached)
        self.indexes_ready = True
        return 0

    # --- writing ----------------------------------------------------------------------------------------------------

    cdef int count_batch(self, const BatchHeader* h) except -1:
        cdef int64_t position = self.size
        cdef int64_t last_offset = batch_last_offset(h)
        if not self.timestamps_loaded:
            self.load_timestamps()
        if position == 0:
            self.first_timestamp = h.max_timestamp
        if h.max_timestamp > self.max_timestamp:
            self.max_timestamp = h.max_timestamp
            self.max_timestamp_offset = last_offset
        # Kafka's rule (LogSegment.append): an entry before the batch that comes after more than the interval.
        if self.bytes_since_index > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index = 0
        self.bytes_since_index += batch_bytes(h)
        self.checked.add(position, position + batch_bytes(h))
        self.size = position + batch_bytes(h)
        return 0

    cdef int seal(self, int64_t next_base) except -1:
        """End writing: last time index entry, index files complete, the file cut to `size`. Nothing is flushed."""
        if self.sealed:
            return 0
        self.load_indexes()
        self.load_timestamps()
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset, True)
        self.offset_index.seal()
        self.time_index.seal()
        self.indexes_ready = False     # they are mapped at the next use
        self.trim()
        self.sealed = self.complete = True
        self.next_base = next_base
        return 0

    cdef int cut(self, int64_t position, int64_t offset) except -1:
        """Keep whole batches below `position`, all of them below `offset`. The segment is active afterwards."""
        self.load_indexes()
        if self.sealed:
            self.grow_indexes()
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        try:
            self.txn_index.truncate_to(offset)
        except CorruptFileError:
            self.txn_index.reset()     # it is rebuilt at its next check
            self.txn_checked = False
        self.cut_file(position)
        self.sealed = self.complete = False
        self.next_base = -1
        self.checked.cut(position)
        self.damage = [damaged for damaged in self.damage if damaged[0] < position]
        self.bytes_since_index = 0
        self.unstable_after = 0
        self.timestamps_loaded = False
        if position == 0:
            self.first_timestamp = NO_TIMESTAMP
        return 0

    cdef int grow_indexes(self) except -1:
        """Let sealed indexes grow again. Not those that a full disk left in memory: nothing is written."""
        if self.unwritten is not None:
            raise self.unwritten
        self.offset_index.grow(self.index_bytes_max)
        self.time_index.grow(self.index_bytes_max)
        return 0

    # --- walking ----------------------------------------------------------------------------------------------------

    cdef StepResult step(self, int64_t position, int64_t expected_offset, BatchHeader* h) except? STEP_END:
        """Read the batch at `position`, a batch boundary or the start of damage; check it if that was not done."""
        if position >= self.size:
            return STEP_END
        self.map_to(self.size, position)
        if self.checked.covered_to(position) == position:
            if self.damage and self.damage_at(position) is not None:
                return STEP_DAMAGE
            self.check_from(position, expected_offset)
            if self.checked.covered_to(position) == position:
                return STEP_DAMAGE
        batch_reload(self.data + position, h)
        return STEP_BATCH

    cdef bint next_sound(self, int64_t* position, int64_t* expected, BatchHeader* h) except -1:
        """Step past damage. `expected` rises by the number of offsets that the damage covers, where that is known."""
        cdef StepResult found = self.step(position[0], expected[0], h)
        cdef tuple damaged
        while found == STEP_DAMAGE:
            damaged = self.damage_at(position[0])
            position[0] = damaged[1]
            expected[0] = max(expected[0], <int64_t>damaged[3])
            found = self.step(position[0], expected[0], h)
        return found == STEP_BATCH

    cdef int check_from(self, int64_t position, int64_t expected_offset) except -1:
        """Check a range from `position` on; add sound bytes to `checked` and the first damage to `damage`."""
        cdef int64_t stop = self.checked.next_start(position, self.size)
        cdef int64_t next_offset = max(expected_offset, self.base_offset)
        cdef int64_t reached, agreed
        cdef Fault fault
        cdef ScanBounds bounds
        self.bounds(&bounds)
        stop = min(stop, position + CHECK_STEP_BYTES)
        with nogil:
            reached = scan_sound(self.data, position, stop, self.size, &bounds, &next_offset, &fault)
        if self.epochs is not None and reached > position:
            if position != self.epoch_position:
                self.epoch_before = -1
            agreed = check_epochs(self.epochs, self.data, position, reached, self.size, &self.epoch_before, &fault)
            self.epoch_position = agreed
            if agreed < reached:
                reached, next_offset = agreed, load_i64(self.data + agreed)
        self.checked.add(position, reached)
        if fault.code != 0:
            self.note_damage(reached, next_offset, &fault)
        return 0

    cdef void bounds(self, ScanBounds* bounds) noexcept nogil:
        """Fill the known limits of this segment's offsets."""
        bounds.exact_end = self.next_base if self.next_base >= 0 else self.known_end
        bounds.offset_end = self.base_offset + INT32_MAX_VALUE + <int64_t>1
        if 0 <= bounds.exact_end < bounds.offset_end:
            bounds.offset_end = bounds.exact_end
        bounds.gaps_end = self.gaps_end

    cdef int set_apart(self, Copies copies, object failure) except -1:
        self.copies = copies
        self.offset_index.apart = self.time_index.apart = True
        self.unwritten = self.txn_index.failure = failure
        return 0

    cdef int hide_end(self, int64_t position, int64_t offset) except -1:
        cdef list kept = []
        try:
            kept = [entry for entry in self.txn_index if entry[2] < offset]
        except CorruptFileError:
            pass                       # it is rebuilt at its next check
        self.txn_index.answer_from(kept, self.unwritten)
        self.txn_checked = False
        self.size = position
        self.checked.cut(position)
        self.damage = [damaged for damaged in self.damage if damaged[0] < position]
        return 0

    cdef int release(self) except -1:
        SegmentFile.release(self)
        self.checked = RangeSet()
        return 0

    cdef int forget_checks(self, int64_t known_end) except -1:
        """Discard all checks, so that everything is checked again at its next use. `known_end`: the log end at the last
        close."""
        self.known_end = known_end
        self.checked = RangeSet()
        self.damage = []
        self.indexes_ready = self.timestamps_loaded = False
        return 0

    cdef int note_damage(self, int64_t position, int64_t offset, const Fault* fault) except -1:
        cdef BatchHeader h
        cdef ScanBounds bounds
        cdef int64_t end
        self.bounds(&bounds)
        with nogil:
            end = scan_behind(self.data, position, self.size, offset, &bounds, &h)
        if end < 0:
            self.damage.append((position, self.size, offset, -1, fault_text(fault)))
        else:
            self.damage.append((position, end, offset, h.base_offset, fault_text(fault)))
        return 0

    cdef tuple damage_at(self, int64_t position):
        """The recorded damage that starts at `position`, or None."""
        for damaged in self.damage:
            if <int64_t>damaged[0] == position:
                return damaged
        return None

    cdef int raise_damage(self, tuple damaged, int64_t offset) except -1:
        position, _, _, next_offset, what = damaged
        raise CorruptLogError(os.fsdecode(self.path), position, offset,
                              self.next_base if next_offset < 0 else next_offset, what)

    cdef int64_t walk(self, int64_t position, int64_t expected, int64_t offset, BatchHeader* h,
                      bint stop_at_damage) except? -2:
        """Run `locate` from a known batch boundary; `expected` is the smallest offset that may be there."""
        cdef StepResult found
        cdef int64_t covered = 0, last
        cdef tuple damaged
        while True:
            # Within the checked range, three fields per batch are enough.
            while position < covered:
                last = batch_end_at(self.data + position)
                if last >= offset:
                    batch_reload(self.data + position, h)
                    return position
                expected = last + 1
                position += batch_bytes_at(self.data + position)
            found = self.step(position, expected, h)
            if found == STEP_END:
                return -1
            if found == STEP_BATCH:
                covered = self.checked.covered_to(position)
                continue
            damaged = self.damage_at(position)
            if <int64_t>damaged[3] < 0 or offset < <int64_t>damaged[3]:
                if stop_at_damage:
                    h.base_offset = damaged[2]
                    return position
                self.raise_damage(damaged, max(offset, <int64_t>damaged[2]))
            position = damaged[1]
            expected = damaged[3]

    cdef int64_t locate(self, int64_t offset, BatchHeader* h, bint stop_at_damage) except? -2:
        cdef int64_t expected
        cdef int64_t position = self.index_start(offset, &expected)
        return self.walk(position, expected, offset, h, stop_at_damage)

    # --- indexes ----------------------------------------------------------------------------------------------------

    cdef int load_indexes(self) except -1:
        """Load the indexes of a loaded segment, on first use; rebuild them when they are missing or implausible."""
        if self.indexes_ready:
            return 0
        self.need_readable()
        try:
            if not self.sealed:
                self.offset_index = OffsetIndex.open_growing(
                    segment_path(self.directory, self.base_offset, b".index"), self.base_offset, -1,
                    self.index_bytes_max)
                self.time_index = TimeIndex.open_growing(
                    segment_path(self.directory, self.base_offset, b".timeindex"), self.base_offset, -1,
                    self.index_bytes_max)
            self.offset_index.load()
            self.time_index.load()
            self.offset_index.check(self.size, self.next_base)
            self.time_index.check(self.next_base)
        except CorruptFileError:
            self.rebuild_indexes()
        except StorageError as error:
            if disk_is_full(error):    # an index that grows again could not be cut to its entries
                self.unwritten = error
                self.fill_indexes(True)
            elif error.errno == errno.ENOENT:
                self.rebuild_indexes()
            elif is_unreadable(error):
                if self.copies is None:
                    set_files_aside([segment_path(self.directory, self.base_offset, each) for each in SUFFIXES[:2]])
                self.rebuild_indexes()
            else:
                raise
        self.indexes_ready = True
        return 0

    cdef int64_t index_start(self, int64_t offset, int64_t* expected) except? -2:
        """A batch boundary at or before the batch that holds `offset`; `expected` is the smallest offset that may be
        there. Where the index confirms it, it is the batch's own: the bytes before may be damaged, but are no gap."""
        cdef BatchHeader h
        cdef int64_t position, entry_offset
        expected[0] = self.base_offset
        self.load_indexes()
        position = self.offset_index.lookup(offset, &entry_offset)
        if position == 0:
            return 0
        if position < self.size:
            # Read, but not checked for good: damage here would be recorded with the wrong first offset.
            self.map_to(self.size, position)
            if (
                batch_look(self.data + position, self.size - position, self.checked.covered_to(position) == position,
                           &h, NULL) == LOOK_OK
                and self.entry_names(entry_offset, &h)
            ):
                expected[0] = h.base_offset
                return position
        # The entry is wrong, or the batch that it names is damaged. A walk from the front decides.
        if self.walk(0, self.base_offset, entry_offset, &h, True) != position:
            self.rebuild_indexes()
        return 0

    cdef bint entry_names(self, int64_t entry_offset, const BatchHeader* h) noexcept nogil:
        """Return whether an entry of the offset index fits this batch: it has the last offset, or, as Kafka wrote it
        before 0.11, the first one of an append."""
        return (batch_last_offset(h) == entry_offset
                or (batch_is_legacy(h) and h.base_offset <= entry_offset < batch_last_offset(h)))

    cdef int rebuild_indexes(self) except -1:
        """Write both indexes again from the sound batches. On a full disk, and where nothing may be written, they are
        created in memory, so that the segment can be read; `flush_indexes` reports that."""
        if self.copies is not None:
            return self.fill_indexes(True)
        try:
            self.fill_indexes(False)
        except StorageError as error:
            if not disk_is_full(error):
                raise
            self.unwritten = error
            self.fill_indexes(True)
        return 0

    cdef int fill_indexes(self, bint detached) except -1:
        """Create the entries that Kafka's recovery creates."""
        cdef BatchHeader h
        cdef int64_t position = 0, since = 0, largest = NO_TIMESTAMP, largest_offset = self.base_offset
        cdef int64_t expected = self.base_offset
        self.make_indexes(detached)
        while self.next_sound(&position, &expected, &h):
            if h.max_timestamp > largest:
                largest = h.max_timestamp
                largest_offset = batch_last_offset(&h)
            if since > self.index_interval_bytes:
                self.offset_index.append(batch_last_offset(&h), position)
                self.time_index.maybe_append(largest, largest_offset)
                since = 0
            since += batch_bytes(&h)
            position += batch_bytes(&h)
            expected = batch_last_offset(&h) + 1
        if self.sealed:
            self.time_index.maybe_append(largest, largest_offset, True)
            self.offset_index.seal()
            self.time_index.seal()
            self.offset_index.load()
            self.time_index.load()
        self.max_timestamp = largest
        self.max_timestamp_offset = largest_offset
        self.timestamps_loaded = self.indexes_rebuilt = True
        return 0

    # --- reading ----------------------------------------------------------------------------------------------------

    cdef Slice read(self, int64_t offset, int64_t max_bytes, int64_t limit_offset, int64_t gaps_end):
        cdef BatchHeader h
        cdef int64_t end, next_offset = offset
        cdef int64_t position = self.locate(offset, &h, False)
        cdef Slice piece
        if position < 0:
            return None
        if h.base_offset > offset and h.base_offset > gaps_end:
            raise CorruptLogError(os.fsdecode(self.path), position, offset, h.base_offset, "no batch has these offsets")
        end = self.extent(position, max_bytes, limit_offset, gaps_end, &next_offset)
        if end == position:
            piece = slice_bytes(b"")
        else:
            piece = slice_mapping(self.mapping, position, end - position)
            piece.first_offset = h.base_offset
        piece.next_offset = next_offset
        return piece

    cdef int64_t extent(self, int64_t position, int64_t max_bytes, int64_t limit_offset, int64_t gaps_end,
                        int64_t* next_offset) except? -2:
        """End of the whole batches from `position` on that fit; sets `next_offset` if there is at least one."""
        cdef BatchHeader h
        cdef const uint8_t* p
        cdef int64_t start = position, covered = 0, base, last, bytes_count, expected = -1
        cdef int64_t end = min(self.size, INT64_MAX if max_bytes > INT64_MAX - position else position + max_bytes)
        while True:
            while position < covered:
                p = self.data + position
                base = load_i64(p)
                last = batch_end_at(p)
                bytes_count = batch_bytes_at(p)
                if p[BATCH_MAGIC] != MAGIC_CURRENT and expected >= 0:
                    batch_reload(p, &h)            # its offset is its last one
                    base = h.base_offset
                if (
                    last >= limit_offset
                    or (position + bytes_count > end and position > start)
                    or (expected >= 0 and (base < expected or (base > expected and base > gaps_end)))
                ):
                    return position
                expected = next_offset[0] = last + 1
                position += bytes_count
            if (position >= end and position > start) or self.is_dear(position, position - start):
                return position
            if self.step(position, expected, &h) != STEP_BATCH:
                return position
            covered = self.checked.covered_to(position)

    cdef bint is_dear(self, int64_t position, int64_t taken_bytes) noexcept nogil:
        """True when a read that has `taken_bytes` ends before these bytes: messages of format v0 or v1 that are not
        checked yet. A check of a compressed one takes a hundred times longer than that of a v2 batch."""
        return (taken_bytes >= DEAR_BYTES_MAX and position < self.size
                and self.data[position + BATCH_MAGIC] < MAGIC_CURRENT
                and self.checked.covered_to(position) == position)

    cdef int64_t end_offset(self) except? -1:
        cdef BatchHeader h
        cdef int64_t expected
        cdef int64_t position = self.index_start(INT64_MAX, &expected)
        while self.next_sound(&position, &expected, &h):
            expected = batch_last_offset(&h) + 1
            position += batch_bytes(&h)
        return expected

    # --- times ------------------------------------------------------------------------------------------------------

    cdef int load_timestamps(self) except -1:
        """Load the largest timestamp: of the last time index entry, or of the batches after the one it names."""
        cdef BatchHeader h
        cdef int64_t position, expected
        if self.timestamps_loaded:
            return 0
        self.load_indexes()
        if self.timestamps_loaded:     # the indexes were rebuilt
            return 0
        self.max_timestamp = self.time_index.last_timestamp()
        self.max_timestamp_offset = self.time_index.last_offset()
        self.timestamps_loaded = True
        if self.time_index.count > 0 and not self.time_entry_holds(self.max_timestamp, self.max_timestamp_offset):
            return self.rebuild_indexes()
        position = self.index_start(self.max_timestamp_offset, &expected)
        while self.next_sound(&position, &expected, &h):
            if h.max_timestamp > self.max_timestamp:
                self.max_timestamp = h.max_timestamp
                self.max_timestamp_offset = batch_last_offset(&h)
            position += batch_bytes(&h)
            expected = batch_last_offset(&h) + 1
        if self.sealed and self.max_timestamp != self.time_index.last_timestamp():
            # A seal adds an entry for the largest one. This index lost its end.
            self.rebuild_indexes()
        return 0

    cdef bint time_entry_holds(self, int64_t timestamp, int64_t offset) except -1:
        """Return whether the batch that an entry of the time index names exists and has that time."""
        cdef BatchHeader h
        cdef int64_t position = self.locate(offset, &h, True)
        return (position >= 0 and self.checked.covered_to(position) > position and h.base_offset <= offset
                and h.max_timestamp == timestamp)

    cdef int64_t time_start(self, int64_t timestamp) except? -2:
        """An offset before which no record of this segment has `timestamp` or a later one."""
        cdef Py_ssize_t slot
        self.load_indexes()
        slot = self.time_index.slot_for(timestamp)
        if slot < 0:
            return self.base_offset
        entry = self.time_index[slot]
        if not self.indexes_rebuilt and not self.time_entry_holds(entry[0], entry[1]):
            self.rebuild_indexes()
            return self.time_index.lookup(timestamp)
        return entry[1]

    cdef int64_t largest_timestamp(self) except? -2:
        self.load_timestamps()
        return self.max_timestamp

    cdef int64_t rolling_timestamp(self) except? -2:
        """Largest timestamp of the first batch, from which the age of the segment counts; -1: none yet."""
        cdef BatchHeader h
        if self.first_timestamp == NO_TIMESTAMP and self.step(0, self.base_offset, &h) == STEP_BATCH:
            self.first_timestamp = h.max_timestamp
        return self.first_timestamp

    cdef int64_t modified_ms(self) except? -2:
        """Modification time of the file, by the file system; -1: it is in memory only."""
        try:
            return os.stat(self.path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return -1

    # --- files ------------------------------------------------------------------------------------------------------

    cdef int flush_indexes(self, bint durable) except -1:
        if self.unwritten is not None:
            raise self.unwritten
        if self.offset_index is not None:
            self.offset_index.flush(durable)
            self.time_index.flush(durable)
        self.txn_index.flush()
        return 0

    cdef int delete(self, list removed=None) except -1:
        """Remove the files; slices stay readable. A crash in between leaves names that opening removes. With `removed`
        the files are only renamed, and the new names added to it."""
        self.close_file()
        self.mapping = None
        return remove_files([segment_path(self.directory, self.base_offset, each) for each in SUFFIXES[::-1]], removed)
