"""Entries per producer and per transaction, and the queue that holds transactions."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from libc.stdlib cimport realloc
from libc.string cimport memmove

from kraft_native.base.limits cimport INT32_MAX_VALUE, NO_SEQUENCE


cdef struct KeptBatch:
    int64_t last_offset
    int64_t timestamp
    int32_t first_sequence
    int32_t last_sequence
    int32_t offset_delta


cdef struct ProducerEntry:
    int64_t producer_id
    int64_t txn_first_offset       # -1: no open transaction
    int64_t last_timestamp
    int64_t marker_offset          # of the last marker; -1: none seen since the state was loaded
    int32_t coordinator_epoch      # -1: no marker seen
    int16_t producer_epoch         # -1: nothing seen yet
    int8_t batch_count             # 0..5, oldest first
    KeptBatch batches[5]


# An entry of the transaction index.
cdef struct AbortedTxn:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset            # of the abort marker
    int64_t last_stable_offset     # just after that marker


cdef struct TxnRange:
    int64_t first_offset
    int64_t last_offset            # of the marker; -1 while open
    int64_t producer_id


cdef struct TxnQueue:
    TxnRange* items
    Py_ssize_t head                # items[head:head + count] are in the queue
    Py_ssize_t count
    Py_ssize_t capacity


cdef inline int queue_reserve(TxnQueue* q, Py_ssize_t more) noexcept nogil:
    """Make room for `more` pushes. -1 when memory is refused."""
    cdef Py_ssize_t capacity
    cdef TxnRange* grown
    if q.head + q.count + more <= q.capacity:
        return 0
    if q.head >= q.count + more:
        memmove(q.items, q.items + q.head, <size_t>q.count * sizeof(TxnRange))
        q.head = 0
        return 0
    capacity = 2 * q.capacity + more + 8
    grown = <TxnRange*>realloc(q.items, <size_t>capacity * sizeof(TxnRange))
    if grown == NULL:
        return -1
    q.items = grown
    q.capacity = capacity
    return 0


cdef inline TxnRange* queue_front(TxnQueue* q) noexcept nogil:
    return q.items + q.head


cdef inline void queue_pop_front(TxnQueue* q) noexcept nogil:
    q.head += 1
    q.count -= 1
    if q.count == 0:
        q.head = 0


cdef inline void queue_push(TxnQueue* q, int64_t first_offset, int64_t last_offset, int64_t producer_id) noexcept nogil:
    """Append; the room was reserved."""
    cdef TxnRange* t = q.items + q.head + q.count
    t.first_offset = first_offset
    t.last_offset = last_offset
    t.producer_id = producer_id
    q.count += 1


cdef inline void queue_remove(TxnQueue* q, int64_t first_offset, int64_t producer_id) noexcept nogil:
    """Remove one entry of a queue ordered by first offset, if it is present."""
    cdef TxnRange* items = q.items + q.head
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = q.count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) >> 1
        if items[middle].first_offset < first_offset:
            low = middle + 1
        else:
            high = middle
    while low < q.count and items[low].first_offset == first_offset and items[low].producer_id != producer_id:
        low += 1
    if low == q.count or items[low].first_offset != first_offset:
        return
    if low == 0:
        queue_pop_front(q)
        return
    memmove(items + low, items + low + 1, <size_t>(q.count - low - 1) * sizeof(TxnRange))
    q.count -= 1


cdef inline int32_t sequence_subtract(int32_t sequence, int32_t count) noexcept nogil:
    """The inverse of `sequence_add`, for a sequence and a count that are not negative."""
    if sequence < count:
        return INT32_MAX_VALUE - (count - sequence) + 1
    return sequence - count


cdef inline int32_t last_sequence(const ProducerEntry* e) noexcept nogil:
    return e.batches[e.batch_count - 1].last_sequence if e.batch_count > 0 else NO_SEQUENCE


cdef inline void set_epoch(ProducerEntry* e, int16_t producer_epoch) noexcept nogil:
    """Set the epoch; batches of another epoch cannot be repeated any more."""
    if e.producer_epoch != producer_epoch:
        e.producer_epoch = producer_epoch
        e.batch_count = 0
