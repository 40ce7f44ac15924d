"""Key -> latest offset in fixed memory, for compaction. Keys are known by a 128-bit keyed hash only."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "compact/siphash.h" nogil:
    void kraft_siphash(const uint64_t* key, const uint8_t* data, size_t size, uint64_t* out)
    uint64_t ks_scale(uint64_t hash, uint64_t count)

cdef extern from *:
    """
    #define km_prefetch(p) __builtin_prefetch(p)
    """
    void km_prefetch(const void* p) noexcept nogil


cdef struct KeyHash:
    uint64_t high                  # orders the table
    uint64_t low


cdef struct MapEntry:
    KeyHash hash
    int64_t offset_after           # offset + 1; 0: no entry


cdef enum PutResult:
    PUT_FULL = -1                  # a new key, and no memory for it: nothing changed
    PUT_KNOWN = 0
    PUT_NEW = 1


cdef enum:
    MAP_QUEUE_KEYS = 32


# Keys queued for the map. Their table lines are being fetched meanwhile.
cdef struct KeyQueue:
    int count
    KeyHash hashes[MAP_QUEUE_KEYS]
    int64_t offsets[MAP_QUEUE_KEYS]


cdef class OffsetMap:
    cdef MapEntry* entries
    cdef size_t mapped_bytes
    cdef int64_t slots                 # places where a hash may belong
    cdef int64_t places                # slots, and what the last of them may spill into
    cdef int64_t places_max
    cdef int64_t count_max             # keys that it accepts at its present size
    cdef readonly int64_t capacity     # keys that it accepts at its largest
    cdef int64_t count
    cdef uint64_t key[2]

    # The next three are the hot path: hash and prefetch some keys, then put or get them.
    cdef inline KeyHash hash_of(self, const uint8_t* data, Py_ssize_t size) noexcept nogil:
        cdef uint64_t out[2]
        cdef KeyHash hash
        kraft_siphash(self.key, data, <size_t>size, out)
        hash.high = out[0]
        hash.low = out[1]
        return hash

    cdef inline MapEntry* home_of(self, const KeyHash* hash) noexcept nogil:
        return self.entries + ks_scale(hash.high, <uint64_t>self.slots)

    cdef inline void prefetch(self, const KeyHash* hash) noexcept nogil:
        cdef MapEntry* home = self.home_of(hash)
        km_prefetch(home)
        km_prefetch(home + 2)

    # Sets the key's offset. PutResult.
    cdef int put(self, const KeyHash* hash, int64_t offset) noexcept nogil
    # The key's offset, -1 when it is not in the map.
    cdef int64_t get(self, const KeyHash* hash) noexcept nogil
    # At most doubles the places. -1, and nothing changed, when it is at its largest or the system has no memory.
    cdef int grow(self) noexcept nogil
    cdef bint fits(self, int64_t places) noexcept nogil

    # Puts the queued keys, in order, and empties the queue. -1, or the offset of the first key without room.
    cdef int64_t drain(self, KeyQueue* queue) noexcept nogil
    # Queues a key, whose place it begins to fetch; drains a full queue first. Returns like `drain`.
    cdef inline int64_t queue_key(self, KeyQueue* queue, const uint8_t* data, Py_ssize_t size,
                                  int64_t offset) noexcept nogil:
        cdef int64_t refused
        if queue.count == MAP_QUEUE_KEYS:
            refused = self.drain(queue)
            if refused >= 0:
                return refused
        queue.hashes[queue.count] = self.hash_of(data, size)
        queue.offsets[queue.count] = offset
        self.prefetch(&queue.hashes[queue.count])
        queue.count += 1
        return -1
