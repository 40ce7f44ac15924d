"""One log: segments as one sequence of records (Kafka's UnifiedLog, without its threads).

    log = Log(directory, LogConfig(...))        # opens, or creates the directory
    info = log.append(batch_bytes)
    piece = log.read(info.first_offset)         # a Slice: whole batches, zero-copy
    log.close()

Thread affinity: only the thread that opened the log may call it. Any other thread gets `WrongThreadError`, a fork of
the process `OperationError` (there `close` only releases resources). Any thread may read slices. After a failed write
or flush every write raises `LogReadOnlyError`; reads continue.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from posix.fcntl cimport O_CREAT, O_RDWR

from kraft_native.batch.batch cimport HeldBuffer
from kraft_native.batch.records cimport encode_headers, timestamp_of
from kraft_native.batch.validate cimport ORIGIN_CLIENT, ORIGIN_COORDINATOR, ORIGIN_RAFT_LEADER, AppendOrigin
from kraft_native.compact.cleaner cimport COMPACT_BUFFER_BYTES_DEFAULT, compact_log
from kraft_native.compact.dirty cimport Dirty, due, find_dirty, noted_first_dirty
from kraft_native.file.buffer cimport Scratch, Slice
from kraft_native.file.file_io cimport check, disk_is_full, file_close, file_lock, file_open
from kraft_native.log.append cimport AppendInfo
from kraft_native.log.checkpoint cimport LogCheckpoint, begin_checkpoint
from kraft_native.log.core cimport ISOLATION_HIGH_WATERMARK, ISOLATION_LAST_STABLE, ISOLATION_LOG_END, LogCore
from kraft_native.log.flusher cimport Flusher, timeout_to_ns
from kraft_native.log.live cimport LivePage
from kraft_native.log.lookup cimport aborted_between, find_max_timestamp, find_time, read_from
from kraft_native.log.recovery cimport LoadedLog, load_log
from kraft_native.log.trim cimport apply_retention, delete_records, truncate_fully, truncate_to
from kraft_native.segment.config cimport DURABILITY_GROUP_COMMIT, DURABILITY_PAGE_CACHE, LogConfig
from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import InvalidArgumentError, LogLockedError, StorageError
from kraft_native.compact.cleaner import CleanerStats
from kraft_native.file.file_io import make_directory, sync_directory

cdef dict ISOLATIONS = {"log_end": ISOLATION_LOG_END, "high_watermark": ISOLATION_HIGH_WATERMARK,
                        "read_uncommitted": ISOLATION_HIGH_WATERMARK, "read_committed": ISOLATION_LAST_STABLE}
cdef dict ORIGINS = {"client": ORIGIN_CLIENT, "coordinator": ORIGIN_COORDINATOR}
cdef int EAGAIN_RESULT = -11


cdef object borrow(object data, const uint8_t** start, Py_ssize_t* size):
    """Start and size of a bytes-like object; the returned object keeps them valid. None is (NULL, -1)."""
    cdef HeldBuffer held
    if PyBytes_CheckExact(data):
        start[0] = <const uint8_t*>PyBytes_AS_STRING(data)
        size[0] = PyBytes_GET_SIZE(data)
        return data
    if data is None:
        start[0] = NULL
        size[0] = -1
        return None
    held = HeldBuffer(data)
    start[0] = held.data
    size[0] = held.size
    return held


cdef int isolation_of(object name) except -1:
    isolation = ISOLATIONS.get(name)
    if isolation is None:
        raise InvalidArgumentError(f"isolation: {name!r} is not one of {', '.join(ISOLATIONS)}")
    return isolation


cdef int hold(bytes path, bint exclusive, str refusal) except -1:
    """Open a file, created when missing, and lock it. Return the descriptor that holds the lock."""
    cdef int fd = <int>check(file_open(path, O_RDWR | O_CREAT, 0o644), path)
    cdef int result = file_lock(fd, exclusive)
    if result < 0:
        file_close(fd)
    if result == EAGAIN_RESULT:
        raise LogLockedError(refusal)
    check(result, path)
    return fd


cdef int adopt(LogCore core, LoadedLog loaded) except -1:
    """Fill the state of a log with what was found in its directory."""
    core.first_dirty = noted_first_dirty(core.directory, loaded.shared)
    core.segments = loaded.segments
    core.active = loaded.segments[len(loaded.segments) - 1]
    core.epochs = loaded.epochs
    core.producers = loaded.producers
    core.txn_checker = loaded.txn_checker()
    core.log_start = core.noted_start = loaded.log_start
    core.log_end = loaded.log_end
    core.recovery_point = core.flushed_end = core.noted_durable = loaded.recovery_point
    core.gaps_end = core.noted_gaps_end = min(loaded.gaps_end, loaded.log_end)
    core.lost = [(lost.offset, lost.next_offset) for lost in loaded.report.lost_ranges]
    core.high_watermark_offset = (core.log_end if core.config.high_watermark_auto
                                  else max(loaded.high_watermark, loaded.log_start))
    core.failure = loaded.failure
    core.clean = loaded.clean
    core.unsettled = loaded.untouched
    return 0


cdef LogCore view_log(bytes directory, LogConfig config, object failure, list report, object shared=None):
    cdef LogCore core = LogCore.__new__(LogCore)
    cdef LoadedLog loaded = load_log(directory, config, -1, -1, False, False, failure, shared)
    core.directory, core.config = directory, config
    adopt(core, loaded)
    report.append(loaded.report)
    return core


cdef class Log:
    """Open the log in `directory`; create both if needed.

    `log_start_offset`, `recovery_point` and `clean` are what Kafka keeps in checkpoints beside its partitions; a log
    that this engine closed knows them itself. `flusher`: one that several logs share; its creator closes it. Without it
    a log with group commit gets its own, and the other logs share one of the process.

    When a full disk keeps recovery from writing, the log opens read-only. `failure` is the cause; what could not be
    written is in memory, and the next open starts again. Without space for the lock files nothing at all is written.
    The log then keeps no other writer out, and does not see what that writer does.

    Raises `LogLockedError` when another process or Log has it open for writing, or holds the lock of the log directory
    (in Kafka's layout) around it. `log_dir_locked`: the caller is the holder of that lock.
    """

    def __init__(self, directory: FilePath, LogConfig config=None, *, int64_t log_start_offset=-1,
                 int64_t recovery_point=-1, bint clean=False, Flusher flusher=None, bint log_dir_locked=False):
        cdef LogCore core = LogCore.__new__(LogCore)
        cdef LoadedLog loaded
        core.directory = os.path.abspath(os.fsencode(directory))
        core.config = LogConfig() if config is None else config
        if not os.path.isdir(core.directory):
            make_directory(core.directory)
            sync_directory(os.path.dirname(core.directory))
        failure = self.take(core, log_dir_locked)
        loaded = load_log(core.directory, core.config, log_start_offset, recovery_point, clean, log_dir_locked, failure)
        adopt(core, loaded)
        self.recovery = loaded.report
        self.core = core
        self.begin(flusher)

    cdef object take(self, LogCore core, bint log_dir_locked):
        """Take the lock and the live page for this log. Return the failure when a full disk has no room for their
        files: the log is then a read-only view, and readers in other processes find no owner."""
        try:
            self.lock(core, log_dir_locked)
            # Before any repair: readers attached since the previous owner wait until this one is ready.
            core.live = LivePage(core.directory)
        except StorageError as error:
            if not disk_is_full(error):
                raise
            core.live = LivePage(core.directory, detached=True)
            return error
        return None

    cdef int lock(self, LogCore core, bint log_dir_locked) except -1:
        cdef bytes log_dir
        cdef bytes path = core.directory + b"/.lock"
        if log_dir_locked:
            return 0               # the log directory's lock keeps others out: see below, and the lock on the live page
        log_dir = os.path.dirname(os.path.realpath(core.directory))
        if os.path.exists(log_dir + b"/meta.properties"):
            # Kafka and LogDir lock the directory above and do not know the lock in here. Shared, so that several logs
            # in it can be opened one by one.
            core.log_dir_lock_fd = hold(log_dir + b"/.lock", False, f"{os.fsdecode(log_dir)}: somebody has the log "
                                        f"directory around {os.fsdecode(os.path.basename(core.directory))} open")
        core.lock_fd = hold(path, True, f"{os.fsdecode(core.directory)}: another writer has this log open")
        return 0

    cdef int begin(self, Flusher flusher) except -1:
        """Set up what needs the opened state: durability, working space."""
        cdef LogCore core = self.core
        # Data found on disk that is not known to be durable is made durable before it is reported as such.
        if (
            core.config.durability_kind != DURABILITY_PAGE_CACHE and core.flushed_end < core.log_end
            and core.failure is None
        ):
            core.active.sync()
            core.flushed_end = core.log_end
        core.flusher = flusher
        if core.config.durability_kind == DURABILITY_GROUP_COMMIT:
            core.owns_flusher = flusher is None
            if flusher is None:
                core.flusher = Flusher(bytes_trigger=core.config.flush_bytes,
                                       linger_us=core.config.flush_interval_us)
            core.handle()
        core.begin_active()
        if core.first_dirty > core.log_end and core.failure is None:
            # Compacted records were lost, and other records will get their offsets: the clean mark must not cover
            # those.
            core.first_dirty = core.log_start
            core.write_marks(core.recovery_point, core.log_start, False)
        self.appender = Appender(core)
        core.publish()
        core.live.truncation_ends()
        return 0

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __repr__(self) -> str:
        return (f"<Log {os.fsdecode(self.core.directory)}: {self.core.log_start} to {self.core.log_end}, "
                f"{len(self.core.segments)} segments{', closed' if self.core.closed else ''}>")

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self.core.closed

    @property
    def directory(self) -> str:
        return os.fsdecode(self.core.directory)

    @property
    def config(self) -> LogConfig:
        return self.core.config

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.core.log_start

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.core.log_end

    @property
    def durable_end_offset(self) -> int:
        """Everything below it survives a power loss."""
        return self.core.durable_end()

    @property
    def high_watermark(self) -> int:
        """End of what consumers see."""
        return self.core.high_watermark()

    @property
    def last_stable_offset(self) -> int:
        """End of what read_committed consumers see."""
        return self.core.last_stable_offset()

    @property
    def recovery_point(self) -> int:
        """Offset below which an open after a crash checks nothing."""
        return self.core.recovery_point

    @property
    def truncation_generation(self) -> int:
        """A number that changes with each truncation and each opening."""
        self.core.enter()
        return self.core.live.page.state.truncation_generation

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        cdef Segment segment
        cdef int64_t total = 0
        for segment in self.core.segments:
            total += segment.size
        return total

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; for tools and tests."""
        return list(self.core.segments)

    @property
    def epochs(self) -> LeaderEpochCache:
        """The leader-epoch cache."""
        return self.core.epochs

    @property
    def producers(self) -> ProducerStates:
        """The producer states."""
        return self.core.producers

    @property
    def failure(self) -> BaseException | None:
        """The failed write or flush that made the log read-only."""
        return self.core.first_failure()

    # --- appending --------------------------------------------------------------------------------------------------

    def append(self, data not None: Buffer, *, int32_t leader_epoch=-1, str origin: Origin = "client",
               int64_t now_ms=-1) -> AppendInfo:
        """Append whole batches as their leader: validate every record, assign offsets.

        `leader_epoch` -1: the latest (0 in an empty log). `origin` "coordinator" allows transaction markers. All or
        nothing; `batch/validate.pyx` and `segment/producers.pyx` list what is refused and why.
        """
        cdef const uint8_t* start
        cdef Py_ssize_t size
        cdef object _held = borrow(data, &start, &size)
        cdef AppendOrigin kind = ORIGIN_CLIENT
        if origin is not None and origin != "client":
            if origin not in ORIGINS:
                raise InvalidArgumentError(f"origin: {origin!r} is not one of {', '.join(ORIGINS)}")
            kind = ORIGINS[origin]
        if leader_epoch < 0:
            leader_epoch = max(0, self.core.epochs.latest())
        return self.appender.leader(start, size, leader_epoch, kind, now_ms, False)

    def append_as_follower(self, data not None: Buffer) -> AppendInfo:
        """Append whole batches with the offsets and epochs that their leader gave them.

        A refusal covers the whole call. When a write fails, the log becomes read-only. If the batches span several
        segments, those of the earlier segments stay, and `log_end_offset` is the end of what was written.
        """
        cdef const uint8_t* start
        cdef Py_ssize_t size
        cdef object _held = borrow(data, &start, &size)
        return self.appender.follower(start, size)

    def append_as_raft_leader(self, data not None: Buffer, int32_t leader_epoch, *, int64_t now_ms=-1) -> AppendInfo:
        """Append batches that carry `leader_epoch` and offsets from the log end on; refuse any others."""
        cdef const uint8_t* start
        cdef Py_ssize_t size
        cdef object _held = borrow(data, &start, &size)
        return self.appender.leader(start, size, leader_epoch, ORIGIN_RAFT_LEADER, now_ms, False)

    def append_record(self, value: Buffer | None, key: Buffer | None = None, timestamp_ms: int | None = None,
                      headers: RecordHeaders | None = None, *, int32_t leader_epoch=-1) -> int:
        """Append one record as a batch of its own; return its offset.

        `value`, `key`: bytes-like or None. `headers`: a mapping, or pairs. `timestamp_ms`: None or -1 is now.
        """
        cdef const uint8_t* value_start
        cdef const uint8_t* key_start
        cdef const uint8_t* header_start = NULL
        cdef Py_ssize_t value_size, key_size, header_size = 0
        cdef int32_t header_count = 0
        cdef object _value = borrow(value, &value_start, &value_size)
        cdef object _key = borrow(key, &key_start, &key_size)
        cdef Scratch encoded
        if headers is not None:
            encoded = Scratch()
            header_count = encode_headers(headers, encoded)
            header_start = encoded.data
            header_size = encoded.size
        if leader_epoch < 0:
            leader_epoch = max(0, self.core.epochs.latest())
        return self.appender.one(key_start, key_size, value_start, value_size, header_start, header_size, header_count,
                                 timestamp_of(timestamp_ms, True), leader_epoch)

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, int64_t offset, int64_t max_bytes=1 << 20, str isolation: Isolation = "high_watermark") -> Slice:
        """Return whole batches of one segment from the one that holds `offset`; the first whatever `max_bytes`.

        `isolation`: "log_end" (replicas), "high_watermark" or "read_uncommitted", "read_committed". At or past that
        limit the slice is empty. `OffsetOutOfRangeError` outside [log start, log end]. `CorruptLogError` when `offset`
        lies in damage; its `next_offset` is where reading can continue.
        """
        self.core.enter()
        if max_bytes < 0:
            raise InvalidArgumentError(f"max_bytes: {max_bytes} is below 0")
        return read_from(self.core, offset, max_bytes, isolation_of(isolation))

    def aborted_transactions(self, int64_t start_offset, int64_t end_offset) -> list[tuple[int, int, int, int]]:
        """Transactions that overlap [start_offset, end_offset), as (producer id, first offset, last offset, last stable
        offset): what a read_committed consumer of that range must skip."""
        self.core.enter()
        return aborted_between(self.core, start_offset, end_offset)

    def offset_for_time(self, int64_t timestamp_ms,
                        str isolation: Isolation = "high_watermark") -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record of `isolation` with that time or later, or None."""
        cdef tuple found
        self.core.enter()
        found = find_time(self.core, timestamp_ms, self.core.log_start)
        if found is None or <int64_t>found[0] >= self.core.visible_limit(isolation_of(isolation)):
            return None
        return found

    def max_timestamp(self) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record that has the largest timestamp."""
        self.core.enter()
        return find_max_timestamp(self.core)

    def end_offset_for_epoch(self, int32_t epoch) -> tuple[int, int]:
        """The reply to OffsetForLeaderEpoch: (epoch, end offset), (-1, -1) when not known."""
        self.core.enter()
        return self.core.epochs.end_offset_for(epoch, self.core.log_end)

    # --- changing ---------------------------------------------------------------------------------------------------

    def begin_epoch(self, int32_t leader_epoch, *, bint at_once=True) -> None:
        """Record that a leader epoch begins at the log end, as a new leader does before it writes. The record is
        durable on return; with `at_once` False it is in memory, and durable before the first record of the epoch."""
        if not at_once:
            self.core.need_no_failure()
            if leader_epoch > self.core.epochs.latest():
                self.core.epochs.begin(leader_epoch, self.core.log_end)
            return
        self.core.enter_write()
        if leader_epoch > self.core.epochs.latest():
            try:
                self.core.begin_epoch(leader_epoch, self.core.log_end)
            except BaseException as error:
                self.core.fail(error)

    def set_high_watermark(self, int64_t offset) -> int:
        """Manual mode: move the high watermark up to `offset`, at most to the log end, never back. Return it."""
        self.core.enter()
        if self.core.config.high_watermark_auto:
            raise InvalidArgumentError("high_watermark: this log sets it itself (high_watermark=\"auto\")")
        if offset > self.core.high_watermark_offset:
            self.core.high_watermark_offset = min(offset, self.core.log_end)
            self.core.publish()
        return self.core.high_watermark_offset

    @property
    def first_lost_offset(self) -> int | None:
        """The first offset that no sound batch holds, as found at opening; None: nothing is lost."""
        self.core.enter()
        lost = self.core.lost_above(self.core.log_start)
        return max(<int64_t>lost[0][0], self.core.log_start) if lost else None

    def truncate_to(self, int64_t offset) -> bool:
        """Drop the batch that holds `offset` and all after it; the high watermark moves back if it must."""
        self.core.enter_write()
        return truncate_to(self.core, offset)

    def truncate_fully_and_start_at(self, int64_t offset) -> None:
        """Drop everything; the next record gets `offset`."""
        self.core.enter_write()
        truncate_fully(self.core, offset)

    def delete_records(self, int64_t before_offset) -> int:
        """Make `before_offset` (at most the high watermark) the log start, durably. Return the log start."""
        self.core.enter_write()
        return delete_records(self.core, before_offset)

    def apply_retention(self, int64_t now_ms, *, int64_t segments_max=INT64_MAX, bint expire_producers=True) -> int:
        """Delete at most `segments_max` whole segments by retention.bytes and retention.ms; return their count. With
        `expire_producers`, drop producers idle for producer.id.expiration.ms."""
        self.core.need_no_failure()
        if self.core.untouched():
            return 0
        return apply_retention(self.core, now_ms, segments_max, expire_producers)

    def remove_with(self, remover: Callable[[list[bytes]], object] | None) -> None:
        """Install `remover`. Retention then renames the files of deleted segments to `.deleted` and calls `remover`
        with their names; it removes them at a time and in a thread of its choice. The next opening removes the rest."""
        self.core.enter()
        self.core.remover = remover

    def compaction_due(self, int64_t now_ms) -> float:
        """Urgency of a compaction: 0.0 when `compact` would do nothing, else the share of dirty bytes, plus 1.0 where a
        dirty record is older than max.compaction.lag.ms."""
        cdef Dirty dirty
        self.core.enter()
        if not self.core.config.compact:
            return 0.0
        dirty = find_dirty(self.core, now_ms)
        return dirty.ratio() + (1.0 if dirty.overdue else 0.0) if due(self.core, dirty) else 0.0

    def compact(self, now_ms: int | None = None, *, int64_t buffer_bytes=COMPACT_BUFFER_BYTES_DEFAULT, bint force=False,
                progress: Callable[[int, int], object] | None = None, throttle: Callable[[int], object] | None = None,
                on_owner: Callable[[Callable[[], object]], object] | None = None) -> CleanerStats:
        """Compact the segments below the active one and the last stable offset, if Kafka would: their dirty ratio
        is above min.cleanable.dirty.ratio, or a dirty record is older than max.compaction.lag.ms. `force` compacts
        whatever is dirty; if nothing is, it still drops tombstones and markers past their horizon.

        `now_ms` (None: the clock) is the time for lags and delete horizons. `buffer_bytes` of memory hold the keys,
        some 27 bytes each; more distinct keys than fit take several rounds. Every 16 MiB `throttle(bytes)` gets the
        bytes read and written since its last call, then `progress(done, total)` the round's. Exceptions end the work.

        With `on_owner` a thread other than the owner's may call. `on_owner(step)` runs `step()` on the owner's thread,
        and returns its result or raises its exception. A step takes about as long as renaming some files. Meanwhile the
        owner may use the log. The log's next checkpoint then records how far it is clean.

        `InvalidArgumentError`: cleanup.policy does not compact. `CorruptLogError`: a batch to read is damaged.
        `OperationError`: the log was truncated or closed meanwhile. After these, or a failed write of the output, the
        segments being rewritten stay as they are. Those done before stay done, and the latest records of the log are
        unchanged. A failed swap makes the log read-only; the next open completes or undoes it.
        """
        return compact_log(self.core, now_ms, buffer_bytes, force, progress, throttle, on_owner)

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        self.core.enter_write()
        if self.core.active.size > 0:
            self.core.roll(self.core.log_end)

    def reconfigure(self, LogConfig config not None) -> None:
        """Apply other settings. A changed `high_watermark` takes effect at once: "manual" keeps what was visible,
        "auto" is for a log that has no followers any more. A changed `durability` takes effect from the next append on.
        Earlier appends are made durable here, which waits for the device, so that the high watermark does not move
        back.
        """
        self.core.enter()
        self.core.high_watermark()     # where "manual" continues
        if config.durability_kind != self.core.config.durability_kind and self.core.failure is None:
            self.core.flush_to(self.core.log_end, -1)
            if config.durability_kind == DURABILITY_GROUP_COMMIT:
                self.core.active.open_file(True)
                self.core.handle()
        self.core.config = config
        self.core.active.index_interval_bytes = config.index_interval_bytes
        self.core.active.windowed = config.durability_kind == DURABILITY_PAGE_CACHE

    # --- durability -------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything appended is durable: True; False when `timeout` seconds passed first."""
        cdef int64_t timeout_ns = timeout_to_ns(timeout)
        self.core.need_no_failure()
        if self.core.untouched():
            return True
        self.core.enter_write()
        return self.core.flush_to(self.core.log_end, timeout_ns) == 0

    def flush_on_request(self) -> None:
        """Group commit: from now on age starts no flush; see `FlushHandle.gather_until_requested`."""
        self.core.enter()
        self.core.handle().gather_until_requested()

    def flush_soon(self) -> None:
        """Group commit: flush what was appended without further gathering; do not wait for it."""
        self.core.need_no_failure()
        if self.core.config.durability_kind == DURABILITY_GROUP_COMMIT and not self.core.untouched():
            self.core.handle().request(self.core.log_end)

    def send_when_durable(self, int64_t end_offset, int fd, bytes message not None) -> bool:
        """Group commit: have the flusher's thread send a message, see `FlushHandle.send`; a truncation drops it."""
        self.core.enter()
        return self.core.handle().send(end_offset, fd, message)

    def take_back(self) -> bool:
        """Withdraw that message; return whether it has been sent."""
        self.core.enter()
        return self.core.handle().take_back()

    def notify_flushes_from(self, int64_t end_offset) -> bool:
        """Make `flush_eventfd` report durable ends from `end_offset` on; see `FlushHandle.notify_from`. With per-append
        durability the flusher is not involved: False for all that was appended."""
        self.core.enter()
        return self.core.handle().notify_from(end_offset) and self.core.durable_end() < end_offset

    def wait_durable(self, int64_t end_offset, timeout: float | None = None) -> bool:
        """Like `flush`, for the records below `end_offset`."""
        cdef int64_t timeout_ns = timeout_to_ns(timeout)
        self.core.enter_write()
        return self.core.flush_to(min(end_offset, self.core.log_end), timeout_ns) == 0

    @property
    def flush_eventfd(self) -> int:
        """Group commit: a descriptor that becomes readable when the durable end moves or a flush fails. It starts
        readable if that has happened since the log was opened."""
        self.core.enter()
        return self.core.handle().eventfd

    def checkpoint(self) -> int:
        """Make the indexes of durable data durable, and record that an open after a crash need not check below. Return
        that offset. Call it from time to time; a clean close needs none."""
        cdef LogCheckpoint checkpoint = begin_checkpoint(self.core)
        if checkpoint is not None:
            checkpoint.write()
            checkpoint.finish()
        return self.core.recovery_point

    def begin_checkpoint(self) -> LogCheckpoint | None:
        """Checkpoint in steps, for an owner that must not wait for the device: any thread may call `write()`, then this
        one `finish()`. None when there is nothing to record."""
        return begin_checkpoint(self.core)

    def poll(self) -> int:
        """Publish to readers what the flusher made durable since the last call; call it when `flush_eventfd` is
        readable. Return the high watermark."""
        self.core.enter()
        self.core.publish()
        return self.core.high_watermark_offset

    def arm(self, int eventfd) -> None:
        """Write to the eventfd once, when the log start, high watermark or last stable offset moves."""
        self.core.enter()
        self.core.live.arm(eventfd)

    def disarm(self, int eventfd) -> None:
        """Unregister the eventfd, before it is closed."""
        self.core.enter()
        self.core.live.disarm(eventfd)

    def close(self) -> None:
        """Flush everything and mark the stop as clean; after a failure only release resources. Idempotent."""
        self.core.close()

    def discard(self) -> None:
        """Close a log whose files are to be removed, without a flush. If it is opened again after all, it is recovered
        as after a crash. Idempotent."""
        self.core.discard()
