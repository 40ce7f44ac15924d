"""The batches of one segment file in order, for compaction.

The file is read by pread into pieces of memory rather than through the segment's mapping. So the memory of a compaction
has a bound whatever the size of the log, and an unreadable page is an error and not a signal.

Every batch is checked (structure, CRC, rising offsets) each time it is read: compaction would write a misread batch
back as truth, and the original is removed.

Reading and checking is about half of a compaction's work. For a large segment a thread does it, ahead of the reader by
as many pieces as there are. In a smaller one the reader fills the next piece itself when it gets there. It also does so
with the first pieces of a large one: the search for the first batch that would change mostly ends in them. The order of
calls for small files, and so of what tests see, follows from the calls of the owner alone.
"""

import errno
import os
import threading

cimport cython
from libc.string cimport memcpy
from posix.fcntl cimport O_RDONLY

from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, fault_set, fault_text
from kraft_native.base.limits cimport BATCH_HEADER_BYTES
from kraft_native.batch.batch cimport (
    LOOK_CORRUPT, LOOK_OK, BatchLook, batch_bytes, batch_last_offset, batch_look, batch_reload,
)
from kraft_native.file.buffer cimport Scratch
from kraft_native.file.file_io cimport check, file_close, file_open, file_read

from kraft_native.base.errors import CorruptLogError, StorageError

cdef extern from "<pthread.h>" nogil:
    int pthread_mutex_init(pthread_mutex_t* lock, void* attributes)
    int pthread_mutex_destroy(pthread_mutex_t* lock)
    int pthread_mutex_lock(pthread_mutex_t* lock)
    int pthread_mutex_unlock(pthread_mutex_t* lock)
    int pthread_cond_init(pthread_cond_t* condition, void* attributes)
    int pthread_cond_destroy(pthread_cond_t* condition)
    int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* lock)
    int pthread_cond_signal(pthread_cond_t* condition)

cdef enum:
    # Small enough for the second-level cache, large enough that system calls do not count.
    PIECE_BYTES = 256 * 1024
    # For the thread: large enough that waking the other one does not count either.
    AHEAD_PIECE_BYTES = 1024 * 1024
    # All its pieces together, unless two of the largest batch need more.
    AHEAD_BYTES = PIECES_MAX * AHEAD_PIECE_BYTES
    # From this segment size on a thread reads ahead, once the reader has passed so many pieces alone.
    AHEAD_BYTES_MIN = 16 * 1024 * 1024
    PIECES_ALONE = 4

cdef int errno_no_data = errno.ENODATA


def read_ahead(BatchSource source not None) -> None:
    """Run the thread, without the interpreter lock."""
    with nogil:
        source.run()


@cython.final
cdef class BatchSource:
    def __cinit__(self):
        self.fd = -1
        self.buffers = [Scratch() for _ in range(PIECES_MAX)]
        pthread_mutex_init(&self.lock, NULL)
        pthread_cond_init(&self.moved, NULL)

    def __dealloc__(self):
        # No thread is left: it would hold a reference.
        file_close(self.fd)
        pthread_cond_destroy(&self.moved)
        pthread_mutex_destroy(&self.lock)

    cdef int open(self, bytes path, int64_t size, int64_t position, int64_t base_offset, int64_t end_offset) except -1:
        self.close()
        self.path = path
        self.size = size
        self.due_offset = base_offset
        self.end_offset = end_offset
        self.fd = <int>check(file_open(path, O_RDONLY, 0), path)
        self.large = size - position >= AHEAD_BYTES_MIN
        return self.begin(position, False)

    cdef int begin(self, int64_t position, bint ahead) except -1:
        """Start reading at `position`; with `ahead` by a thread."""
        cdef Scratch buffer
        cdef Piece* before
        cdef int i
        self.alone = self.large and not ahead
        self.needed = 0
        self.capacity = max(self.largest, <Py_ssize_t>(AHEAD_PIECE_BYTES if ahead else PIECE_BYTES))
        self.piece_count = <int>max(<Py_ssize_t>2, AHEAD_BYTES // self.capacity) if ahead else 2
        for i in range(self.piece_count):
            buffer = self.buffers[i]
            buffer.reserve(self.capacity)
            self.pieces[i].data = buffer.data
        # The state before the first piece.
        before = &self.pieces[self.piece_count - 1]
        before.start = position
        before.filled = before.whole = 0
        before.follows = SOURCE_REFILL
        self.piece = before
        self.at = 0
        self.filled = self.taken = 0
        self.thread = None
        if ahead:
            self.stopping = False
            self.running = True
            try:
                thread = threading.Thread(target=read_ahead, args=(self,), name="kraft-compaction-read")
                thread.start()
            except BaseException:
                self.running = False
                raise
            self.thread = thread
        return 0

    cdef int end(self) except -1:
        """End the thread. A join alone is not enough: Ctrl-C would leave it while the thread still reads."""
        thread = self.thread
        if thread is None:
            return 0
        with nogil:
            pthread_mutex_lock(&self.lock)
            self.stopping = True
            pthread_cond_signal(&self.moved)
            while self.running:
                self.wait(&self.reader_waits)
            pthread_mutex_unlock(&self.lock)
        self.thread = None
        thread.join()
        return 0

    cdef int close(self) except -1:
        file_close(self.release())
        return 0

    cdef int release(self) except -2:
        cdef int fd = self.fd
        self.end()
        self.fd = -1
        return fd

    # --- filling ----------------------------------------------------------------------------------------------------

    cdef void wait(self, bint* flag) noexcept nogil:
        flag[0] = True
        pthread_cond_wait(&self.moved, &self.lock)
        flag[0] = False

    cdef void run(self) noexcept nogil:
        cdef SourceResult follows = SOURCE_REFILL
        cdef bint wake
        pthread_mutex_lock(&self.lock)
        while follows == SOURCE_REFILL and not self.stopping:
            if self.filled - self.taken >= self.piece_count - 1:
                # Not woken for each piece that becomes free.
                while self.filled - self.taken > self.piece_count // 2 - 1 and not self.stopping:
                    self.wait(&self.filler_waits)
                continue
            pthread_mutex_unlock(&self.lock)
            follows = self.fill()
            pthread_mutex_lock(&self.lock)
            self.filled += 1
            wake = self.reader_waits
            pthread_mutex_unlock(&self.lock)
            if wake:
                pthread_cond_signal(&self.moved)
            pthread_mutex_lock(&self.lock)
        self.running = False
        pthread_cond_signal(&self.moved)
        pthread_mutex_unlock(&self.lock)

    cdef SourceResult fill(self) noexcept nogil:
        """Fill the next piece; return its `follows`."""
        cdef Piece* before = &self.pieces[(self.filled + self.piece_count - 1) % self.piece_count]
        cdef Piece* piece = &self.pieces[self.filled % self.piece_count]
        cdef Py_ssize_t kept = before.filled - before.whole
        cdef int64_t wanted, got
        memcpy(piece.data, before.data + before.whole, <size_t>kept)
        piece.start = before.start + before.whole
        piece.whole = 0
        piece.filled = kept
        wanted = min(<int64_t>(self.capacity - kept), self.size - piece.start - kept)
        got = file_read(self.fd, piece.data + kept, <size_t>wanted, piece.start + kept)
        if got == wanted:
            piece.filled += <Py_ssize_t>got
            piece.follows = self.look(piece)
            if piece.follows == SOURCE_REFILL and self.alone and self.filled + 1 == PIECES_ALONE:
                piece.follows = SOURCE_GROW
        else:
            self.error = <int>-got if got < 0 else errno_no_data
            piece.follows = SOURCE_ERROR
        return piece.follows

    cdef SourceResult look(self, Piece* piece) noexcept nogil:
        """Check the batches of the piece; return what comes after them."""
        cdef BatchHeader h
        cdef Py_ssize_t left
        cdef bint ends_here = piece.start + piece.filled >= self.size
        cdef BatchLook look
        while True:
            left = piece.filled - piece.whole
            if left == 0:
                return SOURCE_END if ends_here else SOURCE_REFILL
            look = batch_look(piece.data + piece.whole, left, True, &h, &self.fault)
            if look != LOOK_OK:
                break
            if h.base_offset < self.due_offset:
                fault_set(&self.fault, ERROR_CORRUPT_MESSAGE, "base offset %lld where at least %lld was due",
                          h.base_offset, self.due_offset)
                return SOURCE_FAULT
            if batch_last_offset(&h) >= self.end_offset:
                fault_set(&self.fault, ERROR_CORRUPT_MESSAGE, "last offset %lld where the next segment begins at %lld",
                          batch_last_offset(&h), self.end_offset)
                return SOURCE_FAULT
            self.due_offset = batch_last_offset(&h) + 1
            piece.whole += batch_bytes(&h)
        if look == LOOK_CORRUPT or ends_here:
            return SOURCE_FAULT
        if left >= BATCH_HEADER_BYTES:
            if batch_bytes(&h) > self.size - piece.start - piece.whole:
                return SOURCE_FAULT
            if batch_bytes(&h) > self.capacity:
                self.needed = batch_bytes(&h)
                return SOURCE_GROW
        return SOURCE_REFILL

    # --- reading ----------------------------------------------------------------------------------------------------

    cdef SourceResult next(self) noexcept nogil:
        if self.at == self.piece.whole:
            return self.piece.follows
        self.batch = self.piece.data + self.at
        batch_reload(self.batch, &self.h)
        self.at += batch_bytes(&self.h)
        return SOURCE_BATCH

    cdef Py_ssize_t refill(self) noexcept nogil:
        cdef Py_ssize_t passed = self.piece.whole
        cdef bint wake
        self.piece = &self.pieces[self.taken % self.piece_count]
        self.at = 0
        if self.thread is None:
            self.fill()
            self.filled += 1
            self.taken += 1
            return passed
        pthread_mutex_lock(&self.lock)
        while self.filled <= self.taken:
            self.wait(&self.reader_waits)
        self.taken += 1
        wake = self.filler_waits and self.filled - self.taken <= self.piece_count // 2 - 1
        pthread_mutex_unlock(&self.lock)
        if wake:
            pthread_cond_signal(&self.moved)
        return passed

    cdef int grow(self) except -1:
        cdef int64_t position = self.piece.start + self.piece.whole
        self.end()
        self.largest = max(self.largest, self.needed)
        return self.begin(position, self.large)

    cdef int raise_result(self, SourceResult result) except -1:
        if result == SOURCE_ERROR:
            raise StorageError(os.fsdecode(self.path), self.error)
        raise CorruptLogError(os.fsdecode(self.path), self.piece.start + self.at, self.due_offset, -1,
                              fault_text(&self.fault))

    cdef int malformed(self, object what) except -1:
        raise CorruptLogError(os.fsdecode(self.path), self.piece.start + self.at - batch_bytes(&self.h),
                              self.h.base_offset, batch_last_offset(&self.h) + 1, str(what))
