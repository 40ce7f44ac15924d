"""One partition's log, written from a backup into a directory of its own.

The batches keep their bytes, so offsets, timestamps, headers, epochs and producer ids are those of the source. The log
is opened before it gets its final name. That checks every batch, and builds indexes, leader epochs and producer states.

Transactions that are open at the end are ended by markers of the restore: committed when the backup says so, else
aborted. Every replica of the partition gets the same bytes, on whichever machine it is restored.
"""

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft.backups.decisions import AsOf, with_aborts
from kraft.backups.manifest import Commit, PartitionCopy
from kraft.backups.store import Store, failures_of, make_directories
from kraft.backups.verify import read_segment
from kraft.log import Log
from kraft.log_dir import TopicPartition
from kraft_native.base.errors import OperationError
from kraft_native.batch.batch import Batch, first_batch
from kraft_native.batch.control import marker
from kraft_native.batch.records import BatchBuilder, Record, records
from kraft_native.file import file_io
from kraft_native.segment import checkpoints
from kraft_native.segment.config import LogConfig

PART_SUFFIX: Final = ".restoring"
"""Suffix of the directory that is written. Its name is a digest: that of a topic may be as long as a file name."""
# A log to compact may have gaps anywhere. The digests of the files show losses.
CONFIG: Final = LogConfig(durability="page-cache", high_watermark="auto", cleanup_policy="compact")
# Files that a log writes at every open, for its own process.
UNSTABLE: Final = (".lock", "kraft.live")


class RestoredLog(NamedTuple):
    """Offsets [start, end) of a restored log, and what it notes as its recovery point."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class Ending(NamedTuple):
    """End of a restored log. `commits`: transactions to commit where they are open at the end. `by_epoch`: an epoch
    names one transaction (transaction.version 2). `time_ms`: that of the added markers. `limits`: for a producer id the
    epoch from which on its transactions are aborted."""

    as_of: AsOf
    commits: Collection[Commit]
    by_epoch: bool
    time_ms: int
    limits: Mapping[int, int] = MappingProxyType({})


def restore_log(store: Store, copy: PartitionCopy, log_dir: Path, ending: Ending) -> RestoredLog:
    """Write the partition's directory below `log_dir`, durably. A directory of that name is whole and stays.

    Raises `CorruptFileError` for a file that differs from its digest; no directory of that name exists then.
    """
    name = TopicPartition.checked(copy.topic, copy.partition).directory_name
    final, part = log_dir / name, log_dir / (hashlib.sha256(name.encode()).hexdigest()[:32] + PART_SUFFIX)
    if final.is_dir():
        return _described(final, copy, ending.as_of)
    if part.exists():
        shutil.rmtree(part)            # of a restore that was interrupted
    make_directories(part)
    _write_segments(store, copy, part, ending)
    with _opened(copy, part) as log:
        _cut(log, ending.as_of)
        _fill(log, copy, ending)
        log.flush()
    restored = _described(part, copy, ending.as_of)
    checkpoints.write_partition_metadata(part, copy.topic_id)
    for path in part.iterdir():
        _sync(path)
    file_io.sync_directory(part)
    file_io.rename(part, final)
    file_io.sync_directory(log_dir)
    return restored


def _described(directory: Path, copy: PartitionCopy, as_of: AsOf) -> RestoredLog:
    with Log(directory, CONFIG, log_dir_locked=True) as log:
        restored = RestoredLog(log.log_start_offset, log.log_end_offset, log.recovery_point)
    for each in UNSTABLE:
        (directory / each).unlink(missing_ok=True)
    if restored.log_end_offset < copy.end_offset and as_of.is_end:
        raise OperationError(f"{directory}: the log ends at {restored.log_end_offset}, the backup at {copy.end_offset}")
    return restored


def _write_segments(store: Store, copy: PartitionCopy, directory: Path, ending: Ending) -> None:
    """Write the segment files, and an empty one where the last offsets have no batch: deleted or compacted away. The
    next record must not get one of them."""
    end, wanted, as_of = -1, copy.end_offset, ending.as_of
    for segment in copy.segments:
        if as_of.offset is not None and segment.start > as_of.offset:
            wanted = segment.start
            break
        batches = read_segment(store, copy, segment)
        if batches.data:
            _write(directory / f"{min(segment.start, batches.base_offset):020d}.log",
                   with_aborts(batches.data, ending.limits))
            end = batches.end
    if end < wanted:
        _write(directory / f"{wanted:020d}.log", b"")


def _write(path: Path, data: bytes) -> None:
    with failures_of(path), path.open("xb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left):]


def _opened(copy: PartitionCopy, directory: Path) -> Log:
    """Open the log, which checks it. Raises `OperationError` for damage."""
    log = Log(directory, CONFIG, log_start_offset=copy.log_start_offset, log_dir_locked=True)
    report = log.recovery
    if report.lost_ranges or report.damage or report.cut_bytes:
        log.close()
        raise OperationError(f"{directory}: the restored log is damaged: {report}")
    return log


def _cut(log: Log, as_of: AsOf) -> None:
    """Remove the records after `as_of`. A batch that holds records on both sides is written again without the later
    ones."""
    end = log.log_end_offset
    if as_of.offset is not None:
        end = min(end, as_of.offset + 1)
    if as_of.time_ms is not None and (found := log.offset_for_time(as_of.time_ms + 1, "log_end")) is not None:
        end = min(end, found[0])
    if end >= log.log_end_offset:
        return
    end = max(end, log.log_start_offset)
    head = _head(log, end)
    log.truncate_to(end)
    if log.log_end_offset < end and head is not None:
        log.append_as_follower(head)


def _head(log: Log, end: int) -> bytes | None:
    """Return the records before `end` of the batch that holds `end`, as a batch; None without any."""
    piece = bytes(log.read(end, 1, "log_end"))
    if not piece:
        return None
    batch = first_batch(piece)
    kept = [record for record in records(bytes(batch)) if record.offset < end] if batch.base_offset < end else []
    return _rebuilt(batch, kept) if kept else None


def _rebuilt(batch: Batch, kept: Sequence[Record]) -> bytes:
    builder = BatchBuilder(batch.codec, transactional=batch.is_transactional)
    for record in kept:
        builder.append(record.value, record.key, record.timestamp_ms, record.headers,
                       offset_delta=record.offset - batch.base_offset)
    appended_ms = batch.max_timestamp_ms if batch.timestamp_type == "LogAppendTime" else None
    return builder.build(batch.base_offset, leader_epoch=batch.leader_epoch, producer_id=batch.producer_id,
                         producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence,
                         log_append_time_ms=appended_ms)


def _fill(log: Log, copy: PartitionCopy, ending: Ending) -> None:
    """End the open transactions, in the order in which they began."""
    for batch in _markers(log, copy, ending):
        log.append_as_follower(batch)


def _markers(log: Log, copy: PartitionCopy, ending: Ending) -> Iterator[bytes]:
    decided = {each.producer_id: each.producer_epoch for each in ending.commits
               if (each.topic, each.partition) == (copy.topic, copy.partition)}
    opened = sorted((each for each in log.producers.describe() if each.txn_first_offset >= 0),
                    key=lambda each: each.txn_first_offset)
    for each in opened:
        # The marker of a decided transaction has a higher epoch than its records; a later one has that epoch itself.
        limit = decided.get(each.producer_id, -1)
        commit = each.producer_epoch < limit or (not ending.by_epoch and each.producer_epoch == limit)
        yield marker(commit=commit, producer_id=each.producer_id,
                     producer_epoch=limit if commit else each.producer_epoch,
                     coordinator_epoch=max(each.coordinator_epoch, 0), timestamp_ms=ending.time_ms,
                     base_offset=log.log_end_offset, leader_epoch=copy.leader_epoch)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
