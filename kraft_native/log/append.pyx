"""Appending to a log.

A call is all or nothing: every batch is validated and every producer's sequence checked before the first byte is
written. The caller's bytes are never changed. A copy of each batch's 61-byte header gets the offset and the epoch;
header copies and bodies go to the file in one call.

Order of effects (UnifiedLog.append):
1. Roll if due.
2. The epoch's start, durable, so that the file never misses an epoch of the log.
3. Bytes, indexes, producers and transaction index.
4. Log end, flush.

If anything from the first write on fails, the log is read-only and `log_end` does not move. Half-written bytes lie past
every mark, and the next open cuts them off.

A follower's call may fill several segments, when the leader's are larger. Then the bytes of each segment are one write.
If one fails, the earlier ones stay, and `log_end` is their end; nothing of the failed one or after it is visible.
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

from kraft_native.base.clock cimport clock_ms
from kraft_native.base.mutants cimport FOLLOWERS_DO_NOT_KNOW_PRODUCERS, mutant
from kraft_native.base.fault cimport Fault, raise_fault
from kraft_native.base.limits cimport (
    BATCH_HEADER_BYTES, CODEC_NONE, INT32_MAX_VALUE, NO_LEADER_EPOCH, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME,
)
from kraft_native.batch.batch cimport (
    LOOK_OK, BatchHeader, batch_assign, batch_bytes, batch_is_control, batch_is_transactional, batch_last_offset,
    batch_last_sequence, batch_load, batch_look, sequence_add,
)
from kraft_native.batch.control cimport encode_marker
from kraft_native.batch.records cimport encode_one
from kraft_native.batch.validate cimport (
    ORIGIN_CLIENT, ORIGIN_COORDINATOR, ORIGIN_RAFT_LEADER, VALIDATE_COSTLY, AppendOrigin, PreparedBatch,
    ValidateOptions, validate_batch,
)
from kraft_native.file.buffer cimport Scratch
from kraft_native.file.file_io cimport iovec
from kraft_native.log.apply cimport apply_batch, read_control
from kraft_native.log.batch_check cimport BatchCheck
from kraft_native.log.core cimport LogCore
from kraft_native.segment.producer_entry cimport KeptBatch
from kraft_native.segment.producers cimport PRODUCER_APPEND, PRODUCER_DUPLICATE
from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import (
    FencedLeaderEpochError, InvalidProducerEpochError, InvalidRecordError, InvalidTimestampError,
    InvalidTxnStateError, MessageTooLargeError, OutOfOrderSequenceError,
)


@cython.final
@cython.freelist(64)
cdef class AppendInfo:
    """Result of an append. `duplicate`: an idempotent producer's repeat; the offsets are those of its first append, and
    nothing was written. `log_append_time_ms` is -1 on logs whose records carry their creator's time."""

    def __repr__(self) -> str:
        return (f"AppendInfo(first_offset={self.first_offset}, last_offset={self.last_offset}"
                f"{', duplicate=True' if self.duplicate else ''})")


@cython.final
cdef class Appender:
    def __cinit__(self, LogCore core):
        self.core = core
        self.rewrites = [Scratch()]
        self.record = Scratch()
        self.reserve(1)

    def __dealloc__(self):
        free(self.pending)
        free(self.pieces)

    cdef int reserve(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t capacity = max(count, 2 * self.capacity)
        cdef void* grown
        if count <= self.capacity:
            return 0
        grown = realloc(self.pending, <size_t>capacity * sizeof(PendingBatch))
        if grown == NULL:
            raise MemoryError(f"{capacity} pending batches")
        self.pending = <PendingBatch*>grown
        grown = realloc(self.pieces, <size_t>capacity * 2 * sizeof(iovec))
        if grown == NULL:
            raise MemoryError(f"{capacity} pending batches")
        self.pieces = <iovec*>grown
        self.capacity = capacity
        return 0

    cdef AppendInfo answer(self, int64_t first_offset, int64_t last_offset, int64_t log_append_time_ms, bint duplicate):
        cdef AppendInfo info = AppendInfo.__new__(AppendInfo)
        info.first_offset = first_offset
        info.last_offset = last_offset
        info.log_append_time_ms = log_append_time_ms
        info.log_start_offset = self.core.log_start
        info.duplicate = duplicate
        return info

    # --- leader -----------------------------------------------------------------------------------------------------

    cdef AppendInfo leader(self, const uint8_t* data, Py_ssize_t size, int32_t leader_epoch, AppendOrigin origin,
                           int64_t now_ms, bint single):
        self.enter(leader_epoch)
        if now_ms < 0:
            now_ms = clock_ms()
        return self.lead(self.prepare(data, size, origin, now_ms, single), leader_epoch, origin, now_ms)

    cdef AppendInfo produce(self, const uint8_t* data, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms,
                            BatchCheck check, bint bounded):
        cdef ValidateOptions options
        self.enter(leader_epoch)
        if size <= 0:
            raise InvalidRecordError("no batch: the input is empty")
        if check is not None:
            check.give(&self.pending[0].prepared)
            now_ms = check.now_ms
        else:
            options = self.core.config.validation
            options.now_ms = now_ms
            options.origin = ORIGIN_CLIENT
            options.bounded = bounded
            if validate_batch(data, size, &options, self.core.scratch, self.rewrites[0],
                              &self.pending[0].prepared) == VALIDATE_COSTLY:
                return None
        self.pending[0].source = data
        self.pending[0].mark.kind = self.pending[0].mark.coordinator_epoch = -1
        return self.lead(1, leader_epoch, ORIGIN_CLIENT, now_ms)

    cdef int enter(self, int32_t leader_epoch) except -1:
        self.core.enter_write()
        if leader_epoch < 0 or leader_epoch < self.core.epochs.latest():
            raise FencedLeaderEpochError(f"append in leader epoch {leader_epoch}; the log is in epoch "
                                         f"{self.core.epochs.latest()}")
        return 0

    cdef AppendInfo lead(self, Py_ssize_t count, int32_t leader_epoch, AppendOrigin origin, int64_t now_ms):
        """Write what is pending and validated."""
        cdef LogCore core = self.core
        cdef AppendInfo info
        cdef Py_ssize_t i
        cdef int64_t bytes_count = self.assign(count, leader_epoch, origin)
        info = self.verify_producers(count, origin)
        if info is not None:
            return info
        for i in range(count):
            self.pieces[2 * i].iov_base = self.pending[i].prepared.header
            self.pieces[2 * i].iov_len = BATCH_HEADER_BYTES
            self.pieces[2 * i + 1].iov_base = <void*>self.pending[i].prepared.body
            self.pieces[2 * i + 1].iov_len = <size_t>self.pending[i].prepared.body_bytes
        self.commit(0, count, bytes_count, self.pieces, <int>(2 * count), now_ms)
        return self.answer(
            self.pending[0].prepared.h.base_offset, batch_last_offset(&self.pending[count - 1].prepared.h),
            now_ms if core.config.validation.timestamp_type == TIMESTAMP_LOG_APPEND_TIME else -1, False)

    cdef Py_ssize_t prepare(self, const uint8_t* data, Py_ssize_t size, AppendOrigin origin, int64_t now_ms,
                            bint single) except -1:
        """Validate every batch of the input; return their count."""
        cdef ValidateOptions options = self.core.config.validation
        cdef BatchHeader h
        cdef PendingBatch* pending
        cdef Scratch rewrite
        cdef Py_ssize_t count = 0, used = 0, length
        options.now_ms = now_ms
        options.origin = origin
        if size <= 0:
            raise InvalidRecordError("no batch: the input is empty")
        while size > 0:
            self.reserve(count + 1)
            pending = self.pending + count
            # Validation gets an incomplete batch as it is, and names the fault.
            length = size
            if not single and batch_look(data, size, False, &h, NULL) == LOOK_OK:
                length = batch_bytes(&h)
            if used == len(self.rewrites):
                self.rewrites.append(Scratch())
            rewrite = self.rewrites[used]
            validate_batch(data, length, &options, self.core.scratch, rewrite, &pending.prepared)
            if rewrite.data != NULL and rewrite.data <= pending.prepared.body < rewrite.data + rewrite.capacity:
                used += 1              # the next batch must not overwrite it
            pending.source = data
            pending.transaction_version = 0
            pending.mark.kind = pending.mark.coordinator_epoch = -1
            if batch_is_control(&pending.prepared.h) and pending.prepared.h.producer_id >= 0:
                read_control(data, &pending.prepared.h, &pending.mark)
            data += length
            size -= length
            count += 1
        return count

    cdef int64_t assign(self, Py_ssize_t count, int32_t leader_epoch, AppendOrigin origin) except -1:
        """Assign each batch its offset and epoch; return their total size in bytes."""
        cdef int64_t next_offset = self.core.log_end, bytes_count = 0
        cdef PreparedBatch* prepared
        cdef Py_ssize_t i
        for i in range(count):
            prepared = &self.pending[i].prepared
            if origin == ORIGIN_RAFT_LEADER:
                # The caller numbered the records itself; a batch at another place than it expects must not be accepted
                # (KAFKA-12331).
                if prepared.h.base_offset != next_offset or prepared.h.leader_epoch != leader_epoch:
                    raise InvalidRecordError(f"batch of offset {prepared.h.base_offset}, epoch "
                                             f"{prepared.h.leader_epoch}, where offset {next_offset}, epoch "
                                             f"{leader_epoch} is due")
            else:
                batch_assign(prepared.header, next_offset, leader_epoch)
                prepared.h.base_offset = next_offset
                prepared.h.leader_epoch = leader_epoch
            next_offset = batch_last_offset(&prepared.h) + 1
            bytes_count += BATCH_HEADER_BYTES + prepared.body_bytes
        if bytes_count > self.core.config.segment_bytes:
            raise MessageTooLargeError(f"{bytes_count} bytes in one append are more than a segment holds, "
                                       f"{self.core.config.segment_bytes} bytes (segment.bytes)")
        return bytes_count

    cdef AppendInfo verify_producers(self, Py_ssize_t count, AppendOrigin origin):
        """Check epochs and sequences; return the result when all batches repeat an earlier append, else None."""
        cdef BatchHeader* h
        cdef KeptBatch kept
        cdef int verdict
        cdef Py_ssize_t i, before, duplicates = 0
        cdef int64_t first_offset = -1, last_offset = -1, timestamp = -1
        for i in range(count):
            h = &self.pending[i].prepared.h
            if h.producer_id < 0:
                continue
            before = i - 1
            while before >= 0 and self.pending[before].prepared.h.producer_id != h.producer_id:
                before -= 1
            if batch_is_control(h):
                verdict = self.core.producers.verify_marker(h, self.pending[i].mark.coordinator_epoch,
                                                            self.pending[i].transaction_version, &kept)
            elif before >= 0 and duplicates == 0:
                # The producer state does not include the batch before it yet.
                self.verify_sequel(&self.pending[before].prepared.h, h)
                verdict = PRODUCER_APPEND
            else:
                verdict = self.core.producers.verify(h, origin == ORIGIN_CLIENT, &kept)
            if verdict == PRODUCER_DUPLICATE:
                duplicates += 1
                if duplicates == 1:
                    first_offset = kept.last_offset - kept.offset_delta
                last_offset = kept.last_offset
                timestamp = kept.timestamp
        if duplicates == 0:
            return None
        if duplicates < count:
            raise OutOfOrderSequenceError(f"{duplicates} of {count} batches in one append repeat earlier ones")
        return self.answer(first_offset, last_offset, timestamp
                           if self.core.config.validation.timestamp_type == TIMESTAMP_LOG_APPEND_TIME else -1, True)

    cdef int verify_sequel(self, const BatchHeader* before, const BatchHeader* h) except -1:
        """Check that the second of two batches of one producer in one call follows the first."""
        if h.producer_epoch < before.producer_epoch:
            raise InvalidProducerEpochError(f"producer {h.producer_id}: epoch {h.producer_epoch} after "
                                            f"{before.producer_epoch} in one append")
        if h.base_sequence >= 0 and h.base_sequence != (
            0 if h.producer_epoch != before.producer_epoch else sequence_add(batch_last_sequence(before), 1)
        ):
            raise OutOfOrderSequenceError(f"producer {h.producer_id}: sequence {h.base_sequence} does not follow "
                                          f"{batch_last_sequence(before)} in one append")
        if batch_is_transactional(before) and not batch_is_control(before) and not batch_is_transactional(h):
            raise InvalidTxnStateError(f"producer {h.producer_id}: a batch outside its open transaction in one append")
        return 0

    cdef int commit(self, Py_ssize_t first, Py_ssize_t end, int64_t bytes_count, iovec* pieces, int piece_count,
                    int64_t now_ms) except -1:
        """Write the pending batches [first, end) and update everything that follows from them."""
        cdef LogCore core = self.core
        cdef BatchHeader* h = &self.pending[first].prepared.h
        cdef int64_t max_timestamp = h.max_timestamp
        cdef int64_t last_offset = batch_last_offset(&self.pending[end - 1].prepared.h)
        cdef Py_ssize_t i
        cdef Segment active
        for i in range(first + 1, end):
            max_timestamp = max(max_timestamp, self.pending[i].prepared.h.max_timestamp)
        try:
            if core.roll_due(bytes_count, last_offset, max_timestamp, now_ms):
                core.roll(h.base_offset)
            active = core.active
            for i in range(first, end):
                h = &self.pending[i].prepared.h
                if h.leader_epoch != core.epochs.latest() and h.leader_epoch >= 0:
                    core.begin_epoch(h.leader_epoch, h.base_offset)
            active.write(pieces, piece_count, bytes_count)
            for i in range(first, end):
                active.count_batch(&self.pending[i].prepared.h)
                apply_batch(core.producers, active, &self.pending[i].prepared.h, &self.pending[i].mark)
        except BaseException as error:
            core.fail(error)
        core.log_end = last_offset + 1
        core.write_done(bytes_count)
        return 0

    # --- follower ---------------------------------------------------------------------------------------------------

    cdef AppendInfo follower(self, const uint8_t* data, Py_ssize_t size):
        cdef iovec piece
        cdef Py_ssize_t count, first = 0, i
        cdef int64_t bytes_count = 0, now_ms = clock_ms(), first_offset
        cdef int64_t segment_bytes = self.core.config.segment_bytes
        cdef BatchHeader* h
        self.core.enter_write()
        count = self.look_through(data, size)
        first_offset = self.pending[0].prepared.h.base_offset
        # The leader's segments may be larger than ours: what does not fit into one segment goes into several.
        for i in range(count):
            h = &self.pending[i].prepared.h
            if i > first and (
                bytes_count + batch_bytes(h) > segment_bytes
                or batch_last_offset(h) - self.pending[first].prepared.h.base_offset > INT32_MAX_VALUE
            ):
                piece.iov_base = <void*>self.pending[first].source
                piece.iov_len = <size_t>bytes_count
                self.commit(first, i, bytes_count, &piece, 1, now_ms)
                first = i
                bytes_count = 0
            bytes_count += batch_bytes(h)
        piece.iov_base = <void*>self.pending[first].source
        piece.iov_len = <size_t>bytes_count
        self.commit(first, count, bytes_count, &piece, 1, now_ms)
        return self.answer(first_offset, self.core.log_end - 1, -1, False)

    cdef Py_ssize_t look_through(self, const uint8_t* data, Py_ssize_t size) except -1:
        """Check a leader's batches; return their count."""
        cdef PendingBatch* pending
        cdef BatchHeader* h
        cdef Fault fault
        cdef Py_ssize_t count = 0
        cdef int64_t next_offset = self.core.log_end
        cdef int32_t epoch = self.core.epochs.epoch_at(next_offset - 1)
        cdef int64_t gaps_end = -1
        if size <= 0:
            raise InvalidRecordError("no batch: the input is empty")
        while size > 0:
            self.reserve(count + 1)
            pending = self.pending + count
            h = &pending.prepared.h
            if batch_look(data, size, True, h, &fault) != LOOK_OK:
                raise_fault(&fault)
            if h.base_offset < next_offset:
                raise InvalidRecordError(f"base offset {h.base_offset} of a replicated batch is below "
                                         f"{next_offset}, where the log stands")
            # Messages of format v0 and v1 have no epoch (-1), nor have the batches that compaction made of them.
            if h.leader_epoch < epoch and h.leader_epoch != NO_LEADER_EPOCH:
                raise FencedLeaderEpochError(f"batch of leader epoch {h.leader_epoch} at offset {h.base_offset} after "
                                             f"one of epoch {epoch}")
            pending.source = data
            pending.mark.kind = pending.mark.coordinator_epoch = -1
            if batch_is_control(h) and h.producer_id >= 0:
                read_control(data, h, &pending.mark)
            if mutant(FOLLOWERS_DO_NOT_KNOW_PRODUCERS):
                h.producer_id = -1
            if h.base_offset > next_offset:
                gaps_end = h.base_offset
            epoch = max(epoch, h.leader_epoch)
            next_offset = batch_last_offset(h) + 1
            data += batch_bytes(h)
            size -= batch_bytes(h)
            count += 1
        if gaps_end >= 0:
            self.core.note_gaps(gaps_end)
        return count

    # --- one marker -------------------------------------------------------------------------------------------------

    cdef AppendInfo marker(self, bint commit, int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch,
                           int transaction_version, int32_t leader_epoch, int64_t now_ms):
        self.enter(leader_epoch)
        encode_marker(self.record, commit, producer_id, producer_epoch, coordinator_epoch, now_ms, 0, leader_epoch)
        self.prepare(self.record.data, self.record.size, ORIGIN_COORDINATOR, now_ms, True)
        self.pending[0].transaction_version = transaction_version
        return self.lead(1, leader_epoch, ORIGIN_COORDINATOR, now_ms)

    # --- one record -------------------------------------------------------------------------------------------------

    cdef int64_t one(self, const uint8_t* key, Py_ssize_t key_bytes, const uint8_t* value, Py_ssize_t value_bytes,
                     const uint8_t* headers, Py_ssize_t headers_bytes, int32_t header_count, int64_t timestamp_ms,
                     int32_t leader_epoch) except -1:
        cdef LogCore core = self.core
        cdef const ValidateOptions* options = &core.config.validation
        cdef int64_t now_ms = clock_ms(), offset = core.log_end
        cdef iovec piece
        core.enter_write()
        if timestamp_ms < 0:
            timestamp_ms = now_ms
        self.record.size = 0
        encode_one(self.record, 0, leader_epoch, timestamp_ms, key, key_bytes, value, value_bytes, headers,
                   headers_bytes, header_count)
        if (
            (options.target_codec != -1 and options.target_codec != CODEC_NONE)
            or options.timestamp_type != TIMESTAMP_CREATE_TIME
            or leader_epoch < core.epochs.latest()
        ):
            return self.leader(self.record.data, self.record.size, leader_epoch, ORIGIN_CLIENT, now_ms,
                               True).first_offset
        # This code built the batch: of all the checks on a client's batch only those on its content apply.
        if timestamp_ms > now_ms and timestamp_ms - now_ms > options.timestamp_after_max_ms:
            raise InvalidTimestampError(f"timestamp {timestamp_ms} is more than {options.timestamp_after_max_ms} ms "
                                        f"after the clock, {now_ms}")
        if now_ms - timestamp_ms > options.timestamp_before_max_ms:
            raise InvalidTimestampError(f"timestamp {timestamp_ms} is more than {options.timestamp_before_max_ms} ms "
                                        f"before the clock, {now_ms}")
        if self.record.size > options.batch_bytes_max or self.record.size > core.config.segment_bytes:
            raise MessageTooLargeError(f"a batch of {self.record.size} bytes; max.message.bytes is "
                                       f"{options.batch_bytes_max}, segment.bytes {core.config.segment_bytes}")
        if options.key_required and key_bytes < 0:
            raise InvalidRecordError("a compacted log needs a key in every record",
                                     ((0, "the record has no key"),))
        batch_assign(self.record.data, offset, leader_epoch)
        batch_load(self.record.data, &self.pending[0].prepared.h)
        self.pending[0].mark.kind = self.pending[0].mark.coordinator_epoch = -1
        piece.iov_base = self.record.data
        piece.iov_len = <size_t>self.record.size
        self.commit(0, 1, self.record.size, &piece, 1, now_ms)
        return offset
