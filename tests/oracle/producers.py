"""Producer-id state, slow and obvious: dictionaries and sorted lists, one rule of Kafka after the other."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

INT32_MAX = 2**31 - 1
HEADER = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1


class RefusedError(Exception):
    """Error that carries Kafka's error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


@dataclass(frozen=True)
class BatchInfo:
    """Fields of a batch that the producer state reads."""

    base_offset: int
    count: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    timestamp: int
    transactional: bool = False
    control_type: int = -1
    coordinator_epoch: int = -1

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.count - 1) % 2**31

    @property
    def is_marker(self) -> bool:
        return self.control_type >= 0

    def header(self) -> bytes:
        attributes = (TRANSACTIONAL if self.transactional or self.is_marker else 0) | (CONTROL if self.is_marker else 0)
        return HEADER.pack(self.base_offset, 49, 0, 2, 0, attributes, self.count - 1, self.timestamp, self.timestamp,
                           self.producer_id, self.producer_epoch, self.base_sequence, self.count)


@dataclass
class Producer:
    epoch: int = -1
    coordinator_epoch: int = -1
    timestamp: int = -1
    txn_first: int = -1
    marker: int = -1            # offset of the last one that was seen since the state was loaded
    batches: list[BatchInfo] = field(default_factory=list)

    def last(self) -> tuple[int, int, int]:
        """Return (last sequence, last offset, offset delta) of the last batch."""
        if not self.batches:
            return -1, -1, 0
        batch = self.batches[-1]
        return batch.last_sequence, batch.last_offset, batch.count - 1

    def kept(self) -> Producer:
        """Return the part that a snapshot keeps."""
        return replace(self, marker=-1, batches=[*self.batches[:-1], *(replace(batch, timestamp=self.timestamp)
                                                            for batch in self.batches[-1:])])


class Producers:
    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.by_id: dict[int, Producer] = {}
        self.ended: list[tuple[int, int]] = []  # (first offset, marker's offset), markers above the high watermark
        self.map_end = 0

    def verify(self, batch: BatchInfo, client: bool) -> BatchInfo | None:
        """Return the batch kept for a duplicate, else None. Raises RefusedError."""
        known = self.by_id.get(batch.producer_id)
        if known is None:
            return None
        if batch.is_marker:
            if batch.producer_epoch < known.epoch:
                raise RefusedError(47)
            if batch.coordinator_epoch < known.coordinator_epoch:
                raise RefusedError(52)
            state = batch.producer_epoch, batch.coordinator_epoch, -1
            if state == (known.epoch, known.coordinator_epoch, known.txn_first):
                return replace(batch, base_offset=known.marker if known.marker >= 0 else self.map_end - 1,
                               timestamp=known.timestamp)
            return None
        if client and batch.producer_epoch == known.epoch:
            for kept in known.batches:
                if (kept.base_sequence, kept.last_sequence) == (batch.base_sequence, batch.last_sequence):
                    return kept
        if batch.producer_epoch < known.epoch:
            raise RefusedError(47)
        if client:
            last_sequence = known.last()[0]
            expected = 0 if batch.producer_epoch > known.epoch else (last_sequence + 1) % 2**31
            if batch.base_sequence != expected:
                raise RefusedError(45)
        if known.txn_first >= 0 and not batch.transactional:
            raise RefusedError(48)
        return None

    def update(self, batch: BatchInfo) -> tuple[bool, int, int, int, int] | None:
        self.map_end = batch.last_offset + 1
        known = self.by_id.setdefault(batch.producer_id, Producer())
        if known.epoch != batch.producer_epoch:
            known.epoch = batch.producer_epoch
            known.batches = []
        known.timestamp = batch.timestamp
        if not batch.is_marker:
            known.batches = [*known.batches, batch][-5:]
            if batch.transactional and known.txn_first < 0:
                known.txn_first = batch.base_offset
            return None
        known.coordinator_epoch = batch.coordinator_epoch
        known.marker = batch.base_offset
        first, known.txn_first = known.txn_first, -1
        if first < 0:
            return None
        self.ended.append((first, batch.base_offset))
        last_stable = min(self.open_firsts(), default=batch.base_offset + 1)
        return batch.control_type == ABORT, batch.producer_id, first, batch.base_offset, last_stable

    def open_firsts(self) -> list[int]:
        return [producer.txn_first for producer in self.by_id.values() if producer.txn_first >= 0]

    def first_unstable(self, high_watermark: int) -> int:
        self.ended = [txn for txn in self.ended if txn[1] >= high_watermark]
        return min([first for first, _ in self.ended] + self.open_firsts(), default=-1)

    def is_expired(self, producer: Producer, now: int) -> bool:
        return producer.txn_first < 0 and now - producer.timestamp >= self.expiration_ms

    def remove_expired(self, now: int) -> int:
        before = len(self.by_id)
        self.by_id = {pid: known for pid, known in self.by_id.items() if not self.is_expired(known, now)}
        return before - len(self.by_id)

    def snapshot(self) -> dict[int, Producer]:
        return {pid: known.kept() for pid, known in self.by_id.items()}

    def restore(self, snapshot: dict[int, Producer], offset: int, now: int) -> None:
        self.by_id = {pid: known.kept() for pid, known in snapshot.items() if not self.is_expired(known, now)}
        self.ended = []
        self.map_end = offset

    def describe(self) -> list[tuple[Any, ...]]:
        return [
            (pid, known.epoch, known.coordinator_epoch, *known.last(), known.timestamp, known.txn_first)
            for pid, known in sorted(self.by_id.items())
        ]
