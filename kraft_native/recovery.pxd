"""Opening the files of a log: what is there, what is sound, what has to be rebuilt."""

from libc.stdint cimport int64_t

from kraft_native.config cimport LogConfig
from kraft_native.epochs cimport LeaderEpochCache
from kraft_native.producers cimport ProducerStates
from kraft_native.segment cimport Segment


cdef class LoadedLog:
    """What `load_log` found; `Log` takes it over. The last segment is the active one and may be written at its end."""
    cdef list segments                 # of Segment, ascending; never empty
    cdef LeaderEpochCache epochs
    cdef ProducerStates producers      # at log_end
    cdef int64_t log_start
    cdef int64_t log_end
    cdef int64_t recovery_point        # all below it is known to be durable
    cdef int64_t checked_from          # base offset of the first segment that was checked; INT64_MAX: none was
    cdef int64_t high_watermark        # as last recorded, -1: not known
    cdef readonly bint clean           # the log was closed cleanly; nothing was scanned
    cdef readonly list notes           # (path, what was found and done), for people


# Loads the log of `directory`, which exists and is locked by the caller. `log_start` and `recovery_point` (-1: not
# given) come from Kafka's checkpoints in the parent directory, where there are such; `clean` likewise is Kafka's mark.
cdef LoadedLog load_log(bytes directory, LogConfig config, int64_t log_start, int64_t recovery_point, bint clean)
