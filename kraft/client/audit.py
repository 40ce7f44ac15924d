"""Audit events in the topic of a cluster."""

from collections.abc import Iterator
from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.fetcher import Fetcher, Limits
from kraft.client.partitions import EARLIEST, LATEST, list_all_offsets
from kraft.security.audit.kinds import AUDIT_TOPIC
from kraft_native.batch.records import records

POLL: Final = Limits(wait_ms=0)


def audit_partitions(cluster: Cluster) -> list[int]:
    """Return the partitions of the topic. Raises `RefusedError` where the cluster has no such topic."""
    return [each.partition_index for each in cluster.topic(AUDIT_TOPIC).partitions]


class AuditPartition:
    """Reader of one partition. Used by one thread. No other reader uses its `cluster` meanwhile."""

    def __init__(self, cluster: Cluster, partition: int, since_ms: int | None = None) -> None:
        """Begin with the events from `since_ms` on; None: with the oldest one. Raises `RefusedError` or
        `ConnectionFailedError`."""
        self._cluster = cluster
        self._partition = partition
        self._fetcher = Fetcher(cluster, POLL)
        start = self._offset(EARLIEST if since_ms is None else max(0, since_ms))
        self._next = start if start >= 0 else self._offset(LATEST)

    def read(self) -> Iterator[bytes]:
        """Return the events that are committed now and were not read yet, oldest first. Raises `RefusedError` or
        `ConnectionFailedError`."""
        for fetched in self._fetcher.fetch_to_end(AUDIT_TOPIC, self._partition, self._next):
            for record in records(fetched.batches):
                if record.offset >= self._next:
                    self._next = record.offset + 1
                    yield record.value or b""

    def _offset(self, timestamp: int) -> int:
        place = AUDIT_TOPIC, self._partition
        return list_all_offsets(self._cluster, [self._cluster.topic(AUDIT_TOPIC)], {place: timestamp})[place]
