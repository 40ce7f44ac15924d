"""Leader-epoch cache: which leader epoch began at which offset (Kafka's LeaderEpochFileCache; KIP-101, KIP-279).

The cache lives in `leader-epoch-checkpoint`, text lines: `0`, the count of entries, then `epoch start-offset` pairs,
both strictly increasing. What a crash may leave in the file, and why that is safe:

- A new epoch is written and flushed before the first batch that carries it is written, so the file never misses an
  epoch of the log. It may name one whose batches were lost: opening a log truncates the cache to the log end.
- Entries dropped from the end are flushed before the call returns. Left in the file, they could come true again by
  accident: a follower that truncates, fetches batches of an *older* epoch in their place and grows past the dropped
  start would, after a crash, give that start as the end of the older epoch. (Kafka defers this flush.)
- Entries dropped from the start are not written at once. Stale ones lie below the log start, and opening a log
  truncates the cache to the log start. They are written with the next change, or by `flush` at a clean stop. The
  file is never replaced without a flush, which could leave it empty after a power loss (KAFKA-16541).

The file has no checksum. The engine keeps one of it (`stored_crc`) in its own state file; where that fits, `trusted`
tells the readers of segments that a batch of another epoch than the cache says is damaged (`segment.pyx`).

Used by the thread that owns the log.
"""

import os
from bisect import bisect_left, bisect_right

cimport cython
from libc.stdint cimport INT64_MAX

from kraft_native.checkpoints import read_leader_epochs, write_leader_epochs
from kraft_native.crc import checksum
from kraft_native.errors import InvalidArgumentError

cdef str FILE_NAME = "leader-epoch-checkpoint"


@cython.final
cdef class LeaderEpochCache:
    """The epochs of one log, oldest first, and their file.

    `directory` is the partition's directory. With `load` the file is read (a missing file is an empty cache);
    `CorruptFileError` says that it cannot be understood: then construct with `load=False` and `rebuild` from the
    batches of the log. Invariant: epochs and start offsets both strictly increase.
    """

    def __cinit__(self, directory, *, bint load=True):
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
            self.trusted = False       # until somebody who knows more says otherwise
        self.stored_crc = self.crc()

    def __len__(self) -> int:
        return len(self.epochs)

    def __repr__(self) -> str:
        return f"<LeaderEpochCache {self.path}: {len(self.epochs)} epochs, latest {self.last_epoch}>"

    @property
    def latest_epoch(self) -> int:
        """The latest epoch, -1 when there is none."""
        return self.last_epoch

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) pairs, oldest first."""
        return list(zip(self.epochs, self.starts))

    cpdef int assign(self, int32_t epoch, int64_t start_offset) except -1:
        """Notes that `epoch` starts at `start_offset`. Returns 1 when that changed the cache and its file, else 0.

        Entries that start there or behind it never had a batch, or their batches were overwritten: they are dropped,
        and when the epoch before them is the one that is noted, it just goes on. Otherwise entries of its epoch or a
        later one are dropped, too. InvalidArgumentError: either number is negative. StorageError: the file could
        not be written; the cache has changed, and the caller must stop writing to the log.
        """
        if epoch == self.last_epoch and start_offset >= self.last_start and epoch >= 0:
            return 0
        self.note(epoch, start_offset)
        self.write()
        return 1

    cpdef int begin(self, int32_t epoch, int64_t start_offset) except -1:
        """As `assign`, but the file stays behind until `flush`, which must come before a batch of the epoch is written.

        For a leader: most partitions that are led anew, at a start all of them, get no batch in the epoch for a while.
        An epoch that a crash takes away before it had a batch is one that nobody can ask for.
        """
        if epoch == self.last_epoch and start_offset >= self.last_start and epoch >= 0:
            return 0
        self.note(epoch, start_offset)
        self.pending = True
        return 1

    cdef int note(self, int32_t epoch, int64_t start_offset) except -1:
        """`assign` without its shortcut and without writing the file."""
        cdef Py_ssize_t end
        if epoch < 0 or start_offset < 0:
            raise InvalidArgumentError(
                f"leader epoch {epoch} at start offset {start_offset}: neither may be negative")
        end = bisect_left(self.starts, start_offset)
        if end > 0 and <int32_t>self.epochs[end - 1] == epoch:
            # One that led without a batch of its epoch follows a leader that has more of the epoch before.
            return self.keep(0, end)
        self.keep(0, min(end, bisect_left(self.epochs, epoch)))
        self.epochs.append(epoch)
        self.starts.append(start_offset)
        self.last_epoch = epoch
        self.last_start = start_offset
        return 0

    cpdef int truncate_from_end(self, int64_t end_offset) except -1:
        """Drops entries that start at or after `end_offset` (the new log end). Returns 1 when there were any, else 0.

        Call it after the log itself was cut. StorageError as for `assign`.
        """
        cdef Py_ssize_t end = bisect_left(self.starts, end_offset)
        if end == len(self.starts):
            return 0
        self.keep(0, end)
        self.write()
        return 1

    cpdef int truncate_from_start(self, int64_t start_offset) except -1:
        """Drops epochs that ended before `start_offset` (the new log start); that of the record before it keeps its own
        start.

        Kafka moves that to the log start. Then a follower with records of an older epoch up to the log start hears that
        they agree, and keeps what only a leader that was overtaken ever had: of its producers it would say later that
        they had been acknowledged. So does one whose last record is just before the log start, if nobody knows any more
        of which epoch that has to be.

        Returns 1 when an entry was dropped, else 0. The file is not written now (see the head of this module).
        """
        cdef Py_ssize_t first = bisect_left(self.starts, start_offset) - 1
        if first <= 0:
            return 0
        self.keep(first, len(self.epochs))
        self.dirty = True
        return 1

    cpdef tuple end_offset_for(self, int32_t epoch, int64_t log_end):
        """What OffsetForLeaderEpoch answers for `epoch`: (epoch, end offset), or (-1, -1) when it is not known.

        The latest epoch ends at `log_end`. Otherwise the answer is the largest known epoch <= `epoch` with the start
        of the next one; for an epoch older than all known ones it is (`epoch`, start of the first).
        """
        cdef Py_ssize_t higher
        if epoch == self.last_epoch and epoch >= 0:
            return epoch, log_end
        if epoch < 0:
            return -1, -1
        higher = bisect_right(self.epochs, epoch)
        if higher == len(self.epochs):
            return -1, -1
        return (epoch if higher == 0 else self.epochs[higher - 1]), self.starts[higher]

    cpdef int32_t epoch_at(self, int64_t offset) except? -2:
        """The epoch in force at `offset`, -1 when all known epochs start after it."""
        cdef Py_ssize_t higher = bisect_right(self.starts, offset)
        return self.epochs[higher - 1] if higher > 0 else -1

    cdef int32_t epoch_from(self, int64_t offset, int64_t* end) except? -2:
        """As `epoch_at`; `end` is set to where the next epoch starts, to the largest number where none does."""
        cdef Py_ssize_t higher = bisect_right(self.starts, offset)
        end[0] = self.starts[higher] if higher < len(self.starts) else INT64_MAX
        return self.epochs[higher - 1] if higher > 0 else -1

    cdef uint32_t crc(self) except? 0:
        return checksum(b"".join([b"%d %d\n" % entry for entry in zip(self.epochs, self.starts)]))

    cpdef int rebuild(self, object entries) except -1:
        """Replaces everything by `entries`, (epoch, start offset) pairs in log order, and writes the file.

        Made for a walk over all batches: a pair whose epoch is not larger than the latest one is passed over, so each
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
        """Writes the file if it lacks the latest epoch or still names entries below the log start. A clean stop calls
        this."""
        if self.dirty or self.pending:
            self.write()
        return 0

    cdef int keep(self, Py_ssize_t first, Py_ssize_t end) except -1:
        """Cuts the cache to entries [first, end)."""
        self.epochs = self.epochs[first:end]
        self.starts = self.starts[first:end]
        self.last_epoch = self.epochs[end - first - 1] if end > first else -1
        self.last_start = self.starts[end - first - 1] if end > first else -1
        return 0

    cdef int write(self) except -1:
        """Replaces the file, flushed."""
        if self.apart:
            return 0
        write_leader_epochs(self.path, zip(self.epochs, self.starts))
        self.stored_crc = self.crc()
        self.dirty = self.pending = False
        return 0
