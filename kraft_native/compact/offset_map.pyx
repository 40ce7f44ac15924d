"""Key -> latest offset in fixed memory (the job of Kafka's SkimpyOffsetMap).

An entry is 24 bytes: a 128-bit hash of the key, and the offset. Keys themselves are not kept, so two keys with one hash
would be one key, and a live record would be dropped. Chance does not cause that (n keys: n^2 / 2^129, for 10^9 keys
below 10^-20). An adversary that knows the hash function can, whatever its width. So the hash is a keyed pseudorandom
function (`_c/compact/siphash.h`) with a key drawn for each map.

The table is open-addressed with linear probing and kept in the order of the hashes. A hash belongs at the slot hash /
2^64 * slots. Entries move up by one to make room, and a search ends at the first entry with a larger hash. So an absent
key costs no more than a present one. A search in a table that is nine tenths full takes some five steps within two or
three cache lines. There is no wrap-around: the last slots spill into places after them.

The table starts small and doubles in place up to the memory given, so that a log of few keys touches little memory. The
order makes that simple: all entries are pushed to the end of the larger table, and from there placed one by one. An
entry never lies before its new place, because all that come after it have room between there and the end.
"""

import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memmove
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap

from kraft_native.base.errors import InvalidArgumentError

cdef extern from "<sys/mman.h>" nogil:
    int madvise(void* start, size_t size, int advice)
    int MADV_HUGEPAGE
    int MREMAP_MAYMOVE
    void* mremap(void* start, size_t old_size, size_t new_size, int flags)

cdef enum:
    # A run of entries that would reach past these places after the last slot counts as a full map. At nine tenths full
    # runs of hundreds occur; of thousands, never.
    SPILL_PLACES = 4096
    LOAD_NUMERATOR = 9
    LOAD_DENOMINATOR = 10
    PLACES_FIRST = 64 * 1024
    # Places after the last one that stay empty, so that a search ends without a check for the table's end and a
    # prefetch stays inside.
    PLACES_BEHIND = 3

BUFFER_BYTES_MIN = 1024


cdef inline int64_t slots_of(int64_t places) noexcept nogil:
    return places - min(<int64_t>SPILL_PLACES, places // 8)


@cython.final
cdef class OffsetMap:
    """An empty map in `buffer_bytes` of memory, 1 KiB at least, which is used only as keys arrive.

    It holds `capacity` keys at most, nine tenths of its slots. `hash_key`, 16 bytes, makes a test repeatable; without
    it the key comes from the system's random source. One thread at a time.
    """

    def __cinit__(self, int64_t buffer_bytes, *, bytes hash_key=None) -> OffsetMap:
        cdef void* start
        cdef bytes key = os.urandom(16) if hash_key is None else hash_key
        if buffer_bytes < BUFFER_BYTES_MIN:
            raise InvalidArgumentError(f"buffer_bytes: {buffer_bytes} is below {BUFFER_BYTES_MIN}")
        if PyBytes_GET_SIZE(key) != 16:
            raise InvalidArgumentError(f"hash_key: {len(key)} bytes, 16 are needed")
        memcpy(self.key, PyBytes_AS_STRING(key), 16)
        self.places_max = buffer_bytes // <int64_t>sizeof(MapEntry) - PLACES_BEHIND
        self.places = min(self.places_max, <int64_t>PLACES_FIRST)
        self.slots = slots_of(self.places)
        self.count_max = self.slots * LOAD_NUMERATOR // LOAD_DENOMINATOR
        self.capacity = slots_of(self.places_max) * LOAD_NUMERATOR // LOAD_DENOMINATOR
        self.mapped_bytes = <size_t>(self.places + PLACES_BEHIND) * sizeof(MapEntry)
        start = mmap(NULL, self.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        if start == MAP_FAILED:
            raise MemoryError(f"{buffer_bytes} bytes for the offset map")
        # Random access over many small pages would miss the TLB each time. Only advice: a refusal changes nothing.
        madvise(start, self.mapped_bytes, MADV_HUGEPAGE)
        self.entries = <MapEntry*>start

    def __dealloc__(self):
        if self.entries != NULL:
            munmap(self.entries, self.mapped_bytes)

    cdef int put(self, const KeyHash* hash, int64_t offset) noexcept nogil:
        cdef MapEntry* entry
        cdef MapEntry* free
        entry = self.home_of(hash)
        while entry.offset_after != 0:
            if hash.high <= entry.hash.high:
                if hash.high == entry.hash.high and hash.low == entry.hash.low:
                    entry.offset_after = offset + 1
                    return PUT_KNOWN
                if hash.high < entry.hash.high or hash.low < entry.hash.low:
                    break
            entry += 1
        if self.count >= self.count_max:
            if self.grow() < 0:
                return PUT_FULL
            return self.put(hash, offset)
        free = entry
        while free.offset_after != 0:
            free += 1
        if free - self.entries >= self.places:
            return PUT_FULL
        memmove(entry + 1, entry, <size_t>((free - entry) * <Py_ssize_t>sizeof(MapEntry)))
        entry.hash = hash[0]
        entry.offset_after = offset + 1
        self.count += 1
        return PUT_NEW

    cdef int64_t get(self, const KeyHash* hash) noexcept nogil:
        cdef MapEntry* entry = self.home_of(hash)
        while entry.offset_after != 0 and entry.hash.high <= hash.high:
            if entry.hash.high == hash.high and entry.hash.low == hash.low:
                return entry.offset_after - 1
            entry += 1
        return -1

    cdef bint fits(self, int64_t places) noexcept nogil:
        """Return whether the entries have room in that many places. Only a freak of hashes could prevent it."""
        cdef uint64_t slots = <uint64_t>slots_of(places)
        cdef int64_t place, home, free = 0
        for place in range(self.places):
            if self.entries[place].offset_after != 0:
                home = <int64_t>ks_scale(self.entries[place].hash.high, slots)
                free = max(free, home) + 1
        return free <= places

    cdef int grow(self) noexcept nogil:
        cdef int64_t places = min(2 * self.places, self.places_max)
        cdef size_t mapped_bytes = <size_t>(places + PLACES_BEHIND) * sizeof(MapEntry)
        cdef MapEntry* source
        cdef MapEntry* target
        cdef MapEntry* home
        cdef MapEntry moved
        cdef int64_t left = self.count
        if places == self.places or not self.fits(places):
            return -1
        # The bytes after the old end are zero: no entries.
        source = <MapEntry*>mremap(self.entries, self.mapped_bytes, mapped_bytes, MREMAP_MAYMOVE)
        if <void*>source == MAP_FAILED:
            return -1
        self.entries = source
        self.mapped_bytes = mapped_bytes
        source += self.places
        target = self.entries + places
        while left > 0:
            source -= 1
            if source.offset_after != 0:
                target -= 1
                target[0] = source[0]
                source.offset_after = 0
                left -= 1
        self.places = places
        self.slots = slots_of(places)
        self.count_max = self.slots * LOAD_NUMERATOR // LOAD_DENOMINATOR
        source = target
        target = self.entries
        left = self.count
        while left > 0:
            left -= 1
            moved = source[0]
            source.offset_after = 0
            home = self.home_of(&moved.hash)
            if home > target:
                target = home
            target[0] = moved
            target += 1
            source += 1
        return 0

    cdef int64_t drain(self, KeyQueue* queue) noexcept nogil:
        cdef int slot
        for slot in range(queue.count):
            if self.put(&queue.hashes[slot], queue.offsets[slot]) == PUT_FULL:
                queue.count = 0
                return queue.offsets[slot]
        queue.count = 0
        return -1

    def __len__(self) -> int:
        return self.count

    def __setitem__(self, bytes key not None, int64_t offset):
        """Set the key's offset, 0 or more. `MemoryError` when the key is new and the map is full."""
        cdef KeyHash hash = self.hash_of(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        if offset < 0:
            raise InvalidArgumentError(f"offset: {offset} is below 0")
        if self.put(&hash, offset) == PUT_FULL:
            raise MemoryError(f"the map is full: {self.count} keys")

    def __getitem__(self, bytes key not None) -> int:
        """The key's offset; KeyError when it has none."""
        cdef KeyHash hash = self.hash_of(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        cdef int64_t offset = self.get(&hash)
        if offset < 0:
            raise KeyError(key)
        return offset

    def __contains__(self, bytes key not None) -> bool:
        cdef KeyHash hash = self.hash_of(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        return self.get(&hash) >= 0

    def hash(self, bytes key not None) -> bytes:
        """The 16 bytes that represent the key."""
        cdef KeyHash hash = self.hash_of(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        return int(hash.high).to_bytes(8, "little") + int(hash.low).to_bytes(8, "little")
