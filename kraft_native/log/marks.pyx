"""Records of earlier owners about a log, and which of them can be trusted.

Three sources exist:

- the caller, which has read Kafka's checkpoints;
- this module, which reads them where the directory above is one of Kafka's log directories and the caller gives
  nothing;
- our own `kraft-log-state` in the log's directory.

Precedence:

- Our state and Kafka's checkpoints both exist: the younger one. Kafka writes `recovery-point-offset-checkpoint` at
  every stop and once a minute. If it is younger than our state, Kafka has owned the log since, and our numbers are
  stale. Ours is written before every truncation; if it is younger, a recovery point of Kafka's may lie in the part cut
  since. `kraft.log_dir.LogDir`, which writes this checkpoint, too, gives the file the time of its oldest point.
- The log start only moves up: the largest wins, whatever its source.
- A clean stop in our state holds only while the active segment still has the name and the size recorded with it.
- A state of a clean stop has the sizes of all segments. A missing or shorter segment is a loss.
- Gaps between offsets are compaction's only below the end that our state records for them, and the segments there have
  the sizes recorded with it. Gaps may be anywhere if Kafka's cleaner ran since, or if a log without such a record is
  one to compact. These records, and that of losses, also hold if a younger checkpoint has the recovery point of our
  state. An owner of a whole log directory with this engine writes Kafka's checkpoints, too, and Kafka moves the
  recovery point of a log that it changes.

A malformed file counts as missing, and is reported. Nothing known at all means: check everything.
"""

import os

cimport cython
from libc.stdint cimport INT64_MAX

from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import CorruptFileError, StorageError
from kraft_native.file.file_io import is_unreadable, remove_or_set_aside, sync_directory
from kraft_native.segment.checkpoints import SharedOffsets, read_clean_shutdown, read_log_state

# In our state file: the checksum of the leader epochs, hexadecimal. Their own file has none.
EPOCHS_CRC_KEY = "leader_epochs_crc"

# Likewise the result of `gap_marks`: an offset, and `base:bytes` of segments.
cdef str GAPS_END_KEY = "gaps_end"
cdef str SEGMENT_BYTES_KEY = "compacted_segments"
cdef str ALL_SEGMENTS_KEY = "segments"

cdef str STATE_FILE = "kraft-log-state"
cdef str RECOVERY_POINTS_FILE = "recovery-point-offset-checkpoint"
cdef str LOG_STARTS_FILE = "log-start-offset-checkpoint"
cdef str CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
cdef str CLEANER_FILE = "cleaner-offset-checkpoint"


@cython.final
cdef class LogMarks:
    def __cinit__(self):
        self.source = "none"
        self.log_start = self.log_end = self.high_watermark = self.active_base = self.active_size = -1
        self.epochs_crc = -1
        self.extra = {}
        self.lost = []
        self.segment_bytes = {}
        self.notes = []

    cdef int take_state(self, object state) except -1:
        self.source = "state"
        self.recovery_point = state.recovery_point
        self.log_end = state.log_end
        self.extra = {key: text for key, text in state.extra.items() if key != ALL_SEGMENTS_KEY}
        self.clean = state.clean
        try:
            self.durable_end = int(state.extra.get("durable_end", 0))
            self.high_watermark = int(state.extra.get("high_watermark", -1))
            self.active_base = int(state.extra.get("active_base", -1))
            self.active_size = int(state.extra.get("active_size", -1))
        except ValueError as error:
            self.notes.append((STATE_FILE, f"{error}; not used"))
        return 0

    cdef int take_notes(self, object state) except -1:
        """Adopt what Kafka has no file for. It holds as long as Kafka did not own the log."""
        try:
            # If it matches, the epochs have not changed since, whichever file is younger.
            self.epochs_crc = int(state.extra.get(EPOCHS_CRC_KEY, "-1"), 16)
            if self.source != "state" and self.recovery_point != state.recovery_point:
                return 0
            self.noted = True
            self.gaps_end = INT64_MAX
            self.lost = [tuple(map(int, pair.split("-"))) for pair in state.extra.get("lost_offsets", "").split()]
            self.gaps_end = int(state.extra.get(GAPS_END_KEY, INT64_MAX))
            self.segment_bytes = dict([
                tuple(map(int, pair.split(":")))
                for pair in state.extra.get(ALL_SEGMENTS_KEY if state.clean else SEGMENT_BYTES_KEY, "").split()])
        except ValueError as error:
            self.notes.append((STATE_FILE, f"{error}; not used"))
        return 0

    cdef int take_kafka(self, bytes directory, dict points) except -1:
        cdef str parent = os.path.dirname(os.fsdecode(directory))
        self.source = "kafka"
        self.recovery_point = points.get(partition_of(directory), 0)
        try:
            self.clean = read_clean_shutdown(parent) is not None
        except CorruptFileError as error:
            self.notes.append((os.path.join(parent, CLEAN_SHUTDOWN_FILE), f"{error}; not believed"))
        except StorageError as error:
            if not is_unreadable(error):
                raise
            self.notes.append((error.path, f"{error}; not believed"))
        # A clean stop flushes all and records the log end as recovery point.
        if self.clean and partition_of(directory) in points:
            self.log_end = self.recovery_point
        return 0


cdef tuple partition_of(bytes directory):
    """(topic, partition) that the directory is named after; None for any other name."""
    topic, _, number = os.path.basename(os.fsdecode(directory)).rpartition("-")
    return (topic, int(number)) if topic and number.isascii() and number.isdigit() else None


cdef dict kafka_offsets(bytes directory, str name, list notes, object shared):
    """A checkpoint beside the log's directory; None when no readable one exists."""
    cdef str path = os.path.join(os.path.dirname(os.fsdecode(directory)), name)
    try:
        return shared.read(path)
    except CorruptFileError as error:
        notes.append((path, f"{error}; not used"))
    except StorageError as error:
        if not is_unreadable(error):
            raise
        notes.append((path, f"{error}; not used"))
    return None


cdef object own_state(bytes directory, list notes):
    try:
        return read_log_state(directory)
    except CorruptFileError as error:
        notes.append((os.path.join(os.fsdecode(directory), STATE_FILE), f"{error}; not used"))
        return None


cdef bint is_younger(bytes directory, str name) except -1:
    """Return whether the checkpoint beside the log's directory was written after our state in it."""
    cdef str ours = os.path.join(os.fsdecode(directory), STATE_FILE)
    cdef str theirs = os.path.join(os.path.dirname(os.fsdecode(directory)), name)
    return os.path.exists(theirs) and os.stat(theirs).st_mtime_ns > os.stat(ours).st_mtime_ns


cdef LogMarks read_marks(bytes directory, int64_t log_start, int64_t recovery_point, bint clean, bint all_given,
                         bint compacts, object shared):
    cdef LogMarks marks = LogMarks()
    cdef object state = own_state(directory, marks.notes)
    cdef bint given = log_start >= 0 or recovery_point >= 0 or clean
    cdef dict points = None, starts = None
    if not (given or all_given) and partition_of(directory) is not None:
        points = kafka_offsets(directory, RECOVERY_POINTS_FILE, marks.notes, shared)
        starts = kafka_offsets(directory, LOG_STARTS_FILE, marks.notes, shared)
    if points is not None and state is not None and partition_of(directory) not in points:
        points = None
    if (given or points is not None) and (state is None or is_younger(directory, RECOVERY_POINTS_FILE)):
        if given:
            marks.source = "given"
            marks.recovery_point = max(recovery_point, 0)
            marks.clean = clean
            marks.log_end = recovery_point if clean else -1
        else:
            marks.take_kafka(directory, points)
    elif state is not None:
        marks.take_state(state)
    marks.log_start = max(log_start, <int64_t>(starts or {}).get(partition_of(directory), -1))
    if state is not None:
        marks.log_start = max(marks.log_start, <int64_t>state.log_start)
        marks.take_notes(state)
    marks.durable_end = max(marks.durable_end, marks.recovery_point)
    if cleaned_unnoted(directory, marks, compacts, shared):
        marks.gaps_end = INT64_MAX
        marks.segment_bytes = {}
    return marks


def noted_log_start(directory: bytes, shared: SharedOffsets | None = None) -> int:
    """The log start that this engine recorded in the log's directory, or Kafka beside it; 0 without a record.
    `CorruptFileError` when the record is unreadable. `shared`: the `SharedOffsets` of a pass over several logs."""
    cdef bytes path = os.path.abspath(directory)
    cdef str starts = os.path.join(os.path.dirname(os.fsdecode(path)), LOG_STARTS_FILE)
    state = read_log_state(path)
    if state is not None:
        return state.log_start
    if partition_of(path) is None:
        return 0
    return ((shared or SharedOffsets()).read(starts) or {}).get(partition_of(path), 0)


cdef bint cleaned_unnoted(bytes directory, LogMarks marks, bint compacts, object shared) except -1:
    """Return whether the log may have been compacted by an owner that left no record of it in our state."""
    if not marks.noted and compacts:
        return True
    if marks.noted and not is_younger(directory, CLEANER_FILE):
        return False
    return partition_of(directory) in (kafka_offsets(directory, CLEANER_FILE, marks.notes, shared) or {})


cdef dict size_marks(list segments):
    return {ALL_SEGMENTS_KEY: " ".join([f"{(<Segment>each).base_offset}:{(<Segment>each).size}" for each in segments])}


cdef dict gap_marks(list segments, int64_t gaps_end, int64_t durable_end, int64_t settled_below):
    cdef Segment segment
    cdef list sizes = []
    for segment in segments:
        if segment.base_offset >= gaps_end or not -1 < segment.next_base <= settled_below:
            break
        if segment.size > 0 and (segment.next_base <= durable_end or segment.durable):
            sizes.append(f"{segment.base_offset}:{segment.size}")
    return {GAPS_END_KEY: str(gaps_end)} | ({SEGMENT_BYTES_KEY: " ".join(sizes)} if sizes else {})


cdef int drop_kafka_mark(bytes directory) except -1:
    cdef str path = os.path.join(os.path.dirname(os.fsdecode(directory)), CLEAN_SHUTDOWN_FILE)
    if partition_of(directory) is not None and os.path.lexists(path):
        remove_or_set_aside(path)
        sync_directory(os.path.dirname(path))
    return 0
