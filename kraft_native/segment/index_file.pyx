"""Common part of offset index and time index: one file of fixed-size entries that only grows, in two forms.

*Growing*: the entries are in memory and are appended to the file in groups. *Sealed*: the file is mapped at its first
use. Two rules keep the files safe. They are written with pwrite only, at the end. They are never cut in place: a
shorter version is written to a new file, which is renamed over the old one. So another process that has the file mapped
never meets a missing page, and a crash leaves the old content or the new one. Kafka instead preallocates
`segment.index.bytes` of zeros and cuts them off on a clean close; such a zero tail is recognised and ignored by every
look-up.
"""

import errno
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp
from posix.fcntl cimport O_CREAT, O_EXCL, O_RDONLY, O_WRONLY

from kraft_native.base.limits cimport INT32_MAX_VALUE
from kraft_native.file.buffer cimport Scratch, copy_file, map_file
from kraft_native.file.file_io cimport check as check_errno
from kraft_native.file.file_io cimport file_close, file_datasync, file_open, file_size, file_write

from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, LogReadOnlyError, StorageError
from kraft_native.file.file_io import unlink, write_atomic

cdef extern from *:
    """
    static const unsigned char kn_zero_entry[16];
    """
    const uint8_t* kn_zero_entry

cdef enum:
    # Entries of one sample: 512 bytes of offset index, 768 of time index.
    BLOCK_ENTRIES = 64
    # Samples searched on each side of the interpolated one, while the index grows.
    WINDOW_SAMPLES = 16
    CACHE_LINE_BYTES = 64

cdef dict FAULT_TEXTS = {
    EntryFault.ENTRY_BELOW_BASE: "its offset lies below the base offset",
    EntryFault.ENTRY_OFFSET_ORDER: "its offset does not follow on the entry before it",
    EntryFault.ENTRY_OFFSET_PAST_END: "its offset lies past the segment's end",
    EntryFault.ENTRY_VALUE_NEGATIVE: "its position or timestamp is negative",
    EntryFault.ENTRY_VALUE_ORDER: "its position or timestamp is not above that of the entry before it",
    EntryFault.ENTRY_VALUE_PAST_END: "its position lies past the end of the log file",
}


cdef int write_at(const char* path, const void* data, size_t size, int64_t position, bint durable) noexcept nogil:
    """Write `size` bytes (may be 0) at `position` of an existing file; flush it if requested. 0 or -errno.

    The file is opened for each call: groups are far apart, and an idle log then holds no descriptor for its indexes.
    """
    cdef int fd = file_open(path, O_WRONLY, 0)
    cdef int result = 0
    if fd < 0:
        return fd
    if size > 0:
        result = file_write(fd, data, size, position)
    if result == 0 and durable:
        result = file_datasync(fd)
    file_close(fd)
    return result


cdef Py_ssize_t count_before_zeros(const uint8_t* entries, Py_ssize_t count, Py_ssize_t entry_bytes) noexcept nogil:
    """Entries before a tail of zeros, found by bisection. An entry of zeros can only be right in the first slot,
    because offsets, positions and timestamps increase. A lone entry is kept as it is."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = count - 1
    cdef Py_ssize_t middle
    if count < 2 or memcmp(entries + high * entry_bytes, kn_zero_entry, <size_t>entry_bytes) != 0:
        return count
    while low < high:
        middle = (low + high) >> 1
        if memcmp(entries + middle * entry_bytes, kn_zero_entry, <size_t>entry_bytes) == 0:
            high = middle
        else:
            low = middle + 1
    return low


cdef class IndexFile:
    """Common part of both indexes: the file, its two forms, and the change from one to the other.

    `create`, `open_growing` and `open_sealed` create one. After a failed write or flush
    (`StorageError`) the entries in memory still answer, and every further write raises `LogReadOnlyError`.
    """

    def __cinit__(self):
        self.samples = Scratch()
        self.window_samples = WINDOW_SAMPLES

    def __init__(self):
        raise TypeError(f"{type(self).__name__} is created by create, open_growing or open_sealed")

    @classmethod
    def create(cls, path: FilePath, int64_t base_offset, int64_t max_bytes, *,
               bint detached=False) -> Self:
        """Create a growing index over a new, empty file, which replaces any of that name. `max_bytes`, at least that of
        an entry, is the size at which `is_full` requests a roll (Kafka's segment.index.bytes). The directory is not
        flushed. `detached`: in memory only; no file is touched, now or later."""
        cdef IndexFile index = cls.open_sealed(path, base_offset)
        index.start(max_bytes, detached)
        return index

    @classmethod
    def open_growing(cls, path: FilePath, int64_t base_offset, Py_ssize_t entries_valid,
                     int64_t max_bytes) -> Self:
        """Open a growing index that continues after the first `entries_valid` entries of the file (-1: all of them);
        drop the rest of the file. `CorruptFileError` when it has fewer."""
        cdef IndexFile index = cls.open_sealed(path, base_offset)
        index.continue_from(entries_valid, max_bytes)
        return index

    @classmethod
    def open_sealed(cls, path: FilePath, int64_t base_offset) -> Self:
        """Open a read-only index. The file is not touched before the first look-up."""
        cdef IndexFile index = cls.__new__(cls)
        if base_offset < 0:
            raise InvalidArgumentError(f"base_offset: {base_offset} is below 0")
        index.path = os.fsencode(path)
        index.base_offset = base_offset
        return index

    cdef int start(self, int64_t max_bytes, bint detached) except -1:
        """Create an empty file, replacing any of that name, and the growing form; or that form alone."""
        if not self.entry_bytes <= max_bytes <= INT32_MAX_VALUE:
            raise InvalidArgumentError(f"max_bytes: {max_bytes} is outside {self.entry_bytes} to {INT32_MAX_VALUE}")
        self.detached = detached
        if not detached:
            self.make_file()
        self.growing = Scratch()
        self.max_bytes = max_bytes
        self.loaded = True
        self.unsynced = True
        return 0

    cdef int make_file(self) except -1:
        """Create a file, unless an empty one exists: no process has that mapped. A mapped one must not change.

        It is not removed and created again, because an inode that was just freed makes the next ones expensive on ext4.
        That file system searches for one that was not freed in the last seconds, so a thousand new logs would take
        quadratic time.
        """
        cdef int fd = <int>check_errno(file_open(self.path, O_WRONLY | O_CREAT, 0o644), self.path)
        cdef int64_t size = file_size(fd)
        file_close(fd)
        if check_errno(size, self.path) > 0:
            unlink(self.path)
            file_close(<int>check_errno(file_open(self.path, O_WRONLY | O_CREAT | O_EXCL, 0o644), self.path))
        return 0

    cdef int continue_from(self, Py_ssize_t entries_valid, int64_t max_bytes) except -1:
        """Turn sealed to growing, with only the first `entries_valid` entries (-1: all)."""
        self.load()
        if entries_valid < 0:
            entries_valid = self.count
        if entries_valid > self.count:
            raise CorruptFileError(f"{os.fsdecode(self.path)}: {entries_valid} entries expected, {self.count} found")
        self.keep(entries_valid)
        return self.grow(max_bytes)

    cdef int load(self) except -1:
        cdef int fd
        cdef int64_t size
        if self.loaded:
            return 0
        fd = <int>check_errno(file_open(self.path, O_RDONLY, 0), self.path)
        try:
            size = check_errno(file_size(fd), self.path)
            if size > INT32_MAX_VALUE:
                raise CorruptFileError(f"{os.fsdecode(self.path)}: {size} bytes are more than an index can have")
            self.sealed = copy_file(fd, size, 0, self.path) if self.apart else map_file(fd, size, True, self.path)
        finally:
            file_close(fd)
        self.file_bytes = size
        self.entries = self.sealed.data
        self.count = count_before_zeros(self.entries, size // self.entry_bytes, self.entry_bytes)
        self.samples.size = 0
        self.sample()
        self.window_samples = self.interpolation_error() + 1
        self.loaded = True
        return 0

    cpdef int flush(self, bint durable) except -1:
        cdef const char* name = PyBytes_AS_STRING(self.path)
        cdef const uint8_t* data = NULL
        cdef int64_t position = self.written * self.entry_bytes
        cdef size_t size = 0
        cdef int result
        self.require_usable()
        if self.detached:
            return 0
        if self.growing is not None:
            data = self.entries + position
            size = <size_t>((self.count - self.written) * self.entry_bytes)
        if size == 0 and not (durable and self.unsynced):
            return 0
        with nogil:
            result = write_at(name, data, size, position, durable)
        if result < 0:
            self.failure = StorageError(os.fsdecode(self.path), -result, "writing the index")
            check_errno(result, self.path)
        self.written = self.count
        self.unsynced = not durable
        return <int>size

    cpdef int seal(self) except -1:
        """Write what is pending (without a durable flush), then release the memory; the file is mapped at its next use.
        Return the number of entries. Does nothing to a sealed index."""
        cdef int count
        if self.growing is None:
            self.load()
            return <int>self.count
        if self.detached:
            return <int>self.count
        self.flush(False)
        count = <int>self.count
        self.growing = None
        self.max_bytes = 0
        self.entries = NULL
        self.count = 0
        self.loaded = False
        return count

    cpdef int grow(self, int64_t max_bytes) except -1:
        """Turn sealed to growing: read the entries into memory, drop a useless tail of the file. Return their number.

        Needed when the segment becomes the active one again: at open, and after a truncation into it.
        """
        cdef Scratch growing
        if self.growing is not None:
            raise AssertionError(f"{os.fsdecode(self.path)}: grow of a growing index")
        if not self.entry_bytes <= max_bytes <= INT32_MAX_VALUE:
            raise InvalidArgumentError(f"max_bytes: {max_bytes} is outside {self.entry_bytes} to {INT32_MAX_VALUE}")
        self.require_usable()
        self.load()
        growing = Scratch()
        growing.put(self.entries, self.count * self.entry_bytes)
        if self.file_bytes != growing.size:
            self.replace_file(self.count)
        self.growing = growing
        self.window_samples = WINDOW_SAMPLES
        self.sealed = None
        self.entries = growing.data
        self.written = self.count
        self.max_bytes = max_bytes
        return <int>self.count

    cdef int keep(self, Py_ssize_t count) except -1:
        """Drop all entries but the first `count`, in the file first. A failure leaves the entries as they were."""
        self.require_usable()
        self.load()
        if count >= self.count:
            return 0
        if self.growing is None:
            self.replace_file(count)
            self.sealed = None
            self.entries = NULL
            self.count = 0
            self.loaded = False
            return self.load()
        if count < self.written:
            self.replace_file(count)
            self.written = count
        self.count = count
        self.growing.size = count * self.entry_bytes
        return self.sample()

    cdef int replace_file(self, Py_ssize_t count) except -1:
        """Replace the file by a new one with the first `count` entries, durably."""
        if self.detached:
            return 0
        try:
            write_atomic(self.path, PyBytes_FromStringAndSize(<const char*>self.entries, count * self.entry_bytes))
        except StorageError as error:
            self.failure = StorageError(error.path, error.errno, "replacing the index")
            raise
        self.unsynced = False
        return 0

    cdef int require_usable(self) except -1:
        if self.failure is not None:
            raise LogReadOnlyError(f"{os.fsdecode(self.path)}: not written after a failure: {self.failure}",
                                   self.failure)
        return 0

    cdef int require_growing(self) except -1:
        if self.growing is None:
            raise AssertionError(f"{os.fsdecode(self.path)}: append to a sealed index")
        return self.require_usable()

    cdef int32_t relative(self, int64_t offset) except -1:
        if offset < self.base_offset or offset - self.base_offset > INT32_MAX_VALUE:
            raise InvalidArgumentError(f"offset: {offset} is outside {self.base_offset} to "
                                       f"{self.base_offset + INT32_MAX_VALUE}, what this index can hold")
        return <int32_t>(offset - self.base_offset)

    cdef int push(self, const uint8_t* entry) except -1:
        self.growing.put(entry, self.entry_bytes)
        self.entries = self.growing.data
        self.count += 1
        return self.sample() if self.count % BLOCK_ENTRIES == 1 else 0

    cdef int64_t key_of(self, Py_ssize_t slot) noexcept nogil:
        return 0

    cdef int sample(self) except -1:
        """Make the samples agree with `count`: cut them, or add those of new blocks."""
        cdef Py_ssize_t blocks = (self.count + BLOCK_ENTRIES - 1) // BLOCK_ENTRIES
        cdef Py_ssize_t block = self.samples.size // <Py_ssize_t>sizeof(int64_t)
        cdef int64_t* keys
        self.samples.reserve(blocks * <Py_ssize_t>sizeof(int64_t))
        keys = <int64_t*>self.samples.data
        for block in range(block, blocks):
            keys[block] = self.key_of(block * BLOCK_ENTRIES)
        self.samples.size = blocks * <Py_ssize_t>sizeof(int64_t)
        if blocks > 1:
            self.samples_per_key = (blocks - 1) / max(<double>keys[blocks - 1] - <double>keys[0], 1.0)
        return 0

    cdef Py_ssize_t interpolated(self, int64_t wanted) noexcept nogil:
        """Estimate the sample that `wanted`, not below the first one's key, belongs to. Never decreases as `wanted`
        rises."""
        cdef Py_ssize_t last = self.samples.size // <Py_ssize_t>sizeof(int64_t) - 1
        cdef double first_key = <double>(<const int64_t*>self.samples.data)[0]
        return <Py_ssize_t>min((<double>wanted - first_key) * self.samples_per_key, <double>last)

    cdef Py_ssize_t interpolation_error(self) noexcept nogil:
        """Largest distance between the place of a sample and its interpolated one."""
        cdef const int64_t* key = <const int64_t*>self.samples.data
        cdef Py_ssize_t samples = self.samples.size // <Py_ssize_t>sizeof(int64_t)
        cdef Py_ssize_t i, guess
        cdef Py_ssize_t error = 0
        for i in range(samples):
            if key[i] >= key[0]:       # not so in a damaged file
                guess = self.interpolated(key[i])
                error = max(error, guess - i, i - guess)
        return error

    cdef void find_block(self, BlockSearch* search) noexcept nogil:
        """Find the block: the first half of every look-up. Bisecting the block, or its likely part, is the second.

        A plain bisection of a 10 MiB file touches some twenty cache lines. Most are cold, and each is found only after
        the previous one. In an old segment it touches as many file pages. (Kafka therefore searches the last 8 KiB, its
        warm section, first.) Here the samples, 160 KiB for a full offset index, name the block. The two or three of its
        lines in which the entry should be are fetched at once. So one line's latency is paid, and one or two pages of
        the file are touched.

        Entries are nearly uniform: one is added every index.interval.bytes. So the search among the samples begins with
        a window around the interpolated place, if the window holds the target. A sealed index knows how wide the window
        must be for that. No loop branches on data. Every slot stays in range whatever the bytes are.
        """
        cdef const int64_t* key = <const int64_t*>self.samples.data
        cdef const int64_t* last
        cdef int64_t wanted = search.wanted
        cdef Py_ssize_t left = self.samples.size // <Py_ssize_t>sizeof(int64_t)
        cdef Py_ssize_t guess, low, high, half
        search.left = 0
        if left == 0 or key[0] > wanted:
            return
        last = key + left - 1
        if left > 4 * self.window_samples:
            guess = self.interpolated(wanted)
            low = max(guess - self.window_samples, 0)
            high = min(guess + self.window_samples, left - 1)
            if key[low] <= wanted and (high == left - 1 or wanted < key[high]):
                key += low
                left = high - low + 1
        while left > 1:
            half = left >> 1
            key = key + half if kn_unpredictable(key[half] <= wanted) else key
            left -= half
        search.first_slot = (key - <const int64_t*>self.samples.data) * BLOCK_ENTRIES
        search.left = min(<Py_ssize_t>BLOCK_ENTRIES, self.count - search.first_slot)
        search.near_slot = -1
        if key == last:
            self.prefetch(search.first_slot, search.left)
            return
        # Here key[0] <= wanted < key[1], whatever the bytes are. Unsigned, because they may be further apart than int64
        # holds; not subtracted as doubles, which may have one value for both.
        guess = <Py_ssize_t>(<double>(<uint64_t>wanted - <uint64_t>key[0])
                             / <double>(<uint64_t>key[1] - <uint64_t>key[0]) * BLOCK_ENTRIES)
        guess = min(max(guess - NEAR_ENTRIES // 2, 0), <Py_ssize_t>(BLOCK_ENTRIES - NEAR_ENTRIES))
        search.near_slot = search.first_slot + guess
        self.prefetch(search.near_slot, NEAR_ENTRIES)

    cdef void prefetch(self, Py_ssize_t slot, Py_ssize_t slots) noexcept nogil:
        cdef const uint8_t* line = self.entries + slot * self.entry_bytes
        cdef const uint8_t* end = line + slots * self.entry_bytes
        while line < end:
            kn_prefetch(line)
            line += CACHE_LINE_BYTES
        kn_prefetch(end - 1)

    cdef int check_file(self) except -1:
        """Load; raise `CorruptFileError` for a file that is missing or longer than its entries."""
        try:
            self.load()
        except StorageError as error:
            if error.errno == errno.ENOENT:
                raise CorruptFileError(f"{os.fsdecode(self.path)}: the file is missing") from error
            raise
        if self.growing is None and self.file_bytes % self.entry_bytes != 0:
            raise CorruptFileError(f"{os.fsdecode(self.path)}: {self.file_bytes} bytes are not a multiple of "
                                   f"{self.entry_bytes}")
        if self.growing is None and self.file_bytes != self.count * self.entry_bytes:
            raise self.corrupt(self.count, "only zeros from here to the end of the file")
        return 0

    cdef object corrupt(self, Py_ssize_t slot, str what):
        return CorruptFileError(f"{os.fsdecode(self.path)}: entry {slot} at byte {slot * self.entry_bytes}: {what}")

    cdef object corrupt_entry(self, Py_ssize_t slot, EntryFault fault):
        return self.corrupt(slot, FAULT_TEXTS[fault])

    @property
    def is_sealed(self) -> bool:
        """True while the entries exist in the file only."""
        return self.growing is None

    def __len__(self) -> int:
        self.load()
        return self.count
