"""The `.log` file of a segment: bytes at its end, a mapping to read them."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.file.buffer cimport Mapping
from kraft_native.file.file_io cimport iovec, kf_window


cdef class Copies:
    """The files of one log that were read into memory, because their owner may shrink them: the last used ones."""
    cdef list held                              # of SegmentFile

    cdef int admit(self, SegmentFile file) except -1


cdef class SegmentFile:
    cdef readonly bytes directory               # of the partition
    cdef readonly bytes path                    # of the .log file
    cdef readonly int64_t size                  # bytes of whole batches in the file (the part for readers)

    cdef int fd                                 # -1 until first used (a log of 10,000 segments opens without them)
    cdef bint windowed                          # whether small appends go through the window

    cdef kf_window window                       # the file is longer than `size` while it is open
    cdef int64_t reserved_to                    # end of the space reserved for later writes; 0: nothing to cut

    cdef int64_t populated_to                   # end of the pages brought into the cache ahead; INT64_MAX: not here
    cdef Mapping mapping                        # None until first read; may reach past `size` on the active segment
    cdef const uint8_t* data                    # of `mapping`

    cdef bint complete                          # no append will follow
    cdef int unreadable                         # errno of a failed read of the file; 0
    cdef Copies copies                          # of a log that is not ours, which is not written; else None

    cdef int64_t copied_from                    # of a copy: the bytes before are not read yet

    # Writes at the end, without counting the bytes yet. StorageError leaves `size` as it was.
    cdef int write(self, iovec* iov, int iov_count, int64_t bytes_count) except -1
    cdef int sync(self) except -1               # on this thread
    cdef int reserve(self, int64_t bytes_count) except -1      # space for that many bytes and some more at the end
    cdef void populate(self, int64_t bytes_count, int64_t limit) noexcept
    cdef int trim(self) except -1               # cuts off the reserved space past `size`
    # Keeps the first `size` bytes. Pinned slices stay readable.
    cdef int cut_file(self, int64_t size) except -1
    cdef int open_file(self, bint writable) except -1
    cdef void close_file(self) noexcept
    # Makes [start, end) of the file, end <= size, readable through `data`; [0, end) where it is ours.
    cdef int map_to(self, int64_t end, int64_t start=*) except -1
    cdef int copy_before(self, int64_t start) except -1
    cdef int need_readable(self) except -1      # raises a known failure to read it
    cdef int release(self) except -1            # frees a copy, and drops the trust in its bytes
    cdef int replace_file(self, int64_t size) except -1


# Renames existing files to the suffix `.deleted`, in this order, and removes them in reverse; with `removed` they stay,
# and their new names are added to it.
cdef int remove_files(list paths, list removed) except -1

# Renames whatever has these names: it cannot be read, and is created again.
cdef int set_files_aside(list paths) except -1
