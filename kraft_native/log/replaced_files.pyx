"""Files that compaction has replaced: closed in parallel to its work.

When the last descriptor of a removed file is closed, the system frees its pages and blocks. With the mount option
`discard` it also informs the device: a tenth of a second and more for 256 MiB, most of it waiting. Compaction therefore
keeps its sources open while it removes their names, and gives the descriptors to a thread that only closes them.
Closing cannot fail, and nothing depends on it: the names were removed, durably, before. The next compaction waits for
it, so that descriptors do not pile up, and so does the end of the log.
"""

import threading

cimport cython

from kraft_native.file.file_io cimport file_close


def close_files(list descriptors not None: list[int]) -> None:
    """Close descriptors that nothing else uses, without the interpreter lock."""
    cdef int fd
    for descriptor in descriptors:
        fd = descriptor
        with nogil:
            file_close(fd)


@cython.final
cdef class ReplacedFiles:
    def __cinit__(self):
        self.descriptors = []
        self.threads = []

    cdef int add(self, int fd) except -1:
        self.descriptors.append(fd)
        return 0

    cdef int close(self) except -1:
        cdef list descriptors = self.descriptors
        if descriptors:
            thread = threading.Thread(target=close_files, args=(descriptors,), name="kraft-compaction-close")
            thread.start()
            self.threads.append(thread)
            self.descriptors = []
        return 0

    cdef int wait(self) except -1:
        while self.threads:
            self.threads[0].join()
            del self.threads[0]
        return 0
