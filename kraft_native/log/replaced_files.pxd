"""Files that compaction has replaced: closed in parallel to its work."""


cdef class ReplacedFiles:
    cdef list descriptors          # of removed files, open still
    cdef list threads              # that close others

    # Adopts a descriptor. `close` closes it.
    cdef int add(self, int fd) except -1
    # Begins to close the added ones.
    cdef int close(self) except -1
    # Waits until all is closed.
    cdef int wait(self) except -1
