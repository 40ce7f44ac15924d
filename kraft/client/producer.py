"""Producer of whole record batches: it finds the leaders of their partitions, and sends each batch until it is stored.

A leader does not append a producer's sequence number twice. So a producer that keeps its id and builds the same batches
again may send them as often as necessary, also from another process later.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.client.partitions import Partition
from kraft.client.refusals import RefusedError, check
from kraft.client.retries import Attempts, persist
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.base import crc
from kraft_native.batch.batch import ATTRIBUTES_AT, CRC_AT, PRODUCER_ID_AT, RECORD_COUNT_AT

ALL: Final = -1
UNIDENTIFIED: Final = (-1, -1)
SEQUENCES: Final = 1 << 31

PRODUCE_VERSION_MAX: Final = 12         # the newest version of Produce that names topics
EXPLICIT_VERSION_MAX: Final = 11        # the newest version that does not add partitions to a transaction by itself

TRANSACTIONAL: Final = 0x10        # in the low byte of a batch's attributes
PRODUCER: Final = struct.Struct(">qhi")


class Producer:
    """Sender of record batches to the leaders of their partitions, with one request to one node at a time. Used by one
    thread. The caller closes `cluster`, whose security its connections have.

    - `producer_id` and `producer_epoch`: -1 without an id; then a batch whose answer is lost may be stored twice.
    - `transactional_id`: of the transaction that the batches belong to; None outside transactions.
    - `adds_implicitly`: a batch adds its partition to the transaction (KIP-890).
    - `sequences`: number of the next record in each partition, modulo 2**31. 0 unless set.
    - `acks`: -1, 1, or 0; then no answer is awaited.
    - `delivery_seconds`: limit for one `send`, and by default the cluster's time-out, which limits each request.
    """

    def __init__(self, cluster: Cluster, producer: tuple[int, int] = UNIDENTIFIED, *, acks: int = ALL,
                 delivery_seconds: float | None = None, transactional_id: str | None = None) -> None:
        self.cluster = cluster
        self.producer_id, self.producer_epoch = producer
        self.acks = acks
        self.delivery_seconds = cluster.timeout if delivery_seconds is None else delivery_seconds
        self.transactional_id = transactional_id
        self.adds_implicitly = False
        self.sequences: dict[Partition, int] = {}
        self._leaders: dict[Partition, int] = {}

    def identify(self) -> None:
        """Request a producer id for this producer alone, unless it has one. Raises what `new_producer` raises."""
        if self.producer_id < 0:
            self.producer_id, self.producer_epoch = new_producer(self.cluster, self.delivery_seconds)

    def adopt(self, producer: tuple[int, int], *, adds_implicitly: bool = False) -> None:
        """Use this id and epoch for the next batches. The sequences of another epoch begin at 0."""
        self.adds_implicitly = adds_implicitly
        if producer != (self.producer_id, self.producer_epoch):
            self.producer_id, self.producer_epoch = producer
            self.sequences.clear()

    def send(self, batches: Mapping[Partition, bytes]) -> dict[Partition, int]:
        """Append one batch to each of these partitions, and wait until all are acknowledged. Returns their base
        offsets, -1 where it is not known: a leader had the batch already, or acks is 0.

        Raises `RefusedError` or `ConnectionFailedError` when a batch is not acknowledged within `delivery_seconds`, or
        never will be. It may be stored nevertheless; then send the same batch with the same sequence again.
        """
        left = {place: self._numbered(place, batch) for place, batch in batches.items()}
        offsets: dict[Partition, int] = {}
        attempts = Attempts(self.delivery_seconds)
        while left:
            failure: RefusedError | ConnectionFailedError | None
            try:
                failure = self._send_once(left, offsets)
            except ConnectionFailedError as error:
                failure = error
                self.cluster.close()
            if failure is not None:
                attempts.again(failure)
                self._leaders.clear()
        return offsets

    def skip(self, place: Partition, batch: bytes) -> None:
        """Count the records of a batch that the partition has."""
        self.sequences[place] = (self.sequences.get(place, 0) + record_count(batch)) % SEQUENCES

    def _numbered(self, place: Partition, batch: bytes) -> bytes:
        if self.producer_id < 0:
            return batch
        return stamped(batch, (self.producer_id, self.producer_epoch), self.sequences.get(place, 0),
                       transactional=self.transactional_id is not None)

    def _send_once(self, left: dict[Partition, bytes], offsets: dict[Partition, int]) -> RefusedError | None:
        """Send these batches once. Moves the acknowledged ones from `left` to `offsets`; returns a temporary refusal of
        another."""
        failure = None
        by_leader: dict[int, dict[Partition, bytes]] = {}
        for place, batch in left.items():
            try:
                by_leader.setdefault(self._leader_of(place), {})[place] = batch
            except RefusedError as error:
                failure = _temporary(error)
        for leader, batches in by_leader.items():
            for place, (code, message, offset) in self._send_to(leader, batches).items():
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self.skip(place, left.pop(place))
                    offsets[place] = offset
                else:
                    failure = _temporary(RefusedError(_name(place), code, message))
        return failure

    def _send_to(self, node_id: int,
                 batches: Mapping[Partition, bytes]) -> dict[Partition, tuple[int, str | None, int]]:
        """Send batches to one node. Returns error code, message and base offset by partition."""
        leader = self.cluster.node(node_id)
        request = produce_request(batches, self.acks, round(self.cluster.timeout * 1000), self.transactional_id)
        version = leader.version(request.API_KEY, EXPLICIT_VERSION_MAX if self.transactional_id is not None
                                 and not self.adds_implicitly else PRODUCE_VERSION_MAX)
        if self.acks == 0:
            leader.post(request, version)
            return dict.fromkeys(batches, (ErrorCode.NONE, None, -1))
        answer = leader.send(request, ProduceResponse, version=version)
        return {(topic.name, each.index): (each.error_code, each.error_message, each.base_offset)
                for topic in answer.responses for each in topic.partition_responses}

    def _leader_of(self, place: Partition) -> int:
        """Return the id of the partition's leader, which is cached. Raises `RefusedError` when there is none."""
        if place not in self._leaders:
            codes: dict[Partition, int] = {}
            for each in self.cluster.topic(place[0]).partitions:
                codes[place[0], each.partition_index] = each.error_code or ErrorCode.LEADER_NOT_AVAILABLE
                if each.leader_id >= 0:
                    self._leaders[place[0], each.partition_index] = each.leader_id
            if place not in self._leaders:
                raise RefusedError(_name(place), codes.get(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return self._leaders[place]


def produce_request(batches: Mapping[Partition, bytes], acks: int, timeout_ms: int,
                    transactional_id: str | None = None) -> ProduceRequest:
    """Return the request that appends one batch to each of these partitions."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for (topic, index), batch in batches.items():
        topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=batch))
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[
        TopicProduceData(name=name, partition_data=partitions) for name, partitions in topics.items()])


def new_producer(cluster: Cluster, timeout: float) -> tuple[int, int]:
    """Request a producer id and its epoch. Temporary errors are retried for `timeout` seconds. Then, and at once for
    other errors, raises `RefusedError` or `ConnectionFailedError`."""
    def initialize() -> tuple[int, int]:
        found = cluster.any().send(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
        check("a producer id", found.error_code)
        return found.producer_id, found.producer_epoch

    return persist(timeout, initialize, cluster.close)


def record_count(batch: bytes) -> int:
    """Return the number of records of a batch, from its header."""
    return int.from_bytes(batch[RECORD_COUNT_AT:RECORD_COUNT_AT + 4], "big")


def stamped(batch: bytes, producer: tuple[int, int], sequence: int, *, transactional: bool = False) -> bytes:
    """Return the batch with a producer's id and epoch and the sequence of its first record in its header. With
    `transactional` it is part of a transaction."""
    data = bytearray(batch)
    if transactional:
        data[ATTRIBUTES_AT + 1] |= TRANSACTIONAL
    PRODUCER.pack_into(data, PRODUCER_ID_AT, *producer, sequence % SEQUENCES)
    with memoryview(data) as view:
        checksum = crc.checksum(view[ATTRIBUTES_AT:])      # of all that follows it
    struct.pack_into(">I", data, CRC_AT, checksum)
    return bytes(data)


def _temporary(error: RefusedError) -> RefusedError:
    if not error.retriable:
        raise error
    return error


def _name(place: Partition) -> str:
    return f"partition {place[0]}-{place[1]}"
