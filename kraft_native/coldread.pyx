"""Data that is not in memory, read by a thread without the interpreter lock (`_c/coldread.h`).

A page fault on mapped data that the page cache no longer has stops whoever touches it until the disk answers; on the
loop's thread that would stop every client. So a read that may meet such pages asks first, and has them brought in here.
"""

import os

from cpython.ref cimport Py_DECREF, Py_INCREF

cimport cython

from kraft_native.buffer cimport Mapping

from kraft_native.errors import InvalidArgumentError

cdef extern from "coldread.h" nogil:
    kf_cold_reader* kf_cold_start(int* error)
    int kf_cold_submit(kf_cold_reader* reader, const void* data, size_t size, size_t ahead, void* owner)
    void* kf_cold_take(kf_cold_reader* reader)
    int kf_cold_eventfd(const kf_cold_reader* reader)
    void kf_cold_stop(kf_cold_reader* reader)
    void kf_cold_free(kf_cold_reader* reader)

cdef enum:
    PENDING_MAX_DEFAULT = 10_000


cdef class Warming:
    """Base of what can wait for data; not used by itself."""

    cdef int warmed(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what happens next")


@cython.final
cdef class ColdRange:
    """One range on its way, and who waits for it."""


@cython.final
cdef class ColdReader:
    """One thread that reads ahead of the loop. `close` ends it; what was pending then is dropped, never answered.

    Watch `eventfd`; when it is readable, read it and call `poll`.
    """

    def __cinit__(self, *, int64_t pending_max=PENDING_MAX_DEFAULT):
        cdef int error = 0
        if pending_max < 1:
            raise InvalidArgumentError(f"pending_max: {pending_max} is below 1")
        self.pending_max = pending_max
        self.reader = kf_cold_start(&error)
        if self.reader == NULL:
            raise OSError(error, f"starting the thread for cold reads: {os.strerror(error)}")

    def __dealloc__(self):
        if self.reader != NULL:
            self.close()
            kf_cold_free(self.reader)

    cdef bint submit(self, Slice data, Warming owner) except -1:
        cdef ColdRange waiting
        cdef size_t ahead = 0
        cdef Mapping mapping
        cdef int result
        if self.pending_count >= self.pending_max:
            return False
        if type(data.owner) is Mapping:
            # A reader that goes through the log will want as much again.
            mapping = data.owner
            ahead = <size_t>min(data.size, mapping.data + mapping.size - (data.data + data.size))
        waiting = ColdRange.__new__(ColdRange)
        waiting.data = data
        waiting.owner = owner
        result = kf_cold_submit(self.reader, data.data, <size_t>data.size, ahead, <void*>waiting)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        Py_INCREF(waiting)             # until it is taken
        self.pending_count += 1
        self.ranges_total += 1
        self.bytes_total += data.size
        return True

    cdef ColdRange take(self):
        cdef void* owner = kf_cold_take(self.reader)
        cdef ColdRange waiting
        if owner == NULL:
            return None
        waiting = <ColdRange>owner
        Py_DECREF(waiting)
        self.pending_count -= 1
        return waiting

    def poll(self) -> None:
        """Goes on with the requests whose data is in memory now."""
        cdef ColdRange done
        while True:
            done = self.take()
            if done is None:
                return
            done.owner.warmed()

    @property
    def eventfd(self) -> int:
        """Becomes readable when data was read. The reader owns and closes it."""
        return kf_cold_eventfd(self.reader)

    def close(self) -> None:
        """Ends the thread. May be called again."""
        with nogil:
            kf_cold_stop(self.reader)
        while self.take() is not None:
            pass
