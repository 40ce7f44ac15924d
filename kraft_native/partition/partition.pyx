"""One partition on this node (Kafka's Partition).

The component that follows the metadata installs the role and the in-sync replicas; requests only read them. Only the
log's thread calls this module.

When an append is replicated. With page-cache durability: once it is in the log. With group commit: once the shared
flush covered it. With per-append: when the call returns. acks=1 waits for that on this node. acks=all waits for the
high watermark, the smallest such end of the in-sync replicas. With a single replica the two are the same.

A log with high_watermark="auto" maintains the high watermark itself, by the same rule for a single replica. One that
has followers needs "manual", and this module sets it.

In-sync replicas (KIP-497). Between a proposal to the controller and its reply two sets may be in force. The high
watermark waits for the *maximal* set, the one with more members; min.insync.replicas applies to the committed one. With
fewer members than the minimum nothing is committed at all (KIP-966). As in Kafka, the minimum is at most the count of
replicas.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cimport cython

from kraft_native.base.bytes_be cimport load_i64
from kraft_native.base.clock cimport clock_ms, monotonic_ms
from kraft_native.base.fault cimport (
    ERROR_FENCED_LEADER_EPOCH, ERROR_INVALID_TXN_STATE, ERROR_KAFKA_STORAGE_ERROR, ERROR_NONE,
    ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, ERROR_NOT_LEADER_OR_FOLLOWER, ERROR_REQUEST_TIMED_OUT,
    ERROR_UNKNOWN_LEADER_EPOCH, ERROR_UNKNOWN_TOPIC_OR_PARTITION,
)
from kraft_native.base.limits cimport BATCH_PRODUCER_ID
from kraft_native.base.mutants cimport (
    EPOCH_ZERO_IS_NONE, FETCH_OF_AN_EARLIER_EPOCH_COUNTS, FOLLOWER_JOINS_BELOW_THE_EPOCH_START,
    HIGH_WATERMARK_STAYS_AFTER_ISR_SHRINK, MARKER_LEAVES_THE_VERIFICATION, TRUNCATES_TO_THE_HIGH_WATERMARK, mutant,
)
from kraft_native.batch.batch cimport HeldBuffer
from kraft_native.batch.validate cimport ORIGIN_CLIENT, ORIGIN_COORDINATOR
from kraft_native.log.batch_check cimport BatchCheck
from kraft_native.partition.purgatory cimport WAKE_BYTES_ALL
from kraft_native.partition.watermark cimport Replica
from kraft_native.request.fields cimport UUID_BYTES
from kraft_native.segment.config cimport DURABILITY_GROUP_COMMIT, LogConfig
from kraft_native.segment.producer_entry cimport ProducerEntry

from kraft_native.base.errors import (
    FencedLeaderEpochError, InvalidArgumentError, NotEnoughReplicasError, NotLeaderOrFollowerError,
    OffsetNotAvailableError, StorageError, UnknownLeaderEpochError,
)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__kraft_audit"})


@cython.final
cdef class Partition(Watched):
    """A replica of `topic`-`index` in `log`, without a role until `become_leader` or `become_follower`.

    `topic_id` is the topic's id as 16 bytes. Removing the partition from its table does not close the log.
    """

    def __init__(self, Log log not None, str topic not None, bytes topic_id not None, int32_t index, *,
                 int32_t min_insync_replicas=1):
        if len(topic_id) != UUID_BYTES:
            raise InvalidArgumentError(f"topic_id: {len(topic_id)} bytes, {UUID_BYTES} are needed")
        if index < 0:
            raise InvalidArgumentError(f"index: {index} is below 0")
        self.log = log
        self.core = log.core
        self.appender = log.appender
        self.topic = topic
        self.topic_name = topic.encode()
        self.topic_id = topic_id
        self.index = index
        self.internal = topic in INTERNAL_TOPICS
        self.audit = topic == "__kraft_audit"
        self.leader_epoch = self.leader_id = self.epoch_start = -1
        self.progress = ReplicaProgress()
        self.set_min_insync_replicas(min_insync_replicas)

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower" if self.leader_epoch >= 0 else "no role"
        return f"<Partition {self.topic}-{self.index}: {role}, epoch {self.leader_epoch}>"

    @property
    def high_watermark(self) -> int:
        """End of what consumers see."""
        return self.core.high_watermark()

    # --- roles ------------------------------------------------------------------------------------------------------

    def become_leader(self, int32_t leader_epoch, *, int32_t node_id, replicas: NodeIds | None = None,
                      isr: NodeIds | None = None, maximal: NodeIds | None = None) -> None:
        """Make this node, `node_id`, the leader from `leader_epoch` on. `replicas` and `isr`: node ids, None: this node
        alone; `maximal` as in `set_isr`.

        The log records a new epoch, on disk before the epoch's first record. The progress of the followers is then
        reset; it is kept when this node already leads in that epoch. `FencedLeaderEpochError` for an epoch older than
        the present one.
        """
        cdef bint becomes_leader = leader_epoch > self.leader_epoch or not self.is_leader
        replicas = (node_id,) if replicas is None else tuple(replicas)
        isr = (node_id,) if isr is None else tuple(isr)
        wanted = isr if maximal is None else tuple(maximal)
        if leader_epoch < self.leader_epoch:
            raise FencedLeaderEpochError(f"{self!r}: cannot lead in epoch {leader_epoch}")
        if len(replicas) > 1 and self.core.config.high_watermark_auto:
            raise InvalidArgumentError(f"high_watermark: 'auto' in the log of {self.topic}-{self.index}, which has "
                                       "followers; it must be 'manual'")
        self.progress.reset(node_id, replicas, wanted, becomes_leader, self.core.log_end, monotonic_ms())
        self.progress.in_sync_count = <int32_t>len(set(isr))
        if becomes_leader:
            self.log.begin_epoch(leader_epoch, at_once=False)
            self.epoch_start = self.core.log_end
            self.verifications = None
        self.leader_epoch = leader_epoch
        self.leader_id = node_id
        self.is_leader = True
        self.advance()
        self.notify_all()

    def become_follower(self, int32_t leader_epoch, int32_t leader_id) -> None:
        """Follow `leader_id` from `leader_epoch` on; -1: no leader."""
        if leader_epoch < self.leader_epoch:
            raise FencedLeaderEpochError(f"{self!r}: cannot follow {leader_id} in epoch {leader_epoch}")
        if mutant(TRUNCATES_TO_THE_HIGH_WATERMARK) and leader_epoch > self.leader_epoch and leader_id >= 0:
            self.log.truncate_to(self.core.high_watermark_offset)
        self.leader_epoch = leader_epoch
        self.leader_id = leader_id
        self.is_leader = False
        self.verifications = None
        self.notify_all()

    def set_isr(self, isr: NodeIds, maximal: NodeIds | None = None) -> None:
        """Set the leader's in-sync replicas; the progress of the replicas is kept. `maximal`: the set that the high
        watermark waits for, where it differs."""
        cdef Py_ssize_t i
        if not self.is_leader:
            raise NotLeaderOrFollowerError(f"{self!r}: only a leader has in-sync replicas")
        known = [self.leader_id, *[self.progress.replicas[i].node_id for i in range(self.progress.count)]]
        wanted = isr if maximal is None else maximal
        for each in (isr, wanted):
            if self.leader_id not in each or not set(each) <= set(known):
                raise InvalidArgumentError(f"isr: {list(each)} is not the leader {self.leader_id} and some of "
                                           f"{sorted(known)}")
        self.progress.reset(self.leader_id, known, wanted, False, self.core.log_end, monotonic_ms())
        self.progress.in_sync_count = <int32_t>len(set(isr))
        if not mutant(HIGH_WATERMARK_STAYS_AFTER_ISR_SHRINK):
            self.advance()
        self.notify_all()

    def watch_followers(self, on_caught_up: Callable[[Partition, int], bool] | None) -> None:
        """Call `on_caught_up(partition, node id)` when a follower outside the in-sync replicas has everything that is
        committed and all that the log held when this node began to lead. While it returns False it is called for each
        fetch, after that not until the in-sync replicas change."""
        self.on_caught_up = on_caught_up

    def watch_failure(self, on_failure: Callable[[Partition], object],
                      on_read_failure: Callable[[StorageError], object] | None = None) -> None:
        """Call `on_failure(partition)` once, when a write or a flush of the log has failed, and
        `on_read_failure(error)` with the `StorageError` each time that reading a file of the log fails."""
        self.on_failure = on_failure
        self.on_read_failure = on_read_failure

    cdef int note_read_failure(self, object error) except -1:
        if self.on_read_failure is not None and isinstance(error, StorageError):
            self.on_read_failure(error)
        return 0

    cdef int note_failure(self) except -1:
        if self.on_failure is not None and self.core.first_failure() is not None:
            on_failure, self.on_failure = self.on_failure, None
            on_failure(self)
        return 0

    def lagging(self, int64_t lag_max_ms) -> list[int]:
        """Followers in sync that have lagged behind the log end for longer than `lag_max_ms` milliseconds."""
        return self.progress.lagging(monotonic_ms() - lag_max_ms, self.core.log_end) if self.is_leader else []

    def broker_epoch_of(self, int32_t node_id) -> int:
        """Epoch of the broker process that fetched last as that follower; -1 when none did, or it gave none."""
        cdef Replica* replica = self.progress.find(node_id)
        return -1 if replica == NULL else replica.broker_epoch

    def set_min_insync_replicas(self, int32_t count) -> None:
        """Set min.insync.replicas: with fewer in-sync replicas acks=all is refused."""
        if count < 1:
            raise InvalidArgumentError(f"min_insync_replicas: {count} is below 1")
        self.min_insync_replicas = count

    def throttle(self, ReplicationQuota leader: ReplicationQuota | None,
                 ReplicationQuota follower: ReplicationQuota | None) -> None:
        """Set the quotas that this replica is charged to as a leader and as a follower; None: it is not throttled."""
        self.leader_quota = leader
        self.follower_quota = follower

    def reconfigure(self, LogConfig config not None) -> None:
        """Apply other settings of the log."""
        self.log.reconfigure(config)
        self.notify_all()

    def replace_log(self, Log log not None) -> None:
        """Continue with another log that has the same records in another directory. It gets the remover of the previous
        one, which is closed. Requests that wait for a flush of the previous log are answered by what is durable in the
        new one."""
        if log.core.log_end != self.core.log_end:
            raise InvalidArgumentError(f"log: it ends at {log.core.log_end}, that of {self.topic}-{self.index} at "
                                       f"{self.core.log_end}")
        log.core.remover = self.core.remover
        self.log = log
        self.core = log.core
        self.appender = log.appender
        if self.is_leader:
            self.log.begin_epoch(self.leader_epoch, at_once=False)
        self.log_changed()

    def log_changed(self) -> None:
        """Make pending requests check again; call it after others truncated the log or moved its start."""
        self.advance()
        self.notify_all()

    cdef int notify_all(self) except -1:
        if self.purgatory is not None:
            self.purgatory.notify(self, WAKE_BYTES_ALL, False)
        return 0

    cdef int fence(self, int32_t current_leader_epoch, bint need_leader) noexcept:
        if mutant(FETCH_OF_AN_EARLIER_EPOCH_COUNTS):
            current_leader_epoch = max(current_leader_epoch, self.leader_epoch)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            return (ERROR_FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch
                    else ERROR_UNKNOWN_LEADER_EPOCH)
        return ERROR_NOT_LEADER_OR_FOLLOWER if need_leader and not self.is_leader else ERROR_NONE

    cdef int require(self, int32_t current_leader_epoch, bint need_leader) except -1:
        cdef int code = self.fence(current_leader_epoch, need_leader)
        if code == ERROR_NONE:
            return 0
        error = {ERROR_FENCED_LEADER_EPOCH: FencedLeaderEpochError,
                 ERROR_UNKNOWN_LEADER_EPOCH: UnknownLeaderEpochError}.get(code, NotLeaderOrFollowerError)
        raise error(f"{self!r}: requested in epoch {current_leader_epoch}")

    # --- appending --------------------------------------------------------------------------------------------------

    cdef AppendInfo produce(self, const uint8_t* data, Py_ssize_t size, int64_t now_ms, BatchCheck check, bint bounded):
        cdef AppendInfo info = self.appender.produce(data, size, self.leader_epoch, now_ms, check, bounded)
        if info is not None and not info.duplicate:
            self.produced_bytes += size
            self.produced_records += info.last_offset - info.first_offset + 1
            if self.verifications is not None:
                self.verifications.end(load_i64(data + BATCH_PRODUCER_ID))
            self.appended(size)
        return info

    def append(self, data not None: Buffer, *, str origin: Origin = "client", int64_t now_ms=-1) -> AppendInfo:
        """Append whole batches as the leader, for callers inside the node. `origin` "coordinator" allows control
        batches. Raises what `Log.append` raises, and `NotLeaderOrFollowerError`."""
        cdef HeldBuffer held = HeldBuffer(data)
        cdef AppendOrigin kind = ORIGIN_COORDINATOR if origin == "coordinator" else ORIGIN_CLIENT
        cdef AppendInfo info
        if origin not in ("client", "coordinator"):
            raise InvalidArgumentError(f"origin: {origin!r} is not one of client, coordinator")
        self.require(-1, True)
        info = self.appender.leader(held.data, held.size, self.leader_epoch, kind, now_ms, False)
        if not info.duplicate:
            if self.verifications is not None:
                self.verifications.end_all(held.data, held.size)
            # A marker makes more than its own bytes visible to readers of committed records.
            self.appended(WAKE_BYTES_ALL if kind == ORIGIN_COORDINATOR else held.size)
        return info

    def append_marker(self, int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch, bint commit, *,
                      int transaction_version=0, int64_t now_ms=-1) -> AppendInfo:
        """End the producer's transaction in this log by a marker, as the leader: for its coordinator of that epoch. A
        retry appends nothing; its result is a `duplicate` with the offset of the first marker. `transaction_version`:
        see `ProducerStates.verify_marker`. Raises `InvalidProducerEpochError` and `TransactionCoordinatorFencedError`
        for a marker that comes too late, `NotEnoughReplicasError`, and what `append` raises."""
        cdef AppendInfo info
        self.require(-1, True)
        if producer_id < 0 or producer_epoch < 0 or coordinator_epoch < 0:
            raise InvalidArgumentError(f"producer_id {producer_id}, producer_epoch {producer_epoch}, coordinator_epoch "
                                       f"{coordinator_epoch}: 0 or more")
        if self.progress.in_sync_count < self.minimum_in_sync():
            raise NotEnoughReplicasError(f"{self!r}: {self.progress.in_sync_count} replicas are in sync, "
                                         f"{self.minimum_in_sync()} are needed")
        info = self.appender.marker(commit, producer_id, producer_epoch, coordinator_epoch, transaction_version,
                                    self.leader_epoch, clock_ms() if now_ms < 0 else now_ms)
        if self.verifications is not None and not mutant(MARKER_LEAVES_THE_VERIFICATION):
            self.verifications.end(producer_id)
        if not info.duplicate:
            self.appended(WAKE_BYTES_ALL)
        return info

    cdef bint in_transaction(self, int64_t producer_id, int16_t producer_epoch) noexcept:
        cdef ProducerEntry* known = self.core.producers.find(producer_id)
        return known != NULL and known.txn_first_offset >= 0 and known.producer_epoch == producer_epoch

    def has_open_transaction(self, int64_t producer_id, int16_t producer_epoch) -> bool:
        """Return whether the producer has a transaction of that epoch open in this log."""
        return self.in_transaction(producer_id, producer_epoch)

    cdef Verification verify(self, int64_t producer_id, int16_t producer_epoch, int32_t sequence, bint adds,
                             int64_t now_ms):
        if self.verifications is None:
            self.verifications = Verifications()
        return self.verifications.begin(self.core.producers, producer_id, producer_epoch, sequence, adds, now_ms)

    cdef int check_verified(self, Verification verification, int16_t producer_epoch, int32_t sequence) except -1:
        if self.verifications is None:
            return ERROR_INVALID_TXN_STATE
        return self.verifications.check(verification, self.core.producers, producer_epoch, sequence)

    cdef int appended(self, int64_t bytes_count) except -1:
        if self.core.config.durability_kind == DURABILITY_GROUP_COMMIT:
            if not self.flush_awaited and self.purgatory is not None:
                self.flush_awaited = True
                self.purgatory.await_flush(self)
            if self.progress.count == 0:
                return 0               # only followers read records that are not durable yet
        elif not self.core.config.high_watermark_auto:
            self.advance()
        if self.purgatory is not None:
            self.purgatory.notify(self, bytes_count, False)
        return 0

    cdef int64_t own_end(self) noexcept:
        if self.core.config.durability_kind == DURABILITY_GROUP_COMMIT:
            return self.core.durable_end()
        return self.core.log_end

    cdef int32_t minimum_in_sync(self) noexcept:
        return min(self.min_insync_replicas, <int32_t>self.progress.count + 1)

    cdef int advance(self) except -1:
        cdef int64_t end
        if self.is_leader and not self.core.config.high_watermark_auto and not self.core.closed:
            if self.progress.in_sync_count < self.minimum_in_sync():
                return 0
            end = self.progress.minimum(self.own_end())
            if end > self.core.high_watermark_offset:
                self.core.high_watermark_offset = end
                self.core.publish()
        return 0

    cdef bint flushed(self) except -1:
        self.flush_awaited = False
        if self.removed or self.core.closed:
            self.notify_all()
            return False
        self.core.publish()            # the high watermark of a log that maintains it itself
        self.advance()
        self.notify_all()
        self.note_failure()
        self.flush_awaited = self.core.durable_end() < self.core.log_end and self.core.first_failure() is None
        return self.flush_awaited

    cdef bint note_replica(self, int32_t node_id, int64_t log_start, int64_t fetch_offset,
                           int64_t broker_epoch) except -1:
        cdef int64_t before = self.core.high_watermark_offset
        cdef bint reported
        cdef Replica* replica = self.progress.note(node_id, log_start, fetch_offset, self.core.log_end, broker_epoch,
                                                   monotonic_ms())
        if replica == NULL:
            return False
        if replica.start_moved and self.waiters:
            self.notify_all()            # deletions of records may wait for it
        if replica.in_sync:
            self.advance()
            if self.core.high_watermark_offset > before and self.purgatory is not None:
                self.purgatory.notify(self, WAKE_BYTES_ALL, True)
        elif (self.on_caught_up is not None and not replica.reported and fetch_offset >= self.core.high_watermark_offset
              and (fetch_offset >= self.epoch_start or mutant(FOLLOWER_JOINS_BELOW_THE_EPOCH_START))):
            replica.reported = True
            reported = bool(self.on_caught_up(self, node_id))
            replica = self.progress.find(node_id)      # the callback may have replaced the replicas
            if replica == NULL:
                return False
            replica.reported = reported
        return replica.in_sync or replica.reported or self.on_caught_up is None

    cdef int32_t preferred_replica(self, const int32_t* node_ids, Py_ssize_t count, int64_t offset) noexcept nogil:
        cdef Py_ssize_t i
        if not self.is_leader:
            return -1
        for i in range(count):
            if node_ids[i] == self.leader_id:
                return -1
        return self.progress.furthest(node_ids, count, offset)

    cdef bint holds_back(self, int32_t node_id) noexcept:
        cdef Replica* replica = self.progress.find(node_id)
        return (self.leader_quota is not None and replica != NULL and not replica.in_sync
                and self.leader_quota.exceeded(monotonic_ms()))

    # --- following --------------------------------------------------------------------------------------------------

    cdef int replicate(self, const uint8_t* data, Py_ssize_t size) except -1:
        self.appender.follower(data, size)
        self.replicated_bytes += size
        if self.core.config.durability_kind == DURABILITY_GROUP_COMMIT and not self.flush_awaited:
            if self.purgatory is not None:
                self.flush_awaited = True
                self.purgatory.await_flush(self)
        return 0

    cdef int32_t last_epoch(self) except? -2:
        cdef int32_t epoch = self.core.epochs.epoch_at(self.core.log_end - 1) if self.core.log_end > 0 else -1
        if mutant(TRUNCATES_TO_THE_HIGH_WATERMARK) or (epoch == 0 and mutant(EPOCH_ZERO_IS_NONE)):
            return -1
        return epoch

    cdef int follow_marks(self, int64_t high_watermark, int64_t log_start) except -1:
        cdef int64_t committed = min(high_watermark, self.core.log_end)
        if self.core.config.high_watermark_auto or self.core.closed:
            return 0
        if committed > self.core.high_watermark_offset:
            self.core.high_watermark_offset = committed
            self.core.publish()
            if self.waiters and self.purgatory is not None:
                self.purgatory.notify(self, WAKE_BYTES_ALL, False)
        # Records that the leader deleted are deleted here too, as far as they are known to be committed.
        if log_start > self.core.log_start and self.core.high_watermark_offset > self.core.log_start:
            self.log.delete_records(min(log_start, self.core.high_watermark_offset))
        return 0

    def cut_to_epoch(self, int32_t epoch, int64_t end_offset) -> int:
        """Drop what differs from the leader, whose log has nothing of `epoch` from `end_offset` on (its own end for the
        last epoch that both may have). Return the new log end. (KIP-101, KIP-279.)"""
        cdef int64_t own_end = self.core.epochs.end_offset_for(epoch, self.core.log_end)[1]
        # An epoch that is unknown here: whatever follows the last epoch before it is not the leader's.
        end = end_offset if own_end < 0 else min(own_end, end_offset)
        self.log.truncate_to(max(end, 0))
        self.notify_all()
        return self.core.log_end

    # --- acknowledging ----------------------------------------------------------------------------------------------

    cdef int commit_state(self, int64_t end_offset, int32_t leader_epoch, bint all_replicas) except -3:
        if self.removed or not self.is_leader or leader_epoch != self.leader_epoch:
            return ERROR_NOT_LEADER_OR_FOLLOWER
        if self.core.closed:
            return ERROR_KAFKA_STORAGE_ERROR
        if (all_replicas and self.progress.in_sync_count < self.minimum_in_sync()
                and self.progress.minimum(self.own_end()) >= end_offset):
            return ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if (self.core.high_watermark() if all_replicas else self.own_end()) >= end_offset:
            return ERROR_NONE
        return COMMIT_PENDING if self.core.first_failure() is None else ERROR_KAFKA_STORAGE_ERROR

    def call_when_committed(self, int64_t end_offset, callback: Callable[[int], object], *,
                            int64_t timeout_ms=30_000) -> None:
        """Call `callback(error_code)` when all below `end_offset` is committed (0), or when it certainly will not be or
        the time is over (7). At once when that is known already; a partition outside a table cannot wait."""
        cdef CommitWaiter waiter
        cdef int state = self.commit_state(end_offset, self.leader_epoch, True)
        if state == COMMIT_PENDING and self.purgatory is not None:
            waiter = CommitWaiter.__new__(CommitWaiter)
            waiter.partition = self
            waiter.end_offset = end_offset
            waiter.leader_epoch = self.leader_epoch
            waiter.callback = callback
            if self.purgatory.park(waiter, [self], monotonic_ms() + timeout_ms):
                return
        callback(ERROR_REQUEST_TIMED_OUT if state == COMMIT_PENDING else state)

    # --- look-ups ---------------------------------------------------------------------------------------------------

    def earliest(self, *, int32_t current_leader_epoch=-1) -> tuple[int, int, int]:
        """(log start, -1, its leader epoch). All look-ups raise `FencedLeaderEpochError`, `UnknownLeaderEpochError` or
        `NotLeaderOrFollowerError` where a request must not be answered."""
        self.require(current_leader_epoch, True)
        return self.core.log_start, -1, self.core.epochs.epoch_at(self.core.log_start)

    def latest(self, str isolation: OffsetIsolation = "read_uncommitted", *,
               int32_t current_leader_epoch=-1) -> tuple[int, int, int]:
        """(end of what readers of `isolation` see, -1, the leader epoch); "log_end" for replicas. All look-ups of that
        end raise `OffsetNotAvailableError` while consumers of an earlier leader may have seen more (KIP-207)."""
        self.require(current_leader_epoch, True)
        end = {"log_end": self.core.log_end, "read_uncommitted": self.core.high_watermark(),
               "read_committed": self.core.last_stable_offset()}.get(isolation)
        if end is None:
            raise InvalidArgumentError(f"isolation: {isolation!r} is no log_end, read_uncommitted or read_committed")
        if isolation != "log_end":
            self.require_end()
        return end, -1, self.leader_epoch

    cdef int require_end(self) except -1:
        # What was in the log when this node began to lead may have been committed, and seen, before.
        if self.core.high_watermark() < self.epoch_start:
            raise OffsetNotAvailableError(f"{self!r}: the high watermark, {self.core.high_watermark()}, has not "
                                          f"reached the start of the leader epoch, {self.epoch_start}")
        return 0

    cdef object look_up(self, object read, tuple arguments):
        try:
            return read(*arguments)
        except StorageError as error:
            self.note_read_failure(error)
            raise

    def offset_for_time(self, int64_t timestamp_ms, str isolation: OffsetIsolation = "read_uncommitted", *,
                        int32_t current_leader_epoch=-1) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first visible record with that time or a later one."""
        self.require(current_leader_epoch, True)
        found = self.look_up(self.log.offset_for_time, (timestamp_ms, isolation))
        if found is None:
            self.require_end()
        return found

    def max_timestamp(self, str isolation: OffsetIsolation = "read_uncommitted", *,
                      int32_t current_leader_epoch=-1) -> tuple[int, int, int] | None:
        """(offset, timestamp, leader epoch) of the first record that has the largest time, if it is visible."""
        end = self.latest(isolation, current_leader_epoch=current_leader_epoch)[0]
        found = self.look_up(self.log.max_timestamp, ())
        return None if found is None or found[0] >= end else found

    def end_offset_for_epoch(self, int32_t epoch, *, int32_t current_leader_epoch=-1) -> tuple[int, int]:
        """The reply to OffsetForLeaderEpoch: (epoch, end offset), (-1, -1) when not known."""
        self.require(current_leader_epoch, True)
        return self.log.end_offset_for_epoch(epoch)

    def delete_records(self, int64_t before_offset) -> int:
        """Make `before_offset` (-1: the high watermark) the log start, durably. Return the log start.
        `OffsetOutOfRangeError` past the high watermark."""
        self.require(-1, True)
        start = self.log.delete_records(self.core.high_watermark() if before_offset == -1 else before_offset)
        self.notify_all()
        return start

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """Smallest log start of this leader and of the followers for which `is_alive(node id)` holds; -1 while one of
        these has not reported its own to this leader."""
        return self.progress.smallest_start(self.core.log_start, is_alive)

    def call_when_deleted(self, int64_t before_offset, is_alive: Callable[[int], bool],
                          callback: Callable[[int, int], object], *, int64_t timeout_ms) -> None:
        """Call `callback(error_code, low_watermark)` when the low watermark has reached `before_offset`, or when it
        certainly will not or the time is over (7). Called at once when the outcome is already known."""
        cdef DeletionWaiter waiter = DeletionWaiter.__new__(DeletionWaiter)
        waiter.partition = self
        waiter.before_offset = before_offset
        waiter.is_alive = is_alive
        waiter.callback = callback
        if waiter.look():
            return
        if (timeout_ms <= 0 or self.purgatory is None
                or not self.purgatory.park(waiter, [self], monotonic_ms() + timeout_ms)):
            waiter.callback(ERROR_REQUEST_TIMED_OUT, self.low_watermark(is_alive))

    def producers(self) -> list[ProducerState]:
        """State of each producer that this replica knows (`ProducerState`), whether it leads or follows."""
        return self.core.producers.describe()


@cython.final
cdef class CommitWaiter(Parked):
    """A waiter inside the node, until an append is committed."""

    cdef int wake(self, int64_t bytes_count) except -1:
        cdef int state = self.partition.commit_state(self.end_offset, self.leader_epoch, True)
        if state != COMMIT_PENDING:
            self.purgatory.leave(self)
            self.callback(state)
        return 0

    cdef int expire(self) except -1:
        self.purgatory.leave(self)
        self.callback(ERROR_REQUEST_TIMED_OUT)
        return 0


@cython.final
cdef class DeletionWaiter(Parked):
    """A waiter until all live replicas have deleted records."""

    cdef bint look(self) except -1:
        """Call back if the outcome is known; return whether it was."""
        cdef int code = ERROR_NONE
        cdef int64_t low = -1
        if self.partition.removed:
            code = ERROR_UNKNOWN_TOPIC_OR_PARTITION
        elif not self.partition.is_leader:
            code = ERROR_NOT_LEADER_OR_FOLLOWER
        elif self.partition.core.closed or self.partition.core.first_failure() is not None:
            code = ERROR_KAFKA_STORAGE_ERROR
        else:
            low = self.partition.low_watermark(self.is_alive)
            if low < self.before_offset:
                return False
        if self.purgatory is not None:
            self.purgatory.leave(self)
        self.callback(code, low)
        return True

    cdef int wake(self, int64_t bytes_count) except -1:
        self.look()
        return 0

    cdef int expire(self) except -1:
        if not self.look():            # a follower that did not report may be known to be offline by now
            self.purgatory.leave(self)
            self.callback(ERROR_REQUEST_TIMED_OUT, self.partition.low_watermark(self.is_alive))
        return 0
