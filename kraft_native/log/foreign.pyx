"""One segment of a log that another process may own, as a reader sees it.

Everything is read by pread into memory of our own: a mapping of a file that its owner may shrink can end in SIGBUS. The
offset index is a hint that is checked at the batch it points to. Its owner writes it in groups and does not flush it,
so after a crash it may hold anything. Without a good hint the search starts at the front of the segment.
"""

import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from posix.fcntl cimport O_RDONLY

from kraft_native.base.bytes_be cimport load_i32, load_i64
from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, Fault, fault_set, fault_text
from kraft_native.base.limits cimport BATCH_HEADER_BYTES, OFFSET_INDEX_ENTRY_BYTES, TIME_INDEX_ENTRY_BYTES
from kraft_native.batch.batch cimport (
    LOOK_CORRUPT, LOOK_END, LOOK_OK, LOOK_PARTIAL, BatchHeader, BatchLook, batch_bytes, batch_is_legacy,
    batch_last_offset, batch_look,
)
from kraft_native.file.buffer cimport Scratch, Slice, slice_bytes
from kraft_native.file.file_io cimport check, file_close, file_open, file_read, file_size

from kraft_native.base.errors import CorruptLogError

cdef enum:
    WINDOW_BYTES = 65536           # read at once while searching
    VERIFY_BYTES = 1048576         # and while checking a tail

cdef enum:
    FOLLOWING_BYTES = 8            # the base offset of the batch after the last accepted one

cdef enum:
    LOOK_MORE = 100                # the window does not reach far enough

cdef int ENOENT_RESULT = -2


cdef bytes segment_file(bytes directory, int64_t base_offset, str suffix):
    return b"%b/%020d%b" % (directory, base_offset, suffix.encode())


cdef ForeignSegment foreign_open(bytes directory, int64_t base_offset, int64_t next_base):
    """Open a segment. StorageError when the .log file cannot be opened: its owner may just have deleted it."""
    cdef ForeignSegment segment = ForeignSegment.__new__(ForeignSegment)
    cdef bytes index_path = segment_file(directory, base_offset, ".index")
    segment.directory = directory
    segment.base_offset = base_offset
    segment.next_base = next_base
    segment.path = segment_file(directory, base_offset, ".log")
    segment.window = Scratch()
    segment.fd = <int>check(file_open(segment.path, O_RDONLY, 0), segment.path)
    segment.file_bytes = check(file_size(segment.fd), segment.path)
    segment.index_fd = file_open(index_path, O_RDONLY, 0)
    if segment.index_fd >= 0:
        segment.index_entries = check(file_size(segment.index_fd), index_path) // OFFSET_INDEX_ENTRY_BYTES
    elif segment.index_fd != ENOENT_RESULT:
        check(segment.index_fd, index_path)
    return segment


@cython.final
cdef class ForeignSegment:
    def __cinit__(self):
        self.fd = -1
        self.index_fd = -1
        self.index_entries = 0
        self.cursor_offset = -1
        self.window_position = 0

    def __dealloc__(self):
        self.close()

    cdef void close(self) noexcept:
        file_close(self.fd)
        file_close(self.index_fd)
        self.fd = -1
        self.index_fd = -1

    cdef int64_t fill(self, int64_t position, int64_t size) except -1:
        """Read bytes from `position` on into the window; return their count."""
        cdef int64_t got
        self.window.size = 0
        self.window.reserve(size)
        with nogil:
            got = file_read(self.fd, self.window.data, <size_t>size, position)
        check(got, self.path)
        self.window.size = got
        self.window_position = position
        return got

    cdef BatchLook walk_window(self, Walk* w, int64_t end, int64_t until_offset, bint check_crc,
                               int64_t* needed) noexcept nogil:
        """Walk as far as the window reaches. LOOK_OK: it stopped at the first batch whose last offset >=
        until_offset."""
        cdef int64_t have, left
        cdef BatchLook look
        while True:
            left = end - w.position
            if left <= 0:
                return LOOK_END
            have = min(self.window_position + self.window.size - w.position, left)
            if w.position < self.window_position or have < min(BATCH_HEADER_BYTES, left):
                needed[0] = min(BATCH_HEADER_BYTES, left)
                return <BatchLook>LOOK_MORE
            look = batch_look(self.window.data + (w.position - self.window_position), have, check_crc, &w.h,
                              &self.fault)
            if look == LOOK_PARTIAL and have < left and batch_bytes(&w.h) <= left:
                # Cut off by the window, not by the file. Without CRC the header has all that is needed, except for
                # formats v0 and v1.
                if check_crc or batch_is_legacy(&w.h):
                    needed[0] = batch_bytes(&w.h)
                    return <BatchLook>LOOK_MORE
                look = LOOK_OK
            if look != LOOK_OK:
                return look
            if w.h.base_offset < w.offset_min:
                fault_set(&self.fault, ERROR_CORRUPT_MESSAGE, "base offset %lld, at least %lld was to come",
                          w.h.base_offset, w.offset_min)
                return LOOK_CORRUPT
            if batch_last_offset(&w.h) >= until_offset:
                return LOOK_OK
            w.position += batch_bytes(&w.h)
            w.offset_min = batch_last_offset(&w.h) + 1

    cdef BatchLook walk(self, Walk* w, int64_t end, int64_t until_offset, bint check_crc) except *:
        cdef BatchLook look
        cdef int64_t needed = 0
        cdef int64_t size = VERIFY_BYTES if check_crc else WINDOW_BYTES
        while True:
            with nogil:
                look = self.walk_window(w, end, until_offset, check_crc, &needed)
            if look != <BatchLook>LOOK_MORE:
                return look
            if self.fill(w.position, min(max(size, needed), end - w.position)) < needed:
                fault_set(&self.fault, ERROR_CORRUPT_MESSAGE, "cut off: the file ends at %lld, not at %lld",
                          self.window_position + self.window.size, end)
                return LOOK_PARTIAL

    cdef object damaged(self, int64_t position, int64_t offset):
        """The exception for the damage found last."""
        return CorruptLogError(os.fsdecode(self.path), position, offset, self.next_base, fault_text(&self.fault))

    # --- finding ----------------------------------------------------------------------------------------------------

    cdef int64_t locate(self, int64_t offset, int64_t end) except -2:
        """Position of the first batch whose last offset is >= offset; -1 when the segment ends before."""
        cdef Walk w, start
        cdef BatchLook look
        if offset == self.cursor_offset and self.cursor_position < end:
            return self.cursor_position
        w.position = self.index_hint(offset, end)
        w.offset_min = self.base_offset
        if self.cursor_offset >= 0 and self.cursor_offset <= offset and w.position < self.cursor_position <= end:
            w.position = self.cursor_position
            w.offset_min = self.cursor_offset
        start = w
        look = self.walk(&w, end, offset, False)
        if look != LOOK_OK and look != LOOK_END:
            # A wrong length misleads; checksums show where the damage begins, and whether any lies before it.
            w = start
            look = self.walk(&w, end, offset, True)
        if look == LOOK_OK:
            return w.position
        if look == LOOK_END:
            self.cursor_offset = w.offset_min
            self.cursor_position = w.position
            return -1
        raise self.damaged(w.position, w.offset_min)

    cdef int64_t index_hint(self, int64_t offset, int64_t end) except -1:
        """Position to start the search for `offset`, by the offset index; 0 when the index does not help."""
        cdef uint8_t entry[OFFSET_INDEX_ENTRY_BYTES]
        cdef int64_t low = 0
        cdef int64_t high = self.index_entries
        cdef int64_t middle, found_offset, position
        cdef int64_t best_position = 0
        cdef int64_t best_offset = -1
        while low < high:
            middle = (low + high) >> 1
            if file_read(self.index_fd, entry, sizeof(entry), middle * OFFSET_INDEX_ENTRY_BYTES) != sizeof(entry):
                high = middle  # it was shortened meanwhile, or cannot be read: do without
                continue
            found_offset = self.base_offset + load_i32(entry)
            position = load_i32(entry + 4)
            # Position 0 is in the unused part of a preallocated file: no entry points to the first batch.
            if position <= 0 or position >= end or found_offset > offset:
                high = middle
            else:
                best_position = position
                best_offset = found_offset
                low = middle + 1
        if best_offset < 0 or not self.hint_is_sound(best_position, best_offset, end):
            return 0
        return best_position

    cdef bint hint_is_sound(self, int64_t position, int64_t entry_offset, int64_t end) except -1:
        """Return whether a sound batch starts there that reaches the offset of the index entry."""
        cdef Walk w
        w.position = position
        w.offset_min = self.base_offset
        return self.walk(&w, end, self.base_offset, True) == LOOK_OK and w.h.base_offset <= entry_offset

    cdef int64_t time_start(self, int64_t target, bint sealed, bint* beyond) except -1:
        cdef bytes path = segment_file(self.directory, self.base_offset, ".timeindex")
        cdef int fd = file_open(path, O_RDONLY, 0)
        cdef int64_t start = self.base_offset
        cdef int64_t last_timestamp = -1
        cdef int64_t last_offset = self.base_offset - 1
        cdef int64_t size, slot, timestamp, offset
        cdef Scratch entries
        beyond[0] = False
        if fd == ENOENT_RESULT:
            return start
        check(fd, path)
        try:
            size = check(file_size(fd), path)
            entries = Scratch()
            entries.reserve(size)
            size = check(file_read(fd, entries.data, <size_t>size, 0), path)
        finally:
            file_close(fd)
        for slot in range(size // TIME_INDEX_ENTRY_BYTES):
            timestamp = load_i64(entries.data + slot * TIME_INDEX_ENTRY_BYTES)
            offset = self.base_offset + load_i32(entries.data + slot * TIME_INDEX_ENTRY_BYTES + 8)
            if timestamp <= last_timestamp or offset < last_offset or offset < self.base_offset:
                return start  # the unused part of a preallocated file, or damage: the last entry is useless
            last_timestamp = timestamp
            last_offset = offset
            if timestamp <= target:
                start = offset
        beyond[0] = sealed and 0 <= last_timestamp < target and size % TIME_INDEX_ENTRY_BYTES == 0
        return start

    # --- reading ----------------------------------------------------------------------------------------------------

    cdef Slice read(self, int64_t offset, int64_t max_bytes, int64_t limit, int64_t end, int64_t log_end):
        cdef int64_t position = self.locate(offset, end)
        cdef int64_t size, got
        cdef bytes data
        cdef uint8_t* start
        cdef Taken taken
        cdef Slice piece
        if position < 0:
            return None
        taken.next_offset = self.base_offset
        if position == self.cursor_position and self.cursor_offset >= 0:
            taken.next_offset = self.cursor_offset
        taken.left = end - position
        taken.bytes_max = max_bytes
        taken.limit = limit
        taken.offset_end = self.next_base if self.next_base >= 0 else log_end
        size = min(max(BATCH_HEADER_BYTES, max_bytes) + FOLLOWING_BYTES, taken.left)
        while True:
            data = PyBytes_FromStringAndSize(NULL, size)
            start = <uint8_t*>PyBytes_AS_STRING(data)
            with nogil:
                got = file_read(self.fd, start, <size_t>size, position)
                if got > 0:
                    take(start, got, &taken, &self.fault)
            check(got, self.path)
            if got <= 0:
                fault_set(&self.fault, ERROR_CORRUPT_MESSAGE, "cut off: the file ends before %lld, not at %lld",
                          position, end)
                raise self.damaged(position, offset)
            if taken.size > 0 or taken.look != LOOK_PARTIAL or got < size or size == taken.left:
                break
            size = min(taken.first_bytes + FOLLOWING_BYTES, taken.left)  # it is larger than the requested size
        if taken.size == 0:
            if taken.look == LOOK_OK:
                return empty_slice(offset)
            raise self.damaged(position, offset)
        self.cursor_offset = taken.next_offset
        self.cursor_position = position + taken.size
        piece = slice_bytes(data if 2 * taken.size > size else data[:taken.size])
        piece.size = taken.size
        piece.first_offset = taken.first_offset
        piece.next_offset = taken.next_offset
        return piece


# Whole batches at the front of some bytes.
cdef struct Taken:
    int64_t left                   # in: bytes to the end of the segment
    int64_t bytes_max              # in: of all batches but the first
    int64_t limit                  # in: offset that no batch may reach

    int64_t offset_end             # in: the offsets of the segment end here
    int64_t next_offset            # in: smallest base offset; out: the one after the last batch
    int64_t size                   # out

    int64_t first_offset           # out: -1 when there is no batch
    int64_t first_bytes            # out: size of the first batch, also when it is cut off
    BatchLook look                 # out: why no more batches follow; LOOK_OK: the limits


cdef void take(const uint8_t* p, int64_t size, Taken* t, Fault* fault) noexcept nogil:
    """Accept sound batches whose offsets fit between what comes before and what follows.

    The base offset is outside of the CRC. So a batch is accepted only in two cases: it directly follows the previous
    one, or it ends below the base offset of the next. In a log without gaps no wrong base offset passes.
    """
    cdef BatchHeader h
    cdef int64_t rest, offset_end
    t.size = 0
    t.first_offset = -1
    t.first_bytes = 0
    while True:
        t.look = batch_look(p + t.size, min(size, t.left) - t.size, True, &h, fault)
        if t.size == 0 and size >= BATCH_HEADER_BYTES:
            t.first_bytes = batch_bytes(&h)
        # Where the limit comes first, a batch that is cut off after it does not concern the reader.
        if t.look == LOOK_PARTIAL and size - t.size >= BATCH_HEADER_BYTES and batch_last_offset(&h) >= t.limit:
            t.look = LOOK_OK
            return
        if t.look != LOOK_OK or (t.size > 0 and t.size + batch_bytes(&h) > t.bytes_max):
            return
        if h.base_offset != t.next_offset:
            if t.size > 0:
                t.look = LOOK_OK
                return                 # whether missing offsets are lost is checked when the reader gets there
            rest = t.left - t.size - batch_bytes(&h)
            offset_end = t.offset_end
            if rest >= FOLLOWING_BYTES:
                if size - t.size - batch_bytes(&h) < FOLLOWING_BYTES:
                    t.look = LOOK_PARTIAL
                    return
                offset_end = load_i64(p + t.size + batch_bytes(&h))
            if h.base_offset < t.next_offset or batch_last_offset(&h) >= offset_end:
                fault_set(fault, ERROR_CORRUPT_MESSAGE, "base offset %lld, which does not fit: %lld was to come",
                          h.base_offset, t.next_offset)
                t.look = LOOK_CORRUPT
                return
        if batch_last_offset(&h) >= t.limit:
            return
        if t.size == 0:
            t.first_offset = h.base_offset
        t.size += batch_bytes(&h)
        t.next_offset = batch_last_offset(&h) + 1


cdef Slice empty_slice(int64_t next_offset):
    cdef Slice piece = slice_bytes(b"")
    piece.next_offset = next_offset
    return piece
