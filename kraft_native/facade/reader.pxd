"""Reading a log that another process may own."""

from libc.stdint cimport int64_t, uint64_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.file.buffer cimport Scratch, Slice
from kraft_native.log.core cimport LogCore
from kraft_native.log.foreign cimport ForeignSegment
from kraft_native.log.live cimport LiveView, kf_live_state
from kraft_native.segment.config cimport LogConfig


cdef class LogReader:
    cdef readonly bytes path       # of the partition directory
    cdef LiveView view             # None: no live page exists
    cdef bint live                 # `state` comes from the page; otherwise from the files
    cdef bint busy
    cdef bint closed
    cdef kf_live_state state
    cdef uint64_t incarnation      # of the page, when `state` was found on disk
    cdef LogConfig config
    cdef LogCore unowned           # without an owner: the log as opening it would find it
    cdef object report
    cdef list bases                # base offsets of the segments, ascending
    cdef uint64_t listed_truncation, listed_segments
    cdef int64_t listed_active
    cdef dict open_segments        # base offset -> ForeignSegment
    cdef Scratch records           # decompressed records of one batch

    cdef int enter(self) except -1
    cdef int refresh(self) except -1
    cdef bint take_page_state(self) except -1
    cdef int take_disk_state(self, object shared=*) except -1
    cdef bint attach(self) except -1
    cdef bint changed(self) except -1
    cdef int list_segments(self) except -1
    cdef int need_segments(self) except -1
    cdef int drop_segments(self) except -1
    cdef ForeignSegment segment(self, Py_ssize_t slot)
    cdef int64_t end_of(self, ForeignSegment segment) noexcept
    cdef const kf_live_state* current(self) except NULL
    cdef int64_t limit(self, bint committed) except -1
    cdef Slice read_once(self, int64_t offset, int64_t max_bytes, bint committed)
    cdef int allow_gap(self, ForeignSegment segment, int64_t offset, int64_t next_offset) except -1
    cdef tuple time_without_owner(self, int64_t timestamp_ms, bint committed)
    cdef int64_t time_hint(self, int64_t timestamp_ms) except -1
    cdef LiveView view_to_wait_on(self, int64_t offset, bint committed)
    cdef tuple find_in_slice(self, Slice piece, int64_t timestamp_ms)
    cdef tuple find_in_batch(self, const BatchHeader* h, const unsigned char* batch, int64_t timestamp_ms)
