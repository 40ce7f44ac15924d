"""Producer-id state of one log (Kafka's ProducerStateManager and ProducerAppendInfo; KIP-98, KIP-360).

For each producer id: the epoch, the last five batches (for duplicates), the first offset of its open transaction. The
table is an open-addressing hash table over a dense array; one update creates no Python object. Slots are seeded per
table, because producer ids come from clients. Snapshot files are `producer_snapshots`.

Used by the thread that owns the log.
"""

import os

from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove, memset

cimport cython

from kraft_native.base.limits cimport (
    BATCH_HEADER_BYTES, CONTROL_ABORT, CONTROL_COMMIT, INT32_MAX_VALUE, NO_PRODUCER_EPOCH, PRODUCER_BATCHES_KEPT,
)
from kraft_native.base.mutants cimport (
    FENCED_PRODUCER_EPOCH_IS_ACCEPTED, GAPS_ARE_ACCEPTED, SEQUENCES_SURVIVE_AN_EPOCH_BUMP, mutant,
)
from kraft_native.batch.batch cimport (
    batch_is_control, batch_is_transactional, batch_last_offset, batch_last_sequence, batch_load,
)
from kraft_native.segment.producer_entry cimport (
    TxnRange, last_sequence, queue_front, queue_pop_front, queue_push, queue_remove, queue_reserve, set_epoch,
)
from kraft_native.segment.producer_snapshots cimport (
    describe_entry, earlier_batch, earlier_count, encode_snapshot, put_earlier, snapshot_count, snapshot_entry,
)

from kraft_native.base.errors import (
    CorruptFileError, InvalidArgumentError, InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kraft_native.file.file_io import read_file, unlink, write_atomic
from kraft_native.segment.producer_snapshots import (
    list_snapshots, remove_snapshots_after, remove_snapshots_before, snapshot_path,
)

cdef enum:
    SLOTS_MIN = 16
    STRICT_MARKERS_FROM = 2        # transaction.version


cdef int compare_ranges(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const TxnRange*>a).first_offset
    cdef int64_t y = (<const TxnRange*>b).first_offset
    return (x > y) - (x < y)


@cython.final
cdef class ProducerStates:
    """The producers of one log.

    `expiration_ms` is `producer.id.expiration.ms`: a producer without an open transaction is dropped when its last
    write is that old. Life of a batch: `verify`, write, `update`, `advance`. Life of the object: `truncate_and_reload`,
    then the log replays its batches from `map_end_offset` on.

    Invariant: a producer has an open transaction exactly when `open_txns` holds (its first offset, its id).
    """

    def __cinit__(self, *, int64_t expiration_ms=86_400_000):
        if expiration_ms < 1:
            raise InvalidArgumentError(f"producer.id.expiration.ms is {expiration_ms}, must be at least 1")
        self.expiration_ms = expiration_ms
        self.slots = NULL
        self.entries = NULL
        memset(&self.open_txns, 0, sizeof(TxnQueue))
        memset(&self.ended_txns, 0, sizeof(TxnQueue))
        self.seed = int.from_bytes(os.urandom(8), "little")
        if self.resize_slots(SLOTS_MIN) < 0:
            raise MemoryError("producer table")

    def __dealloc__(self):
        free(self.slots)
        free(self.entries)
        free(self.open_txns.items)
        free(self.ended_txns.items)

    def __len__(self) -> int:
        return self.entry_count

    @property
    def open_transactions(self) -> int:
        """Number of open transactions."""
        return self.open_txns.count

    # --- the table

    cdef uint32_t slot_of(self, int64_t producer_id) noexcept nogil:
        """The slot that holds the producer, or the free one where it would go."""
        cdef uint64_t x = <uint64_t>producer_id ^ self.seed
        cdef uint32_t slot
        x = (x ^ (x >> 32)) * <uint64_t>0x9E3779B97F4A7C15
        x = (x ^ (x >> 29)) * <uint64_t>0xBF58476D1CE4E5B9
        slot = <uint32_t>(x >> 32) & self.slot_mask
        while self.slots[slot].index >= 0 and self.slots[slot].producer_id != producer_id:
            slot = (slot + 1) & self.slot_mask
        return slot

    cdef ProducerEntry* find(self, int64_t producer_id) noexcept nogil:
        cdef int32_t index = self.slots[self.slot_of(producer_id)].index
        return self.entries + index if index >= 0 else NULL

    cdef ProducerStates copy_of_batches(self):
        cdef ProducerStates copied = ProducerStates(expiration_ms=self.expiration_ms)
        if self.entry_count > 0:
            copied.entries = <ProducerEntry*>malloc(<size_t>self.entry_count * sizeof(ProducerEntry))
            if copied.entries == NULL:
                raise MemoryError("producer table")
            memcpy(copied.entries, self.entries, <size_t>self.entry_count * sizeof(ProducerEntry))
            copied.entry_count = copied.entry_capacity = self.entry_count
            if copied.resize_slots(self.slot_mask + 1) < 0:
                raise MemoryError("producer table")
        return copied

    cdef int resize_slots(self, uint32_t slot_count) noexcept nogil:
        """Create a slot array of a power of two. -1 when memory is refused; the old one is kept then."""
        cdef ProducerSlot* fresh = <ProducerSlot*>malloc(<size_t>slot_count * sizeof(ProducerSlot))
        cdef uint32_t slot
        cdef int32_t i
        if fresh == NULL:
            return -1
        for slot in range(slot_count):
            fresh[slot].index = -1
        free(self.slots)
        self.slots = fresh
        self.slot_mask = slot_count - 1
        for i in range(self.entry_count):
            slot = self.slot_of(self.entries[i].producer_id)
            self.slots[slot].producer_id = self.entries[i].producer_id
            self.slots[slot].index = i
        return 0

    cdef ProducerEntry* obtain(self, int64_t producer_id) noexcept nogil:
        """The producer's entry, a new empty one if need be. NULL when memory is refused; nothing has changed then."""
        cdef uint32_t slot = self.slot_of(producer_id)
        cdef int32_t capacity
        cdef ProducerEntry* e
        if self.slots[slot].index >= 0:
            return self.entries + self.slots[slot].index
        if self.entry_count == self.entry_capacity:
            capacity = 2 * self.entry_capacity + 8
            e = <ProducerEntry*>realloc(self.entries, <size_t>capacity * sizeof(ProducerEntry))
            if e == NULL:
                return NULL
            self.entries = e
            self.entry_capacity = capacity
        if <uint32_t>self.entry_count * 2 > self.slot_mask:
            if self.resize_slots(2 * (self.slot_mask + 1)) < 0:
                return NULL
            slot = self.slot_of(producer_id)
        self.slots[slot].producer_id = producer_id
        self.slots[slot].index = self.entry_count
        e = self.entries + self.entry_count
        self.entry_count += 1
        memset(e, 0, sizeof(ProducerEntry))
        e.producer_id = producer_id
        e.txn_first_offset = -1
        e.last_timestamp = -1
        e.marker_offset = -1
        e.coordinator_epoch = -1
        e.producer_epoch = NO_PRODUCER_EPOCH
        return e

    cdef int remove_at(self, int32_t index) noexcept nogil:
        """Remove entries[index]; the last entry takes its place."""
        cdef uint32_t hole = self.slot_of(self.entries[index].producer_id)
        cdef uint32_t slot = hole
        cdef ProducerSlot moving
        cdef int32_t last = self.entry_count - 1
        self.slots[hole].index = -1
        if index != last:
            self.entries[index] = self.entries[last]
        self.entry_count = last
        # The hole may have pushed the entries after it: put each one back where it is searched for.
        while True:
            slot = (slot + 1) & self.slot_mask
            if self.slots[slot].index < 0:
                break
            moving = self.slots[slot]
            self.slots[slot].index = -1
            self.slots[self.slot_of(moving.producer_id)] = moving
        if index != last:
            self.slots[self.slot_of(self.entries[index].producer_id)].index = index
        return 0

    cdef int clear(self) noexcept nogil:
        """Remove all producers and transactions."""
        cdef uint32_t slot
        for slot in range(self.slot_mask + 1):
            self.slots[slot].index = -1
        self.entry_count = 0
        self.open_txns.head = self.open_txns.count = 0
        self.ended_txns.head = self.ended_txns.count = 0
        return 0

    # --- one batch

    cdef int verify(self, const BatchHeader* h, bint client_origin, KeptBatch* duplicate) except -1:
        """Decide whether the leader may append the batch: PRODUCER_APPEND, or PRODUCER_DUPLICATE with the batch it
        repeats.

        A batch without a producer id, and any sequence of an unknown producer id, passes.
        """
        cdef ProducerEntry* e
        cdef bint same_epoch
        cdef int32_t last
        cdef int i
        if h.producer_id < 0:
            return PRODUCER_APPEND
        e = self.find(h.producer_id)
        if e == NULL:
            return PRODUCER_APPEND
        last = batch_last_sequence(h)
        same_epoch = h.producer_epoch == e.producer_epoch or (
            h.producer_epoch > e.producer_epoch and mutant(SEQUENCES_SURVIVE_AN_EPOCH_BUMP))
        if client_origin and same_epoch:
            for i in range(e.batch_count):
                if e.batches[i].first_sequence == h.base_sequence and e.batches[i].last_sequence == last:
                    duplicate[0] = e.batches[i]
                    return PRODUCER_DUPLICATE
        if h.producer_epoch < e.producer_epoch:
            if mutant(FENCED_PRODUCER_EPOCH_IS_ACCEPTED):
                return PRODUCER_APPEND
            raise InvalidProducerEpochError(f"producer {h.producer_id}: epoch {h.producer_epoch} is older than the "
                                            f"last seen epoch {e.producer_epoch}")
        if client_origin and e.producer_epoch != NO_PRODUCER_EPOCH and not mutant(GAPS_ARE_ACCEPTED):
            if not same_epoch:
                if h.base_sequence != 0:
                    raise OutOfOrderSequenceError(
                        f"producer {h.producer_id}: sequence {h.base_sequence} is the first of new epoch "
                        f"{h.producer_epoch}, must be 0")
            else:
                last = last_sequence(e)
                if h.base_sequence != (0 if last == INT32_MAX_VALUE else last + 1):
                    raise OutOfOrderSequenceError(
                        f"producer {h.producer_id}: sequence {h.base_sequence} does not follow {last} "
                        f"(epoch {e.producer_epoch})")
        if e.txn_first_offset >= 0 and not batch_is_transactional(h):
            raise InvalidTxnStateError(
                f"producer {h.producer_id}: a batch outside its transaction, which is open since offset "
                f"{e.txn_first_offset}")
        return PRODUCER_APPEND

    cdef int verify_marker(self, const BatchHeader* h, int32_t coordinator_epoch, int transaction_version,
                           KeptBatch* duplicate) except -1:
        """Check a marker against the producer's last epoch (KIP-890).

        Up to transaction.version 1 a marker has the epoch of its transaction, or a higher one. From version 2 on each
        transaction ends in a higher epoch, so that a late marker cannot end a later transaction. The same epoch without
        an open transaction is a coordinator's retry, and is accepted (KAFKA-19999). It is a duplicate, unless its
        coordinator is a later one, which fences the one before.
        """
        cdef ProducerEntry* e = self.find(h.producer_id)
        if e == NULL:
            return PRODUCER_APPEND
        if h.producer_epoch < e.producer_epoch:
            raise InvalidProducerEpochError(
                f"producer {h.producer_id}: marker of epoch {h.producer_epoch} is older than the last seen epoch "
                f"{e.producer_epoch}")
        if (h.producer_epoch == e.producer_epoch and transaction_version >= STRICT_MARKERS_FROM
                and e.txn_first_offset >= 0):
            raise InvalidProducerEpochError(
                f"producer {h.producer_id}: marker of epoch {h.producer_epoch}, in which a transaction is open since "
                f"offset {e.txn_first_offset}; its own marker has a higher epoch (transaction.version "
                f"{transaction_version})")
        if coordinator_epoch < e.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"producer {h.producer_id}: marker of coordinator epoch {coordinator_epoch}, "
                f"the last seen one is {e.coordinator_epoch}")
        if (h.producer_epoch == e.producer_epoch and coordinator_epoch == e.coordinator_epoch
                and e.txn_first_offset < 0):
            duplicate.last_offset = e.marker_offset if e.marker_offset >= 0 else self.map_end_offset - 1
            duplicate.offset_delta = 0
            duplicate.timestamp = e.last_timestamp
            return PRODUCER_DUPLICATE
        return PRODUCER_APPEND

    cdef int update(self, const BatchHeader* h, int32_t control_type, int32_t coordinator_epoch,
                    AbortedTxn* completed) except -1 nogil:
        cdef int result
        if h.producer_id < 0:
            return TXN_NONE
        if batch_is_control(h):
            result = self.apply_marker(h, control_type, coordinator_epoch, completed)
        else:
            result = self.apply_data(h)
        if result < 0:
            with gil:
                raise MemoryError("producer table")
        return result

    cdef int apply_data(self, const BatchHeader* h) noexcept nogil:
        """Apply a written batch, even one that `verify` would have refused: the log is right by definition."""
        cdef ProducerEntry* e
        cdef KeptBatch* kept
        if queue_reserve(&self.open_txns, 1) < 0:
            return -1
        e = self.obtain(h.producer_id)
        if e == NULL:
            return -1
        set_epoch(e, h.producer_epoch)
        if e.batch_count == PRODUCER_BATCHES_KEPT:
            memmove(e.batches, e.batches + 1, (PRODUCER_BATCHES_KEPT - 1) * sizeof(KeptBatch))
            e.batch_count -= 1
        kept = e.batches + e.batch_count
        e.batch_count += 1
        kept.last_offset = batch_last_offset(h)
        kept.timestamp = h.max_timestamp
        kept.first_sequence = h.base_sequence
        kept.last_sequence = batch_last_sequence(h)
        kept.offset_delta = h.last_offset_delta
        e.last_timestamp = h.max_timestamp
        if e.txn_first_offset < 0 and batch_is_transactional(h):
            e.txn_first_offset = h.base_offset
            queue_push(&self.open_txns, h.base_offset, -1, h.producer_id)
        return TXN_NONE

    cdef int apply_marker(self, const BatchHeader* h, int32_t control_type, int32_t coordinator_epoch,
                          AbortedTxn* completed) noexcept nogil:
        cdef ProducerEntry* e
        cdef TxnQueue* ended = &self.ended_txns
        cdef int64_t first_offset
        if control_type != CONTROL_ABORT and control_type != CONTROL_COMMIT:
            return TXN_NONE
        if queue_reserve(ended, 1) < 0:
            return -1
        e = self.obtain(h.producer_id)
        if e == NULL:
            return -1
        first_offset = e.txn_first_offset
        set_epoch(e, h.producer_epoch)
        e.coordinator_epoch = coordinator_epoch
        e.marker_offset = h.base_offset
        e.last_timestamp = h.max_timestamp
        e.txn_first_offset = -1
        if first_offset < 0:
            return TXN_NONE
        queue_remove(&self.open_txns, first_offset, h.producer_id)
        # A transaction that began later and ended earlier can never be the oldest unstable one again: drop it, so that
        # the front of the queue is always the oldest.
        while ended.count > 0 and ended.items[ended.head + ended.count - 1].first_offset >= first_offset:
            ended.count -= 1
        queue_push(ended, first_offset, h.base_offset, h.producer_id)
        completed.producer_id = h.producer_id
        completed.first_offset = first_offset
        completed.last_offset = h.base_offset
        completed.last_stable_offset = h.base_offset + 1
        if self.open_txns.count > 0:
            completed.last_stable_offset = queue_front(&self.open_txns).first_offset
        return TXN_ABORTED if control_type == CONTROL_ABORT else TXN_COMMITTED

    cdef int64_t first_unstable(self, int64_t high_watermark) noexcept nogil:
        """Limit of what read_committed readers see (below the high watermark); -1: no such limit.

        Also drops transactions whose marker lies below `high_watermark`, which must not go back between calls.
        """
        cdef TxnQueue* ended = &self.ended_txns
        cdef int64_t first = -1
        while ended.count > 0 and queue_front(ended).last_offset < high_watermark:
            queue_pop_front(ended)
        if ended.count > 0:
            first = queue_front(ended).first_offset
        if self.open_txns.count > 0 and (first < 0 or queue_front(&self.open_txns).first_offset < first):
            first = queue_front(&self.open_txns).first_offset
        return first

    cdef int advance(self, int64_t map_end_offset) noexcept nogil:
        self.map_end_offset = map_end_offset
        return 0

    cpdef int remove_expired(self, int64_t now_ms) except -1:
        """Remove producers idle for `expiration_ms` without an open transaction. Return their count."""
        cdef int32_t i = 0
        cdef int32_t before = self.entry_count
        with nogil:
            while i < self.entry_count:
                if is_expired(self.entries + i, now_ms, self.expiration_ms):
                    self.remove_at(i)
                else:
                    i += 1
        return before - self.entry_count

    # --- snapshots

    # type: (FilePath, int, bool) -> bool
    cpdef bint write_snapshot(self, object directory, int64_t offset, bint durable=True) except -1:
        """Write `<offset>.snapshot` into `directory`. False, and no file, when `offset` is that of the last one.

        `offset` is the log end: `map_end_offset`, or more when a segment was rolled to a higher base offset; the state
        then covers that. With `durable=False` the file may be lost or empty after a power loss, which `load` notices:
        the state is then rebuilt from an older snapshot and the log.
        """
        if offset < self.map_end_offset:
            raise InvalidArgumentError(f"snapshot at offset {offset}, but the state covers up to {self.map_end_offset}")
        self.map_end_offset = offset
        if offset <= self.snapshot_offset:
            return False
        write_atomic(snapshot_path(directory, offset), encode_snapshot(self.entries, self.entry_count), durable=durable)
        self.snapshot_offset = offset
        return True

    cpdef int load(self, object path, int64_t offset, int64_t now_ms) except -1:  # type: (FilePath, int, int) -> int
        """Replace the state by that of the snapshot file, which was taken at `offset`; expired producers are left out.

        CorruptFileError: not a whole, valid snapshot; the state is empty then.
        """
        cdef bytes data = read_file(path)
        self.clear()
        try:
            self.decode(path, data, now_ms)
        except BaseException:
            self.clear()
            raise
        self.map_end_offset = offset
        self.snapshot_offset = offset
        return 0

    cdef int decode(self, object path, bytes data, int64_t now_ms) except -1:
        """Fill the empty table."""
        cdef ProducerEntry entry
        cdef ProducerEntry* e
        cdef KeptBatch kept
        cdef int64_t producer_id
        cdef int32_t i
        cdef int32_t count = snapshot_count(path, data)
        if queue_reserve(&self.open_txns, count) < 0:
            raise MemoryError("producer snapshot")
        for i in range(count):
            snapshot_entry(data, i, &entry)
            if entry.producer_id < 0 or self.find(entry.producer_id) != NULL:
                raise CorruptFileError(
                    f"{os.fsdecode(path)}: producer id {entry.producer_id} is negative or there twice")
            if is_expired(&entry, now_ms, self.expiration_ms):
                continue
            e = self.obtain(entry.producer_id)
            if e == NULL:
                raise MemoryError("producer snapshot")
            e[0] = entry
            if e.txn_first_offset >= 0:
                queue_push(&self.open_txns, e.txn_first_offset, -1, e.producer_id)
        for i in range(earlier_count(data, count)):
            producer_id = earlier_batch(data, count, i, &kept)
            e = self.find(producer_id)
            if e != NULL and not put_earlier(e, &kept):
                raise CorruptFileError(f"{os.fsdecode(path)}: the batch of producer {producer_id} up to "
                                       f"{kept.last_offset} is not one before its last")
        if self.open_txns.count > 1:
            qsort(queue_front(&self.open_txns), <size_t>self.open_txns.count, sizeof(TxnRange), compare_ranges)
        return 0

    cpdef list truncate_and_reload(self, object directory, int64_t log_start, int64_t log_end, int64_t now_ms,
                                   bint apart=False):  # type: (FilePath, int, int, int, bool) -> list[tuple[str, str]]
        """Make the state fit a log that now covers [log_start, log_end). Called at open and after every truncation.

        Removes snapshots outside that range. A state that does not end at `log_end` is replaced by the latest usable
        snapshot, or an empty state at `log_start`. The caller then replays its batches from `map_end_offset` to the log
        end. Malformed snapshots are removed, and returned as (path, reason). `apart`: the directory is not ours,
        nothing is removed.
        """
        cdef list corrupt = []
        cdef list offsets = list_snapshots(directory)
        if not apart and offsets and not log_start < offsets[0] <= offsets[len(offsets) - 1] <= log_end:
            remove_snapshots_after(directory, log_end)
            remove_snapshots_before(directory, log_start + 1)
            offsets = list_snapshots(directory)
        if log_end == self.map_end_offset:
            self.begin_at(log_start, offsets)
            return corrupt
        for offset in reversed(offsets):
            if not log_start < offset <= log_end:
                continue
            path = snapshot_path(directory, offset)
            try:
                self.load(path, offset, now_ms)
                return corrupt
            except CorruptFileError as error:
                corrupt.append((path, str(error)))
                if not apart:
                    unlink(path, missing_ok=True)
        self.clear()
        self.map_end_offset = log_start
        self.snapshot_offset = log_start
        return corrupt

    cpdef int truncate_fully(self, object directory, int64_t offset) except -1:  # type: (FilePath, int) -> int
        """Remove everything, snapshots too: the log is empty and starts at `offset`."""
        self.clear()
        self.map_end_offset = offset
        self.snapshot_offset = offset
        remove_snapshots_after(directory, -1)
        return 0

    # type: (FilePath, int) -> int
    cpdef int log_start_incremented(self, object directory, int64_t log_start) except -1:
        """Apply a new log start: transactions that ended below it no longer hold readers back."""
        return self.begin_at(log_start, list_snapshots(directory))

    cdef int begin_at(self, int64_t log_start, list offsets) except -1:
        """Apply a new log start, with the existing snapshots."""
        while self.ended_txns.count > 0 and queue_front(&self.ended_txns).last_offset < log_start:
            queue_pop_front(&self.ended_txns)
        if self.map_end_offset < log_start:
            self.map_end_offset = log_start
        self.snapshot_offset = offsets.pop() if offsets else log_start
        return 0

    # --- for Python

    def describe(self) -> list[ProducerState]:
        """All producers, by ascending id."""
        cdef int32_t i
        cdef ProducerEntry* e
        cdef list found = []
        for i in range(self.entry_count):
            e = self.entries + i
            found.append(describe_entry(e))
        found.sort()
        return found

    def verify_header(self, const uint8_t[::1] header not None, *, bint client_origin=True,
                      coordinator_epoch: int | None = None, int transaction_version=0) -> tuple[int, int, int] | None:
        """Result that an append of a batch with this header (its first 61 bytes) would have: None when it may be
        appended.

        A duplicate returns (base offset, last offset, timestamp) of the batch it repeats. A refusal raises
        OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError, and for a marker, whose
        `coordinator_epoch` must be given, TransactionCoordinatorFencedError.
        """
        cdef BatchHeader h
        cdef KeptBatch kept
        cdef int verdict
        load_header(header, &h)
        if batch_is_control(&h):
            verdict = self.verify_marker(&h, coordinator_epoch, transaction_version, &kept)
        else:
            verdict = self.verify(&h, client_origin, &kept)
        if verdict == PRODUCER_APPEND:
            return None
        return kept.last_offset - kept.offset_delta, kept.last_offset, kept.timestamp

    def update_header(self, const uint8_t[::1] header not None, *, int32_t control_type=-1,
                      int32_t coordinator_epoch=-1) -> tuple[bool, int, int, int, int] | None:
        """Apply a written batch by its header and advance to its end.

        Returns None, or for a marker that ended a transaction (aborted, producer id, first offset, marker's offset,
        last stable offset after it).
        """
        cdef BatchHeader h
        cdef AbortedTxn done
        cdef int end
        load_header(header, &h)
        end = self.update(&h, control_type, coordinator_epoch, &done)
        self.advance(batch_last_offset(&h) + 1)
        if end == TXN_NONE:
            return None
        return end == TXN_ABORTED, done.producer_id, done.first_offset, done.last_offset, done.last_stable_offset

    def first_unstable_offset(self, int64_t high_watermark) -> int:
        """The oldest first offset of a transaction that is open, or whose marker is not below `high_watermark`.

        -1 without one. `high_watermark` must not go back between calls.
        """
        return self.first_unstable(high_watermark)


cdef inline bint is_expired(const ProducerEntry* e, int64_t now_ms, int64_t expiration_ms) noexcept nogil:
    return e.txn_first_offset < 0 and now_ms - e.last_timestamp >= expiration_ms


cdef int load_header(const uint8_t[::1] header, BatchHeader* h) except -1:
    if header.shape[0] < BATCH_HEADER_BYTES:
        raise InvalidArgumentError(f"header of {header.shape[0]} bytes, a batch header has {BATCH_HEADER_BYTES}")
    batch_load(&header[0], h)
    return 0
