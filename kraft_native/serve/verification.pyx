"""Answers of a transaction's coordinator, as a Produce reports them.

| the coordinator's answer | Produce |
|---|---|
| 90: a newer producer has the transactional id | 47 |
| 120: the partition is not in the transaction | 120; below version 11 48 |
| 51, 13, 14, 15, 16: the coordinator is busy, unreachable or moving | 19, which every client retries |
| any other code | the same |
"""

from libc.stdint cimport int16_t, uint8_t

from kraft_native.base.bytes_be cimport load_i16, load_i64
from kraft_native.base.fault cimport (
    ERROR_CONCURRENT_TRANSACTIONS, ERROR_COORDINATOR_LOAD_IN_PROGRESS, ERROR_COORDINATOR_NOT_AVAILABLE,
    ERROR_INVALID_PRODUCER_EPOCH, ERROR_INVALID_PRODUCER_ID_MAPPING, ERROR_INVALID_TXN_STATE, ERROR_NETWORK_EXCEPTION,
    ERROR_NONE, ERROR_NOT_COORDINATOR, ERROR_NOT_ENOUGH_REPLICAS, ERROR_PRODUCER_FENCED,
    ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ERROR_TRANSACTION_ABORTABLE,
)
from kraft_native.base.limits cimport (
    ATTR_TRANSACTIONAL, BATCH_ATTRIBUTES, BATCH_HEADER_BYTES, BATCH_PRODUCER_EPOCH, BATCH_PRODUCER_ID,
)

cdef enum:
    ABORTABLE_FROM = 11            # version of Produce that has TRANSACTION_ABORTABLE


cdef bint is_transactional(const PartitionData* part) noexcept:
    return (part.records_bytes >= BATCH_HEADER_BYTES
            and load_i16(part.records + BATCH_ATTRIBUTES) & ATTR_TRANSACTIONAL != 0)


cdef int note_identity(ProduceData data, Py_ssize_t first) noexcept:
    cdef const PartitionData* part
    cdef const uint8_t* known
    cdef Py_ssize_t i
    for i in range(first, data.part_count):
        part = data.parts + i
        if not is_transactional(part):
            continue
        if data.transactional_place < 0:
            data.transactional_place = i
            if data.transactional_id_bytes < 0:
                data.identity_error = ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        known = data.parts[data.transactional_place].records
        if data.identity_error == ERROR_NONE and (
                load_i64(part.records + BATCH_PRODUCER_ID) != load_i64(known + BATCH_PRODUCER_ID)
                or load_i16(part.records + BATCH_PRODUCER_EPOCH) != load_i16(known + BATCH_PRODUCER_EPOCH)):
            data.identity_error = ERROR_INVALID_PRODUCER_ID_MAPPING
    return 0


cdef int16_t produce_error(int code, int version) noexcept:
    if code == ERROR_PRODUCER_FENCED:
        return ERROR_INVALID_PRODUCER_EPOCH
    if code == ERROR_TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ERROR_INVALID_TXN_STATE
    if (code == ERROR_CONCURRENT_TRANSACTIONS or code == ERROR_NETWORK_EXCEPTION or code == ERROR_NOT_COORDINATOR
            or code == ERROR_COORDINATOR_LOAD_IN_PROGRESS or code == ERROR_COORDINATOR_NOT_AVAILABLE):
        return ERROR_NOT_ENOUGH_REPLICAS
    return <int16_t>code


cdef bytes why_refused(int error, int code):
    if error == ERROR_INVALID_TXN_STATE:
        return b"the partition is not in the producer's transaction"
    if error == ERROR_NOT_ENOUGH_REPLICAS and error != code:
        return b"the coordinator cannot confirm the transaction now (error %d)" % code
    return None
