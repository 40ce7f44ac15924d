"""Data that is not in memory, read by a thread without the interpreter lock (`_c/partition/cold_read.h`).

Where the device or the file fails, the system reports it here. Touching the pages would end the process (SIGBUS), so
the segment refuses every later read with a `StorageError`.

A page fault on mapped data that is not in the page cache blocks the thread until the disk answers. On the loop's thread
that would block every client. So a read that may meet such pages checks first, and has them loaded here.
"""

import os

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from posix.unistd cimport read

cimport cython

from kraft_native.file.buffer cimport Mapping
from kraft_native.log.lookup cimport cold_extent, cold_for_max_timestamp, cold_for_time
from kraft_native.log.trim cimport cold_for_retention
from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import InvalidArgumentError, KraftError

cdef extern from "partition/cold_read.h" nogil:
    kf_cold_reader* kf_cold_start(int* error)
    int kf_cold_submit(kf_cold_reader* reader, const void* data, size_t size, size_t ahead, void* owner)
    void* kf_cold_take(kf_cold_reader* reader, int* error)
    int kf_cold_eventfd(const kf_cold_reader* reader)
    void kf_cold_stop(kf_cold_reader* reader)
    void kf_cold_free(kf_cold_reader* reader)

cdef enum:
    PENDING_MAX_DEFAULT = 10_000
    # For a segment: its two indexes, the data with its largest time, the wanted data.
    LOOKS_PER_SEGMENT = 4


cdef int refuse_reads(LogCore core, Slice data, int error) except -1:
    """Make the segment of an unreadable part refuse reads; each sealed one where it was an index of one."""
    cdef Segment segment
    cdef list found = [each for each in core.segments if (<Segment>each).mapping is data.owner]
    for segment in found or [each for each in core.segments if (<Segment>each).sealed]:
        segment.unreadable = error
    return 0


cdef class Warming:
    """Base of objects that wait for data; not used by itself."""

    cdef int warmed(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what happens next")


cdef class LogWarming(Warming):
    """Load of one part after the other, because each one decides the next. It ends even when memory is short."""

    cdef Slice next_part(self):
        raise AssertionError(f"{type(self).__name__} does not define what it reads")

    cdef bint begin(self, ColdReader reader, LogCore core, object done) except -1:
        self.reader = reader
        self.core = core
        self.done = done
        self.looks_left = LOOKS_PER_SEGMENT * len(core.segments)
        return self.go_on()

    cdef bint go_on(self) except -1:
        cdef Slice part = None
        if self.looks_left > 0 and not self.core.closed:
            self.looks_left -= 1
            try:
                part = self.next_part()
            except KraftError:
                pass                   # the reader gets the error
        return part is not None and self.reader.submit(part, self.core, self)

    cdef int warmed(self) except -1:
        if not self.go_on():
            self.done()
        return 0


@cython.final
cdef class ReadWarming(LogWarming):
    cdef Slice next_part(self):
        return cold_extent(self.core, self.offset, self.bytes_max)


@cython.final
cdef class TimeWarming(LogWarming):
    cdef Slice next_part(self):
        return cold_for_time(self.core, self.timestamp_ms, self.core.log_start)


@cython.final
cdef class MaxTimeWarming(LogWarming):
    cdef Slice next_part(self):
        return cold_for_max_timestamp(self.core)


@cython.final
cdef class RetentionWarming(LogWarming):
    cdef Slice next_part(self):
        return cold_for_retention(self.core, self.now_ms, self.segments_max)


@cython.final
cdef class ColdRange:
    """One pending range, and the object that waits for it."""


@cython.final
cdef class ColdReader:
    """One thread that reads ahead of the loop. `close` ends it; pending ranges are then dropped, never answered.

    Watch `eventfd`, and call `poll` when it is readable. The `warm` methods load the data of the next read into memory,
    and then call `done()`. False: it is in memory already, or too much is pending, and nothing will be called.
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

    cdef bint submit(self, Slice data, LogCore core, Warming owner) except -1:
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
        waiting.core = core
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
        cdef int error = 0
        cdef void* owner = kf_cold_take(self.reader, &error)
        cdef ColdRange waiting
        if owner == NULL:
            return None
        waiting = <ColdRange>owner
        waiting.error = error
        Py_DECREF(waiting)
        self.pending_count -= 1
        return waiting

    def warm_read(self, Log log not None, int64_t offset, int64_t bytes_max,
                  done not None: Callable[[], object]) -> bool:
        """Warm the data of `Log.read`."""
        cdef ReadWarming warming = ReadWarming.__new__(ReadWarming)
        warming.offset = offset
        warming.bytes_max = bytes_max
        return warming.begin(self, log.core, done)

    def warm_time(self, Log log not None, int64_t timestamp_ms, done not None: Callable[[], object]) -> bool:
        """Warm the data of `Log.offset_for_time`."""
        cdef TimeWarming warming = TimeWarming.__new__(TimeWarming)
        warming.timestamp_ms = timestamp_ms
        return warming.begin(self, log.core, done)

    def warm_max_timestamp(self, Log log not None, done not None: Callable[[], object]) -> bool:
        """Warm the data of `Log.max_timestamp`."""
        return (<MaxTimeWarming>MaxTimeWarming.__new__(MaxTimeWarming)).begin(self, log.core, done)

    def warm_retention(self, Log log not None, int64_t now_ms, done not None: Callable[[], object], *,
                       int64_t segments_max) -> bool:
        """Warm the data of `Log.apply_retention`."""
        cdef RetentionWarming warming = RetentionWarming.__new__(RetentionWarming)
        warming.now_ms = now_ms
        warming.segments_max = segments_max
        return warming.begin(self, log.core, done)

    def poll(self) -> None:
        """Continue those whose data is in memory now. Resets `eventfd`, so that the loop can call it by itself."""
        cdef ColdRange done
        cdef uint64_t count
        read(kf_cold_eventfd(self.reader), &count, sizeof(count))
        while True:
            done = self.take()
            if done is None:
                return
            if done.error != 0:
                refuse_reads(done.core, done.data, done.error)
            done.owner.warmed()

    @property
    def eventfd(self) -> int:
        """A descriptor that becomes readable when data was read. The reader owns and closes it."""
        return kf_cold_eventfd(self.reader)

    def close(self) -> None:
        """End the thread. Idempotent."""
        with nogil:
            kf_cold_stop(self.reader)
        while self.take() is not None:
            pass
