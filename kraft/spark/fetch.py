"""Read a range of a partition from its leader, in a task. Fetched batches become columns without an object per record.

`library_fetch` is for security that only the client library has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from kraft.client import Cluster
from kraft.client.fetcher import ANSWER_BYTES_MAX, PARTITION_BYTES, WAIT_MS, Fetcher, Limits, Losses, PartitionFetch
from kraft.client.security import PLAINTEXT, Security
from kraft.spark.options import ReadOptions
from kraft.spark.positions import resume_after_loss
from kraft.spark.splits import Range
from kraft_native.columns.reader import ColumnReader, Columns

# After this time a new leader knows its topics.
DELETED_SECONDS: Final = 3.0
LOG: Final = logging.getLogger(__name__)


class QueryLosses(Losses):
    """Decisions of a query about offsets that are not in the log; `fail`: they fail it."""

    def __init__(self, fail: bool) -> None:
        self.fail = fail

    def resume(self, fetch: PartitionFetch, log_start: int) -> int:
        """Continue where the log starts, or raise `DataLossError`."""
        piece = Range(fetch.topic, fetch.partition, fetch.offset, fetch.end)
        return resume_after_loss(piece, fetch.offset, log_start, self.fail)

    def end_with_topic(self, fetch: PartitionFetch, seconds: float) -> bool:
        if self.fail or seconds < DELETED_SECONDS:
            return False
        LOG.warning("%s: the topic was deleted; what was not read from offset %d on is lost", fetch.what, fetch.offset)
        return True


class RangeReader:
    """A task's reader of ranges of partitions. Used by one thread."""

    def __init__(self, options: ReadOptions, security: Security = PLAINTEXT) -> None:
        client = options.client
        cluster = Cluster(client["bootstrap.servers"], client_id=client.get("client.id", "kraft-spark"),
                          timeout=int(client.get("socket.timeout.ms", 30_000)) / 1000, security=security)
        limits = Limits(int(client.get("max.partition.fetch.bytes", PARTITION_BYTES)),
                        int(client.get("fetch.max.bytes", ANSWER_BYTES_MAX)), int(client.get("fetch.min.bytes", 1)),
                        int(client.get("fetch.wait.max.ms", WAIT_MS)))
        self.fetcher = Fetcher(cluster, limits, committed=options.isolation == "read_committed",
                               rack=client.get("client.rack", ""), stall_seconds=options.timeout_ms / 1000)
        self._losses = QueryLosses(options.fail_on_data_loss)

    def close(self) -> None:
        self.fetcher.cluster.close()

    def read(self, piece: Range, columns: Sequence[str]) -> Iterator[Columns]:
        """Yield the records of a range as columns of about 4 MB of batches each.

        Raise `DataLossError` for missing offsets, unless that is allowed. Raise `RefusedError` or
        `ConnectionFailedError` when the partition returns nothing for `kafkaConsumer.pollTimeoutMs`.
        """
        reader = ColumnReader(columns, check_crc=False)
        fetch = self.fetcher.fetch(piece.topic, piece.partition, piece.start, piece.end, self._losses)
        for fetched in fetch:
            found = reader.read(fetched.batches, start_offset=fetched.start, end_offset=piece.end,
                                aborted=fetched.aborted)
            if found.next_offset < min(fetch.offset, piece.end):
                # The batches are more than columns of 2 GiB hold, or a record is damaged: read again from there.
                fetch.seek(found.next_offset)
            if len(found):
                yield found
