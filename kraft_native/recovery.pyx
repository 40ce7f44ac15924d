"""Opening the files of a log.

After a clean stop nothing is scanned: sealed segments are known by name and size only, and of the active one the
batches after its last index entry are walked. After a crash the segments from the recovery point on are checked batch
by batch, their indexes are rebuilt, and the torn end of the last one is cut off.
"""

import os

cimport cython
from libc.stdint cimport INT64_MAX, int64_t

from kraft_native.apply cimport replay_segment
from kraft_native.fileio cimport check, file_sync_dir
from kraft_native.logcore cimport clock_ms
from kraft_native.segment cimport segment_create, segment_load

from kraft_native.checkpoints import read_log_state
from kraft_native.errors import CorruptFileError
from kraft_native.fileio import unlink

# What an interrupted deletion or replacement leaves; none of it is part of the log.
LEFTOVERS: tuple[bytes, ...] = (b".deleted", b".cut", b".tmp")


@cython.final
cdef class LoadedLog:
    def __cinit__(self):
        self.segments = []
        self.notes = []
        self.high_watermark = -1


cdef LoadedLog load_log(bytes directory, LogConfig config, int64_t log_start, int64_t recovery_point, bint clean):
    cdef LoadedLog loaded = LoadedLog()
    cdef object state = read_log_state(directory)
    if state is not None:
        log_start = max(log_start, <int64_t>state.log_start)
        recovery_point = max(recovery_point, <int64_t>state.recovery_point)
        loaded.high_watermark = int(state.extra.get("high_watermark", -1))
        clean = state.clean
    loaded.clean = clean
    load_segments(loaded, directory, config, log_start)
    loaded.recovery_point = max(recovery_point, 0)
    loaded.checked_from = INT64_MAX
    if not clean:
        check_unclean(loaded, loaded.recovery_point)
    finish(loaded, directory, config, log_start)
    return loaded


cdef int load_segments(LoadedLog loaded, bytes directory, LogConfig config, int64_t log_start) except -1:
    """The segments by name; those wholly below the log start are removed, which an earlier owner was about to do."""
    cdef list found = []
    cdef Py_ssize_t i
    cdef Segment segment
    cdef int64_t next_base
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(LEFTOVERS):
                unlink(entry.path, missing_ok=True)
            elif entry.name.endswith(b".log") and len(entry.name) == 24 and entry.name[:20].isdigit():
                found.append((int(entry.name[:20]), entry.stat().st_size))
    found.sort()
    for i in range(len(found)):
        base_offset, size = found[i]
        next_base = found[i + 1][0] if i + 1 < len(found) else -1
        segment = segment_load(directory, base_offset, size, next_base >= 0, next_base, config.index_interval_bytes,
                               config.segment_index_bytes)
        if 0 <= next_base <= log_start:
            segment.delete()
        else:
            loaded.segments.append(segment)
    if not loaded.segments:
        loaded.segments.append(segment_create(directory, max(log_start, 0), config.index_interval_bytes,
                                              config.segment_index_bytes))
        check(file_sync_dir(directory), directory)
    return 0


cdef int check_unclean(LoadedLog loaded, int64_t recovery_point) except -1:
    """Checks every batch of the segments that reach past the recovery point; cuts the torn end of the last."""
    cdef Segment segment
    cdef tuple damaged
    for segment in loaded.segments:
        if 0 <= segment.next_base <= recovery_point:
            continue
        loaded.checked_from = min(loaded.checked_from, segment.base_offset)
        segment.rebuild_indexes()
        segment.txn_index.reset()
        if segment.sealed or not segment.damage:
            continue
        damaged = segment.damage[len(segment.damage) - 1]
        if <int64_t>damaged[3] < 0:
            loaded.notes.append((segment.path, f"{segment.size - damaged[0]} bytes of a torn end cut off"))
            segment.cut(damaged[0], damaged[2])
            segment.sync()
    return 0


cdef int finish(LoadedLog loaded, bytes directory, LogConfig config, int64_t log_start) except -1:
    """Log end and start, epochs, producers."""
    cdef Segment segment = loaded.segments[0]
    cdef Segment active = loaded.segments[len(loaded.segments) - 1]
    cdef int64_t reached
    loaded.log_end = active.end_offset()
    loaded.log_start = max(log_start, segment.base_offset)
    if loaded.log_start > loaded.log_end:
        # The segments that held the log start are lost: nothing that is left may be shown.
        for segment in loaded.segments:
            segment.delete()
        loaded.segments = [segment_create(directory, loaded.log_start, config.index_interval_bytes,
                                          config.segment_index_bytes)]
        check(file_sync_dir(directory), directory)
        loaded.log_end = loaded.log_start
    try:
        loaded.epochs = LeaderEpochCache(directory)
    except CorruptFileError as error:
        loaded.notes.append((directory, f"{error}; rebuilt"))
        loaded.epochs = LeaderEpochCache(directory, load=False)
    # A leader notes its epoch at the log end before it writes: after a clean stop such an entry is right.
    loaded.epochs.truncate_from_end(loaded.log_end + 1 if loaded.clean else loaded.log_end)
    loaded.epochs.truncate_from_start(loaded.log_start)
    loaded.producers = ProducerStates(expiration_ms=config.producer_id_expiration_ms)
    loaded.producers.advance(-1)
    # The transaction indexes of the segments that were checked are made anew by the replay, which therefore begins at
    # the first of them.
    loaded.notes += loaded.producers.truncate_and_reload(directory, loaded.log_start,
                                                         min(loaded.log_end, loaded.checked_from), clock_ms())
    reached = loaded.producers.map_end_offset
    for segment in loaded.segments:
        if reached < loaded.log_end and not 0 <= segment.next_base <= reached:
            reached = replay_segment(segment, reached, loaded.producers, loaded.epochs)
    loaded.producers.advance(loaded.log_end)
    if loaded.clean:
        loaded.recovery_point = loaded.log_end
    else:
        loaded.recovery_point = min(max(loaded.recovery_point, loaded.log_start), loaded.log_end)
    return 0
