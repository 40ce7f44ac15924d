"""Opening the files of a log after anything happened to them (docs/internals/recovery.md).

After a clean stop nothing is scanned: sealed segments are known by name and size, and only the batches of the active
one after its last index entry are walked. If they end at the log end that the stop recorded, recovery is complete.

Otherwise the segment that holds the recovery point and all later ones are checked batch by batch, and all that derives
from their batches is rebuilt. Then, for damaged parts:

- After the last sound batch, with nothing durable missing: a torn end. It is cut off.
- After the last sound batch, but the log once reached further, durably: a loss. Nothing is cut, and the log does not
  end earlier than it did. The lost offsets stay unused, or other records would get them.
- Before a sound batch: interior damage. The bytes stay, reading there raises, and reading continues behind it. With
  `crash_damage="cut"` the log ends there instead, unless the damaged part was durable.

A segment that keeps damage gets no more appends; a new one begins. `RecoveryReport` holds the findings.
"""

import os

cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from kraft_native.base.clock cimport clock_ms, monotonic_ns
from kraft_native.batch.batch cimport BatchHeader, batch_bytes, batch_last_offset
from kraft_native.file.file_io cimport check, disk_is_full, file_sync_dir
from kraft_native.log.apply cimport replay_segment
from kraft_native.log.epoch_scan cimport epoch_starts
from kraft_native.log.format_check cimport refuse_unknown_formats
from kraft_native.log.leftovers cimport tidy_directory, view_directory
from kraft_native.log.marks cimport drop_kafka_mark, gap_marks, read_marks
from kraft_native.segment.config cimport DURABILITY_PAGE_CACHE
from kraft_native.segment.segment cimport (
    STEP_BATCH, STEP_END, StepResult, segment_create, segment_detached, segment_load, segment_path,
)
from kraft_native.segment.segment_file cimport Copies

from kraft_native.base.errors import CorruptFileError, LogReadOnlyError, StorageError
from kraft_native.file.file_io import is_unreadable, read_file, set_aside, unlink, write_atomic
from kraft_native.log.marks import EPOCHS_CRC_KEY
from kraft_native.log.recovery_report import Changed, CutTail, Damage, Ignored, LostRange, RecoveryReport
from kraft_native.segment.checkpoints import LogState, SharedOffsets, write_log_state
from kraft_native.segment.producer_snapshots import read_snapshot, snapshot_path

cdef frozenset DERIVED_FILES = frozenset({"leader-epoch-checkpoint", "kraft-log-state"})
cdef tuple DERIVED_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")


@cython.final
cdef class LoadedLog:
    def __cinit__(self):
        self.segments = []
        self.report = RecoveryReport()

    # --- segments ---------------------------------------------------------------------------------------------------

    cdef int load_segments(self) except -1:
        """List the segments by name and size. None is opened."""
        cdef list found = []
        cdef dict named = {}
        cdef Copies copies = Copies()
        cdef int64_t swapped = (view_directory(self.directory, found, named) if self.apart
                                else tidy_directory(self.directory, found, self.report.removed))
        cdef Py_ssize_t i
        cdef int64_t base_offset, size, next_base
        cdef LogConfig config = self.config
        cdef Segment segment
        self.gaps_end = self.marks.gaps_end
        self.noted_bytes = self.marks.segment_bytes
        if swapped >= 0:
            # A compaction that did not finish. Ours left a note about the gaps, Kafka's did not.
            self.noted_bytes = {}
            self.gaps_end = max(self.gaps_end, min([base for base, _ in found if base > swapped], default=INT64_MAX))
        for i in range(len(found)):
            base_offset, size = found[i]
            next_base = found[i + 1][0] if i + 1 < len(found) else -1
            segment = segment_load(self.directory, base_offset, size, next_base >= 0 or self.apart, next_base,
                                   config.index_interval_bytes, config.index_bytes_max)
            if self.apart:
                segment.set_apart(copies, self.failure)
            segment.path = named.get(base_offset, segment.path)
            segment.gaps_end = self.gaps_end
            segment.epochs = self.epochs
            self.segments.append(segment)
        self.is_new = not self.segments
        if self.is_new:
            self.add_segment(max(self.marks.log_start, 0))
        return 0

    cdef int add_segment(self, int64_t base_offset) except -1:
        if self.apart:
            self.segments.append(segment_detached(self.directory, base_offset, self.config.index_interval_bytes,
                                                  self.config.index_bytes_max))
            return 0
        try:
            self.segments.append(segment_create(self.directory, base_offset, self.config.index_interval_bytes,
                                                self.config.index_bytes_max))
            if base_offset > 0:
                check(file_sync_dir(self.directory), self.directory)    # else: `LogCore.settle`
        except StorageError as error:
            self.bear(error)
            self.segments.append(segment_detached(self.directory, base_offset, self.config.index_interval_bytes,
                                                  self.config.index_bytes_max))
        return 0

    cdef int bear(self, object error) except -1:
        """Tolerate a full disk, which keeps a log from being written but not from being read; raise any other
        failure."""
        if not disk_is_full(error):
            raise error
        if self.failure is None:
            self.failure = error
        return 0

    cdef bint tail_fits(self) except -1:
        """Return whether the files match the mark of a clean stop."""
        cdef Segment active = self.segments[len(self.segments) - 1]
        cdef LogMarks marks = self.marks
        if not marks.clean:
            return False
        cdef bint in_gap
        if marks.active_base >= 0 and (active.base_offset != marks.active_base or active.size != marks.active_size):
            return False
        # A log that was cut inside a gap of compaction ends there, behind its last batch.
        in_gap = marks.active_base >= 0 and marks.log_end <= marks.gaps_end < INT64_MAX
        active.known_end = -1 if in_gap else marks.log_end
        self.log_end = active.end_offset()
        if in_gap:
            self.log_end = max(self.log_end, marks.log_end)
        if active.indexes_rebuilt:
            self.report.rebuilt.append(os.fsdecode(active.offset_index.path))
        if active.damage or (marks.log_end >= 0 and self.log_end != marks.log_end):
            return False
        self.log_end = max(self.log_end, marks.log_start)
        return True

    # --- after a crash ----------------------------------------------------------------------------------------------

    cdef int scan(self) except -1:
        """Check the segments from the recovery point on, and rebuild their indexes."""
        cdef Segment segment
        cdef int64_t valid_end, known_end, point = self.marks.recovery_point
        self.scanned_from = len(self.segments) - 1
        while self.scanned_from > 0 and point < (<Segment>self.segments[self.scanned_from]).base_offset:
            self.scanned_from -= 1
        # Where the size is that of the clean stop, the end recorded with it reveals a wrong last offset.
        segment = self.segments[len(self.segments) - 1]
        known_end = self.marks.log_end if self.marks.clean and segment.size == self.marks.active_size else -1
        segment.forget_checks(known_end)
        refuse_unknown_formats(self.segments[self.scanned_from:])
        for segment in self.segments[self.scanned_from:]:
            if not self.is_new:        # else its indexes were created with it
                segment.rebuild_indexes()
            self.report.segments_scanned += 1
            self.report.bytes_scanned += segment.size
        if self.config.crash_damage == "cut" and not self.apart:
            self.end_at_damage()
        valid_end = (<Segment>self.segments[len(self.segments) - 1]).end_offset()
        self.settle_end(valid_end)
        self.note_losses(valid_end)
        return 0

    cdef int end_at_damage(self) except -1:
        """End the log at the first write that did not reach the disk; writes that were not durable get there in any
        order."""
        cdef Segment segment
        cdef int64_t end, first, durable_end = max(self.marks.durable_end, self.marks.log_start)
        cdef Py_ssize_t slot
        for slot in range(self.scanned_from, len(self.segments)):
            segment = self.segments[slot]
            end = segment.end_offset()
            missing = [(segment.size, segment.size, end, -1, "batches are missing")] if end < segment.next_base else []
            for damaged in segment.damage + missing:
                first = damaged[2]             # space that was reserved behind a sealed segment's last batch has none
                if first >= durable_end and first != (damaged[3] if damaged[3] >= 0 else segment.next_base):
                    while len(self.segments) > slot + 1:
                        (<Segment>self.segments.pop()).delete()
                    return self.cut_end(segment, damaged)
        return 0

    cdef int settle_end(self, int64_t valid_end) except -1:
        """Cut a torn end, or leave the last segment as it is and begin a new one."""
        cdef Segment active = self.segments[len(self.segments) - 1]
        cdef int64_t known_end = max(self.marks.durable_end, self.marks.log_start)
        cdef Py_ssize_t last = len(active.damage) - 1
        self.log_end = max(valid_end, known_end)
        if last >= 0 and self.log_end == valid_end and <int64_t>active.damage[last][3] < 0:
            self.cut_end(active, active.damage[last])
        if not active.damage and self.log_end == valid_end:
            return 0
        self.end_damaged(active)
        self.add_segment(self.log_end)
        self.scanned_from = min(self.scanned_from, len(self.segments) - 1)
        return 0

    cdef int cut_end(self, Segment active, tuple damaged) except -1:
        """Cut a torn end off the file, or only hide it."""
        self.report.cut.append(CutTail(os.fsdecode(active.path), damaged[0], active.size - damaged[0], damaged[4]))
        self.report.cut_bytes += active.size - damaged[0]
        if self.apart:
            active.hide_end(damaged[0], damaged[2])
            return 0
        try:
            active.txn_index.truncate_to(damaged[2])
        except StorageError as error:
            self.bear(error)
            active.txn_index.answer_from([], error)     # until it is checked against the batches, below
        except CorruptFileError:
            pass                       # `cut` creates it again
        active.cut(damaged[0], damaged[2])
        return 0

    cdef int end_damaged(self, Segment active) except -1:
        """End a segment that must not be appended to: it keeps damage, or what followed it is lost."""
        if active.size == 0:
            if not self.apart:
                active.delete()
            self.segments.pop()
            return 0
        if self.apart:
            active.next_base = self.log_end
            return 0
        try:
            active.seal(self.log_end)
        except StorageError as error:
            self.bear(error)
            active.unwritten = error
            active.fill_indexes(True)
            active.seal(self.log_end)
        return 0

    cdef int note_losses(self, int64_t valid_end) except -1:
        """Add damage and gaps of the scanned segments to the report."""
        cdef Segment segment
        cdef BatchHeader h
        cdef StepResult found
        cdef int64_t position, expected
        cdef tuple damaged
        cdef Py_ssize_t slot
        for slot in range(self.scanned_from, len(self.segments)):
            segment = self.segments[slot]
            position = 0
            expected = segment.base_offset
            while True:
                found = segment.step(position, expected, &h)
                if found == STEP_END:
                    break
                if found == STEP_BATCH:
                    if h.base_offset > self.gaps_end:
                        self.lose(expected, h.base_offset)
                    expected = batch_last_offset(&h) + 1
                    position += batch_bytes(&h)
                    continue
                damaged = segment.damage_at(position)
                position = damaged[1]
                expected = self.note_damage(segment, damaged)
            if segment.next_base > self.gaps_end:
                self.lose(expected, segment.next_base)
        self.lose(valid_end, self.log_end)
        return 0

    cdef int64_t note_damage(self, Segment segment, tuple damaged) except -1:
        """Record damage; return the offset at which reading continues."""
        cdef int64_t next_offset = damaged[3]
        if next_offset < 0:
            next_offset = segment.next_base if segment.next_base >= 0 else self.log_end
        self.report.damage.append(Damage(os.fsdecode(segment.path), damaged[0], damaged[1], damaged[2], next_offset,
                                         damaged[4]))
        self.lose(damaged[2], next_offset)
        return next_offset

    cdef int note_shrunk(self) except -1:
        """Report segments that are missing, or shorter than when their sizes were recorded. After a clean stop, and
        where gaps may exist, only these sizes show a loss. Ranges may overlap others; `join_losses` sorts them."""
        cdef dict noted = dict(self.noted_bytes)
        cdef list found = self.report.lost_ranges
        cdef Segment segment
        cdef int64_t base_offset, bytes_noted
        for segment in self.segments:
            bytes_noted = noted.pop(segment.base_offset, 0)
            if segment.size < bytes_noted:
                self.report.changed.append(Changed(os.fsdecode(segment.path), segment.size, bytes_noted))
                found.append(LostRange(segment.end_offset(),
                                       segment.next_base if segment.next_base >= 0 else self.log_end))
        for base_offset, bytes_noted in noted.items():
            behind = [each.base_offset for each in self.segments if (<Segment>each).base_offset > base_offset]
            found.append(LostRange(base_offset, behind[0] if behind else self.log_end))
            if bytes_noted > 0:
                self.report.changed.append(
                    Changed(os.fsdecode(segment_path(self.directory, base_offset, b".log")), -1, bytes_noted))
        return 0

    cdef int join_losses(self) except -1:
        """Add the range between the log start and the first segment, and losses recorded at earlier opens."""
        self.note_shrunk()
        cdef list found = self.report.lost_ranges + self.marks.lost
        found.append((self.log_start, (<Segment>self.segments[0]).base_offset))
        found.sort()
        self.report.lost_ranges = []
        for offset, next_offset in found:
            self.lose(offset, min(<int64_t>next_offset, self.log_end))
        return 0

    cdef int lose(self, int64_t offset, int64_t next_offset) except -1:
        """Record that offsets are lost, unless they lie below the log start. Calls come in ascending order."""
        cdef list ranges = self.report.lost_ranges
        offset = max(offset, self.log_start)
        if offset >= next_offset:
            return 0
        if ranges and <int64_t>ranges[len(ranges) - 1].next_offset >= offset:
            offset = ranges[len(ranges) - 1].offset
            next_offset = max(next_offset, <int64_t>ranges.pop().next_offset)
        ranges.append(LostRange(offset, next_offset))
        return 0

    # --- derived from the batches -----------------------------------------------------------------------------------

    cdef int read_epochs(self) except -1:
        """Read the leader epochs of the file, for comparison with the batches; none when it is unreadable."""
        cdef str what = None
        try:
            self.epochs = LeaderEpochCache(self.directory)
            if self.epochs.stored_crc == self.marks.epochs_crc:
                self.epochs.trusted = True
            elif self.marks.epochs_crc >= 0 and self.marks.clean and self.marks.source == "state":
                what = "not as it was when the log was closed"
        except CorruptFileError as error:
            what = str(error)
        if what is not None:
            self.report.ignored.append(Ignored(self.epochs_path(), what))
            self.epochs = LeaderEpochCache(self.directory, load=False)
            self.epochs_lost = True
        self.epochs.apart = self.apart
        return 0

    cdef int load_epochs(self) except -1:
        """Load the leader epochs: from their file, then of the scanned segments. All of them come from the batches when
        the file is missing or unusable."""
        cdef bint whole = self.epochs_lost
        cdef bint empty = not whole and len(self.epochs) == 0 and self.log_end > self.log_start
        cdef list found = epoch_starts(self.segments, 0 if whole or empty else self.scanned_from)
        if empty and found:            # a log of formats v0 and v1 has none
            whole = True
            self.report.ignored.append(Ignored(self.epochs_path(), "missing or empty, but batches have epochs"))
        try:
            if whole:
                self.report.rebuilt.append(self.epochs_path())
                self.epochs.rebuild(found)
        except StorageError as error:
            self.bear(error)
        for epoch, start_offset in found:
            if epoch > self.epochs.latest():
                self.assign_epoch(epoch, start_offset)
        # An epoch that begins at the log end may have had batches that are lost; after a clean stop it had none.
        self.epochs.forget_from_end(self.log_end + 1 if self.clean else self.log_end)
        self.epochs.truncate_from_start(self.log_start)
        return 0

    cdef int assign_epoch(self, int32_t epoch, int64_t start_offset) except -1:
        try:
            self.epochs.assign(epoch, start_offset)
        except StorageError as error:
            self.bear(error)           # the cache has changed nevertheless
        return 0

    cdef str epochs_path(self):
        return os.path.join(os.fsdecode(self.directory), "leader-epoch-checkpoint")

    cdef int load_producers(self) except -1:
        """Load the producers at the log end: the snapshot taken there, or an older one and the batches after it."""
        cdef str last = snapshot_path(self.directory, self.log_end)
        cdef bytes after_loss = self.snapshot_after_loss(last)
        self.producers = ProducerStates(expiration_ms=self.config.producer_id_expiration_ms)
        if self.load_snapshot(self.log_end):
            return 0
        self.reload_producers()
        if after_loss:
            # No batch holds what was lost, but the snapshot of the clean stop includes its effect.
            try:
                if not self.apart:
                    write_atomic(last, after_loss)
            except StorageError as error:
                self.bear(error)       # what cannot be written cannot be appended to either
            else:
                self.producers.load(last, self.log_end, clock_ms())
        return 0

    cdef int reload_producers(self) except -1:
        """Rebuild from the newest snapshot below the scanned part, and the batches after it."""
        cdef ProducerStates producers = self.producers
        cdef Segment segment
        cdef Py_ssize_t slot
        cdef int64_t reached, goal = self.log_end
        producers.advance(-1)
        if self.scanned_from < len(self.segments):
            # Snapshots within the scanned part may cover batches that are missing now.
            segment = self.segments[self.scanned_from]
            goal = min(goal, max(segment.base_offset, self.log_start))
        for path, what in producers.truncate_and_reload(self.directory, self.log_start, goal, clock_ms(), self.apart):
            self.report.ignored.append(Ignored(path, what))
        reached = producers.map_end_offset
        for slot in range(len(self.segments)):
            segment = self.segments[slot]
            if 0 <= segment.next_base <= reached and slot < self.scanned_from:
                continue
            if slot >= self.scanned_from and not self.apart:
                if segment.base_offset > self.log_start and segment.base_offset >= reached:
                    try:
                        producers.write_snapshot(self.directory, segment.base_offset, False)
                    except StorageError as error:
                        self.bear(error)
            reached = max(reached, replay_segment(segment, reached, producers))
        producers.advance(self.log_end)
        return 0

    cdef bytes snapshot_after_loss(self, str path):
        """The snapshot at the log end, if batches before it are lost and it is whole; else None."""
        cdef list lost = self.report.lost_ranges
        if not lost or lost[len(lost) - 1].next_offset != self.log_end:
            return None
        try:
            read_snapshot(path)
            return read_file(path)
        except (CorruptFileError, StorageError):
            return None

    cdef int check_txn_indexes(self) except -1:
        """Check the transaction indexes of the scanned segments."""
        cdef TxnChecker checker = self.txn_checker()
        cdef Py_ssize_t slot
        for slot in range(self.scanned_from, len(self.segments)):
            checker.require(self.segments, slot, self.log_end)
        return 0

    cdef TxnChecker txn_checker(self):
        cdef TxnChecker checker = TxnChecker(self.directory)
        cdef Segment segment
        if self.apart and self.scanned_from < len(self.segments):
            # Those after it, which an owner would have rebuilt, are as the crash left them.
            segment = self.segments[self.scanned_from]
            checker.snapshots_end = segment.base_offset
        return checker

    cdef bint load_snapshot(self, int64_t offset) except -1:
        """Load the snapshot of `offset` after a clean stop; return False when no usable one exists."""
        cdef str path = snapshot_path(self.directory, offset)
        if self.scanned_from < len(self.segments) or not os.path.exists(path):
            return False
        try:
            self.producers.load(path, offset, clock_ms())
        except CorruptFileError as error:
            self.report.ignored.append(Ignored(path, str(error)))
            if not self.apart:
                unlink(path)
            return False
        return True

    cdef bint never_written(self) except -1:
        """Return whether the log is empty from offset 0 on, is not known to have held anything, and needed no
        repair."""
        report = self.report
        return (
            self.failure is None and self.log_end == 0 and self.marks.source != "state" and self.marks.durable_end == 0
            and len(self.segments) == 1 and (<Segment>self.segments[0]).size == 0
            and not (report.cut or report.damage or report.lost_ranges or report.ignored or report.removed)
        )

    cdef bint is_as_noted(self) except -1:
        """Return whether the state file has all that the next opening needs. This one scanned only the last segment, as
        every opening after a crash does. It found nothing but sound batches. A log that promises more than the page
        cache makes its records durable."""
        report = self.report
        return (
            self.failure is None and self.config.durability_kind == DURABILITY_PAGE_CACHE
            and self.marks.source == "state" and not self.marks.clean
            and self.scanned_from == len(self.segments) - 1 and not self.is_new
            and self.epochs.trusted and self.epochs.stored_crc == self.marks.epochs_crc
            and self.log_start == self.marks.log_start and self.marks.gaps_end <= self.log_end
            and not (report.cut or report.damage or report.lost_ranges or report.changed or report.ignored
                     or report.rebuilt or report.removed)
        )

    cdef int keep(self) except -1:
        """Make the scanned and rebuilt files durable, then record that nothing below the log end needs another scan. If
        that fails on a full disk, nothing is recorded, and the next open scans again."""
        if self.failure is None:
            try:
                self.write_kept()
                return 0
            except StorageError as error:
                self.bear(error)
            except LogReadOnlyError as error:
                self.bear(error.cause)
        self.recovery_point = min(self.marks.durable_end, self.log_end)
        return 0

    cdef int write_kept(self) except -1:
        cdef Segment segment
        for segment in self.segments[self.scanned_from:]:
            segment.sync()
            segment.flush_indexes(True)
            if segment.sealed:
                segment.close_file()
        check(file_sync_dir(self.directory), self.directory)
        drop_kafka_mark(self.directory)
        write_log_state(self.directory, LogState(
            self.log_start, min(self.log_end, segment.base_offset), -1, False,
            self.marks.extra | {"high_watermark": str(self.high_watermark), "durable_end": str(self.log_end),
                                EPOCHS_CRC_KEY: f"{self.epochs.stored_crc:x}" if self.epochs.trusted else "-1",
                                "lost_offsets": " ".join([f"{lost.offset}-{lost.next_offset}"
                                                          for lost in self.report.lost_ranges])}
            | gap_marks(self.segments, min(self.gaps_end, self.log_end), self.log_end, self.log_end)))
        self.recovery_point = self.log_end
        return 0


cdef LoadedLog load_log(bytes directory, LogConfig config, int64_t log_start, int64_t recovery_point, bint clean,
                        bint marks_read, object failure, object shared=None):
    cdef LoadedLog loaded
    cdef list unreadable = []
    while True:
        try:
            loaded = load_files(directory, config, log_start, recovery_point, clean, marks_read, failure,
                                SharedOffsets() if shared is None else shared)
            break
        except StorageError as error:
            if failure is not None or not is_unreadable(error) or not is_derived(directory, error.path):
                raise
            unreadable.append(Ignored(error.path, f"{error}; it is now {os.path.basename(set_aside(error.path))}"))
    loaded.report.ignored = unreadable + loaded.report.ignored
    return loaded


cdef bint is_derived(bytes directory, str path) except -1:
    """Return whether a file of the log can be rebuilt from the batches, or is not needed by a recovery."""
    return (os.path.dirname(path) == os.fsdecode(directory)
            and (os.path.basename(path) in DERIVED_FILES or path.endswith(DERIVED_SUFFIXES)))


cdef LoadedLog load_files(bytes directory, LogConfig config, int64_t log_start, int64_t recovery_point, bint clean,
                          bint marks_read, object failure, object shared):
    cdef LoadedLog loaded = LoadedLog()
    cdef Segment segment
    report = loaded.report
    loaded.shared = shared
    cdef LogMarks marks = read_marks(directory, log_start, recovery_point, clean, marks_read, config.compact, shared)
    cdef int64_t started_ns = monotonic_ns()
    loaded.directory = directory
    loaded.config = config
    loaded.marks = marks
    loaded.failure = failure
    loaded.apart = failure is not None
    report.ignored += [Ignored(path, what) for path, what in marks.notes]
    loaded.read_epochs()
    loaded.load_segments()
    loaded.scanned_from = len(loaded.segments)
    segment = loaded.segments[0]
    # Our own log start is recorded before segments are removed, so what lies between it and the first one is lost.
    # Kafka records its own later.
    loaded.log_start = marks.log_start
    if marks.source != "state":
        loaded.log_start = max(loaded.log_start, segment.base_offset)
    loaded.clean = loaded.tail_fits()
    if not loaded.clean:
        loaded.scan()
    loaded.join_losses()
    loaded.high_watermark = min(marks.high_watermark, loaded.log_end)
    loaded.load_epochs()
    loaded.load_producers()
    loaded.check_txn_indexes()
    loaded.recovery_point = loaded.log_end
    segment = loaded.segments[len(loaded.segments) - 1]
    if segment.unwritten is not None and not loaded.apart:
        loaded.bear(segment.unwritten)
    loaded.untouched = loaded.never_written()
    if loaded.is_as_noted():
        loaded.recovery_point = min(marks.durable_end, loaded.log_end)
    elif not (loaded.clean or loaded.untouched):
        loaded.keep()
    report.directory = os.fsdecode(directory)
    report.marks_from = marks.source
    report.clean = loaded.clean
    report.log_start_offset = loaded.log_start
    report.log_end_offset = loaded.log_end
    report.recovery_point = marks.recovery_point
    report.segments = len(loaded.segments)
    report.elapsed_ms = (monotonic_ns() - started_ns) / 1e6
    return loaded
