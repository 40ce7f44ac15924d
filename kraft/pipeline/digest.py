"""Digests of a range of one replica: every batch's structure and CRC, and an XXH3 over the bytes of each block.

A block is a run of `block_offsets` offsets that begins at a multiple of it; a batch belongs to the block of its last
offset. So replicas have the same digests for the same batches, wherever their segments end. The work per batch is
compiled; Python handles a stretch of batches at a time.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import xxhash

from kraft.files.indexes import read_entries
from kraft.files.partition_files import PartitionFiles, SegmentFiles
from kraft_native.base.errors import StorageError
from kraft_native.batch.batch import walk
from kraft_native.segment.audit import SegmentAudit


class DigestTask(NamedTuple):
    """Batches of one replica whose last offset lies in [start, end). `size_bytes` is an estimate."""

    topic: str
    partition: int
    directory: str
    start: int
    end: int
    block_offsets: int
    size_bytes: int


class Block(NamedTuple):
    """Content of one block of a replica, without damaged batches."""

    number: int
    batches: int
    records: int
    size_bytes: int
    digest: str


class Damage(NamedTuple):
    """Bytes that are not a sound batch: offsets from `offset` to before `next_offset` (-1: to the segment's end)."""

    directory: str
    file: str
    position: int
    offset: int
    next_offset: int
    what: str


class BatchIdentity(NamedTuple):
    """Properties of one batch that must be equal on every replica."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    size_bytes: int
    digest: str


@dataclass(slots=True)
class Digests:
    """Result of one task: non-empty blocks, rising, and the damage."""

    blocks: list[Block] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    size_bytes: int = 0


def digest_range(task: DigestTask) -> Digests:
    """Read the range. `StorageError` when a file cannot be read. A segment that its owner removed meanwhile is skipped;
    it appears as a difference when other replicas have it."""
    found = Digests()
    hasher = xxhash.xxh3_128()
    number = task.start // task.block_offsets
    batches = records = size = 0
    for audit in _audits(task, found.damages):
        while True:
            limit = min((number + 1) * task.block_offsets, task.end)
            before = audit.batch_count, audit.record_count, audit.sound_bytes
            while audit.step(limit):
                audit.take_events()
                hasher.update(audit.stretch())
            batches += audit.batch_count - before[0]
            records += audit.record_count - before[1]
            size += audit.sound_bytes - before[2]
            if not audit.held_back or limit == task.end:
                break
            if batches:
                found.blocks.append(Block(number, batches, records, size, hasher.hexdigest()))
                found.size_bytes += size
                hasher.reset()
                batches = records = size = 0
            number += 1
    if batches:
        found.blocks.append(Block(number, batches, records, size, hasher.hexdigest()))
        found.size_bytes += size
    return found


def identities(task: DigestTask) -> Iterator[BatchIdentity]:
    """Yield the sound batches of the range one by one, to find which of them differs. Costs an object per batch."""
    for audit in _audits(task, []):
        while audit.step(task.end):
            audit.take_events()
            for batch in walk(audit.stretch(), check_crc=False):
                data = bytes(batch)
                yield BatchIdentity(batch.base_offset, batch.last_offset, batch.leader_epoch, len(data),
                                    xxhash.xxh3_128_hexdigest(data))


def _audits(task: DigestTask, damages: list[Damage]) -> Iterator[SegmentAudit]:
    """Yield a walk over each segment of the range, positioned at the range's first batch. Damage within the range is
    added to `damages` when the walk is over."""
    partition = PartitionFiles(Path(task.directory))
    for segment in partition.segments:
        if segment.base_offset >= task.end:
            return
        if 0 <= segment.next_base <= task.start or (audit := partition.audit(segment)) is None:
            continue
        with audit:
            if task.start > segment.base_offset:
                audit.seek(_position_before(segment, task.start), task.start)
                while audit.step(task.start):
                    audit.take_events()
            yield audit
            for position, _, offset, next_offset, what in audit.damage:
                if task.start <= offset < task.end or offset < task.start < (next_offset if next_offset >= 0
                                                                            else audit.offset_end):
                    damages.append(Damage(task.directory, segment.path(".log").name, position, offset, next_offset,
                                          what))


def _position_before(segment: SegmentFiles, offset: int) -> int:
    """Return the position of a batch that starts at `offset` or before, from the offset index; 0 when the index does
    not help."""
    try:
        data = segment.read(".index")
    except StorageError:
        return 0
    columns = read_entries(".index", data or b"", preallocated=True).columns
    slot = bisect_left(columns["offset"], offset - segment.base_offset) - 1
    return columns["position"][slot] if slot >= 0 else 0
