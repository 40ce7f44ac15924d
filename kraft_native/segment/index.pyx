"""Offset index and time index of one segment.

Formats (all big-endian, nothing else in the files; Kafka's OffsetIndex and TimeIndex):

    .index      8 bytes   int32 last offset of a batch minus base   int32 position of that batch in the .log
    .timeindex  12 bytes  int64 largest timestamp so far            int32 offset minus base

Both are hints: a look-up names a position from which the log itself is read, so a missing entry costs time, never
correctness. A wrong entry does harm, hence `check`. `index_file.pyx` describes how the files are written.

An index belongs to its log's owner thread; any thread may query a loaded one that no longer changes.
"""

import os

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kraft_native.base.bytes_be cimport load_i32, load_i64, load_u32, store_i32, store_i64
from kraft_native.base.limits cimport INT32_MAX_VALUE, NO_TIMESTAMP, OFFSET_INDEX_ENTRY_BYTES, TIME_INDEX_ENTRY_BYTES
from kraft_native.segment.index_file cimport NEAR_ENTRIES, BlockSearch, EntryFault, IndexFile, kn_unpredictable

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    # Concurrent look-ups of `find_many`: enough to hide one another's wait for a cache line.
    SEARCHES_TOGETHER = 8


@cython.final
cdef class OffsetIndex(IndexFile):
    """Sparse map of one segment from offset to file position.

    Iteration yields (offset of the batch's last record, position of the batch) pairs in file order. Invariant of a
    checked index: both strictly increase, offsets are at least `base_offset`.
    """

    def __cinit__(self):
        self.entry_bytes = OFFSET_INDEX_ENTRY_BYTES

    cdef int64_t key_of(self, Py_ssize_t slot) noexcept nogil:
        return load_u32(self.entries + slot * OFFSET_INDEX_ENTRY_BYTES)

    cdef Py_ssize_t slot_for(self, int64_t offset) noexcept nogil:
        """Slot of the last entry whose offset is <= `offset`; -1 when none is."""
        cdef BlockSearch search
        self.begin_search(offset, &search)
        return self.end_search(&search)

    cdef void begin_search(self, int64_t offset, BlockSearch* search) noexcept nogil:
        search.wanted = min(offset - self.base_offset, <int64_t>INT32_MAX_VALUE)
        self.find_block(search)

    cdef Py_ssize_t end_search(self, const BlockSearch* search) noexcept nogil:
        cdef Py_ssize_t half, left = search.left
        cdef uint32_t wanted = <uint32_t>search.wanted
        cdef const uint8_t* entry
        cdef const uint8_t* near
        if left == 0:
            return -1
        entry = self.entries + search.first_slot * OFFSET_INDEX_ENTRY_BYTES
        if search.near_slot >= 0:
            near = self.entries + search.near_slot * OFFSET_INDEX_ENTRY_BYTES
            if load_u32(near) <= wanted and wanted < load_u32(near + NEAR_ENTRIES * OFFSET_INDEX_ENTRY_BYTES):
                entry = near
                left = NEAR_ENTRIES
        while left > 1:
            half = left >> 1
            entry = (entry + half * OFFSET_INDEX_ENTRY_BYTES
                     if kn_unpredictable(load_u32(entry + half * OFFSET_INDEX_ENTRY_BYTES) <= wanted) else entry)
            left -= half
        return (entry - self.entries) // OFFSET_INDEX_ENTRY_BYTES

    cdef int64_t lookup(self, int64_t offset, int64_t* entry_offset) noexcept nogil:
        cdef Py_ssize_t slot = self.slot_for(offset)
        cdef const uint8_t* entry
        if slot < 0:
            if entry_offset != NULL:
                entry_offset[0] = self.base_offset
            return 0
        entry = self.entries + slot * OFFSET_INDEX_ENTRY_BYTES
        if entry_offset != NULL:
            entry_offset[0] = self.base_offset + load_i32(entry)
        return load_i32(entry + 4)

    cdef int64_t upper_bound_offset(self, int64_t position) noexcept nogil:
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.count
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) >> 1
            if load_i32(self.entries + middle * OFFSET_INDEX_ENTRY_BYTES + 4) < position:
                low = middle + 1
            else:
                high = middle
        if low == self.count:
            return -1
        return self.base_offset + load_i32(self.entries + low * OFFSET_INDEX_ENTRY_BYTES)

    cdef int64_t last_offset(self) noexcept nogil:
        if self.count == 0:
            return self.base_offset
        return self.base_offset + load_i32(self.entries + (self.count - 1) * OFFSET_INDEX_ENTRY_BYTES)

    cpdef int append(self, int64_t last_offset, int64_t position) except -1:
        """Add the batch that ends with `last_offset` and begins at `position`, in memory: `flush` writes it. Return 1.

        `InvalidArgumentError` when a number does not fit int32 or does not follow the last entry, or the index is full
        (`is_full` was ignored).
        """
        cdef uint8_t entry[OFFSET_INDEX_ENTRY_BYTES]
        cdef const uint8_t* last
        cdef int32_t relative
        self.require_growing()
        relative = self.relative(last_offset)
        if not 0 <= position <= INT32_MAX_VALUE:
            raise InvalidArgumentError(f"position: {position} is outside 0 to {INT32_MAX_VALUE}")
        if self.count > 0:
            last = self.entries + (self.count - 1) * OFFSET_INDEX_ENTRY_BYTES
            if relative <= load_i32(last) or position <= load_i32(last + 4):
                raise InvalidArgumentError(
                    f"last_offset, position: {last_offset}, {position} must both be above the last entry's "
                    f"{self.base_offset + load_i32(last)}, {load_i32(last + 4)}")
        if self.is_full:
            raise InvalidArgumentError(f"{os.fsdecode(self.path)}: append to a full index ({self.count} entries)")
        store_i32(entry, relative)
        store_i32(entry + 4, <int32_t>position)
        self.push(entry)
        return 1

    cpdef int truncate_to(self, int64_t offset) except -1:
        """Drop the entries whose offset is >= `offset`, here and in the file. Return their number."""
        cdef Py_ssize_t before
        self.load()
        before = self.count
        self.keep(self.slot_for(offset - 1) + 1)
        return <int>(before - self.count)

    def check(self, int64_t log_size, int64_t next_offset=-1) -> None:
        """Raise `CorruptFileError`, with the fault and its place, unless the index fits its segment. That means:

        - the file is present and has whole entries and no zero tail;
        - offsets go from `base_offset` up and stay below `next_offset` (-1: not known), positions below `log_size`;
        - both strictly increase.

        Reads every entry (1 ns each)."""
        cdef Py_ssize_t slot = 0
        cdef EntryFault fault
        self.check_file()
        with nogil:
            fault = self.scan(log_size, next_offset, &slot)
        if fault != EntryFault.ENTRY_GOOD:
            raise self.corrupt_entry(slot, fault)

    cdef EntryFault scan(self, int64_t log_size, int64_t next_offset, Py_ssize_t* at) noexcept nogil:
        cdef const uint8_t* entry
        cdef int64_t offset, position
        cdef int64_t offset_before = -1
        cdef int64_t position_before = -1
        cdef int64_t offset_end = (next_offset - self.base_offset if next_offset >= 0
                                   else <int64_t>INT32_MAX_VALUE + 1)
        cdef Py_ssize_t slot
        for slot in range(self.count):
            entry = self.entries + slot * OFFSET_INDEX_ENTRY_BYTES
            offset = load_i32(entry)
            position = load_i32(entry + 4)
            if offset_before < offset < offset_end and position_before < position < log_size:
                offset_before = offset
                position_before = position
                continue
            at[0] = slot
            if offset < 0:
                return EntryFault.ENTRY_BELOW_BASE
            if offset <= offset_before:
                return EntryFault.ENTRY_OFFSET_ORDER
            if offset >= offset_end:
                return EntryFault.ENTRY_OFFSET_PAST_END
            if position < 0:
                return EntryFault.ENTRY_VALUE_NEGATIVE
            return EntryFault.ENTRY_VALUE_ORDER if position <= position_before else EntryFault.ENTRY_VALUE_PAST_END
        return EntryFault.ENTRY_GOOD

    @property
    def is_full(self) -> bool:
        """True when the segment must roll before the next entry. Always true when sealed."""
        return self.count >= self.max_bytes // OFFSET_INDEX_ENTRY_BYTES

    def find(self, int64_t offset) -> tuple[int, int]:
        """The last entry at or below `offset`, as (offset, position); (base_offset, 0) when none is."""
        cdef int64_t entry_offset = 0
        cdef int64_t position
        self.load()
        position = self.lookup(offset, &entry_offset)
        return entry_offset, position

    def find_many(self, const int64_t[::1] offsets not None, int64_t[::1] positions not None) -> None:
        """Set `positions[i]` to the position at which to start reading for `offsets[i]`: many look-ups in one call,
        which wait for memory together."""
        cdef Py_ssize_t j, slot, count, i = 0
        cdef BlockSearch searches[SEARCHES_TOGETHER]
        if offsets.shape[0] != positions.shape[0]:
            raise InvalidArgumentError(f"positions: {positions.shape[0]} items for {offsets.shape[0]} offsets")
        self.load()
        with nogil:
            while i < offsets.shape[0]:
                count = min(<Py_ssize_t>SEARCHES_TOGETHER, offsets.shape[0] - i)
                for j in range(count):
                    self.begin_search(offsets[i + j], &searches[j])
                for j in range(count):
                    slot = self.end_search(&searches[j])
                    positions[i + j] = load_i32(self.entries + slot * OFFSET_INDEX_ENTRY_BYTES + 4) if slot >= 0 else 0
                i += count

    def find_upper_bound(self, int64_t position) -> int:
        """Offset of the first entry whose position is >= `position`; -1 when none is."""
        self.load()
        return self.upper_bound_offset(position)

    def __getitem__(self, Py_ssize_t slot) -> tuple[int, int]:
        cdef const uint8_t* entry
        self.load()
        slot = slot + self.count if slot < 0 else slot
        if not 0 <= slot < self.count:
            raise IndexError(f"slot {slot} of {self.count}")
        entry = self.entries + slot * OFFSET_INDEX_ENTRY_BYTES
        return self.base_offset + load_i32(entry), load_i32(entry + 4)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.load()
        for slot in range(self.count):
            yield self[slot]


@cython.final
cdef class TimeIndex(IndexFile):
    """Sparse map of one segment from timestamp to the offset of the first batch that reached it.

    Iteration yields (timestamp, offset) pairs in file order. Invariant of a checked index: timestamps strictly increase
    from 0, offsets never decrease and are at least `base_offset`. One slot stays reserved for the entry added at a
    roll.
    """

    def __cinit__(self):
        self.entry_bytes = TIME_INDEX_ENTRY_BYTES

    cdef int64_t key_of(self, Py_ssize_t slot) noexcept nogil:
        return load_i64(self.entries + slot * TIME_INDEX_ENTRY_BYTES)

    cdef Py_ssize_t slot_for(self, int64_t timestamp) noexcept nogil:
        """Slot of the last entry whose timestamp is <= `timestamp`; -1 when none is."""
        cdef BlockSearch search
        self.begin_search(timestamp, &search)
        return self.end_search(&search)

    cdef void begin_search(self, int64_t timestamp, BlockSearch* search) noexcept nogil:
        search.wanted = timestamp
        self.find_block(search)

    cdef Py_ssize_t end_search(self, const BlockSearch* search) noexcept nogil:
        cdef Py_ssize_t half, left = search.left
        cdef int64_t wanted = search.wanted
        cdef const uint8_t* entry
        cdef const uint8_t* near
        if left == 0:
            return -1
        entry = self.entries + search.first_slot * TIME_INDEX_ENTRY_BYTES
        if search.near_slot >= 0:
            near = self.entries + search.near_slot * TIME_INDEX_ENTRY_BYTES
            if load_i64(near) <= wanted and wanted < load_i64(near + NEAR_ENTRIES * TIME_INDEX_ENTRY_BYTES):
                entry = near
                left = NEAR_ENTRIES
        while left > 1:
            half = left >> 1
            entry = (entry + half * TIME_INDEX_ENTRY_BYTES
                     if kn_unpredictable(load_i64(entry + half * TIME_INDEX_ENTRY_BYTES) <= wanted) else entry)
            left -= half
        return (entry - self.entries) // TIME_INDEX_ENTRY_BYTES

    cdef int64_t offset_in(self, Py_ssize_t slot) noexcept nogil:
        return self.base_offset + (load_i32(self.entries + slot * TIME_INDEX_ENTRY_BYTES + 8) if slot >= 0 else 0)

    cdef int64_t lookup(self, int64_t timestamp) noexcept nogil:
        return self.offset_in(self.slot_for(timestamp))

    cdef int64_t last_timestamp(self) noexcept nogil:
        return load_i64(self.entries + (self.count - 1) * TIME_INDEX_ENTRY_BYTES) if self.count > 0 else NO_TIMESTAMP

    cdef int64_t last_offset(self) noexcept nogil:
        if self.count == 0:
            return self.base_offset
        return self.base_offset + load_i32(self.entries + (self.count - 1) * TIME_INDEX_ENTRY_BYTES + 8)

    cpdef int maybe_append(self, int64_t timestamp, int64_t offset, bint skip_full_check=False) except -1:
        """Add an entry if `timestamp` is above the last one's: 1, else 0. In memory; `flush` writes it.

        `InvalidArgumentError` when the timestamp or the offset is below the last entry's, the offset does not fit, or
        the index is full. `skip_full_check` opens the reserved last slot, for roll and close.
        """
        cdef uint8_t entry[TIME_INDEX_ENTRY_BYTES]
        cdef int32_t relative
        self.require_growing()
        if not skip_full_check and self.is_full:
            raise InvalidArgumentError(f"{os.fsdecode(self.path)}: append to a full index ({self.count} entries)")
        if self.count > 0 and (offset < self.last_offset() or timestamp < self.last_timestamp()):
            raise InvalidArgumentError(f"timestamp, offset: {timestamp}, {offset} must not be below the last entry's "
                                       f"{self.last_timestamp()}, {self.last_offset()}")
        if timestamp <= self.last_timestamp():
            return 0
        relative = self.relative(offset)
        store_i64(entry, timestamp)
        store_i32(entry + 8, relative)
        self.push(entry)
        return 1

    cpdef int truncate_to(self, int64_t offset) except -1:
        """Drop the entries whose offset is >= `offset`, here and in the file. Return their number."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high, middle, before
        self.load()
        high = before = self.count
        while low < high:
            middle = (low + high) >> 1
            if self.base_offset + load_i32(self.entries + middle * TIME_INDEX_ENTRY_BYTES + 8) < offset:
                low = middle + 1
            else:
                high = middle
        self.keep(low)
        return <int>(before - self.count)

    def check(self, int64_t next_offset=-1) -> None:
        """Raise `CorruptFileError`, with the fault and its place, unless the index fits its segment. That means:

        - the file is present and has whole entries and no zero tail;
        - timestamps go from 0 up and strictly increase;
        - offsets never decrease, go from `base_offset` up and stay below `next_offset` (-1: not known).

        Reads every entry."""
        cdef Py_ssize_t slot = 0
        cdef EntryFault fault
        self.check_file()
        with nogil:
            fault = self.scan(next_offset, &slot)
        if fault != EntryFault.ENTRY_GOOD:
            raise self.corrupt_entry(slot, fault)

    cdef EntryFault scan(self, int64_t next_offset, Py_ssize_t* at) noexcept nogil:
        cdef const uint8_t* entry
        cdef int64_t timestamp, offset
        cdef int64_t timestamp_before = -1
        cdef int64_t offset_before = 0
        cdef int64_t offset_end = (next_offset - self.base_offset if next_offset >= 0
                                   else <int64_t>INT32_MAX_VALUE + 1)
        cdef Py_ssize_t slot
        for slot in range(self.count):
            entry = self.entries + slot * TIME_INDEX_ENTRY_BYTES
            timestamp = load_i64(entry)
            offset = load_i32(entry + 8)
            if timestamp > timestamp_before and offset_before <= offset < offset_end:
                timestamp_before = timestamp
                offset_before = offset
                continue
            at[0] = slot
            if offset < 0:
                return EntryFault.ENTRY_BELOW_BASE
            if offset < offset_before:
                return EntryFault.ENTRY_OFFSET_ORDER
            if offset >= offset_end:
                return EntryFault.ENTRY_OFFSET_PAST_END
            return EntryFault.ENTRY_VALUE_NEGATIVE if timestamp < 0 else EntryFault.ENTRY_VALUE_ORDER
        return EntryFault.ENTRY_GOOD

    @property
    def is_full(self) -> bool:
        """True when the segment must roll before the next entry: only the reserved slot is left. Always true when
        sealed."""
        return self.count >= self.max_bytes // TIME_INDEX_ENTRY_BYTES - 1

    def find(self, int64_t timestamp) -> tuple[int, int]:
        """The last entry at or below `timestamp`, as (timestamp, offset); (-1, base_offset) when none is."""
        cdef Py_ssize_t slot
        self.load()
        slot = self.slot_for(timestamp)
        return self[slot] if slot >= 0 else (NO_TIMESTAMP, self.base_offset)

    def find_many(self, const int64_t[::1] timestamps not None, int64_t[::1] offsets not None) -> None:
        """Set `offsets[i]` to the offset at which to start the search for `timestamps[i]`: many look-ups in one call,
        which wait for memory together."""
        cdef Py_ssize_t j, count, i = 0
        cdef BlockSearch searches[SEARCHES_TOGETHER]
        if timestamps.shape[0] != offsets.shape[0]:
            raise InvalidArgumentError(f"offsets: {offsets.shape[0]} items for {timestamps.shape[0]} timestamps")
        self.load()
        with nogil:
            while i < timestamps.shape[0]:
                count = min(<Py_ssize_t>SEARCHES_TOGETHER, timestamps.shape[0] - i)
                for j in range(count):
                    self.begin_search(timestamps[i + j], &searches[j])
                for j in range(count):
                    offsets[i + j] = self.offset_in(self.end_search(&searches[j]))
                i += count

    def __getitem__(self, Py_ssize_t slot) -> tuple[int, int]:
        cdef const uint8_t* entry
        self.load()
        slot = slot + self.count if slot < 0 else slot
        if not 0 <= slot < self.count:
            raise IndexError(f"slot {slot} of {self.count}")
        entry = self.entries + slot * TIME_INDEX_ENTRY_BYTES
        return load_i64(entry), self.base_offset + load_i32(entry + 8)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.load()
        for slot in range(self.count):
            yield self[slot]
