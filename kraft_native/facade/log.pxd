"""One log: the facade over its parts. The opener's thread only."""

from libc.stdint cimport int64_t

from kraft_native.log.append cimport Appender
from kraft_native.log.core cimport LogCore
from kraft_native.log.flusher cimport Flusher
from kraft_native.segment.config cimport LogConfig


cdef class Log:
    cdef LogCore core
    cdef Appender appender
    cdef readonly object recovery  # type: RecoveryReport  # what opening found and did

    cdef object take(self, LogCore core, bint log_dir_locked)
    cdef int lock(self, LogCore core, bint log_dir_locked) except -1
    cdef int begin(self, Flusher flusher) except -1


# View of the log in `directory` as opening would find it: nothing is written and nothing locked, files are read into
# memory. It has no live page. `failure` says why it cannot be written. `report` collects the findings, `shared` is as
# for `read_marks`.
cdef LogCore view_log(bytes directory, LogConfig config, object failure, list report, object shared=*)
