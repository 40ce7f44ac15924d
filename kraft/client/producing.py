"""Parts of an idempotent producer: a producer id of its own, and its numbers in each batch's header.

A broker does not append a sequence twice. So a producer that keeps its id and builds the same batches again may send
them as often as necessary.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Final, TypeVar

from kraft.client.cluster import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.client.refusals import RefusedError, check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft_native.base import crc

Answer = TypeVar("Answer")

RETRY_PAUSE_SECONDS: Final = 0.1
SEQUENCES: Final = 1 << 31

# The newest version of Produce that names topics and that does not add partitions to a transaction by itself.
PRODUCE_VERSION_MAX: Final = 12
TRANSACTIONAL_VERSION_MAX: Final = 11

# Positions in a batch's header: the checksum, the attributes' low byte, the producer's fields, the start of the
# checksummed bytes.
CRC_POSITION: Final = 17
CHECKED_POSITION: Final = 21
ATTRIBUTES_POSITION: Final = 22
TRANSACTIONAL: Final = 0x10
PRODUCER: Final = struct.Struct(">qhi")
PRODUCER_POSITION: Final = 43

# Temporary errors. A leader or a coordinator has moved, replicas are offline for a while, a coordinator is still
# loading, or the markers of an ended transaction are still being written. Or a topic was created a moment ago: its
# creator got its answer from the controller, and brokers learn of the topic later.
PASSING: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})


def new_producer(cluster: Cluster, timeout: float) -> tuple[int, int]:
    """Request a producer id and its epoch. Temporary errors are retried for `timeout` seconds. Then, and at once for
    other errors, raises `RefusedError` or `ConnectionFailedError`."""
    def initialize() -> tuple[int, int]:
        found = cluster.any().send(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
        check("a producer id", found.error_code)
        return found.producer_id, found.producer_epoch

    return persist(timeout, initialize, cluster.close)


def persist(timeout: float, act: Callable[[], Answer], reset: Callable[[], None] = lambda: None) -> Answer:
    """Return the result of `act`. Temporary errors are retried for `timeout` seconds, each time after `reset` (for new
    connections: the cluster's `close`). Then, and at once for other errors, raises `RefusedError` or
    `ConnectionFailedError`."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return act()
        except (ConnectionFailedError, RefusedError) as error:
            if time.monotonic() > deadline or (isinstance(error, RefusedError) and error.code not in PASSING):
                raise
        reset()
        time.sleep(RETRY_PAUSE_SECONDS)


def stamped(batch: bytes, producer: tuple[int, int], sequence: int, *, transactional: bool = False) -> bytes:
    """Return the batch with a producer's id and epoch and the sequence of its first record in its header. With
    `transactional` it is part of a transaction."""
    data = bytearray(batch)
    if transactional:
        data[ATTRIBUTES_POSITION] |= TRANSACTIONAL
    PRODUCER.pack_into(data, PRODUCER_POSITION, *producer, sequence % SEQUENCES)
    with memoryview(data) as view:
        checksum = crc.checksum(view[CHECKED_POSITION:])
    struct.pack_into(">I", data, CRC_POSITION, checksum)
    return bytes(data)
