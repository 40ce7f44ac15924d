"""Common part of offset index and time index: one file of fixed-size entries that only grows, in two forms."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.file.buffer cimport Mapping, Scratch


cdef extern from *:
    """
    #define kn_prefetch(p) __builtin_prefetch(p)
    /* Makes the compiler select instead of branch: the outcome of a bisection step cannot be predicted. */
    #define kn_unpredictable(condition) __builtin_expect_with_probability((condition), 1, 0.5)
    """
    void kn_prefetch(const void* p) noexcept nogil
    bint kn_unpredictable(bint condition) noexcept nogil


# Findings of the scan of `check`; the messages are in index_file.pyx.
cdef enum EntryFault:
    ENTRY_GOOD = 0
    ENTRY_BELOW_BASE
    ENTRY_OFFSET_ORDER
    ENTRY_OFFSET_PAST_END
    ENTRY_VALUE_NEGATIVE
    ENTRY_VALUE_ORDER
    ENTRY_VALUE_PAST_END


cdef enum:
    # Slots of the part of a block in which interpolation expects the entry.
    NEAR_ENTRIES = 16


# A look-up after its first half: the block to continue in, and its part to search first.
cdef struct BlockSearch:
    int64_t wanted
    Py_ssize_t first_slot
    Py_ssize_t left                    # slots of the block; 0: no such entry
    Py_ssize_t near_slot               # NEAR_ENTRIES slots from here probably hold it; -1: not known


cdef class IndexFile:
    """Fixed-size entries, growing or sealed. Not used by itself."""
    cdef readonly bytes path
    cdef readonly int64_t base_offset
    cdef readonly int64_t max_bytes    # growing: `segment.index.bytes`, where is_full becomes true; sealed: 0
    cdef Scratch growing               # entries as in the file; None when sealed
    cdef Mapping sealed                # None until first used
    cdef const uint8_t* entries
    cdef Py_ssize_t entry_bytes
    cdef Py_ssize_t count              # 0 while a sealed index is not loaded
    cdef Py_ssize_t written            # entries already in the file (growing)
    cdef Scratch samples               # int64: key of every 64th entry, in the machine's byte order
    cdef double samples_per_key
    cdef Py_ssize_t window_samples     # distance from the interpolated sample at which the search begins
    cdef int64_t file_bytes            # size of a sealed file when it was mapped, any useless tail included
    cdef bint loaded

    cdef bint detached                 # in memory only
    cdef bint apart                    # the file is not ours: read into memory, not mapped

    cdef bint unsynced                 # written since the last durable flush
    cdef object failure                # the first failed write or flush; no other is tried after it

    cdef int load(self) except -1                              # maps a sealed file, on first use
    # Writes pending entries to the file and returns their byte count. `durable` also flushes earlier writes, sealed or
    # not: needed before a recovery point may pass this segment.
    cpdef int flush(self, bint durable) except -1
    cpdef int seal(self) except -1                             # writes pending entries, drops the memory
    cpdef int grow(self, int64_t max_bytes) except -1          # back from sealed to growing
    cdef int keep(self, Py_ssize_t count) except -1            # drops all entries but the first `count`

    cdef int start(self, int64_t max_bytes, bint detached) except -1
    cdef int make_file(self) except -1
    cdef int continue_from(self, Py_ssize_t entries_valid, int64_t max_bytes) except -1
    cdef int require_growing(self) except -1
    cdef int require_usable(self) except -1
    cdef int replace_file(self, Py_ssize_t count) except -1
    cdef int32_t relative(self, int64_t offset) except -1
    cdef int push(self, const uint8_t* entry) except -1
    # The search key of the entry in `slot`: relative offset, or timestamp.
    cdef int64_t key_of(self, Py_ssize_t slot) noexcept nogil
    cdef int sample(self) except -1
    cdef Py_ssize_t interpolated(self, int64_t wanted) noexcept nogil
    cdef Py_ssize_t interpolation_error(self) noexcept nogil
    # Finds where to search for the last entry whose key is <= `search.wanted`: one block, whose likely bytes are
    # already being fetched.
    cdef void find_block(self, BlockSearch* search) noexcept nogil
    cdef void prefetch(self, Py_ssize_t slot, Py_ssize_t slots) noexcept nogil   # prefetches their bytes
    cdef int check_file(self) except -1
    cdef object corrupt(self, Py_ssize_t slot, str what)
    cdef object corrupt_entry(self, Py_ssize_t slot, EntryFault fault)
