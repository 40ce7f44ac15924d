"""One log: segments as one sequence of records (Kafka's UnifiedLog, without its threads).

    log = Log(directory, LogConfig(...))        # opens, or creates the directory
    info = log.append(batch_bytes)
    piece = log.read(info.first_offset)         # a Slice: whole batches, zero-copy
    log.close()

Thread affinity: the thread that opened the log calls it; any other gets `WrongThreadError`, and a fork of the process
`OperationError` (there `close` only lets go). Slices may be read by any thread. After a failed write or flush every
write raises `LogReadOnlyError`, reads go on.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from posix.fcntl cimport O_CREAT, O_RDWR

from kraft_native.append cimport AppendInfo
from kraft_native.batch cimport HeldBuffer
from kraft_native.buffer cimport Scratch, Slice
from kraft_native.cleaner cimport COMPACT_BUFFER_BYTES_DEFAULT, compact_log
from kraft_native.config cimport DURABILITY_GROUP_COMMIT, DURABILITY_PAGE_CACHE, LogConfig
from kraft_native.dirty cimport Dirty, due, find_dirty, noted_first_dirty
from kraft_native.fileio cimport check, disk_is_full, file_close, file_lock, file_open
from kraft_native.flusher cimport Flusher, timeout_to_ns
from kraft_native.logcore cimport (
    ISOLATION_HIGH_WATERMARK, ISOLATION_LAST_STABLE, ISOLATION_LOG_END, LogCore,
)
from kraft_native.live cimport LivePage
from kraft_native.logcheckpoint cimport LogCheckpoint, begin_checkpoint
from kraft_native.lookup cimport aborted_between, find_max_timestamp, find_time, read_from
from kraft_native.records cimport encode_headers, timestamp_of
from kraft_native.recovery cimport LoadedLog, load_log
from kraft_native.segment cimport Segment
from kraft_native.trim cimport apply_retention, delete_records, truncate_fully, truncate_to
from kraft_native.validate cimport ORIGIN_CLIENT, ORIGIN_COORDINATOR, ORIGIN_RAFT_LEADER, AppendOrigin

from kraft_native.cleaner import CleanerStats
from kraft_native.errors import InvalidArgumentError, LogLockedError, StorageError
from kraft_native.fileio import make_directory, sync_directory

cdef dict ISOLATIONS = {"log_end": ISOLATION_LOG_END, "high_watermark": ISOLATION_HIGH_WATERMARK,
                        "read_uncommitted": ISOLATION_HIGH_WATERMARK, "read_committed": ISOLATION_LAST_STABLE}
cdef dict ORIGINS = {"client": ORIGIN_CLIENT, "coordinator": ORIGIN_COORDINATOR}
cdef int EAGAIN_RESULT = -11


cdef object borrow(object data, const uint8_t** start, Py_ssize_t* size):
    """Start and size of a bytes-like object; what is returned keeps them valid. None gives (NULL, -1)."""
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
    """A descriptor that holds the lock on a file, which is created when missing."""
    cdef int fd = <int>check(file_open(path, O_RDWR | O_CREAT, 0o644), path)
    cdef int result = file_lock(fd, exclusive)
    if result < 0:
        file_close(fd)
    if result == EAGAIN_RESULT:
        raise LogLockedError(refusal)
    check(result, path)
    return fd


cdef int adopt(LogCore core, LoadedLog loaded) except -1:
    """Fills the state of a log with what was found in its directory."""
    core.first_dirty = noted_first_dirty(core.directory, loaded.shared)
    core.segments = loaded.segments
    core.active = loaded.segments[len(loaded.segments) - 1]
    core.epochs = loaded.epochs
    core.producers = loaded.producers
    core.txn_checker = loaded.txn_checker()
    core.log_start = loaded.log_start
    core.log_end = loaded.log_end
    core.recovery_point = core.flushed_end = core.noted_durable = loaded.recovery_point
    core.noted_start = loaded.log_start
    core.gaps_end = core.noted_gaps_end = min(loaded.gaps_end, loaded.log_end)
    core.lost = [(lost.offset, lost.next_offset) for lost in loaded.report.lost_ranges]
    core.mark = core.log_end if core.config.high_watermark_auto else max(loaded.high_watermark, loaded.log_start)
    core.failure = loaded.failure
    core.clean = loaded.clean
    core.unsettled = loaded.untouched
    return 0


cdef LogCore view_log(bytes directory, LogConfig config, object failure, list report, object shared=None):
    cdef LogCore core = LogCore.__new__(LogCore)
    cdef LoadedLog loaded = load_log(directory, config, -1, -1, False, False, failure, shared)
    core.directory = directory
    core.config = config
    adopt(core, loaded)
    report.append(loaded.report)
    return core


cdef class Log:
    """Opens the log in `directory`, creating both if needed.

    `log_start_offset`, `recovery_point` and `clean` are what Kafka keeps in checkpoints beside its partitions; a log
    that this engine closed knows them itself. `flusher`: one to share among logs, closed by whoever made it; without it
    a log with group commit has its own, the others share one of the process.

    Where a full disk keeps recovery from writing what it must, the log opens all the same: it is read-only, `failure`
    is the cause, and what could not be written is in memory. The next open begins anew. Without the space for the files
    by which it is locked nothing is written at all; it then keeps no other writer out, and does not see what that does.

    Raises `LogLockedError` when another process or Log has it open for writing, or somebody has the log directory of
    Kafka's layout that it lies in; `log_dir_locked` says that the caller is that somebody.
    """

    def __init__(self, directory, LogConfig config=None, *, int64_t log_start_offset=-1, int64_t recovery_point=-1,
                 bint clean=False, Flusher flusher=None, bint log_dir_locked=False):
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
        """Makes the log this one's: the lock and the live page. The failure when a full disk has no place for their
        files: the log is then only looked at, and readers in other processes find no owner."""
        try:
            self.lock(core, log_dir_locked)
            # Before anything is repaired: readers that are attached since the last owner wait until this one is ready.
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
            return 0               # nobody else gets so far: see below, and the lock on the live page
        log_dir = os.path.dirname(os.path.realpath(core.directory))
        if os.path.exists(log_dir + b"/meta.properties"):
            # Kafka and LogDir lock the directory above and know nothing of the lock in here. Shared, so that several
            # logs in it can be opened one by one.
            core.log_dir_lock_fd = hold(log_dir + b"/.lock", False, f"{os.fsdecode(log_dir)}: somebody has the log "
                                        f"directory around {os.fsdecode(os.path.basename(core.directory))} open")
        core.lock_fd = hold(path, True, f"{os.fsdecode(core.directory)}: another writer has this log open")
        return 0

    cdef int begin(self, Flusher flusher) except -1:
        """Everything that needs the opened state: durability, working space."""
        cdef LogCore core = self.core
        # What was found on disk but is not known to be durable becomes so before it is shown as that.
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
            # Compacted records were lost and others will get their offsets: the note must not cover those.
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
        """The offset that the next record gets."""
        return self.core.log_end

    @property
    def durable_end_offset(self) -> int:
        """All below it survives a power loss."""
        return self.core.durable_end()

    @property
    def high_watermark(self) -> int:
        """What consumers see ends here."""
        return self.core.high_watermark()

    @property
    def last_stable_offset(self) -> int:
        """What read_committed consumers see ends here."""
        return self.core.last_stable_offset()

    @property
    def recovery_point(self) -> int:
        """Below it an open after a crash need not look."""
        return self.core.recovery_point

    @property
    def truncation_generation(self) -> int:
        """Another number after each truncation, and with each opening."""
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
    def epochs(self):
        """The leader-epoch cache."""
        return self.core.epochs

    @property
    def producers(self):
        """The producer states."""
        return self.core.producers

    @property
    def failure(self) -> BaseException | None:
        """The failed write or flush that made the log read-only."""
        return self.core.first_failure()

    # --- appending --------------------------------------------------------------------------------------------------

    def append(self, data not None, *, int32_t leader_epoch=-1, str origin="client", int64_t now_ms=-1) -> AppendInfo:
        """Appends whole batches as their leader: validates every record, assigns offsets.

        `leader_epoch` -1: the latest (0 in an empty log). `origin` "coordinator" allows transaction markers. All or
        nothing; what is refused and why is listed in `validate.pyx` and `producers.pyx`.
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

    def append_as_follower(self, data not None) -> AppendInfo:
        """Appends whole batches with the offsets and epochs that their leader gave them.

        What is refused is refused as a whole. When a write fails, the log is read-only; if the batches did not fit one
        segment, those of the segments before stay, and `log_end_offset` tells how far it came.
        """
        cdef const uint8_t* start
        cdef Py_ssize_t size
        cdef object _held = borrow(data, &start, &size)
        return self.appender.follower(start, size)

    def append_as_raft_leader(self, data not None, int32_t leader_epoch, *, int64_t now_ms=-1) -> AppendInfo:
        """Appends batches that carry `leader_epoch` and offsets from the log end on; refuses any others."""
        cdef const uint8_t* start
        cdef Py_ssize_t size
        cdef object _held = borrow(data, &start, &size)
        return self.appender.leader(start, size, leader_epoch, ORIGIN_RAFT_LEADER, now_ms, False)

    def append_record(self, value, key=None, timestamp_ms=None, headers=None, *, int32_t leader_epoch=-1) -> int:
        """Appends one record as a batch of its own; gives its offset.

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

    def read(self, int64_t offset, int64_t max_bytes=1 << 20, str isolation="high_watermark") -> Slice:
        """Whole batches of one segment, beginning with the one that holds `offset`; the first whatever `max_bytes`.

        `isolation`: "log_end" (replicas), "high_watermark" or "read_uncommitted", "read_committed". At or past that
        limit the slice is empty. `OffsetOutOfRangeError` outside [log start, log end]. `CorruptLogError` when `offset`
        lies in damage; its `next_offset` is where reading can go on.
        """
        self.core.enter()
        if max_bytes < 0:
            raise InvalidArgumentError(f"max_bytes: {max_bytes} is below 0")
        return read_from(self.core, offset, max_bytes, isolation_of(isolation))

    def aborted_transactions(self, int64_t start_offset, int64_t end_offset) -> list[tuple[int, int, int, int]]:
        """Those that overlap [start_offset, end_offset), as (producer id, first offset, last offset, last stable
        offset): what a read_committed consumer of that range must skip."""
        self.core.enter()
        return aborted_between(self.core, start_offset, end_offset)

    def offset_for_time(self, int64_t timestamp_ms, str isolation="high_watermark") -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record with that time or a later one, within the limit of
        `isolation`; None when there is none."""
        cdef tuple found
        self.core.enter()
        found = find_time(self.core, timestamp_ms, self.core.log_start)
        if found is None or <int64_t>found[0] >= self.core.visible_limit(isolation_of(isolation)):
            return None
        return found

    def max_timestamp(self) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record that has the largest time."""
        self.core.enter()
        return find_max_timestamp(self.core)

    def end_offset_for_epoch(self, int32_t epoch) -> tuple[int, int]:
        """What OffsetForLeaderEpoch answers: (epoch, end offset), (-1, -1) when not known."""
        self.core.enter()
        return self.core.epochs.end_offset_for(epoch, self.core.log_end)

    # --- changing ---------------------------------------------------------------------------------------------------

    def begin_epoch(self, int32_t leader_epoch, *, bint at_once=True) -> None:
        """Notes that a leader epoch begins at the log end, as a new leader does before it writes anything: durably, or
        with `at_once` False in memory, and durably before the first record of the epoch."""
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
        """Manual mode: moves the high watermark up to `offset`, at most to the log end, never back. Gives it."""
        self.core.enter()
        if self.core.config.high_watermark_auto:
            raise InvalidArgumentError("high_watermark: this log sets it itself (high_watermark=\"auto\")")
        if offset > self.core.mark:
            self.core.mark = min(offset, self.core.log_end)
            self.core.publish()
        return self.core.mark

    @property
    def first_lost_offset(self) -> int | None:
        """The first offset that no sound batch holds any longer, as opening the log found; None: nothing is lost."""
        self.core.enter()
        lost = self.core.lost_above(self.core.log_start)
        return max(<int64_t>lost[0][0], self.core.log_start) if lost else None

    def truncate_to(self, int64_t offset) -> bool:
        """Drops `offset` and all after it, from the batch that holds it on; the high watermark goes back if it must."""
        self.core.enter_write()
        return truncate_to(self.core, offset)

    def truncate_fully_and_start_at(self, int64_t offset) -> None:
        """Drops everything; the next record gets `offset`."""
        self.core.enter_write()
        truncate_fully(self.core, offset)

    def delete_records(self, int64_t before_offset) -> int:
        """Makes `before_offset` (at most the high watermark) the log start, durably. Gives the log start."""
        self.core.enter_write()
        return delete_records(self.core, before_offset)

    def apply_retention(self, int64_t now_ms, *, int64_t segments_max=INT64_MAX, bint expire_producers=True) -> int:
        """Deletes whole segments by retention.bytes and retention.ms, at most `segments_max`. `expire_producers`:
        forgets those that were silent for producer.id.expiration.ms, too. Gives the count of segments."""
        self.core.need_no_failure()
        if self.core.untouched():
            return 0
        self.core.enter_write()
        return apply_retention(self.core, now_ms, segments_max, expire_producers)

    def remove_with(self, remover) -> None:
        """From now on files of segments that retention deletes are renamed to `.deleted`, and `remover` is called with
        their names: it has them removed, when and in which thread it likes. The next opening removes what is left."""
        self.core.enter()
        self.core.remover = remover

    def compaction_due(self, int64_t now_ms) -> float:
        """Whether `compact` would do something, and how urgent it is: 0.0 when not, else the share of dirty bytes, and
        1.0 more where a dirty record is older than max.compaction.lag.ms."""
        cdef Dirty dirty
        self.core.enter()
        if not self.core.config.compact:
            return 0.0
        dirty = find_dirty(self.core, now_ms)
        return dirty.ratio() + (1.0 if dirty.overdue else 0.0) if due(self.core, dirty) else 0.0

    def compact(self, now_ms: int | None = None, *, int64_t buffer_bytes=COMPACT_BUFFER_BYTES_DEFAULT, bint force=False,
                progress=None, throttle=None, on_owner=None) -> CleanerStats:
        """Compacts the segments below the active one and the last stable offset, if Kafka would: when the share of
        dirty bytes is above min.cleanable.dirty.ratio, or a dirty record is older than max.compaction.lag.ms. `force`
        compacts whatever is dirty, and without anything dirty still drops tombstones and markers whose time is over.

        `now_ms` (None: the clock) is the time for lags and delete horizons. `buffer_bytes` of memory hold the keys,
        some 27 bytes each; more distinct keys than fit take several rounds. `progress(done, total)` is called with
        bytes of the current round, every 16 MiB, and `throttle(bytes)` before it with those read and written since its
        last call; what they raise ends the compaction.

        With `on_owner` another thread than the owner's may call: `on_owner(step)` has the owner's thread call `step()`,
        and gives what it gives or raises. A step takes about as long as renaming some files. Meanwhile the owner may
        use the log. How far the log is clean is noted by its next checkpoint then.

        `InvalidArgumentError`: cleanup.policy does not compact. `CorruptLogError`: a batch to read is damaged.
        `OperationError`: the log was truncated or closed meanwhile. In these cases, and when writing the output fails,
        the segments being rewritten stay as they are; those done before stay done, and the log has the same latest
        records as ever. A failure during a swap makes the log read-only; the next open completes the swap or undoes it.
        """
        return compact_log(self.core, now_ms, buffer_bytes, force, progress, throttle, on_owner)

    def roll(self) -> None:
        """Begins a new segment, unless the active one is empty."""
        self.core.enter_write()
        if self.core.active.size > 0:
            self.core.roll(self.core.log_end)

    def reconfigure(self, LogConfig config not None) -> None:
        """Puts other settings in force. Another `high_watermark` counts at once: "manual" keeps what was visible,
        "auto" is for a log that has no followers any more. Another `durability` counts from the next append on; what
        was appended before is made durable here, which waits for the device, so that the high watermark does not go
        back.
        """
        self.core.enter()
        self.core.high_watermark()     # which "manual" goes on with
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
        """Returns True when all that was appended is durable, False when `timeout` seconds passed first."""
        cdef int64_t timeout_ns = timeout_to_ns(timeout)
        self.core.need_no_failure()
        if self.core.untouched():
            return True
        self.core.enter_write()
        return self.core.flush_to(self.core.log_end, timeout_ns) == 0

    def flush_when_asked(self) -> None:
        """Group commit: from now on age starts no flush; see `FlushHandle.gather_until_asked`."""
        self.core.enter()
        self.core.handle().gather_until_asked()

    def flush_soon(self) -> None:
        """Group commit: flushes what was appended without gathering any longer, and does not wait for that."""
        self.core.need_no_failure()
        if self.core.config.durability_kind == DURABILITY_GROUP_COMMIT and not self.core.untouched():
            self.core.handle().ask(self.core.log_end)

    def send_when_durable(self, int64_t end_offset, int fd, bytes message not None) -> bool:
        """Group commit: has a message sent by the flusher's thread, see `FlushHandle.send`; a truncation drops it."""
        self.core.enter()
        return self.core.handle().send(end_offset, fd, message)

    def take_back(self) -> bool:
        """Takes that message back; whether it has been sent."""
        self.core.enter()
        return self.core.handle().take_back()

    def tell_flushes_from(self, int64_t end_offset) -> bool:
        """Has `flush_eventfd` tell of durable ends from `end_offset` on; see `FlushHandle.tell_from`. With per-append
        durability the flusher has no part in them: False for all that was appended."""
        self.core.enter()
        return self.core.handle().tell_from(end_offset) and self.core.durable_end() < end_offset

    def wait_durable(self, int64_t end_offset, timeout: float | None = None) -> bool:
        """As `flush`, for what lies below `end_offset`."""
        cdef int64_t timeout_ns = timeout_to_ns(timeout)
        self.core.enter_write()
        return self.core.flush_to(min(end_offset, self.core.log_end), timeout_ns) == 0

    @property
    def flush_eventfd(self) -> int:
        """Group commit: a descriptor that becomes readable when the durable end moves or a flush fails, and is readable
        at first if that has happened since the log was opened."""
        self.core.enter()
        return self.core.handle().eventfd

    def checkpoint(self) -> int:
        """Makes the indexes of what is durable durable too, and records that an open after a crash need not look below.
        Gives that offset. Call it from time to time; a clean close needs none."""
        cdef LogCheckpoint checkpoint = begin_checkpoint(self.core)
        if checkpoint is not None:
            checkpoint.write()
            checkpoint.finish()
        return self.core.recovery_point

    def begin_checkpoint(self) -> LogCheckpoint | None:
        """A checkpoint in steps, for an owner that must not wait for the device: `write()` is for any thread, then
        `finish()` for this one. None when there is nothing to note."""
        return begin_checkpoint(self.core)

    def poll(self) -> int:
        """Tells readers what the flusher made durable since the last call; for when `flush_eventfd` is readable.
        Gives the high watermark."""
        self.core.enter()
        self.core.publish()
        return self.core.mark

    def arm(self, int eventfd) -> None:
        """Writes to the eventfd once, when the log start, high watermark or last stable offset moves."""
        self.core.enter()
        self.core.live.arm(eventfd)

    def disarm(self, int eventfd) -> None:
        """Takes the eventfd back, before it is closed."""
        self.core.enter()
        self.core.live.disarm(eventfd)

    def close(self) -> None:
        """Flushes everything and marks the stop as clean; after a failure only lets go. May be called again."""
        self.core.close()

    def discard(self) -> None:
        """Closes a log whose files are to be removed: nothing is flushed. What is opened again after all is recovered
        as after a crash. May be called again."""
        self.core.discard()
