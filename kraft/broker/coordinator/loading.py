"""Conversion of the bytes of a partition's log to the records that a shard replays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.coordinator.shards import Shards
from kraft_native.batch.batch import walk
from kraft_native.batch.control import control_records
from kraft_native.batch.records import records
from kraft_native.file.buffer import Slice

ABORT_MARKER = 0
COMMIT_MARKER = 1

# Number of records to replay before the loop may run other work.
RECORDS_PER_STEP = 256


def load_batches(shards: Shards[Any], partition: int, source: Slice | bytes) -> Iterator[int]:
    """Replay the whole batches in `source`, which follow the loaded ones, a few records per step. Each step yields the
    end of the loaded batches; none is yielded when `source` has no whole batch.

    Do not continue when the load ended between two steps. Raises a `KraftError` when a batch or a record is damaged:
    call `fail_load`.
    """
    for batch in walk(source):
        if batch.is_control:
            for marker in control_records(batch):
                if marker.type in (ABORT_MARKER, COMMIT_MARKER):
                    shards.load_marker(partition, marker.producer_id, marker.type == COMMIT_MARKER)
        else:
            producer_id = batch.producer_id if batch.is_transactional else -1
            stored = (StoredRecord(record.offset, record.key, record.value, producer_id)
                      for record in records(batch) if record.key is not None)
            while some := list(islice(stored, RECORDS_PER_STEP)):
                shards.load(partition, some)
                if len(some) == RECORDS_PER_STEP:
                    yield batch.base_offset
        yield batch.next_offset
