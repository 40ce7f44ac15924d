"""The `.log` file of a segment: written at its end, read through a mapping. `segment.pyx` interprets the bytes.

Writing. Small appends are copied into a mapped window (`_c/file/window.h`). Larger ones are one pwritev into space that
is reserved ahead. So are the small ones of a log that flushes all the time. After a flush the first store into each
page is a fault, and makes the whole of a large page dirty again. The pages of both are brought into the page cache
ahead.
`size` covers the batches that the owner counts. Bytes past it, left by a failed write, a window or a reservation, are
never read, and `trim` cuts them off.

Reading. The mapping may reach past the end of the file, so that a growing file needs no new mapping at each append;
only bytes below `size` are touched. A larger mapping replaces a smaller one, which lives on while slices pin it. A file
that is not ours is read into memory instead (`Copies`): touching bytes that its owner has cut off would end the
process. Such a file is read only from the first requested position on: of a log that was closed cleanly, only its end.

Cutting. Pinned memory must not change, so a pinned file is never cut in place. Its kept part is written to a new file
under the same name, and the pins keep the old one.
"""

import errno
import os

cimport cython
from libc.errno cimport EDQUOT, ENOSPC, EOPNOTSUPP
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.string cimport memset
from posix.fcntl cimport O_CREAT, O_RDONLY, O_RDWR, O_TRUNC

from kraft_native.base.limits cimport SEGMENT_BYTES_MAX
from kraft_native.file.buffer cimport copy_file, file_is_pinned, fill_copy, map_file
from kraft_native.file.file_io cimport (
    check, file_allocate, file_close, file_datasync, file_open, file_populate, file_rename, file_size, file_sync,
    file_sync_dir, file_truncate, file_window_close, file_window_reach, file_window_write, file_write, file_writev,
    iovec,
)

from kraft_native.base.errors import StorageError
from kraft_native.file.file_io import rename, set_aside, unlink

cdef enum:
    # Appends up to this size go through the window; above it a system call is cheaper than the page faults.
    WINDOW_WRITE_BYTES_MAX = 8192
    # Releasing the GIL costs 65 ns: worth it from about here.
    GIL_WRITE_BYTES_MIN = 16384
    # Space reserved ahead: as much again as the file has, but at most this.
    RESERVED_BYTES_MAX = 4 << 20
    # Pages brought into the cache at once. Writes larger than the second value bring many of their own at a time.
    POPULATED_BYTES_MIN = 4096
    POPULATED_BYTES_MAX = 128 << 10
    POPULATED_WRITE_BYTES_MAX = 64 << 10
    # Smallest mapping of a growing file; each larger one is twice the size needed.
    MAPPING_BYTES_MIN = 1 << 20
    # A walk over a log needs at most these at a time: a segment and the one after it.
    COPIES_MAX = 2


@cython.final
cdef class Copies:
    def __cinit__(self):
        self.held = []

    cdef int admit(self, SegmentFile file) except -1:
        if file not in self.held:
            self.held.append(file)
        if len(self.held) > COPIES_MAX:
            (<SegmentFile>self.held.pop(0)).release()
        return 0


cdef class SegmentFile:
    """Base of `Segment`; not used by itself."""

    def __cinit__(self):
        self.fd = -1
        memset(&self.window, 0, sizeof(self.window))

    def __dealloc__(self):
        self.close_file()

    cdef int write(self, iovec* iov, int iov_count, int64_t bytes_count) except -1:
        cdef int64_t end = self.size + bytes_count
        cdef int result = -EOPNOTSUPP
        if self.fd < 0:
            self.open_file(True)
        if self.windowed and bytes_count <= WINDOW_WRITE_BYTES_MAX:
            result = file_window_reach(&self.window, self.fd, self.size, <size_t>bytes_count)
            # Also when the space could not be reserved: a part of it may have been.
            self.reserved_to = max(self.reserved_to, self.window.end, end)
            if result == 0:
                if end > self.populated_to:
                    self.populate(bytes_count, self.window.end)
                result = file_window_write(&self.window, self.fd, iov, iov_count, self.size)
            else:
                self.populated_to = INT64_MAX
        if result == -EOPNOTSUPP:
            self.reserve(bytes_count)
            if end > self.populated_to and bytes_count <= POPULATED_WRITE_BYTES_MAX:
                self.populate(bytes_count, self.reserved_to)
            if bytes_count < GIL_WRITE_BYTES_MIN:
                result = file_writev(self.fd, iov, iov_count, self.size)
            else:
                with nogil:
                    result = file_writev(self.fd, iov, iov_count, self.size)
        check(result, self.path)
        return 0

    cdef int reserve(self, int64_t bytes_count) except -1:
        """Have the file system find the blocks for the next writes in one step. A write of 1 MiB into them takes three
        quarters of the time of one that extends the file. (ext4, per 4 KiB block: no space to account for, no extent to
        enter.) Where space cannot be reserved, a plain write must do."""
        cdef int64_t end = self.size + bytes_count
        cdef int result
        if end <= self.reserved_to:
            return 0
        end += min(self.size, <int64_t>RESERVED_BYTES_MAX)
        result = file_allocate(self.fd, self.size, end - self.size)
        self.reserved_to = end         # also after a failure: a part may be reserved; no next try
        if result < 0:
            self.populated_to = INT64_MAX      # space that is not reserved cannot be populated
        if result != -EOPNOTSUPP and result != -ENOSPC and result != -EDQUOT:
            check(result, self.path)
        return 0

    cdef void populate(self, int64_t bytes_count, int64_t limit) noexcept:
        """Bring the pages of the next writes, reserved up to `limit`, into the page cache many at a time. Together they
        cost the system a fraction of their cost one by one, when a write or a page fault needs each. As many again as
        the file has, so that a small log keeps few. Where this fails, the write itself will fail and report it."""
        cdef int64_t start = max(self.size, self.populated_to)
        cdef int64_t step = POPULATED_BYTES_MIN
        while step < POPULATED_BYTES_MAX and 2 * step <= self.size:
            step *= 2
        # To a multiple of the step: aligned pages become larger ones.
        self.populated_to = min((self.size + bytes_count + step) & ~(step - 1), limit)
        if file_populate(self.fd, start, self.populated_to - start) < 0:
            self.populated_to = INT64_MAX

    cdef int trim(self) except -1:
        """Cut off the reserved space past the last batch."""
        file_window_close(&self.window)
        if self.reserved_to > 0:
            self.open_file(True)
            check(file_truncate(self.fd, self.size), self.path)
            self.reserved_to = self.populated_to = 0
        return 0

    cdef int sync(self) except -1:
        """Flush the log file on this thread."""
        cdef int result, fd
        self.open_file(True)
        fd = self.fd
        with nogil:
            result = file_datasync(fd)
        check(result, self.path)
        return 0

    cdef int cut_file(self, int64_t size) except -1:
        """Keep the first `size` bytes."""
        file_window_close(&self.window)
        self.open_file(True)
        if file_is_pinned(self.fd):
            self.replace_file(size)
        else:
            check(file_truncate(self.fd, size), self.path)
        self.reserved_to = self.populated_to = 0
        self.size = size
        return 0

    cdef int replace_file(self, int64_t size) except -1:
        """Replace the file by a new one with the first `size` bytes; the pins of the old one stay readable."""
        cdef bytes temporary = self.path + b".cut"
        cdef int fd, result = 0
        cdef const uint8_t* data
        self.map_to(size)
        data = self.data
        fd = <int>check(file_open(temporary, O_RDWR | O_CREAT | O_TRUNC, 0o644), temporary)
        with nogil:
            if size > 0:
                result = file_write(fd, data, <size_t>size, 0)
            if result == 0:
                result = file_sync(fd)
        if result == 0:
            result = file_rename(temporary, self.path)
        if result == 0:
            result = file_sync_dir(self.directory)
        if result < 0:
            file_close(fd)
            check(result, temporary)
        file_close(self.fd)
        self.fd = fd
        # The slices hold the old mapping; nothing else needs it.
        self.mapping = None
        self.data = NULL
        return 0

    cdef int open_file(self, bint writable) except -1:
        if self.fd < 0:
            self.fd = <int>check(file_open(self.path, O_RDWR if writable else O_RDONLY, 0), self.path)
        return 0

    cdef void close_file(self) noexcept:
        """Close the descriptor and the window; mappings stay."""
        file_window_close(&self.window)
        file_close(self.fd)
        self.fd = -1

    cdef int map_to(self, int64_t end, int64_t start=0) except -1:
        """Make [start, end) of the file, end <= size, readable through `data`; [0, end) where it is ours."""
        cdef int64_t size = end
        cdef bint keep_open = self.fd >= 0
        self.need_readable()
        if self.mapping is not None and self.mapping.size >= end:
            if self.copies is not None and start < self.copied_from:
                self.copy_before(start)
            return 0
        self.open_file(not self.complete)
        if check(file_size(self.fd), self.path) < end:
            raise StorageError(os.fsdecode(self.path), errno.ENODATA, f"the file became shorter than {end} bytes")
        if not self.complete:
            size = max(MAPPING_BYTES_MIN, min(2 * end, <int64_t>SEGMENT_BYTES_MAX))
        if self.copies is None:
            self.mapping = map_file(self.fd, size, False, self.path)
        else:
            self.copies.admit(self)
            self.copied_from = start
            self.mapping = copy_file(self.fd, size, self.copied_from, self.path)
        self.data = self.mapping.data
        if self.complete and not keep_open and self.copied_from == 0:
            self.close_file()
        return 0

    cdef int copy_before(self, int64_t start) except -1:
        """Read the part before the copied one, from `start` on: from the same file, whatever has its name by now."""
        fill_copy(self.mapping, self.fd, start, self.copied_from, self.path)
        self.copied_from = start
        if start == 0:
            self.close_file()
        return 0

    cdef int need_readable(self) except -1:
        if self.unreadable != 0:
            raise StorageError(os.fsdecode(self.path), self.unreadable, "reading")
        return 0

    cdef int release(self) except -1:
        self.mapping = None
        self.data = NULL
        self.copied_from = 0
        self.close_file()
        return 0


cdef int remove_files(list paths, list removed) except -1:
    cdef list renamed = []
    for path in paths:
        if os.path.exists(path):
            rename(path, path + b".deleted")
            renamed.append(path + b".deleted")
    if removed is not None:
        removed.extend(renamed)
        return 0
    for path in reversed(renamed):
        unlink(path, missing_ok=True)
    return 0


cdef int set_files_aside(list paths) except -1:
    for path in paths:
        if os.path.lexists(path):
            set_aside(path)
    return 0
