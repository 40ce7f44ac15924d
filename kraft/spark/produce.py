"""Send whole record batches to the leaders of partitions: our own Produce requests, one at a time per producer.

A producer with an id gives each batch its sequence number. With it a leader recognises a batch that it already has.
"""

from __future__ import annotations

from typing import Final

from kraft.client import Cluster
from kraft.client.producing import (
    PRODUCE_VERSION_MAX,
    SEQUENCES,
    TRANSACTIONAL_VERSION_MAX,
    new_producer,
    persist,
    stamped,
)
from kraft.client.refusals import check
from kraft.client.security import PLAINTEXT
from kraft.log_dir import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.spark.write_options import WriteOptions

COUNT_POSITION: Final = 57


def record_count(batch: bytes) -> int:
    """Return the number of records of a batch, from its header."""
    return int.from_bytes(batch[COUNT_POSITION:COUNT_POSITION + 4], "big")


class BatchProducer:
    """Sender of batches as an idempotent producer, in transactions of `transactional_id` when it has one. Used by one
    thread. `close` it at the end."""

    def __init__(self, options: WriteOptions, producer_id: int = -1, producer_epoch: int = -1,
                 transactional_id: str | None = None) -> None:
        self.options = options
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transactional_id = transactional_id
        self.sequences: dict[TopicPartition, int] = {}
        self._request_timeout_ms = min(options.timeout_ms, options.request_timeout_ms)
        self.cluster = Cluster(options.bootstrap, client_id=options.client.get("client.id", "kraft-spark"),
                               timeout=self._request_timeout_ms / 1000, security=PLAINTEXT)
        self._counts: dict[str, int] = {}

    def close(self) -> None:
        self.cluster.close()

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic. Raise `RefusedError` when the topic does not exist within
        `max.block.ms`."""
        if topic not in self._counts:
            self._counts[topic] = persist(self.options.topic_wait_ms / 1000,
                                          lambda: len(self.cluster.topic(topic).partitions), self.cluster.close)
        return self._counts[topic]

    def identify(self) -> None:
        """Request a producer id for this producer alone."""
        if self.producer_id < 0:
            self.producer_id, self.producer_epoch = new_producer(self.cluster, self.options.timeout_ms / 1000)

    def send(self, place: TopicPartition, batch: bytes) -> None:
        """Send one batch and wait until it is acknowledged. A batch that the log already has is not stored again.

        Raise `RefusedError` or `ConnectionFailedError` when it is not acknowledged in `delivery.timeout.ms`, or never
        will be. The log may have it nevertheless. Then send the same batch with the same sequence again.
        """
        producer, sequence = (self.producer_id, self.producer_epoch), self.sequences.get(place, 0)
        records = stamped(batch, producer, sequence, transactional=self.transactional_id is not None)
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=self.options.acks,
            timeout_ms=self._request_timeout_ms, topic_data=[TopicProduceData(
                name=place.topic, partition_data=[PartitionProduceData(index=place.partition, records=records)])])
        persist(self.options.timeout_ms / 1000, lambda: self._send_attempt(place, request), self.cluster.close)
        self.sequences[place] = (sequence + record_count(batch)) % SEQUENCES

    def _send_attempt(self, place: TopicPartition, request: ProduceRequest) -> None:
        leader = self.cluster.leader(place.topic, place.partition)
        version = leader.version(ProduceRequest.API_KEY, PRODUCE_VERSION_MAX if self.transactional_id is None
                                 else TRANSACTIONAL_VERSION_MAX)
        if self.options.acks == 0:
            leader.post(request, version)
            return
        answer = leader.send(request, ProduceResponse, version=version)
        found = answer.responses[0].partition_responses[0]
        if found.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            check(place.directory_name, found.error_code, found.error_message)
