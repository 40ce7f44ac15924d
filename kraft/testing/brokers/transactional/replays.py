"""Judge of `__transaction_state`: a compacted log has the same transactions as the log before."""

from pathlib import Path
from shutil import copytree, rmtree

from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.transactions.records import decode
from kraft.broker.transactions.state import Transaction
from kraft.testing.brokers.log_view import WALL_MS
from kraft.testing.sim.violation import ViolationError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

READ_BYTES = 1 << 20


def judge_compaction(name: str, source: Path, target: Path) -> int:
    """Check SameAfterCompaction on a copy of the log in `source`, which lies in `target` meanwhile. Return the number
    of records that the compaction removed."""
    copytree(source, target)
    try:
        with Log(target, LogConfig(cleanup_policy="compact", high_watermark="auto")) as copy:
            before, count = replayed(copy)
            copy.roll()
            copy.compact(WALL_MS, force=True)
            after, left = replayed(copy)
    finally:
        rmtree(target)
    if before != after:
        raise ViolationError("SameAfterCompaction", f"{name}: {after} after a compaction, {before} before")
    return count - left


def replayed(log: Log) -> tuple[dict[str, Transaction], int]:
    """Return the transactions of the whole log, and the number of its records."""
    found: dict[str, Transaction] = {}
    count, offset = 0, log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, READ_BYTES, "log_end")
        for batch in walk(piece):
            for record in records(batch):
                count += 1
                read = None if record.key is None else decode(StoredRecord(record.offset, record.key, record.value))
                if read is not None and read.transaction is None:
                    found.pop(read.transactional_id, None)
                elif read is not None and read.transaction is not None:
                    found[read.transactional_id] = read.transaction
        if piece.next_offset <= offset:
            break
        offset = piece.next_offset
    return dict(sorted(found.items())), count
