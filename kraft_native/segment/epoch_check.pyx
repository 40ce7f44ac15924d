"""Comparison of batches' leader epochs with the log's epoch cache. The epoch lies outside a batch's CRC."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, fault_set
from kraft_native.base.limits cimport BATCH_MAGIC, MAGIC_CURRENT, NO_LEADER_EPOCH
from kraft_native.batch.batch cimport (
    LOOK_OK, BatchHeader, batch_bytes, batch_bytes_at, batch_last_offset, batch_load, batch_look,
)
from kraft_native.segment.scan cimport scan_epoch


cdef int64_t check_epochs(LeaderEpochCache epochs, const uint8_t* data, int64_t position, int64_t end, int64_t size,
                          int32_t* epoch_before, Fault* fault) except -1:
    cdef BatchHeader h
    cdef int64_t reached, epoch_end
    cdef int32_t epoch
    while position < end:
        if data[position + BATCH_MAGIC] != MAGIC_CURRENT:
            position += batch_bytes_at(data + position)        # formats v0 and v1 have no epochs, -1 in batches of v2
            continue
        batch_load(data + position, &h)
        # Its last offset, because a log start within the batch has become the start of its epoch.
        epoch = epochs.epoch_from(batch_last_offset(&h), &epoch_end)
        with nogil:
            reached = scan_epoch(data, position, end, epoch_end, h.leader_epoch)
        if (
            h.leader_epoch != epoch and epoch >= 0 and h.leader_epoch != NO_LEADER_EPOCH
            and (epochs.trusted or contradicts_neighbours(data + position, size - position, &h, epoch_before[0]))
        ):
            fault_set(fault, ERROR_CORRUPT_MESSAGE, "leader epoch %lld where the log was in %lld", h.leader_epoch,
                      epoch)
            return position
        if h.leader_epoch >= 0:
            epoch_before[0] = h.leader_epoch
        position = reached
    return end


cdef bint contradicts_neighbours(const uint8_t* batch, int64_t size, const BatchHeader* h,
                                 int32_t epoch_before) noexcept nogil:
    """Return whether a batch with another epoch than the cache's is damaged, though the cache may be wrong instead. It
    is if its epoch is above, or below, those of the batches before and after it. Epochs never fall."""
    cdef BatchHeader behind
    return (
        epoch_before >= 0
        and batch_look(batch + batch_bytes(h), size - batch_bytes(h), True, &behind, NULL) == LOOK_OK
        and behind.leader_epoch >= 0
        and (h.leader_epoch > max(epoch_before, behind.leader_epoch)
             or h.leader_epoch < min(epoch_before, behind.leader_epoch))
    )
