"""Files that compaction has replaced: closed beside its work."""


cdef class ReplacedFiles:
    cdef list descriptors          # of removed files, open still
    cdef list threads              # that close others

    # Takes over a descriptor. `close` closes it.
    cdef int add(self, int fd) except -1
    # Begins to close what was added.
    cdef int close(self) except -1
    # Waits until all is closed.
    cdef int wait(self) except -1
