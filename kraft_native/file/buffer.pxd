"""Memory with a visible owner: growable scratch space, mapped files, and pinned slices of them."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef class Scratch:
    """A growable byte buffer for one owner (decompression, encoding). Not shared, not exported while in use."""
    cdef uint8_t* data             # a block of this class's own kind: only its methods resize and free it
    cdef Py_ssize_t size           # bytes in use; callers set it
    cdef Py_ssize_t capacity

    # Grows capacity to at least `count`, keeping the first `size` bytes. MemoryError when the system refuses.
    cdef int reserve(self, Py_ssize_t count) except -1
    # Appends bytes, growing as needed.
    cdef int put(self, const uint8_t* data, Py_ssize_t count) except -1
    # Sets the final size. Memory past it is returned when it is more than half of the block.
    cdef int trim(self, Py_ssize_t size) except -1
    # Returns all memory to the system, none of it to the next user: for content that never became whole.
    cdef int release(self) except -1


# The same as `reserve`, without a call where there is room.
cdef inline int make_room(Scratch scratch, Py_ssize_t count) except -1:
    return scratch.reserve(count) if count > scratch.capacity else 0


cdef class Mapping:
    """A read-only shared mapping of a file's first `size` bytes. Unmapped when the last slice and owner are freed.

    The mapping may reach past the end of the file. Only bytes known to be in the file may be touched, and a file with
    pinned slices is never shrunk (see `segment/segment.pyx`).
    """
    cdef const uint8_t* data
    cdef Py_ssize_t size
    cdef int pins                  # slices alive on this mapping
    cdef uint64_t device           # which file it is of
    cdef uint64_t inode
    cdef object path
    cdef int file                  # see `mapped_file`; -1: not opened yet, or unavailable
    cdef object __weakref__


cdef class Slice:
    """Pinned bytes: while it lives, its memory stays mapped and unchanged. Exports the buffer protocol, read-only."""
    cdef object owner              # Mapping, bytes, or whatever keeps `data` alive
    cdef const uint8_t* data
    cdef Py_ssize_t size
    cdef int64_t first_offset      # offset of the first batch, -1 when the slice is empty
    cdef int64_t next_offset       # where to continue reading

    cdef bint settled              # below any possible cut: the file's pages stay as they are without the pin


# Maps `size` bytes of fd (page cache, shared, read-only). `populate` faults the pages in at once.
cdef Mapping map_file(int fd, Py_ssize_t size, bint populate, object path)
# A descriptor of the mapped file, open for reading while the mapping lives; -1 when none is available: the name is
# another file's by now, or too many are open.
cdef int mapped_file(Mapping mapping) except? -1
# A copy of [start, size) of it instead, in memory of its own that has room for [0, size): for a file that another
# process may shrink. StorageError (ENODATA) when the file has become shorter.
cdef Mapping copy_file(int fd, Py_ssize_t size, Py_ssize_t start, object path)
# Reads [start, end) of it into such a copy, which lacks that part so far.
cdef int fill_copy(Mapping mapping, int fd, Py_ssize_t start, Py_ssize_t end, object path) except -1
# Whether slices of this process, of any log, refer to the file.
cdef bint file_is_pinned(int fd) except -1
cdef Slice slice_mapping(Mapping mapping, Py_ssize_t position, Py_ssize_t size)
cdef Slice slice_bytes(bytes data)
