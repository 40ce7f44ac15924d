"""From the bytes of a partition's log to the records that a shard replays."""

from __future__ import annotations

from typing import Any

from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.coordinator.shards import Shards
from kraft_native.batch import walk
from kraft_native.buffer import Slice
from kraft_native.control import control_records
from kraft_native.records import records

ABORT_MARKER = 0
COMMIT_MARKER = 1


def load_batches(shards: Shards[Any], partition: int, source: Slice | bytes) -> int | None:
    """Replays the whole batches in `source`, which follow what was loaded before; gives the offset to go on from.

    None when `source` has no whole batch. Raises a `KraftError` when a batch or a record is damaged: call `fail_load`.
    """
    next_offset = None
    for batch in walk(source):
        if batch.is_control:
            for marker in control_records(batch):
                if marker.type in (ABORT_MARKER, COMMIT_MARKER):
                    shards.load_marker(partition, marker.producer_id, marker.type == COMMIT_MARKER)
        else:
            producer_id = batch.producer_id if batch.is_transactional else -1
            shards.load(partition, (StoredRecord(record.offset, record.key, record.value, producer_id)
                                    for record in records(batch) if record.key is not None))
        next_offset = batch.next_offset
    return next_offset
