"""One partition on this node: a log with a role, a leader epoch, a high watermark, and requests that wait for it."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.batch.validate cimport AppendOrigin
from kraft_native.facade.log cimport Log
from kraft_native.log.append cimport AppendInfo, Appender
from kraft_native.log.batch_check cimport BatchCheck
from kraft_native.log.core cimport LogCore
from kraft_native.partition.purgatory cimport Parked, Purgatory, Watched
from kraft_native.partition.verifications cimport Verification, Verifications
from kraft_native.partition.watermark cimport ReplicaProgress
from kraft_native.request.replication_quota cimport ReplicationQuota


cdef enum:
    COMMIT_PENDING = -2            # of `commit_state`: not yet, and no error


cdef class Partition(Watched):
    cdef readonly Log log
    cdef readonly str topic
    cdef readonly bytes topic_name         # the same in UTF-8
    cdef readonly bytes topic_id           # 16 bytes
    cdef readonly int32_t index
    cdef readonly int32_t leader_epoch     # -1 before the first role
    cdef readonly int32_t leader_id        # -1: none, or not known
    cdef readonly bint is_leader
    cdef readonly bint removed             # from its table: its log may be closed
    cdef readonly bint internal            # a topic that clients may not write to
    cdef readonly bint audit               # the one of them that other brokers write to, with their audit
    cdef readonly int32_t min_insync_replicas
    cdef readonly int64_t epoch_start      # the log end when this node began to lead in this epoch
    cdef readonly ReplicaProgress progress
    # Since the creation of this object, of clients' requests.
    cdef readonly int64_t produced_bytes
    cdef readonly int64_t produced_records
    cdef readonly int64_t fetched_bytes
    cdef readonly int64_t refused_produces
    cdef readonly int64_t refused_fetches
    cdef readonly int64_t replicated_bytes     # from a leader, as its follower
    # type: ReplicationQuota | None
    cdef readonly ReplicationQuota leader_quota    # None: fetches of its followers are not throttled
    # type: ReplicationQuota | None
    cdef readonly ReplicationQuota follower_quota  # None: its fetches from the leader are not throttled
    cdef object on_failure                 # None, or see `watch_failure`
    cdef object on_read_failure
    cdef object on_caught_up               # None, or see `watch_followers`
    cdef LogCore core                      # of `log`
    cdef Appender appender
    cdef Purgatory purgatory               # None until the partition is in a table
    cdef bint flush_awaited
    cdef Verifications verifications       # of transactions that begin here; None until the first in this leader epoch

    # Appends one client's batch. Raises what the engine raises; nothing has changed then. The caller has checked the
    # role. `check` and `bounded`: see `Appender.produce`.
    cdef AppendInfo produce(self, const uint8_t* data, Py_ssize_t size, int64_t now_ms, BatchCheck check, bint bounded)
    # Whether the producer has a transaction of that epoch open in this log.
    cdef bint in_transaction(self, int64_t producer_id, int16_t producer_epoch) noexcept
    # Begins to verify a transaction whose first batch has that sequence, or joins a pending verification. None when the
    # producer's epoch is older than one in the log.
    cdef Verification verify(self, int64_t producer_id, int16_t producer_epoch, int32_t sequence, bint adds,
                             int64_t now_ms)
    # Kafka's error for a batch that was verified; 0 when it may be appended.
    cdef int check_verified(self, Verification verification, int16_t producer_epoch, int32_t sequence) except -1
    # After an append: moves the high watermark, or waits for the flusher to do so; wakes pending requests.
    cdef int appended(self, int64_t bytes_count) except -1
    # The end of what this node has replicated: appended, or durable with group commit.
    cdef int64_t own_end(self) noexcept
    # Reports a failure of the log, once.
    cdef int note_failure(self) except -1
    # Reports a `StorageError` of a read; ignores any other error.
    cdef int note_read_failure(self, object error) except -1
    # Moves the high watermark as far as the in-sync replicas allow.
    cdef int advance(self) except -1
    # min.insync.replicas, at most as many as there are replicas.
    cdef int32_t minimum_in_sync(self) noexcept
    # A follower whose log starts at `log_start` fetches from `fetch_offset`: it has everything below. False when it is
    # no replica of this partition.
    cdef bint note_replica(self, int32_t node_id, int64_t log_start, int64_t fetch_offset,
                           int64_t broker_epoch) except -1
    # Which of `node_ids` a consumer should read `offset` from; -1: this node, or it does not lead.
    cdef int32_t preferred_replica(self, const int32_t* node_ids, Py_ssize_t count, int64_t offset) noexcept nogil
    # Whether that follower gets nothing for now: it is throttled and not in sync.
    cdef bint holds_back(self, int32_t node_id) noexcept
    # Appends what the leader sent. Raises what the engine raises; nothing has changed then.
    cdef int replicate(self, const uint8_t* data, Py_ssize_t size) except -1
    # The leader epoch of the last record; -1 when there is none.
    cdef int32_t last_epoch(self) except? -2
    # Applies the marks that the leader reported.
    cdef int follow_marks(self, int64_t high_watermark, int64_t log_start) except -1
    # Whether an append of `leader_epoch` that ends at `end_offset` may be acknowledged: 0, Kafka's error, or
    # COMMIT_PENDING. `all_replicas`: acks=all; else only this node must have it.
    cdef int commit_state(self, int64_t end_offset, int32_t leader_epoch, bint all_replicas) except -3
    # Kafka's error for a request that names `current_leader_epoch` (-1: none), 0 when it may continue.
    cdef int fence(self, int32_t current_leader_epoch, bint need_leader) noexcept
    # All pending requests check again.
    cdef int notify_all(self) except -1
    cdef int require(self, int32_t current_leader_epoch, bint need_leader) except -1
    # Raises OffsetNotAvailableError while the high watermark is below the start of the leader epoch.
    cdef int require_end(self) except -1
    # What `read(*arguments)` returns; a StorageError is noted and raised.
    cdef object look_up(self, object read, tuple arguments)


cdef class CommitWaiter(Parked):
    cdef Partition partition
    cdef int64_t end_offset
    cdef int32_t leader_epoch
    cdef object callback


cdef class DeletionWaiter(Parked):
    cdef Partition partition
    cdef int64_t before_offset
    cdef object is_alive
    cdef object callback

    cdef bint look(self) except -1
