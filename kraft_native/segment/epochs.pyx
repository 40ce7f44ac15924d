"""Leader-epoch cache: which leader epoch began at which offset (Kafka's LeaderEpochFileCache; KIP-101, KIP-279).

The cache lives in `leader-epoch-checkpoint`, text lines: `0`, the count of entries, then `epoch start-offset` pairs,
both strictly increasing. What a crash may leave in the file, and why that is safe:

- A new epoch is written and flushed before the first batch that carries it, so the file never misses an epoch of the
  log. It may name one whose batches were lost: opening a log truncates the cache to the log end.
- Entries dropped from the end are flushed before the call returns. Those that an opening drops are flushed before the
  next batch is written. Left in the file, they could become valid again by accident. Consider a follower that
  truncates, fetches batches of an *older* epoch in their place and grows past the dropped start. After a crash it would
  report that start as the end of the older epoch. (Kafka defers this flush.)
- Entries dropped from the start are not written at once. Stale ones lie below the log start, and opening a log
  truncates the cache to the log start. They are written with the next change, or by `flush` at a clean stop. The
  file is never replaced without a flush, which could leave it empty after a power loss (KAFKA-16541).

The file has no checksum. The engine keeps one of it (`stored_crc`) in its own state file. If that matches, `trusted`
lets the readers of segments regard a batch whose epoch differs from the cache's as damaged (`segment.pyx`).

Used by the thread that owns the log.
"""

import os
from bisect import bisect_left, bisect_right

cimport cython
from libc.stdint cimport INT64_MAX

from kraft_native.base.mutants cimport EPOCHS_STAY_AFTER_TRUNCATION, mutant

from kraft_native.base.crc import checksum
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.segment.checkpoints import read_leader_epochs, write_leader_epochs

cdef str FILE_NAME = "leader-epoch-checkpoint"


@cython.final
cdef class LeaderEpochCache:
    """The epochs of one log, oldest first, and their file.

    `directory` is the partition's directory. With `load` the file is read (a missing file is an empty cache).
    `CorruptFileError`: the file is malformed; then construct with `load=False` and `rebuild` from the batches of the
    log. Invariant: epochs and start offsets both strictly increase.
    """

    def __cinit__(self, directory: FilePath, *, bint load=True):
        self.path = os.path.join(os.fsdecode(directory), FILE_NAME)
        self.epochs = []
        self.starts = []
        self.last_epoch = -1
        self.last_start = -1
        self.dirty = self.pending = False
        self.trusted = True
        if load and os.path.exists(self.path):
            for epoch, start_offset in read_leader_epochs(self.path):
                self.epochs.append(epoch)
                self.starts.append(start_offset)
            self.keep(0, len(self.epochs))
            self.trusted = False       # until a caller with more knowledge sets it
        self.stored_crc = self.crc()

    def __len__(self) -> int:
        return len(self.epochs)

    def __repr__(self) -> str:
        return f"<LeaderEpochCache {self.path}: {len(self.epochs)} epochs, latest {self.last_epoch}>"

    @property
    def latest_epoch(self) -> int:
        """The latest epoch, -1 without any."""
        return self.last_epoch

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) pairs, oldest first."""
        return list(zip(self.epochs, self.starts))

    cpdef int assign(self, int32_t epoch, int64_t start_offset) except -1:
        """Record that `epoch` starts at `start_offset`. Return 1 when that changed the cache and its file, else 0.

        Entries that start there or later are dropped: they never had a batch, or their batches were overwritten. If the
        epoch before them is the recorded one, it simply continues. Otherwise entries of its epoch or a later one are
        dropped, too. InvalidArgumentError: either number is negative. StorageError: the file could not be written; the
        cache has changed, and the caller must stop writing to the log.
        """
        if epoch == self.last_epoch and start_offset >= self.last_start and epoch >= 0:
            return 0
        self.note(epoch, start_offset)
        self.write()
        return 1

    cpdef int begin(self, int32_t epoch, int64_t start_offset) except -1:
        """Like `assign`, but the file lags until `flush`, which must come before a batch of the epoch is written.

        For a leader. Most partitions with a new leadership, at a start all of them, get no batch in the epoch for a
        while. If a crash loses an epoch before it had a batch, no request can name that epoch.
        """
        if epoch == self.last_epoch and start_offset >= self.last_start and epoch >= 0:
            return 0
        self.note(epoch, start_offset)
        self.pending = True
        return 1

    cdef int note(self, int32_t epoch, int64_t start_offset) except -1:
        """Run `assign` without its shortcut and without writing the file."""
        cdef Py_ssize_t end
        if epoch < 0 or start_offset < 0:
            raise InvalidArgumentError(
                f"leader epoch {epoch} at start offset {start_offset}: neither may be negative")
        if mutant(EPOCHS_STAY_AFTER_TRUNCATION) and self.epochs:
            start_offset = max(start_offset, self.last_start + 1)
        end = bisect_left(self.starts, start_offset)
        if end > 0 and <int32_t>self.epochs[end - 1] == epoch:
            # A replica that led without a batch of its epoch follows a leader that has more of the epoch before.
            return self.keep(0, end)
        self.keep(0, min(end, bisect_left(self.epochs, epoch)))
        self.epochs.append(epoch)
        self.starts.append(start_offset)
        self.last_epoch = epoch
        self.last_start = start_offset
        return 0

    cpdef int truncate_from_end(self, int64_t end_offset) except -1:
        """Drop entries that start at or after `end_offset` (the new log end). Return 1 when there were any, else 0.

        Call it after the log itself was cut. StorageError like `assign`.
        """
        cdef Py_ssize_t end = bisect_left(self.starts, end_offset)
        if end == len(self.starts) or mutant(EPOCHS_STAY_AFTER_TRUNCATION):
            return 0
        self.keep(0, end)
        self.write()
        return 1

    cpdef int forget_from_end(self, int64_t end_offset) except -1:
        """Like `truncate_from_end`, but the file lags until `flush`, which must come before the next batch is written.

        For the opening of a log. After a crash most logs have an epoch without a batch, and an opening that finds such
        an entry in the file drops it again.
        """
        cdef Py_ssize_t end = bisect_left(self.starts, end_offset)
        if end == len(self.starts) or mutant(EPOCHS_STAY_AFTER_TRUNCATION):
            return 0
        self.keep(0, end)
        self.pending = True
        return 1

    cpdef int truncate_from_start(self, int64_t start_offset) except -1:
        """Drop epochs that ended before `start_offset` (the new log start); that of the record before it keeps its own
        start.

        Kafka moves that start to the log start. Then a follower with records of an older epoch up to the log start
        learns that the logs agree. It keeps records that only a deposed leader ever had, and later reports to their
        producers that they were acknowledged. The same happens to a follower whose last record is just before the log
        start, if no replica knows any more which epoch that record must have.

        Return 1 when an entry was dropped, else 0. The file is not written now (see the head of this module).
        """
        cdef Py_ssize_t first = bisect_left(self.starts, start_offset) - 1
        if first <= 0:
            return 0
        self.keep(first, len(self.epochs))
        self.dirty = True
        return 1

    cpdef tuple end_offset_for(self, int32_t epoch, int64_t log_end):  # type: (int, int) -> tuple[int, int]
        """The reply to OffsetForLeaderEpoch for `epoch`: (epoch, end offset), or (-1, -1) when it is not known.

        The latest epoch ends at `log_end`. Otherwise the reply is the largest known epoch <= `epoch` with the start of
        the next one. For an epoch older than all known ones it is (`epoch`, start of the first).
        """
        cdef int64_t end
        cdef int32_t found = self.end_of(epoch, log_end, &end)
        return found, end

    cdef int32_t end_of(self, int32_t epoch, int64_t log_end, int64_t* end) except? -2:
        cdef Py_ssize_t higher
        end[0] = -1
        if epoch == self.last_epoch and epoch >= 0:
            end[0] = log_end
            return epoch
        if epoch < 0:
            return -1
        higher = bisect_right(self.epochs, epoch)
        if higher == len(self.epochs):
            return -1
        end[0] = self.starts[higher]
        return epoch if higher == 0 else self.epochs[higher - 1]

    cpdef int32_t epoch_at(self, int64_t offset) except? -2:
        """The epoch in force at `offset`, -1 when all known epochs start after it."""
        cdef int64_t end
        return self.epoch_from(offset, &end)

    cdef int32_t epoch_from(self, int64_t offset, int64_t* end) except? -2:
        """Like `epoch_at`; sets `end` to the start of the next epoch, to the largest number without one."""
        cdef Py_ssize_t higher
        if self.last_epoch >= 0 and offset >= self.last_start:
            end[0] = INT64_MAX
            return self.last_epoch
        higher = bisect_right(self.starts, offset)
        end[0] = self.starts[higher] if higher < len(self.starts) else INT64_MAX
        return self.epochs[higher - 1] if higher > 0 else -1

    cdef uint32_t crc(self) except? 0:
        return checksum(b"".join([b"%d %d\n" % entry for entry in zip(self.epochs, self.starts)]))

    cpdef int rebuild(self, object entries) except -1:  # type: (Iterable[tuple[int, int]]) -> int
        """Replace everything by `entries`, (epoch, start offset) pairs in log order, and write the file.

        Meant for a walk over all batches: a pair whose epoch is not larger than the latest one is skipped, so each
        epoch starts at its first batch. If `entries` raises, the cache is empty and the file as it was.
        """
        cdef int32_t epoch
        cdef int64_t start_offset
        self.keep(0, 0)
        try:
            for epoch, start_offset in entries:
                if epoch > self.last_epoch:
                    self.note(epoch, start_offset)
        except BaseException:
            self.keep(0, 0)
            raise
        self.write()
        self.trusted = True
        return 0

    cpdef int flush(self) except -1:
        """Write the file if it lacks the latest epoch or still names entries below the log start. A clean stop calls
        this."""
        if self.dirty or self.pending:
            self.write()
        return 0

    cdef int keep(self, Py_ssize_t first, Py_ssize_t end) except -1:
        """Cut the cache to entries [first, end)."""
        self.epochs = self.epochs[first:end]
        self.starts = self.starts[first:end]
        self.last_epoch = self.epochs[end - first - 1] if end > first else -1
        self.last_start = self.starts[end - first - 1] if end > first else -1
        return 0

    cdef int write(self) except -1:
        """Replace the file, flushed."""
        if self.apart:
            return 0
        write_leader_epochs(self.path, zip(self.epochs, self.starts))
        self.stored_crc = self.crc()
        self.dirty = self.pending = False
        return 0
