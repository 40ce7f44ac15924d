"""One log: the facade over its parts. The opener's thread only."""

from libc.stdint cimport int64_t

from kraft_native.append cimport Appender
from kraft_native.flusher cimport Flusher
from kraft_native.logcore cimport LogCore
from kraft_native.recovery cimport RecoveryReport


cdef class Log:
    cdef LogCore core
    cdef Appender appender
    cdef readonly RecoveryReport recovery          # what opening it found and did

    cdef int lock(self, LogCore core, bint log_dir_locked) except -1
    cdef int begin(self, Flusher flusher) except -1
