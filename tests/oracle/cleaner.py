"""Kafka's rules of compaction in the slowest, most obvious Python: whole logs in lists, no index, no stored state.

Written from the rules of LogCleaner.scala and MemoryRecords.filterTo, but in other terms than the compiled modules.
The batches of a marker are found by reading the present batches, not through the transaction index.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.oracle.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    OracleBatch,
    OracleRecord,
    decode,
)


@dataclass
class Facts:
    """Properties of one batch, and the parts of it that are kept: everything that compaction decides or must leave
    alone."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer: tuple[int, int, int]
    records: list[OracleRecord] = field(default_factory=list)


def facts(batch: OracleBatch) -> Facts:
    return Facts(batch.base_offset, batch.base_offset + batch.last_offset_delta, batch.leader_epoch, batch.attributes,
                 batch.base_timestamp, batch.max_timestamp,
                 (batch.producer_id, batch.producer_epoch, batch.base_sequence), batch.records)


def batches(data: bytes) -> list[Facts]:
    """Return every batch of a segment file."""
    found = []
    while data:
        batch = decode(data)
        found.append(facts(batch))
        data = data[batch.size_in_bytes:]
    return found


@dataclass
class Round:
    """One compaction: dirty from `first_dirty`; nothing at or above `upper` (the base of a segment) is changed."""

    first_dirty: int
    upper: int
    now_ms: int
    delete_retention_ms: int
    # Producer id -> (last offset of its last data batch or None, epoch), by the log's current producer state.
    producers: dict[int, tuple[int | None, int]]


def transactions(log: list[Facts]) -> tuple[set[int], set[int]]:
    """Return base offsets of data batches of aborted transactions, and of markers whose transaction has no batch
    left."""
    aborted: set[int] = set()
    empty: set[int] = set()
    open_batches: dict[int, list[int]] = {}
    for batch in log:
        producer_id = batch.producer[0]
        if batch.attributes & CONTROL:
            if not batch.records:
                empty.add(batch.base_offset)
                continue
            kind = int.from_bytes((batch.records[0].key or b"")[2:4], "big")
            mine = open_batches.pop(producer_id, []) if kind in (0, 1) else [-1]
            if not mine:
                empty.add(batch.base_offset)
            elif kind == 0:
                aborted.update(mine)
        elif batch.attributes & TRANSACTIONAL:
            open_batches.setdefault(producer_id, []).append(batch.base_offset)
    return aborted, empty


def latest_offsets(log: list[Facts], aborted: set[int], round_: Round) -> dict[bytes, int]:
    latest: dict[bytes, int] = {}
    for batch in log:
        if batch.attributes & CONTROL or batch.base_offset in aborted:
            continue
        for record in batch.records:
            offset = batch.base_offset + record.offset_delta
            if record.key is not None and round_.first_dirty <= offset < round_.upper:
                latest[record.key] = offset
    return latest


def is_last_of_producer(batch: Facts, round_: Round) -> bool:
    producer_id, epoch, _ = batch.producer
    if producer_id < 0 or producer_id not in round_.producers:
        return False
    last_offset, last_epoch = round_.producers[producer_id]
    if last_offset is None:
        return bool(batch.attributes & CONTROL) and epoch == last_epoch
    return batch.last_offset == last_offset


def clean(batch: Facts, latest: dict[bytes, int], aborted: set[int], empty: set[int], round_: Round) -> Facts | None:
    """Return the batch's replacement; None when the batch is removed."""
    horizon = batch.base_timestamp if batch.attributes & DELETE_HORIZON else None
    over = horizon is not None and horizon <= round_.now_ms
    kept = []
    for record in batch.records:
        offset = batch.base_offset + record.offset_delta
        if batch.attributes & CONTROL:
            stays = not (batch.base_offset in empty and over)
        elif batch.base_offset in aborted or record.key is None:
            stays = False
        else:
            stays = latest.get(record.key, -1) <= offset and not (record.value is None and over)
        if stays:
            kept.append(record)
    if not kept:
        if not is_last_of_producer(batch, round_) and batch.last_offset + 1 != round_.upper:
            return None
        if not batch.records:
            return batch
        return replace(batch, attributes=batch.attributes & ~(DELETE_HORIZON | 7), base_timestamp=-1, records=[])
    marks = [record for record in kept if record.value is None] or batch.base_offset in empty
    if len(kept) == len(batch.records) and not (marks and horizon is None):
        return batch
    result = replace(batch, records=kept)
    if not batch.attributes & LOG_APPEND_TIME:
        result.max_timestamp = max(record.timestamp_ms for record in kept)
    if horizon is None:
        result.base_timestamp = kept[0].timestamp_ms
        if marks:
            result.attributes |= DELETE_HORIZON
            result.base_timestamp = round_.now_ms + round_.delete_retention_ms
    return result


def compact(log: list[Facts], round_: Round) -> list[Facts]:
    """Return all batches of the log (the active segment's too) after one round with memory for every key."""
    aborted, empty = transactions(log)
    latest = latest_offsets(log, aborted, round_)
    result = []
    for batch in log:
        after = clean(batch, latest, aborted, empty, round_) if batch.base_offset < round_.upper else batch
        if after is not None:
            result.append(after)
    return result


def committed_values(log: list[Facts]) -> dict[bytes, tuple[int, bytes | None]]:
    """Return the final view of a read_committed reader of the whole log: key -> (offset, value)."""
    aborted, _ = transactions(log)
    values = {}
    for batch in log:
        if not batch.attributes & CONTROL and batch.base_offset not in aborted:
            for record in batch.records:
                if record.key is not None:
                    values[record.key] = (batch.base_offset + record.offset_delta, record.value)
    return values
