"""Sends whole record batches to the leaders of partitions: Produce requests of our own, one at a time per producer.

A producer with an id gives each batch its sequence number, by which a leader knows a batch that it has already.
"""

from __future__ import annotations

import struct
import time
from typing import Final

from kraft.client import Cluster, ConnectionFailedError, RefusedError
from kraft.client.refusals import check
from kraft.log_dir import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.spark.write_options import WriteOptions
from kraft_native import crc

# The newest version that names topics.
VERSION_MAX: Final = 12
RETRY_PAUSE_SECONDS: Final = 0.1
SEQUENCES: Final = 2**31

# Where the fields stand in a batch, and where what its checksum covers begins.
CRC_POSITION: Final = 17
CRC_START: Final = 21
PRODUCER: Final = struct.Struct(">qhi")
PRODUCER_POSITION: Final = 43
COUNT_POSITION: Final = 57

# What passes when the partition's leader has moved, or replicas are away for a while.
PASSING: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE,
})


class BatchProducer:
    """Sends batches as an idempotent producer. One thread; a context manager's work is `close`."""

    def __init__(self, options: WriteOptions, producer_id: int = -1, producer_epoch: int = -1) -> None:
        self.options = options
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.sequences: dict[TopicPartition, int] = {}
        self.cluster = Cluster(options.bootstrap, client_id=options.client.get("client.id", "kraft-spark"),
                               timeout=min(options.timeout_ms / 1000, 30.0))
        self._counts: dict[str, int] = {}

    def close(self) -> None:
        self.cluster.close()

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; `RefusedError` when it does not exist."""
        if topic not in self._counts:
            self._counts[topic] = len(self.cluster.topic(topic).partitions)
        return self._counts[topic]

    def identify(self) -> None:
        """Asks for a producer id, of this producer alone."""
        deadline = self._deadline()
        while self.producer_id < 0:
            try:
                answer = self.cluster.any().send(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
                check("a producer id", answer.error_code)
                self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            except (ConnectionFailedError, RefusedError) as error:
                self._pause(error, deadline)

    def send(self, place: TopicPartition, batch: bytes) -> None:
        """Sends one batch and waits until it is acknowledged; one that is there already is not stored again.

        Raises `RefusedError` or `ConnectionFailedError` when it is not acknowledged in `delivery.timeout.ms`, or never
        will be. It may be there all the same then: send the same batch with the same sequence again.
        """
        sequence = self.sequences.get(place, 0)
        count = int.from_bytes(batch[COUNT_POSITION:COUNT_POSITION + 4], "big")
        request = ProduceRequest(acks=self.options.acks, timeout_ms=min(self.options.timeout_ms, 30_000), topic_data=[
            TopicProduceData(name=place.topic, partition_data=[
                PartitionProduceData(index=place.partition, records=self._stamped(batch, sequence))])])
        deadline = self._deadline()
        while True:
            try:
                self._ask(place, request)
                break
            except (ConnectionFailedError, RefusedError) as error:
                self._pause(error, deadline)
        self.sequences[place] = (sequence + count) % SEQUENCES

    def _ask(self, place: TopicPartition, request: ProduceRequest) -> None:
        leader = self.cluster.leader(place.topic, place.partition)
        version = leader.version(ProduceRequest.API_KEY, VERSION_MAX)
        if self.options.acks == 0:
            leader.post(request, version)
            return
        answer = leader.send(request, ProduceResponse, version=version)
        found = answer.responses[0].partition_responses[0]
        if found.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            check(place.directory_name, found.error_code, found.error_message)

    def _stamped(self, batch: bytes, sequence: int) -> bytes:
        """The batch with this producer's id and the sequence of its first record."""
        stamped = bytearray(batch)
        PRODUCER.pack_into(stamped, PRODUCER_POSITION, self.producer_id, self.producer_epoch, sequence)
        with memoryview(stamped) as view:
            checksum = crc.checksum(view[CRC_START:])
        struct.pack_into(">I", stamped, CRC_POSITION, checksum)
        return bytes(stamped)

    def _deadline(self) -> float:
        return time.monotonic() + self.options.timeout_ms / 1000

    def _pause(self, error: ConnectionFailedError | RefusedError, deadline: float) -> None:
        """Before it is tried again; raises what will not pass."""
        if time.monotonic() > deadline or (isinstance(error, RefusedError) and error.code not in PASSING):
            raise error
        self.cluster.close()
        time.sleep(RETRY_PAUSE_SECONDS)
