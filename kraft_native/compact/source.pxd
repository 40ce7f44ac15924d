"""The batches of one segment file in order, for compaction: by pread, every one checked, in bounded memory."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.base.fault cimport Fault
from kraft_native.batch.batch cimport BatchHeader

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass

cdef enum:
    PIECES_MAX = 8


cdef enum SourceResult:
    SOURCE_BATCH = 0               # `batch` and `h` are the next one
    SOURCE_END = 1
    SOURCE_REFILL = 2              # nothing more in this piece: `refill`; `batch` may then change
    SOURCE_GROW = 3                # larger pieces, or a thread, are due: `grow`, with the GIL
    SOURCE_FAULT = 4               # `fault` has the cause

    SOURCE_ERROR = 5               # `error` is the errno of a read


# A part of the file in memory. Batches that do not fit begin the next one.
cdef struct Piece:
    uint8_t* data
    int64_t start                  # position in the file
    Py_ssize_t filled
    Py_ssize_t whole               # of these bytes: checked batches
    SourceResult follows           # the state after them; SOURCE_REFILL: another piece


cdef class BatchSource:
    cdef bytes path
    cdef int fd
    cdef int64_t size              # of the batches in the file
    cdef list buffers              # Scratch, one for each piece
    cdef Piece pieces[PIECES_MAX]
    cdef int piece_count
    cdef Py_ssize_t capacity       # of each
    cdef Py_ssize_t largest        # the least room that a piece must have

    # The filling side: the caller, or the thread. It stops after a piece whose `follows` is not SOURCE_REFILL.
    cdef int64_t filled            # pieces filled so far
    cdef int64_t due_offset        # the smallest base offset that may come
    cdef int64_t end_offset        # upper bound of all offsets

    cdef Py_ssize_t needed         # SOURCE_GROW: bytes of a batch larger than a piece; 0: none
    cdef bint large                # a thread is worthwhile
    cdef bint alone                # and has not begun yet
    cdef int error
    cdef Fault fault

    # The reading side.
    cdef int64_t taken             # pieces read completely, and the one in use
    cdef Piece* piece              # the one in use
    cdef Py_ssize_t at             # in it: after the current batch
    cdef const uint8_t* batch
    cdef BatchHeader h

    cdef object thread             # None when the caller fills
    cdef pthread_mutex_t lock      # guards the next five, and `filled` and `taken` while there is a thread
    cdef pthread_cond_t moved
    cdef bint reader_waits
    cdef bint filler_waits
    cdef bint running
    cdef bint stopping

    # Opens the file at a batch boundary. `base_offset`: the smallest base offset that may be there.
    cdef int open(self, bytes path, int64_t size, int64_t position, int64_t base_offset, int64_t end_offset) except -1
    cdef int close(self) except -1
    # Releases the file without closing it: returns its descriptor.
    cdef int release(self) except -2
    cdef SourceResult next(self) noexcept nogil
    # Advances to the next piece. Returns the byte count of the last one's batches.
    cdef Py_ssize_t refill(self) noexcept nogil
    cdef int grow(self) except -1
    # Raises for SOURCE_FAULT and SOURCE_ERROR; `malformed` for a batch whose records are malformed.
    cdef int raise_result(self, SourceResult result) except -1
    cdef int malformed(self, object what) except -1

    cdef int begin(self, int64_t position, bint ahead) except -1
    cdef int end(self) except -1
    cdef void wait(self, bint* flag) noexcept nogil
    cdef void run(self) noexcept nogil
    cdef SourceResult fill(self) noexcept nogil
    cdef SourceResult look(self, Piece* piece) noexcept nogil
