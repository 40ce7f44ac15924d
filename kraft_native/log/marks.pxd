"""Records of earlier owners about a log, and which of them can be trusted."""

from libc.stdint cimport int64_t


cdef class LogMarks:
    # type: Literal["given", "state", "kafka", "none"]
    cdef readonly str source                    # "given", "state", "kafka" or "none": source of the numbers
    cdef readonly int64_t log_start             # -1: not known
    cdef readonly int64_t recovery_point        # segments that end at or below it need no check; 0 when not known

    cdef readonly int64_t durable_end           # all below it was durable; at least the recovery point
    cdef readonly int64_t log_end               # at the clean stop; -1: not known

    cdef readonly int64_t high_watermark        # -1: not known
    cdef readonly bint clean                    # the last owner recorded a clean stop
    cdef readonly int64_t active_base           # of the active segment at our own clean stop; -1: not known
    cdef readonly int64_t active_size
    cdef readonly list lost  # type: list[tuple[int, int]]  # (offset, next offset) pairs that are known to be lost
    cdef readonly int64_t gaps_end              # gaps between offsets that end at or below it may come from compaction

    cdef readonly dict segment_bytes  # type: dict[int, int]  # base offset -> size, of segments whose size is known

    cdef readonly int64_t epochs_crc            # last recorded `LeaderEpochCache.stored_crc`; -1: not known
    cdef bint noted                             # losses, gaps and sizes match our state
    cdef readonly dict extra  # type: dict[str, str]  # other content of our state file, for its other users
    cdef readonly list notes  # type: list[tuple[str, str]]  # (path, fault in it)

    cdef int take_state(self, object state) except -1
    cdef int take_notes(self, object state) except -1
    cdef int take_kafka(self, bytes directory, dict points) except -1

# The marks of the log in `directory`. `log_start`, `recovery_point` and `clean` (-1, False: not given) are Kafka's.
# `compacts`: the log's policy is to compact. `shared`: the `SharedOffsets` by which checkpoints are read.
cdef LogMarks read_marks(bytes directory, int64_t log_start, int64_t recovery_point, bint clean, bint all_given,
                         bint compacts, object shared)

# Fields of a compacted log in the state file: the end of possible gaps, and the sizes of segments there that
# are durable and end at or below `settled_below`.
cdef dict gap_marks(list segments, int64_t gaps_end, int64_t durable_end, int64_t settled_below)

# The fields of the state file of a clean stop about every segment: its base offset and size.
cdef dict size_marks(list segments)

# Removes Kafka's mark of a clean stop in the directory above, durably: a log below it is about to change, and Kafka
# would not check it after a crash. Does nothing where none exists.
cdef int drop_kafka_mark(bytes directory) except -1
