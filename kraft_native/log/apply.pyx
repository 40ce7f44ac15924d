"""State that follows from a batch in the log.

Three pieces of state follow from the batches of a log and could be rebuilt from them: the leader epochs
(segment/epochs.pyx), the producers (segment/producers.pyx) and the aborted transactions (segment/txn_index.pyx). The
append path and the replay after an open or a truncation use the same functions, so they cannot drift apart.
"""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.batch.batch cimport BatchHeader, batch_bytes, batch_is_control, batch_last_offset
from kraft_native.batch.control cimport control_parse
from kraft_native.segment.producer_entry cimport AbortedTxn
from kraft_native.segment.producers cimport TXN_ABORTED, ProducerStates
from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import CorruptFileError, CorruptRecordError


cdef int read_control(const uint8_t* batch, const BatchHeader* h, ControlMark* mark) except -1:
    mark.kind = -1
    mark.coordinator_epoch = -1
    if control_parse(batch, h, &mark.kind, &mark.coordinator_epoch) < 0:
        raise CorruptRecordError(f"control batch at offset {h.base_offset}: no control record of a known form")
    return 0


cdef int append_aborted(Segment segment, const AbortedTxn* aborted) except -1:
    """Append to the index. An unreadable one of an earlier owner is started again, and corrected at its next check."""
    try:
        segment.txn_index.append(aborted)
    except CorruptFileError:
        segment.txn_index.reset()
        segment.txn_checked = False
        segment.txn_index.append(aborted)
    return 0


cdef int apply_batch(ProducerStates producers, Segment segment, const BatchHeader* h,
                     const ControlMark* mark) except -1:
    cdef AbortedTxn aborted
    if h.producer_id >= 0 and producers.update(h, mark.kind, mark.coordinator_epoch, &aborted) == TXN_ABORTED:
        if segment is not None:
            append_aborted(segment, &aborted)
    producers.advance(batch_last_offset(h) + 1)
    return 0


cdef int64_t replay_segment(Segment segment, int64_t from_offset, ProducerStates producers) except? -1:
    cdef BatchHeader h
    cdef ControlMark mark
    cdef int64_t expected = segment.base_offset
    cdef int64_t position = segment.locate(from_offset, &h, True)
    if position < 0:
        return from_offset
    while segment.next_sound(&position, &expected, &h):
        mark.kind = mark.coordinator_epoch = -1
        if batch_is_control(&h):
            read_control(segment.data + position, &h, &mark)
        apply_batch(producers, None, &h, &mark)
        expected = batch_last_offset(&h) + 1
        position += batch_bytes(&h)
    return max(from_offset, expected)
