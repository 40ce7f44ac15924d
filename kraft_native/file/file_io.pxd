"""Files, for compiled callers: short names for `_c/file/file_io.c`, callable from nogil code of every module.

All of them return -errno on failure. `raise_errno` turns that into `StorageError` with the path.
"""

from libc.stdint cimport int64_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "file/file_io.h" nogil:
    ctypedef struct kf_event:
        int op
        int fd
        int64_t a
        int64_t b
        const char* path
        const char* path2
        const iovec* iov
        int iov_count
        size_t size
        int64_t result
    ctypedef int64_t (*kf_hook_fn)(const kf_event* event, void* context) noexcept nogil

cdef extern from "file/window.h" nogil:
    ctypedef struct kf_window:
        char* base
        int64_t start
        int64_t end

cdef void file_set_hook(kf_hook_fn hook, void* context) noexcept nogil
cdef int file_open(const char* path, int flags, int mode) noexcept nogil
cdef void file_close(int fd) noexcept nogil
cdef int file_writev(int fd, iovec* iov, int iov_count, int64_t offset) noexcept nogil
cdef int file_write(int fd, const void* data, size_t size, int64_t offset) noexcept nogil
cdef int64_t file_read(int fd, void* data, size_t size, int64_t offset) noexcept nogil
# Begins to send written bytes to the device, and promises nothing: `_c/file/file_io.h`.
cdef int file_write_back(int fd, int64_t offset, int64_t size) noexcept nogil
# Brings reserved space that was never written into the page cache.
cdef int file_populate(int fd, int64_t offset, int64_t size) noexcept nogil
cdef int file_truncate(int fd, int64_t size) noexcept nogil
cdef int file_datasync(int fd) noexcept nogil
cdef int file_allocate(int fd, int64_t offset, int64_t size) noexcept nogil
# Small appends by copy into a mapped window (`_c/file/window.h`); a zeroed kf_window is a closed one.
cdef int file_window_reach(kf_window* window, int fd, int64_t offset, size_t size) noexcept nogil
cdef int file_window_write(kf_window* window, int fd, const iovec* iov, int iov_count, int64_t offset) noexcept nogil
cdef void file_window_close(kf_window* window) noexcept nogil
# Whether [position, position + size) of the file, mapped at `data`, is in the page cache.
cdef bint file_resident(int fd, int64_t position, const void* data, size_t size) noexcept nogil
cdef int file_sync(int fd) noexcept nogil
cdef int file_sync_dir(const char* path) noexcept nogil
cdef int file_rename(const char* source, const char* target) noexcept nogil
cdef int file_unlink(const char* path) noexcept nogil
cdef int file_mkdir(const char* path, int mode) noexcept nogil
cdef int64_t file_size(int fd) noexcept nogil
cdef int file_lock(int fd, bint exclusive) noexcept nogil
cdef int file_locked(int fd) noexcept nogil
cdef int file_mapping_keeps_lock(const char* directory) noexcept nogil

# Raises StorageError(errno = -result, path) when result is negative; otherwise returns it.
cdef int64_t check(int64_t result, object path) except? -1
# Whether a StorageError means that the disk, or the user's share of it, is full.
cdef bint disk_is_full(object error) except -1
