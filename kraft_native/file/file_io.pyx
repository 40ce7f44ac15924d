"""Files: the only entry of the engine to the file system (`_c/file/file_io.h` has the reasons).

The Python functions here serve cold paths (checkpoints, snapshots, directory work). Each raises `StorageError` naming
the path and the cause, and none retries. Any thread may call them.
"""

import errno
import os

cimport cython
from libc.errno cimport EAGAIN
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from kraft_native.base.errors import InvalidArgumentError, StorageError

cdef extern from "file/file_io.h" nogil:
    void kf_set_hook(kf_hook_fn hook, void* context)
    int64_t kf_open_count()
    int kf_open(const char* path, int flags, int mode)
    void kf_close(int fd)
    int kf_pwritev(int fd, iovec* iov, int iov_count, int64_t offset)
    int kf_pwrite(int fd, const void* data, size_t size, int64_t offset)
    int64_t kf_pread(int fd, void* data, size_t size, int64_t offset)
    int kf_write_back(int fd, int64_t offset, int64_t size)
    int kf_populate(int fd, int64_t offset, int64_t size)
    int kf_truncate(int fd, int64_t size)
    int kf_set_time(int fd, int64_t modified_ns)
    int64_t kf_stamp()
    int kf_datasync(int fd)
    int kf_sync(int fd)
    int kf_sync_dir(const char* path)
    int kf_rename(const char* source, const char* target)
    int kf_unlink(const char* path)
    int kf_mkdir(const char* path, int mode)
    int64_t kf_size(int fd)
    int kf_allocate(int fd, int64_t offset, int64_t size)
    int kf_lock(int fd, int exclusive)
    int kf_locked(int fd)
    int kf_mapping_keeps_lock(const char* directory)

cdef extern from "file/window.h" nogil:
    int kf_window_reach(kf_window* window, int fd, int64_t offset, size_t size)
    int kf_window_write(kf_window* window, int fd, const iovec* iov, int iov_count, int64_t offset)
    void kf_window_close(kf_window* window)

cdef extern from "file/resident.h" nogil:
    int kf_resident(int fd, int64_t position, const void* data, size_t size)


cdef void file_set_hook(kf_hook_fn hook, void* context) noexcept nogil:
    kf_set_hook(hook, context)


cdef int file_open(const char* path, int flags, int mode) noexcept nogil:
    return kf_open(path, flags, mode)


cdef void file_close(int fd) noexcept nogil:
    kf_close(fd)


cdef int file_writev(int fd, iovec* iov, int iov_count, int64_t offset) noexcept nogil:
    return kf_pwritev(fd, iov, iov_count, offset)


cdef int file_write(int fd, const void* data, size_t size, int64_t offset) noexcept nogil:
    return kf_pwrite(fd, data, size, offset)


cdef int64_t file_read(int fd, void* data, size_t size, int64_t offset) noexcept nogil:
    return kf_pread(fd, data, size, offset)


cdef int file_write_back(int fd, int64_t offset, int64_t size) noexcept nogil:
    return kf_write_back(fd, offset, size)


cdef int file_populate(int fd, int64_t offset, int64_t size) noexcept nogil:
    return kf_populate(fd, offset, size)


cdef int file_truncate(int fd, int64_t size) noexcept nogil:
    return kf_truncate(fd, size)


cdef int file_datasync(int fd) noexcept nogil:
    return kf_datasync(fd)


cdef bint file_resident(int fd, int64_t position, const void* data, size_t size) noexcept nogil:
    return kf_resident(fd, position, data, size) != 0


cdef int file_sync(int fd) noexcept nogil:
    return kf_sync(fd)


cdef int file_sync_dir(const char* path) noexcept nogil:
    return kf_sync_dir(path)


cdef int file_rename(const char* source, const char* target) noexcept nogil:
    return kf_rename(source, target)


cdef int file_unlink(const char* path) noexcept nogil:
    return kf_unlink(path)


cdef int file_mkdir(const char* path, int mode) noexcept nogil:
    return kf_mkdir(path, mode)


cdef int64_t file_size(int fd) noexcept nogil:
    return kf_size(fd)


cdef int file_lock(int fd, bint exclusive) noexcept nogil:
    return kf_lock(fd, exclusive)


cdef int file_locked(int fd) noexcept nogil:
    return kf_locked(fd)


cdef int file_mapping_keeps_lock(const char* directory) noexcept nogil:
    return kf_mapping_keeps_lock(directory)


cdef int file_allocate(int fd, int64_t offset, int64_t size) noexcept nogil:
    return kf_allocate(fd, offset, size)


cdef int file_window_reach(kf_window* window, int fd, int64_t offset, size_t size) noexcept nogil:
    return kf_window_reach(window, fd, offset, size)


cdef int file_window_write(kf_window* window, int fd, const iovec* iov, int iov_count, int64_t offset) noexcept nogil:
    return kf_window_write(window, fd, iov, iov_count, offset)


cdef void file_window_close(kf_window* window) noexcept nogil:
    kf_window_close(window)


cdef int64_t check(int64_t result, object path) except? -1:
    if result >= 0:
        return result
    raise StorageError(os.fsdecode(path), <int>-result)


cdef bint disk_is_full(object error) except -1:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


cdef bytes system_path(object path):
    """The path in the system's form. One with a zero byte would be cut short there and mean another file."""
    cdef bytes name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgumentError(f"path is {path!r}, allowed is one without zero bytes")
    return name


def open_descriptors() -> int:
    """Number of descriptors that this module has open: must return to its old value when everything is closed."""
    return kf_open_count()


def read_file(path: FilePath) -> bytes:
    """Read the whole file. If it shrinks meanwhile, return what could be read."""
    cdef bytes name = system_path(path)
    cdef int fd = <int>check(kf_open(name, os.O_RDONLY, 0), path)
    cdef int64_t size, got
    cdef bytes data
    cdef char* start
    try:
        size = check(kf_size(fd), path)
        data = PyBytes_FromStringAndSize(NULL, size)
        start = PyBytes_AS_STRING(data)
        with nogil:
            got = kf_pread(fd, start, <size_t>size, 0)
        check(got, path)
        return data if got == size else data[:got]
    finally:
        kf_close(fd)


def write_atomic(path: FilePath, bytes data not None, *, bint durable=True, int64_t modified_ns=-1) -> None:
    """Replace the file so that a reader, and a restart, sees the old content or the new one and nothing in between.

    Writes `path + ".tmp"`, flushes it, renames it over `path`, and flushes the directory, without the GIL while it
    waits for the disk. With `durable=False` the two flushes are left out (the file may then be empty after a power
    loss: only for files that can be rebuilt). On failure the old file is untouched and the temporary one may remain; it
    is overwritten the next time. Only when the last step fails, the flush of the directory, the new content is in place
    already; a power loss may then still bring the old one back.

    `modified_ns`: the time of the last change that the file is to show from the rename on, in nanoseconds since 1970;
    -1: the time of the write.
    """
    cdef bytes name = system_path(path)
    cdef bytes temporary = name + b".tmp"
    cdef const char* start = PyBytes_AS_STRING(data)
    cdef size_t size = <size_t>PyBytes_GET_SIZE(data)
    cdef int result
    cdef int fd = <int>check(kf_open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), temporary)
    try:
        with nogil:
            result = kf_pwrite(fd, start, size, 0)
            if result == 0 and modified_ns >= 0:
                result = kf_set_time(fd, modified_ns)
            if result == 0 and durable:
                result = kf_sync(fd)
        check(result, temporary)
    finally:
        kf_close(fd)
    check(kf_rename(temporary, name), path)
    if durable:
        sync_directory(os.path.dirname(name) or b".")


def stamp_ns() -> int:
    """Time that the system would note as the last change of a file that is written now, in nanoseconds since 1970."""
    return kf_stamp()


def sync_directory(path: FilePath) -> None:
    """Make the directory's entries (creations, renames, removals) durable. Waits for the disk without the GIL."""
    cdef bytes name = system_path(path)
    cdef const char* start = name
    cdef int result
    with nogil:
        result = kf_sync_dir(start)
    check(result, path)


def rename(source: FilePath, target: FilePath) -> None:
    """Rename without flushing the directory."""
    cdef bytes old = system_path(source)
    cdef bytes new = system_path(target)
    check(kf_rename(old, new), source)


def unlink(path: FilePath, *, bint missing_ok=False) -> None:
    """Remove the name without flushing the directory."""
    cdef bytes name = system_path(path)
    cdef int result = kf_unlink(name)
    if result == -2 and missing_ok:
        return
    check(result, path)


# Errors of one name, not of the device: its permissions, or a directory or a loop of links in its place.
UNREADABLE: frozenset[int] = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP})


def is_unreadable(error: StorageError) -> bool:
    """Return whether a `StorageError` means that one name cannot be read, and not that the device fails."""
    return error.errno in UNREADABLE


def set_aside(path: FilePath) -> str:
    """Rename whatever has the name of a file to be created again; return the new path. Nothing is deleted."""
    cdef str name = os.fsdecode(path)
    cdef str aside = f"{name}.unreadable"
    cdef int64_t number = 1
    while os.path.lexists(aside):
        number += 1
        aside = f"{name}.unreadable{number}"
    rename(name, aside)
    return aside


def remove_or_set_aside(path: FilePath) -> None:
    """Remove a file whose content means nothing any more. A directory of that name is renamed."""
    if os.path.isdir(path) and not os.path.islink(path):
        set_aside(path)
    else:
        unlink(path, missing_ok=True)


def make_directory(path: FilePath) -> None:
    """Create one directory level without flushing its parent."""
    cdef bytes name = system_path(path)
    check(kf_mkdir(name, 0o755), path)


@cython.final
cdef class NewFile:
    """A file written from its beginning; the constructor creates or empties it. One thread owns it.

    After a failed `write` or `sync` the content is undefined: the file must be discarded.
    """
    cdef int fd
    cdef bytes name
    cdef readonly int64_t size

    def __cinit__(self, path: FilePath):
        self.fd = -1
        self.name = system_path(path)
        self.fd = <int>check(kf_open(self.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), self.name)

    def __dealloc__(self):
        self.close()

    def write(self, bytes data not None) -> None:
        """Add the bytes at the end."""
        cdef const char* start = PyBytes_AS_STRING(data)
        cdef size_t size = <size_t>PyBytes_GET_SIZE(data)
        cdef int fd = self.fd
        cdef int64_t position = self.size
        cdef int result
        with nogil:
            result = kf_pwrite(fd, start, size, position)
        check(result, self.name)
        self.size += <int64_t>size

    def sync(self) -> None:
        """Make the written bytes durable; the name is durable when the directory is. Waits for the disk without the
        GIL."""
        cdef int fd = self.fd
        cdef int result
        with nogil:
            result = kf_sync(fd)
        check(result, self.name)

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if self.fd >= 0:
            kf_close(self.fd)
            self.fd = -1


@cython.final
cdef class FileLock:
    """An exclusive lock on a file, created when missing, held until `release` or the end of the process.

    `acquired` is False when another holder (of this process, or of another such as a Java node) has it. The lock is of
    the kind that Java's FileChannel and POSIX locks of other processes respect.
    """
    cdef int fd
    cdef readonly bint acquired

    def __cinit__(self, path: FilePath):
        cdef bytes name = system_path(path)
        self.fd = -1
        self.fd = <int>check(kf_open(name, os.O_RDWR | os.O_CREAT, 0o644), path)
        cdef int result = kf_lock(self.fd, True)
        self.acquired = result >= 0
        if not self.acquired:
            kf_close(self.fd)
            self.fd = -1
            if result != -EAGAIN:
                check(result, path)

    def __dealloc__(self):
        self.release()

    def release(self) -> None:
        """Release the lock. Harmless when it is not held."""
        self.acquired = False
        kf_close(self.fd)
        self.fd = -1
