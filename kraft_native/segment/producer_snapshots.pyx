"""Producer snapshot files: the state of a log's producers at one offset, in Kafka's format.

`<offset, 20 digits>.snapshot` holds the state after all batches below `offset`, big-endian:

    0  int16   version, 1
    2  uint32  CRC-32C of byte 6 to the end
    6  int32   count of entries, then per entry, 46 bytes:
               int64 producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta of the last
               batch, int64 timestamp, int32 coordinator epoch, int64 first offset of the open transaction (-1: none)

We write entries by ascending producer id; Kafka writes them in the order of a Java hash map.

An entry has the last batch of its producer only. A producer that repeats an earlier one, because its leader stopped
before the answer, would get an out-of-order error, which is fatal to it. So our files continue where some producer has
more batches, and Kafka skips what follows the entries:

       int32   count of earlier batches, then per batch, by producer and offset, 32 bytes:
               int64 producer id, int64 last offset, int32 last sequence, int32 offset delta, int64 timestamp
"""

import os
from typing import NamedTuple

from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memset

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from kraft_native.base.bytes_be cimport (
    load_i16, load_i32, load_i64, load_u32, store_i16, store_i32, store_i64, store_u32,
)
from kraft_native.base.crc cimport crc32c
from kraft_native.base.limits cimport NO_SEQUENCE, PRODUCER_BATCHES_KEPT
from kraft_native.segment.producer_entry cimport sequence_subtract

from kraft_native.base.errors import CorruptFileError
from kraft_native.file.file_io import read_file, sync_directory, unlink

cdef enum:
    SNAPSHOT_VERSION = 1
    SNAPSHOT_HEADER_BYTES = 10
    SNAPSHOT_CRC_FROM = 6
    SNAPSHOT_ENTRY_BYTES = 46
    EARLIER_COUNT_BYTES = 4
    EARLIER_BYTES = 32

cdef str SNAPSHOT_SUFFIX = ".snapshot"


class ProducerState(NamedTuple):
    """One producer as a snapshot file keeps it and DescribeProducers shows it. Missing offsets and sequences are -1;
    times are ms."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp_ms: int
    txn_first_offset: int


cdef int compare_entries(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const ProducerEntry*>a).producer_id
    cdef int64_t y = (<const ProducerEntry*>b).producer_id
    return (x > y) - (x < y)


cdef bytes encode_snapshot(const ProducerEntry* entries, int32_t count):
    cdef Py_ssize_t end = SNAPSHOT_HEADER_BYTES + <Py_ssize_t>count * SNAPSHOT_ENTRY_BYTES
    cdef int32_t earlier = 0
    cdef int32_t i
    for i in range(count):
        earlier += max(0, entries[i].batch_count - 1)
    cdef Py_ssize_t size = end + (EARLIER_COUNT_BYTES + <Py_ssize_t>earlier * EARLIER_BYTES if earlier else 0)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(data)
    cdef uint8_t* q = p + end + EARLIER_COUNT_BYTES
    cdef ProducerEntry* ordered = <ProducerEntry*>malloc(<size_t>(count + 1) * sizeof(ProducerEntry))
    cdef int b
    if ordered == NULL:
        raise MemoryError("producer snapshot")
    with nogil:
        if count > 0:
            memcpy(ordered, entries, <size_t>count * sizeof(ProducerEntry))
        qsort(ordered, <size_t>count, sizeof(ProducerEntry), compare_entries)
        store_i16(p, SNAPSHOT_VERSION)
        store_i32(p + SNAPSHOT_CRC_FROM, count)
        for i in range(count):
            encode_entry(p + SNAPSHOT_HEADER_BYTES + <Py_ssize_t>i * SNAPSHOT_ENTRY_BYTES, ordered + i)
            for b in range(ordered[i].batch_count - 1):
                encode_earlier(q, ordered[i].producer_id, ordered[i].batches + b)
                q += EARLIER_BYTES
        if earlier > 0:
            store_i32(p + end, earlier)
        free(ordered)
        store_u32(p + 2, crc32c(0, p + SNAPSHOT_CRC_FROM, <size_t>(size - SNAPSHOT_CRC_FROM)))
    return data


cdef int32_t snapshot_count(object path, bytes data) except -1:
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef int32_t count
    name = os.fsdecode(path)
    if size < SNAPSHOT_HEADER_BYTES:
        raise CorruptFileError(f"{name}: {size} bytes, a snapshot has at least {SNAPSHOT_HEADER_BYTES}")
    if load_i16(p) != SNAPSHOT_VERSION:
        raise CorruptFileError(f"{name}: version {load_i16(p)}, known: {SNAPSHOT_VERSION}")
    if load_u32(p + 2) != crc32c(0, p + SNAPSHOT_CRC_FROM, <size_t>(size - SNAPSHOT_CRC_FROM)):
        raise CorruptFileError(f"{name}: the CRC does not match")
    count = load_i32(p + SNAPSHOT_CRC_FROM)
    cdef Py_ssize_t end = SNAPSHOT_HEADER_BYTES + <Py_ssize_t>count * SNAPSHOT_ENTRY_BYTES
    if count < 0 or end > size:
        raise CorruptFileError(f"{name}: {count} entries do not make {size} bytes")
    if size > end and (size < end + EARLIER_COUNT_BYTES
                       or end + EARLIER_COUNT_BYTES + <Py_ssize_t>load_i32(p + end) * EARLIER_BYTES != size):
        raise CorruptFileError(f"{name}: {size - end} bytes behind {count} entries are no earlier batches")
    return count


cdef int32_t earlier_count(bytes data, int32_t count) noexcept:
    cdef Py_ssize_t end = SNAPSHOT_HEADER_BYTES + <Py_ssize_t>count * SNAPSHOT_ENTRY_BYTES
    if PyBytes_GET_SIZE(data) == end:
        return 0
    return load_i32(<const uint8_t*>PyBytes_AS_STRING(data) + end)


cdef int64_t earlier_batch(bytes data, int32_t count, int32_t index, KeptBatch* kept) noexcept:
    cdef const uint8_t* p = (<const uint8_t*>PyBytes_AS_STRING(data) + SNAPSHOT_HEADER_BYTES
                             + <Py_ssize_t>count * SNAPSHOT_ENTRY_BYTES + EARLIER_COUNT_BYTES
                             + <Py_ssize_t>index * EARLIER_BYTES)
    kept.last_offset = load_i64(p + 8)
    kept.last_sequence = load_i32(p + 16)
    kept.offset_delta = load_i32(p + 20)
    kept.timestamp = load_i64(p + 24)
    set_first_sequence(kept)
    return load_i64(p)


cdef bint put_earlier(ProducerEntry* e, const KeptBatch* kept) noexcept:
    cdef KeptBatch* last = e.batches + e.batch_count - 1
    if (e.batch_count == 0 or e.batch_count == PRODUCER_BATCHES_KEPT or kept.last_offset >= last.last_offset
            or (e.batch_count > 1 and kept.last_offset <= (last - 1).last_offset)):
        return False
    last[1] = last[0]
    last[0] = kept[0]
    e.batch_count += 1
    return True


cdef void snapshot_entry(bytes data, int32_t index, ProducerEntry* e) noexcept:
    decode_entry(<const uint8_t*>PyBytes_AS_STRING(data) + SNAPSHOT_HEADER_BYTES
                 + <Py_ssize_t>index * SNAPSHOT_ENTRY_BYTES, e)


cdef object describe_entry(const ProducerEntry* e):
    cdef const KeptBatch* last
    if e.batch_count == 0:
        return ProducerState(e.producer_id, e.producer_epoch, e.coordinator_epoch, -1, -1, 0, e.last_timestamp,
                             e.txn_first_offset)
    last = e.batches + e.batch_count - 1
    return ProducerState(e.producer_id, e.producer_epoch, e.coordinator_epoch, last.last_sequence, last.last_offset,
                         last.offset_delta, e.last_timestamp, e.txn_first_offset)


cdef void encode_entry(uint8_t* p, const ProducerEntry* e) noexcept nogil:
    cdef const KeptBatch* last = e.batches + e.batch_count - 1
    cdef bint has_batch = e.batch_count > 0
    store_i64(p, e.producer_id)
    store_i16(p + 8, e.producer_epoch)
    store_i32(p + 10, last.last_sequence if has_batch else NO_SEQUENCE)
    store_i64(p + 14, last.last_offset if has_batch else -1)
    store_i32(p + 22, last.offset_delta if has_batch else 0)
    store_i64(p + 26, e.last_timestamp)
    store_i32(p + 34, e.coordinator_epoch)
    store_i64(p + 38, e.txn_first_offset)


cdef void decode_entry(const uint8_t* p, ProducerEntry* e) noexcept nogil:
    cdef KeptBatch* kept = e.batches
    memset(e, 0, sizeof(ProducerEntry))
    e.producer_id = load_i64(p)
    e.producer_epoch = load_i16(p + 8)
    e.last_timestamp = load_i64(p + 26)
    e.marker_offset = -1
    e.coordinator_epoch = load_i32(p + 34)
    e.txn_first_offset = load_i64(p + 38)
    kept.last_sequence = load_i32(p + 10)
    kept.last_offset = load_i64(p + 14)
    kept.offset_delta = load_i32(p + 22)
    kept.timestamp = e.last_timestamp
    set_first_sequence(kept)
    e.batch_count = 1 if kept.last_offset >= 0 else 0
    if e.txn_first_offset < 0:
        e.txn_first_offset = -1


cdef void encode_earlier(uint8_t* p, int64_t producer_id, const KeptBatch* kept) noexcept nogil:
    store_i64(p, producer_id)
    store_i64(p + 8, kept.last_offset)
    store_i32(p + 16, kept.last_sequence)
    store_i32(p + 20, kept.offset_delta)
    store_i64(p + 24, kept.timestamp)


cdef void set_first_sequence(KeptBatch* kept) noexcept nogil:
    kept.first_sequence = kept.last_sequence
    if kept.last_sequence >= 0 and kept.offset_delta >= 0:
        kept.first_sequence = sequence_subtract(kept.last_sequence, kept.offset_delta)


def snapshot_path(directory: FilePath, int64_t offset) -> str:
    """Path of the snapshot of `offset`."""
    return os.path.join(os.fsdecode(directory), f"{offset:020d}{SNAPSHOT_SUFFIX}")


def list_snapshots(directory: FilePath) -> list[int]:
    """The offsets of the snapshot files in `directory`, ascending. Files with other names are ignored."""
    cdef list offsets = []
    for name in os.listdir(os.fsdecode(directory)):
        stem = name.removesuffix(SNAPSHOT_SUFFIX)
        if stem != name and len(stem) == 20 and stem.isascii() and stem.isdigit():
            offsets.append(int(stem))
    offsets.sort()
    return offsets


def remove_snapshots_before(directory: FilePath, int64_t offset) -> list[int]:
    """Remove snapshots at offsets below `offset` and return these. One that a crash brings back does no harm."""
    cdef list removed = [found for found in list_snapshots(directory) if found < offset]
    for found in removed:
        unlink(snapshot_path(directory, found), missing_ok=True)
    return removed


def remove_snapshots_after(directory: FilePath, int64_t offset) -> list[int]:
    """Remove snapshots at offsets above `offset`, for good, and return these.

    They describe batches that were cut. The directory is flushed: one that a crash brought back could describe other
    batches than those written in place of the lost ones.
    """
    cdef list removed = [found for found in list_snapshots(directory) if found > offset]
    for found in removed:
        unlink(snapshot_path(directory, found), missing_ok=True)
    if removed:
        sync_directory(directory)
    return removed


def read_snapshot(path: FilePath) -> list[ProducerState]:
    """The entries of a snapshot file, in its order. CorruptFileError when the file is not valid."""
    cdef bytes data = read_file(path)
    cdef ProducerEntry entry
    cdef list found = []
    cdef int32_t i
    for i in range(snapshot_count(path, data)):
        snapshot_entry(data, i, &entry)
        found.append(describe_entry(&entry))
    return found
