"""Idempotent writes to partitions: a batch is stored once, however often it is sent, also by another process later.

A producer id is just a number, and a broker refuses a sequence that it already has. A writer that keeps the id and
produces the same batches with the same sequences may therefore restart at any time. It queries its progress and
continues from there, and the broker recognizes repeated batches. No transaction is needed, and two processes that do
the same work are harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.client.fetcher import Fetcher, Limits
from kraft.client.partitions import EARLIEST, offset_of
from kraft.client.producer import Producer
from kraft.client.refusals import check
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk

SCAN: Final = Limits(8 << 20)


class IngestError(KraftError):
    """The records cannot be written exactly once; the message gives the reason."""


class Appended(NamedTuple):
    """End of a producer's records in a partition, as their number (`end`). `known`: the broker knows the producer, so
    it would detect a repeated batch. Otherwise the records were counted in the log."""

    end: int
    known: bool


class History:
    """Records of one producer in the partitions of a topic. Used by one thread.

    `starts` are offsets of the partitions from before the producer's first batch.
    """

    def __init__(self, producer: Producer, topic: str, starts: Mapping[int, int]) -> None:
        self.producer = producer
        self.topic = topic
        self.starts = starts

    def appended(self) -> dict[int, Appended]:
        """Return what each partition has of this producer. `IngestError` when that cannot be determined any more."""
        return {partition: self._appended(partition) for partition in self.starts}

    def _appended(self, partition: int) -> Appended:
        request = DescribeProducersRequest(topics=[TopicRequest(name=self.topic, partition_indexes=[partition])])
        answer = self.producer.cluster.leader(self.topic, partition).send(request, DescribeProducersResponse)
        found = answer.topics[0].partitions[0]
        check(f"producers of {self.topic}-{partition}", found.error_code, found.error_message)
        for each in found.active_producers:
            if each.producer_id == self.producer.producer_id:
                return Appended(each.last_sequence + 1, True)
        return Appended(self._scanned(partition), False)

    def _scanned(self, partition: int) -> int:
        """Count the same in the log: a broker forgets a producer that was inactive for long."""
        cluster, start = self.producer.cluster, self.starts[partition]
        log_start = offset_of(cluster.leader(self.topic, partition), self.topic, partition, EARLIEST)
        if log_start > start:
            raise IngestError(f"{self.topic}-{partition}: the log starts at offset {log_start} by now, and the broker "
                              f"has forgotten this job's producer: nobody knows what it wrote from {start} on")
        count = 0
        for fetched in Fetcher(cluster, SCAN).fetch_to_end(self.topic, partition, start):
            for batch in walk(fetched.batches, check_crc=False):
                if batch.producer_id == self.producer.producer_id and not batch.is_control:
                    count = batch.base_sequence + batch.record_count
        return count
